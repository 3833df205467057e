"""Who owns which CPUs of a node.

| claims, in the order of binding   | owners            | the others                          |
|-----------------------------------|-------------------|-------------------------------------|
| none                              | none              | share all                           |
| 0-3, 4-5                          | both              | share 6-7                           |
| 0-3, 3-5                          | the first         | the second shares 4-7 with the rest |
| 0-3, 3-5, 4-5                     | first and third   | nothing of a refused claim is held  |
| 6-8 of 8 CPUs                     | none              | whole claims only                   |
| 0-1, of which 0 is reserved       | none              | reserved CPUs stay shared           |
| 6-7, of which 7 is offline        | runs on 6         | no one gets 7                       |
| 7, which is offline               | owns, and shares  | no one gets 7                       |
| garbage                           | none              | shares                              |
| 0-7                               | none              | some CPUs always stay shared        |
| 0-3 of QoS class LS, SYSTEM, none | none              | shares                              |
| 0-3 of a pod that requests 2      | none              | shares                              |
| 0-3 of 8 normalized CPUs          | owns              | share 4-7                           |
| 0-3 of LSE in a tenant's namespace| none              | shares                              |
| 0-3 edited by an older pod        | who had them      | the older pod shares                |
"""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.pinning_node import claim, pin_pod
from corewise.agent.claims import CPUDivision, NodeCPUs, divide
from corewise.agent.objects import QuotaPod
from corewise.topology import CPUSet
from corewise.vocabulary.names import QOS_CLASS, RESOURCE_STATUS
from corewise.vocabulary.qos import QoSRules
from corewise.vocabulary.reasons import Reason

EIGHT = NodeCPUs(CPUSet.parse("0-7"))


def claims(*cpus: str) -> list[QuotaPod]:
    """Pods named a, b, c, bound one after the other."""
    return [
        pin_pod(name, claim(each), bound=f"{second:02}")
        for second, (name, each) in enumerate(zip("abcdef", cpus, strict=False))
    ]


def shown(division: CPUDivision) -> dict[str, str]:
    return {owner.pod.metadata.name: str(owner.online) for owner in division.owners.values()}


@pytest.mark.parametrize(
    ("cpus", "owners", "shared"),
    [
        ([], {}, "0-7"),
        (["0-3", "4-5"], {"a": "0-3", "b": "4-5"}, "6-7"),
        (["0-3", "3-5"], {"a": "0-3"}, "4-7"),
        (["0-3", "3-5", "4-5"], {"a": "0-3", "c": "4-5"}, "6-7"),
        (["6-8"], {}, "0-7"),
        (["0-7"], {}, "0-7"),
        (["0-3", "4-7"], {"a": "0-3"}, "4-7"),
        ([""], {}, "0-7"),
    ],
)
def test_the_earlier_claim_counts_and_counts_whole(
    cpus: list[str], owners: dict[str, str], shared: str
) -> None:
    division = divide(claims(*cpus), EIGHT)
    assert (shown(division), str(division.shared)) == (owners, shared)


@pytest.mark.parametrize(
    ("cpus", "about", "words"),
    [
        (["0-3", "3-5"], "default/b", ("CPUs 3", "pod default/a owns", Reason.CPUS_TAKEN)),
        (["6-9"], "default/a", ("CPUs 8-9", "this node does not have", Reason.CPUS_UNKNOWN)),
        (["0-7"], "default/a", ("CPUs 0-7", "none to share", Reason.SHARED_POOL_EMPTY)),
    ],
)
def test_who_is_refused_is_told_why(cpus: list[str], about: str, words: tuple[str, ...]) -> None:
    problems = divide(claims(*cpus), EIGHT).problems
    assert list(problems) == [about]
    assert all(word in problems[about] for word in words)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"cpuset":3}', claim("3-1"), claim("zero"), claim("0-99999")]
)
def test_garbage_is_one_pods_problem(text: str) -> None:
    division = divide([pin_pod("bad", text), pin_pod("good", claim("0-1"))], EIGHT)
    assert shown(division) == {"good": "0-1"}
    assert Reason.RESOURCE_STATUS_INVALID in division.problems["default/bad"]


def test_what_kubelet_reserves_stays_shared() -> None:
    division = divide(claims("0-1", "2-3"), NodeCPUs(EIGHT.online, reserved=CPUSet.parse("0")))
    assert (shown(division), str(division.shared)) == ({"b": "2-3"}, "0-1,4-7")
    assert Reason.CPUS_RESERVED in division.problems["default/a"]


def test_a_cpu_that_is_offline_stays_its_owners() -> None:
    node_cpus = NodeCPUs(CPUSet.parse("0-6"), offline=CPUSet.parse("7"))
    division = divide(claims("6-7"), node_cpus)
    assert (shown(division), str(division.shared), dict(division.problems)) == ({"a": "6"}, "0-5", {})
    assert str(division.owned) == "6-7"


def test_an_owner_without_any_cpu_online_shares_meanwhile() -> None:
    node_cpus = NodeCPUs(CPUSet.parse("0-6"), offline=CPUSet.parse("7"))
    division = divide(claims("7", "7"), node_cpus)
    assert [str(division.cpus_of(f"uid-{name}")) for name in "ab"] == ["0-6", "0-6"]
    assert Reason.CPUS_OFFLINE in division.problems["default/a"]
    assert Reason.CPUS_TAKEN in division.problems["default/b"]


def test_pods_are_ordered_by_binding_creation_then_uid() -> None:
    pods = [
        pin_pod("late", claim("0"), bound="09", created="01"),
        pin_pod("early", claim("0-1"), bound="05", created="04"),
        pin_pod("unbound", claim("1-2"), created="03"),
        pin_pod("b", claim("5"), bound="07"),
        pin_pod("a", claim("5-6"), bound="07"),
    ]
    assert shown(divide(pods, EIGHT)) == {"unbound": "1-2", "late": "0", "a": "5-6"}


def test_a_pod_that_has_ended_owns_nothing() -> None:
    ended = pin_pod("a", claim("0-3"))
    assert not divide([_with_phase(ended, "Succeeded"), _with_phase(ended, "Failed")], EIGHT).owners
    assert divide([_with_phase(ended, "Pending")], EIGHT).owners


def labeled(pod: QuotaPod, qos_class: str, namespace: str = "default") -> QuotaPod:
    labels = {QOS_CLASS: qos_class} if qos_class else {}
    meta = msgspec.structs.replace(pod.metadata, labels=labels, namespace=namespace)
    return msgspec.structs.replace(pod, metadata=meta)


@pytest.mark.parametrize(
    ("qos_class", "namespace", "owns", "reason"),
    [
        ("LSR", "default", True, None),
        ("LSE", "kube-system", True, None),
        ("LSE", "default", False, Reason.QOS_CLASS_NOT_ALLOWED),
        ("SYSTEM", "default", False, Reason.QOS_CLASS_NOT_ALLOWED),
        ("SYSTEM", "kube-system", False, Reason.CLAIM_WITHOUT_CLASS),
        ("LS", "default", False, Reason.CLAIM_WITHOUT_CLASS),
        ("BE", "default", False, Reason.CLAIM_WITHOUT_CLASS),
        ("lsr", "default", False, Reason.CLAIM_WITHOUT_CLASS),
        ("", "default", False, Reason.CLAIM_WITHOUT_CLASS),
    ],
)
def test_a_claim_needs_a_class_that_counts(
    qos_class: str, namespace: str, owns: bool, reason: Reason | None
) -> None:
    division = divide([labeled(pin_pod("a", claim("0-3")), qos_class, namespace)], EIGHT)
    assert bool(division.owners) is owns
    assert [str(reason) in each for each in division.problems.values()] == ([] if owns else [True])


def test_namespaces_that_are_allowed_may_claim_as_lse() -> None:
    pods = [labeled(pin_pod("a", claim("0-3")), "LSE", "trading")]
    assert divide(pods, EIGHT, rules=QoSRules(frozenset({"trading"}))).owners
    assert not divide(pods, EIGHT, rules=QoSRules(frozenset())).owners


@pytest.mark.parametrize("cpus", ["0-6", "0-2", "0"])
def test_claim_to_an_unrequested_number_of_cpus_fails(cpus: str) -> None:
    small = pin_pod("a", claim("0-3"))
    meta = msgspec.structs.replace(small.metadata, annotations={RESOURCE_STATUS: claim(cpus)})
    division = divide([msgspec.structs.replace(small, metadata=meta)], EIGHT)
    assert not division.owners
    assert Reason.CLAIM_NOT_REQUESTED in division.problems["default/a"]


@pytest.mark.parametrize(
    ("status", "owners"),
    [
        ('{"cpuset":"0-3","requestedCPUs":8}', {"a": "0-3"}),
        ('{"cpuset":"0-3","requestedCPUs":7}', {}),
        ('{"cpuset":"0-3"}', {}),
    ],
)
def test_fewer_cpus_need_the_request_they_are_for(status: str, owners: dict[str, str]) -> None:
    """As the scheduler states it: whatever the pod's own annotation says, and the node's ratio is."""
    large = pin_pod("a", claim("0-7"))
    meta = msgspec.structs.replace(large.metadata, annotations={RESOURCE_STATUS: status})
    division = divide([msgspec.structs.replace(large, metadata=meta)], EIGHT)
    assert shown(division) == owners
    assert any(Reason.CLAIM_NOT_REQUESTED in each for each in division.problems.values()) is not bool(owners)


def test_an_edit_takes_no_cpus_from_their_owner() -> None:
    old, owner = pin_pod("old", claim("0-1"), bound="01"), pin_pod("owner", claim("2-3"), bound="02")
    held = {uid: each.cpus for uid, each in divide([old, owner], EIGHT).owners.items()}
    edited = pin_pod("old", claim("2-3"), bound="01")
    division = divide([edited, owner], EIGHT, held)
    assert (shown(division), str(division.shared)) == ({"owner": "2-3"}, "0-1,4-7")
    assert Reason.CPUS_TAKEN in division.problems["default/old"]


def test_owners_keep_cpus_while_shared_ones_are_offline() -> None:
    pods = claims("0-3", "4-5")
    held = {uid: each.cpus for uid, each in divide(pods, EIGHT).owners.items()}
    division = divide(pods, NodeCPUs(CPUSet.parse("0-5"), offline=CPUSet.parse("6-7")), held)
    assert shown(division) == {"a": "0-3", "b": "4-5"}
    assert Reason.SHARED_POOL_EMPTY in division.problems["shared pool"]


def _with_phase(pod: QuotaPod, phase: str) -> QuotaPod:
    return QuotaPod(pod.metadata, pod.spec, type(pod.status)(phase=phase, qos_class="Burstable"))


SETS = st.frozensets(st.integers(0, 11), max_size=5).map(lambda cpus: str(CPUSet(cpus)))


@given(
    st.lists(st.tuples(SETS, st.integers(0, 3)), max_size=6), st.randoms(use_true_random=False), SETS, SETS
)
def test_every_online_cpu_is_used_by_one_owner(
    stated: list[tuple[str, int]], random: Random, online: str, reserved: str
) -> None:
    cpus = CPUSet.parse(online)
    node_cpus = NodeCPUs(cpus, CPUSet.parse("0-9") - cpus, CPUSet.parse(reserved))
    pods = [
        pin_pod(f"p{number}", claim(text), bound=f"{second:02}")
        for number, (text, second) in enumerate(stated)
    ]
    division = divide(pods, node_cpus)
    assert sum(len(owner.cpus) for owner in division.owners.values()) == len(division.owned)
    assert division.owned & node_cpus.online | division.shared == node_cpus.online
    assert division.owned.isdisjoint(division.shared)
    assert division.owned.isdisjoint(node_cpus.reserved)
    assert division.owned <= node_cpus.online | node_cpus.offline
    assert division.shared or not division.owners
    random.shuffle(pods)
    assert divide(pods, node_cpus) == division
