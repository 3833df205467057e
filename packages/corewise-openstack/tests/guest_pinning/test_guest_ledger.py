"""Who holds which CPUs of a compute host: pinned whole or not at all, and never twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from corewise.topology import CPUSet
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason
from corewise_openstack.guest_pinning.ledger import CellPins, GuestLedger, GuestPins, HostCell


def cpus(text: str) -> CPUSet:
    return CPUSet.parse(text)


CELL = HostCell(0, (cpus("0-1"), cpus("2-3"), cpus("4-5")), cpus("0-5"), cpus("6-7"), 4096)
EMPTY = GuestLedger((CELL,), hyper_threading=True)


def pins(text: str, *, memory: int = 0, emulator: int | None = None, withheld: str = "") -> GuestPins:
    pinned = dict(enumerate(cpus(text)))
    return GuestPins((CellPins(0, pinned, memory),), emulator, cpus(withheld))


def pinned(ledger: GuestLedger, guest: str, where: GuestPins) -> GuestLedger:
    after = ledger.pin(guest, where)
    assert isinstance(after, GuestLedger), after
    return after


def test_pinned_cpus_are_held_until_unpinned() -> None:
    one = pinned(EMPTY, "a", pins("0-1", memory=512, emulator=2, withheld="3"))
    assert (str(one.free), dict(one.memory_used)) == ("4-5", {0: 512})
    assert dict(one.holder) == dict.fromkeys(range(4), "a")
    assert EMPTY.free == cpus("0-5")
    again = one.unpin("a")
    assert (again.free, dict(again.memory_used), again.guests) == (cpus("0-5"), {0: 0}, {})
    assert one.unpin("b") is one


def test_a_cpu_is_never_pinned_twice() -> None:
    one = pinned(EMPTY, "a", pins("0-1", withheld="2"))
    for wanted in (pins("1"), pins("2"), pins("4", emulator=0), pins("5", withheld="1")):
        answer = one.pin("b", wanted)
        assert isinstance(answer, Finding)
        assert answer.reason is Reason.CPUS_TAKEN
    answer = one.pin("b", pins("1-3"))
    assert isinstance(answer, Finding)
    assert answer.message == "CPUs 1-2 are held by a"


def test_guest_is_pinned_once_using_each_cpu_once() -> None:
    one = pinned(EMPTY, "a", pins("0"))
    again = one.pin("a", pins("1"))
    assert isinstance(again, Finding)
    assert again.reason is Reason.GUEST_ALREADY_PINNED
    twice = EMPTY.pin("b", pins("0-1", emulator=1))
    assert isinstance(twice, Finding)
    assert (twice.reason, twice.message) == (Reason.CPUS_TAKEN, "guest b names a CPU twice")


def test_shared_and_unknown_cpus_are_not_pinned() -> None:
    for text in ("6", "5-6", "99"):
        answer = EMPTY.pin("a", pins(text))
        assert isinstance(answer, Finding)
        assert answer.reason is Reason.CPUS_UNKNOWN


def test_running_guests_are_taken_unchanged_and_conflicts_reported() -> None:
    ledger = EMPTY.found("a", pins("0-1")).found("b", pins("1-2")).found("c", pins("6,9"))
    (conflict,) = ledger.conflicts
    assert (conflict.owner, str(conflict.cpus), conflict.holder) == ("b", "1", "a")
    assert str(ledger.free) == "3-5"
    assert str(ledger.unpin("a").free) == "0,3-5"
    assert ledger.unpin("a").conflicts == ()


CHANGES = st.lists(
    st.tuples(st.sampled_from("abcde"), st.sets(st.integers(0, 7), max_size=3), st.booleans()), max_size=30
)


@given(CHANGES)
def test_no_cpu_is_held_twice_and_refolding_agrees(
    changes: list[tuple[str, set[int], bool]],
) -> None:
    ledger = EMPTY
    for guest, wanted, add in changes:
        before = ledger
        if add:
            after = ledger.pin(guest, GuestPins((CellPins(0, dict(enumerate(wanted)), 1),)))
            ledger = before if isinstance(after, Finding) else after
        else:
            ledger = ledger.unpin(guest)
        held = [cpu for each in ledger.guests.values() for cpu in each.held]
        assert len(held) == len(set(held))
        assert ledger.free == cpus("0-5") - CPUSet.of(held)
        anew = EMPTY
        for name, each in ledger.guests.items():
            anew = anew.found(name, each)
        assert anew == ledger
        assert (anew.taken, anew.memory_used, anew.conflicts) == (ledger.taken, ledger.memory_used, ())
