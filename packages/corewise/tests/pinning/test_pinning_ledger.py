"""Who holds which CPU: the first claim counts, and only the claims that are there and their order matter."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from corewise.pinning.choice import choose
from corewise.pinning.ledger import Claim, CoreUse, Exclusivity, Grant, Ledger, Wish
from corewise.topology import CPUSet, Topology
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason
from pinning.machines import machine

M = machine(sockets=2, cores=4)


def cpus(text: str) -> CPUSet:
    return CPUSet.parse(text)


def claimed(*claims: tuple[str, str]) -> Ledger:
    ledger = Ledger(M)
    for owner, text in claims:
        ledger = ledger.with_claim(owner, Claim(cpus(text)))
    return ledger


def test_claimed_cpus_are_held_and_others_stay_shared() -> None:
    ledger = claimed(("a", "0-3"), ("b", "4"))
    assert ledger.held_by("a") == cpus("0-3")
    assert ledger.held == cpus("0-4")
    assert ledger.free == ledger.shared == cpus("5-15")
    assert ledger.conflicts == ()
    assert ledger.held_by("nobody") == CPUSet()


def test_first_cpu_claim_wins_and_second_is_reported() -> None:
    ledger = claimed(("a", "0-3"), ("b", "2-5"))
    assert ledger.held_by("b") == cpus("4-5")
    (conflict,) = ledger.conflicts
    assert (conflict.owner, conflict.cpus, conflict.holder) == ("b", cpus("2-3"), "a")
    assert conflict.reason is Reason.CPUS_TAKEN
    assert conflict.message == "b claims CPUs 2-3, which a holds"


def test_second_claim_takes_effect_when_first_is_released() -> None:
    ledger = claimed(("a", "0-3"), ("b", "2-5")).without("a")
    assert ledger.held_by("b") == cpus("2-5")
    assert ledger.conflicts == ()
    assert ledger.without("unknown") is ledger


def test_nonexistent_cpus_are_reported_and_held_by_none() -> None:
    ledger = claimed(("a", "15-17"))
    assert ledger.held_by("a") == cpus("15")
    (conflict,) = ledger.conflicts
    assert conflict.reason is Reason.CPUS_UNKNOWN
    assert conflict.message == "a claims CPUs 16-17, which the machine does not have"


def test_offline_cpu_keeps_its_holder_and_is_ungrantable() -> None:
    ledger = claimed(("a", "0-1")).on(M.within(M.cpus - cpus("0,2")), offline=cpus("0,2"))
    assert ledger.held_by("a") == cpus("0-1")
    assert ledger.conflicts == ()
    assert not ledger.free & cpus("0-2")
    again = ledger.on(M)
    assert again.held_by("a") == cpus("0-1")
    assert 2 in again.free


def test_claimed_cpu_outranks_a_withheld_one() -> None:
    ledger = Ledger(M).with_claim("a", Claim(cpus("0"), withheld=cpus("8"))).with_claim("b", Claim(cpus("8")))
    assert ledger.held_by("b") == cpus("8")
    assert not ledger.free & cpus("0,8")


def test_a_claim_again_replaces_the_owners_earlier_one() -> None:
    assert claimed(("a", "0-3"), ("a", "8")).held == cpus("8")


def test_a_claim_again_keeps_its_rank() -> None:
    ledger = claimed(("a", "0-3"), ("b", "2-5"), ("a", "1-3"))
    assert ledger.held_by("a") == cpus("1-3")
    assert ledger.held_by("b") == cpus("4-5")


def test_shared_cpus_include_the_reserved_ones() -> None:
    ledger = Ledger(M, reserved=cpus("0")).with_claim("a", Claim(cpus("1")))
    assert 0 in ledger.shared
    assert 0 not in ledger.free
    assert 1 not in ledger.shared


topologies = st.builds(
    machine,
    sockets=st.integers(1, 2),
    numa_nodes=st.integers(1, 2),
    cores=st.integers(1, 4),
    threads=st.sampled_from([1, 2, 4]),
    caches=st.integers(1, 2),
)
wishes = st.builds(
    Wish,
    count=st.integers(1, 12),
    use=st.sampled_from(CoreUse),
    required=st.booleans(),
    exclusive=st.sampled_from(Exclusivity),
)
steps = st.lists(st.tuples(st.sampled_from("abcdef"), st.none() | wishes), max_size=12)


def with_some_offline(topology: Topology, offline: set[int]) -> Ledger:
    gone = topology.cpus & CPUSet.of(offline)
    return Ledger(topology.within(topology.cpus - gone), offline=gone, reserved=CPUSet.of({1}))


def cores_of(topology: Topology, chosen: CPUSet) -> list[CPUSet]:
    return [core for core in topology.cores.values() if not core.isdisjoint(chosen)]


def check_grant(ledger: Ledger, wish: Wish, grant: Grant) -> None:
    assert len(grant.cpus) == wish.count
    assert grant.cpus <= ledger.free
    cores = cores_of(ledger.topology, grant.cpus)
    if wish.required and wish.use is CoreUse.WHOLE:
        assert sum(map(len, cores)) == wish.count
    if wish.is_strict and wish.use is not CoreUse.WHOLE:
        assert len(cores) == wish.count
    if wish.use is CoreUse.ISOLATED:
        assert grant.cpus | grant.withheld == CPUSet.of(cpu for core in cores for cpu in core)
        assert grant.withheld <= ledger.free
    else:
        assert not grant.withheld


def reachable(sizes: list[int]) -> set[int]:
    sums = {0}
    for size in sizes:
        sums |= {each + size for each in sums}
    return sums


def check_refusal(ledger: Ledger, wish: Wish, refusal: Finding) -> None:
    if len(ledger.free) < wish.count:
        assert refusal.reason is Reason.NOT_ENOUGH_CPUS
        return
    assert wish.is_strict
    cores = ledger.topology.cores.values()
    empty = [core for core in cores if core <= ledger.free]
    if wish.use is CoreUse.WHOLE:
        assert wish.count not in reachable([len(core) for core in empty])
    elif wish.use is CoreUse.ISOLATED:
        assert len(empty) < wish.count
    else:
        assert sum(not core.isdisjoint(ledger.free) for core in cores) < wish.count


@given(topologies, st.sets(st.integers(0, 63), max_size=6), steps)
def test_no_sequence_double_grants_cpus_or_refuses_needlessly(
    topology: Topology, offline: set[int], history: list[tuple[str, Wish | None]]
) -> None:
    ledger = with_some_offline(topology, offline)
    for owner, wish in history:
        ledger = ledger.without(owner)
        if wish is None:
            continue
        answer = choose(ledger, wish)
        assert choose(ledger, wish) == answer
        if isinstance(answer, Finding):
            check_refusal(ledger, wish, answer)
            continue
        check_grant(ledger, wish, answer)
        ledger = ledger.with_claim(owner, Claim(answer.cpus, answer.withheld, wish.exclusive))
        assert ledger.conflicts == ()
        assert ledger.held_by(owner) == answer.cpus
    owned = [ledger.held_by(owner) for owner in ledger.claims]
    assert sum(map(len, owned)) == len(ledger.held)


@given(topologies, st.lists(st.tuples(st.sampled_from("abcdef"), st.sets(st.integers(0, 40), max_size=8))))
def test_ledger_depends_only_on_claims_and_their_order(
    topology: Topology, history: list[tuple[str, set[int]]]
) -> None:
    ledger = Ledger(topology)
    for owner, numbers in history:
        ledger = ledger.with_claim(owner, Claim(CPUSet.of(numbers))) if numbers else ledger.without(owner)
    again = Ledger(topology)
    for owner, claim in ledger.claims.items():
        again = again.with_claim(owner, claim)
    assert again.holder == ledger.holder
    assert again.conflicts == ledger.conflicts
