"""Which CPUs a wish gets.

Machine M: 2 sockets x 1 NUMA node x 4 cores x 2 threads. NUMA node 0 has CPUs 0-3 and their siblings 8-11,
NUMA node 1 has 4-7 and 12-15.

    wish                                   held          gets
    4 whole                                -             0-1,8-9: two cores of one NUMA node
    4 whole                                0,8           the same NUMA node: 1-2,9-10, the fuller one
    2 whole                                0-3           core 4,12: whole cores before broken ones
    3 whole, preferred                     -             core 0,8 and one thread of core 1
    3 whole, preferred                     0             1,9 and 8: broken cores before another is broken
    10 whole                               -             all of one NUMA node and one core of the other
    3 whole, required                      -             refused, unresolvable: 3 CPUs are no whole cores
    4 whole, required                      0-3,4-6       refused: one whole core is free
    4 whole, preferred                     0-3,4-6       any CPUs of one NUMA node: 8-11
    4 spread                               -             0-3: one thread of each core
    4 spread                               0             1-3 and 8: the fuller NUMA node, one thread a core
    3 spread                               0-3           8-10: their siblings, in the fuller NUMA node
    6 spread, preferred                    -             0-3 and 8-9: the NUMA node before the cores
    6 spread, required                     -             0-3 and 4-5: the cores before the NUMA node
    9 spread, required                     -             refused, unresolvable: there are 8 cores
    2 isolated                             0             1-2, siblings 9-10 withheld
    4 whole within NUMA node 1             -             4-5,12-13
"""

from __future__ import annotations

import pytest

from corewise.pinning.choice import choose
from corewise.pinning.ledger import Claim, CoreUse, Exclusivity, Grant, Ledger, Wish
from corewise.topology import CPUSet
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason
from pinning.machines import hybrid, machine

M = machine(sockets=2, cores=4)
WHOLE, SPREAD, ISOLATED = CoreUse.WHOLE, CoreUse.SPREAD, CoreUse.ISOLATED


def held(cpus: str, *, exclusive: Exclusivity = Exclusivity.NONE) -> Ledger:
    ledger = Ledger(M)
    return ledger.with_claim("other", Claim(CPUSet.parse(cpus), exclusive=exclusive)) if cpus else ledger


def chosen(ledger: Ledger, wish: Wish) -> str:
    answer = choose(ledger, wish)
    assert isinstance(answer, Grant), answer
    return str(answer.cpus)


def refused(ledger: Ledger, wish: Wish) -> Finding:
    answer = choose(ledger, wish)
    assert isinstance(answer, Finding), answer
    return answer


@pytest.mark.parametrize(
    ("wish", "taken", "cpus"),
    [
        (Wish(4), "", "0-1,8-9"),
        (Wish(4), "0,8", "1-2,9-10"),
        (Wish(2), "0-3", "4,12"),
        (Wish(3), "", "0-1,8"),
        (Wish(3), "0", "1,8-9"),
        (Wish(10), "", "0-4,8-12"),
        (Wish(4), "0-3,4-6", "8-11"),
        (Wish(4, SPREAD), "", "0-3"),
        (Wish(3, SPREAD), "0-3", "8-10"),
        (Wish(4, SPREAD), "0", "1-3,8"),
        (Wish(6, SPREAD), "", "0-3,8-9"),
        (Wish(6, SPREAD, required=True), "", "0-5"),
        (Wish(4, within=CPUSet.parse("4-7,12-15")), "", "4-5,12-13"),
        (Wish(16), "", "0-15"),
        (Wish(1), "", "0"),
        (Wish(1), "0", "8"),
    ],
)
def test_a_wish_gets_these_cpus(wish: Wish, taken: str, cpus: str) -> None:
    assert chosen(held(taken), wish) == cpus


@pytest.mark.parametrize(
    ("wish", "taken", "reason", "unresolvable"),
    [
        (Wish(3, required=True), "", Reason.NOT_WHOLE_CORES, True),
        (Wish(4, required=True), "0-3,4-6", Reason.NOT_WHOLE_CORES, False),
        (Wish(17), "", Reason.NOT_ENOUGH_CPUS, True),
        (Wish(16), "5", Reason.NOT_ENOUGH_CPUS, False),
        (Wish(9, SPREAD, required=True), "", Reason.NOT_ENOUGH_CORES, True),
        (Wish(8, SPREAD, required=True), "0,8", Reason.NOT_ENOUGH_CORES, False),
        (Wish(8, ISOLATED), "0", Reason.NOT_ENOUGH_CORES, False),
        (Wish(2, within=CPUSet.parse("3")), "", Reason.NOT_ENOUGH_CPUS, True),
    ],
)
def test_ungrantable_wish_is_refused_with_its_reason(
    wish: Wish, taken: str, reason: Reason, unresolvable: bool
) -> None:
    refusal = refused(held(taken), wish)
    assert (refusal.reason, refusal.unresolvable) == (reason, unresolvable)
    assert str(wish.count) in refusal.message


def test_isolated_cpus_keep_their_siblings_empty() -> None:
    grant = choose(held("0"), Wish(2, ISOLATED))
    assert grant == Grant(CPUSet.parse("1-2"), CPUSet.parse("9-10"))
    after = held("0").with_claim("me", Claim(grant.cpus, grant.withheld))
    assert not after.free & CPUSet.parse("1-2,9-10")
    assert after.held == CPUSet.parse("0-2")


def test_core_exclusive_workload_avoids_cores_of_such_workloads() -> None:
    wish = Wish(2, SPREAD, exclusive=Exclusivity.CORE)
    assert chosen(held("0-1", exclusive=Exclusivity.CORE), wish) == "2-3"
    assert chosen(held("0-2", exclusive=Exclusivity.CORE), wish) == "4-5"


def test_numa_exclusive_workload_avoids_nodes_of_such_workloads() -> None:
    wish = Wish(2, exclusive=Exclusivity.NUMA_NODE)
    assert chosen(held("0", exclusive=Exclusivity.NUMA_NODE), wish) == "4,12"


def test_exclusivity_matters_only_between_workloads_that_wish_it() -> None:
    assert chosen(held("0,8"), Wish(2, exclusive=Exclusivity.NUMA_NODE)) == "1,9"
    assert chosen(held("0,8", exclusive=Exclusivity.NUMA_NODE), Wish(2)) == "1,9"
    assert chosen(held("0,8", exclusive=Exclusivity.CORE), Wish(2, exclusive=Exclusivity.NUMA_NODE)) == "1,9"


def test_exclusivity_yields_where_no_other_room_exists() -> None:
    ledger = held("0-7", exclusive=Exclusivity.CORE)
    assert chosen(ledger, Wish(2, SPREAD, exclusive=Exclusivity.CORE)) == "8-9"


def test_each_cpu_is_whole_core_without_hyper_threading() -> None:
    ledger = Ledger(machine(cores=4, threads=1))
    for use in (WHOLE, SPREAD, ISOLATED):
        assert chosen(ledger, Wish(3, use, required=True)) == "0-2"


def test_offline_sibling_leaves_one_thread_as_whole_core() -> None:
    online = M.within(M.cpus - CPUSet.parse("8"))
    ledger = Ledger(online, offline=CPUSet.parse("8"))
    assert chosen(ledger, Wish(3, required=True)) == "0-1,9"
    assert chosen(ledger, Wish(2, required=True)) == "1,9"


def test_reserved_cpus_are_never_granted_and_break_cores() -> None:
    ledger = Ledger(M, reserved=CPUSet.parse("0"))
    assert chosen(ledger, Wish(2)) == "1,9"
    assert refused(ledger, Wish(16)).unresolvable
    assert "0" not in chosen(ledger, Wish(15)).split(",")


def test_core_kinds_stay_unmixed_while_one_suffices() -> None:
    kinds = {"cpu_core": CPUSet.parse("0-3"), "cpu_atom": CPUSet.parse("4-7")}
    ledger = Ledger(hybrid(), kinds=kinds)
    assert chosen(ledger, Wish(4)) == "0-3"
    assert chosen(ledger, Wish(3, SPREAD, required=True)) == "4-6"
    assert chosen(ledger, Wish(5)) == "0-4"
    assert chosen(ledger.with_claim("a", Claim(CPUSet.parse("0"))), Wish(4)) == "4-7"


def test_whole_cores_of_mixed_sizes_form_odd_numbers() -> None:
    ledger = Ledger(hybrid())
    assert chosen(ledger, Wish(3, required=True)) == "0-1,4"
    assert chosen(ledger, Wish(7, required=True)) == "0-6"


def test_cpus_sharing_a_cache_beat_those_sharing_numa() -> None:
    ledger = Ledger(machine(cores=8, caches=2))
    assert chosen(ledger.with_claim("a", Claim(CPUSet.parse("0-2,8-10"))), Wish(4)) == "4-5,12-13"
    assert chosen(ledger.with_claim("a", Claim(CPUSet.parse("0-1,8-9"))), Wish(4)) == "2-3,10-11"


def test_wish_exceeding_any_numa_node_stays_in_socket() -> None:
    ledger = Ledger(machine(sockets=2, numa_nodes=2, cores=2))
    taken = ledger.with_claim("a", Claim(CPUSet.parse("0,8")))
    grant = CPUSet.parse(chosen(taken, Wish(6)))
    sockets = {thread.socket for thread in ledger.topology.threads if thread.cpu in grant}
    assert sockets == {0}


def test_empty_wish_is_the_callers_mistake() -> None:
    with pytest.raises(ValueError, match="0 CPUs"):
        choose(Ledger(M), Wish(0))
