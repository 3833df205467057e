"""The ledger of owned CPUs: read strictly, counted with the node's pods, and folded into allocatable.

| ledger and pods | what counts |
|---|---|
| entry of a pod that is bound there | the pod, with the CPUs of its entry |
| entry of a pod that is not known there | a pod of its own, which requests what it owns |
| the pod is seen bound, deleted, or its entry goes | what a new cluster with the same nodes and pods shows |
| damaged | what is readable; pods that own CPUs are refused |
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.amplification import unfolded
from corewise.amplification.annotations import read_node
from corewise.engine import Cluster, Placement
from corewise.engine.reading import placement, pod_facts, read_node_facts
from corewise.ratios.nodes import view_of
from corewise.topology import CPUSet
from corewise.vocabulary.names import (
    AMPLIFICATION_RATIO,
    OWNED_CPUS,
    OWNED_MILLI_CPU,
    OWNED_REQUESTS,
    QOS_CLASS,
    RESOURCE_STATUS,
    recorded_applied,
    recorded_raw,
)
from corewise.vocabulary.owned_cpus import (
    LONGEST_LEDGER,
    CPUOwner,
    longest_ledger,
    print_owned_cpus,
    read_owned_cpus,
)
from corewise.workload.nodes import Node
from corewise.workload.pods import Pod
from engine.scenes import cluster_of, cpuset, decide, node, share

OWNER = '{"pod":"ns/a","cpus":"0-3"}'


def ledger(**owners: str) -> dict[str, str]:
    """Annotations that say which CPUs pods own, by the pods' uids."""
    entries = {uid: CPUOwner(f"default/{uid}", CPUSet.parse(cpus)) for uid, cpus in owners.items()}
    return {name: text for name, text in print_owned_cpus(entries).items() if text is not None}


def test_what_is_printed_is_read_again() -> None:
    owners = {"u1": CPUOwner("ns/a", CPUSet.parse("0-3"), "5f0c"), "u2": CPUOwner("ns/b", CPUSet.parse("6"))}
    printed = print_owned_cpus(owners)
    assert printed == {
        OWNED_CPUS: '{"u1":{"pod":"ns/a","cpus":"0-3","bind":"5f0c"},"u2":{"pod":"ns/b","cpus":"6"}}',
        OWNED_MILLI_CPU: "5000",
        OWNED_REQUESTS: None,
    }
    read = read_owned_cpus({name: text for name, text in printed.items() if text is not None})
    assert (dict(read.owners), read.problem) == (owners, "")
    assert (read.owners["u1"].namespace, read.owners["u1"].name) == ("ns", "a")


def test_a_normalized_owners_request_is_read_again() -> None:
    owners = {
        "u1": CPUOwner("ns/a", CPUSet.parse("0-3"), "5f0c", 8),
        "u2": CPUOwner("ns/b", CPUSet.parse("6"), request=1),
    }
    printed = print_owned_cpus(owners)
    assert printed == {
        OWNED_CPUS: '{"u1":{"pod":"ns/a","cpus":"0-3","bind":"5f0c","request":8},'
        '"u2":{"pod":"ns/b","cpus":"6"}}',
        OWNED_MILLI_CPU: "5000",
        OWNED_REQUESTS: "9000",
    }
    read = read_owned_cpus({name: text or "" for name, text in printed.items()})
    assert not read.problem
    assert [(each.requested, each.surplus) for each in read.owners.values()] == [(8, 4000), (1, 0)]


@pytest.mark.parametrize(
    ("entry", "requests", "problem"),
    [
        ('"request":8', None, f"{OWNED_REQUESTS} is absent, and the pods of {OWNED_CPUS} request 8 CPUs"),
        ('"request":8', "9000", f"{OWNED_REQUESTS} is '9000', and the pods of {OWNED_CPUS} request 8 CPUs"),
        ('"bind":""', "8000", f"{OWNED_REQUESTS} is '8000', and the pods of {OWNED_CPUS} request 4 CPUs"),
        ('"request":3', "4000", "says that the pod requests 3 CPUs and owns 4"),
        ('"request":-1', "4000", "says that the pod requests -1 CPUs and owns 4"),
        ('"request":"8"', "8000", "cannot be read"),
        ('"request":10000000', "4000", "says that the pod requests 10000000 CPUs and owns 4"),
    ],
)
def test_requests_that_contradict_each_other_damage_it(
    entry: str, requests: str | None, problem: str
) -> None:
    text = f'{{"u":{{"pod":"ns/a","cpus":"0-3",{entry}}}}}'
    stated = {OWNED_CPUS: text, OWNED_MILLI_CPU: "4000", OWNED_REQUESTS: requests}
    assert (
        problem in read_owned_cpus({name: each for name, each in stated.items() if each is not None}).problem
    )


def test_node_without_ledger_owns_nothing_and_writes_none() -> None:
    assert read_owned_cpus({}) == read_owned_cpus({OWNED_MILLI_CPU: "0"})
    assert not read_owned_cpus({}).problem
    assert print_owned_cpus({}) == {OWNED_CPUS: None, OWNED_MILLI_CPU: None, OWNED_REQUESTS: None}


@pytest.mark.parametrize(
    ("text", "milli", "problem", "readable"),
    [
        ("no ledger", "4000", "cannot be read", 0),
        ("[]", "0", "cannot be read", 0),
        (f'{{"u":{OWNER}}}', None, "names 4 CPUs", 1),
        (f'{{"u":{OWNER}}}', "3000", "'3000'", 1),
        (f'{{"u":{OWNER}}}', "4000m", "'4000m'", 1),
        (f'{{"u":{OWNER},"v":7}}', "4000", "the entry of 'v' cannot be read", 1),
        (f'{{"u":{OWNER},"v":{{"pod":"ns/b","cpus":"9-"}}}}', "4000", "the entry of 'v' cannot be read", 1),
        (f'{{"u":{OWNER},"v":{{"pod":"ns/b","cpus":"3"}}}}', "4000", "gives CPUs 3 to ns/b and to", 1),
        ('{"u":{"pod":"a","cpus":"0"}}', "1000", "names no pod", 0),
        ('{"u":{"pod":"ns/..","cpus":"0"}}', "1000", "names no pod", 0),
        ('{"u":{"pod":"ns/a/b","cpus":"0"}}', "1000", "names no pod", 0),
        ('{"u":{"pod":"ns/a","cpus":""}}', "0", "names no pod, or no CPUs", 0),
        (f'{{"":{OWNER}}}', "4000", "names no pod", 0),
        ("{" + " " * LONGEST_LEDGER + "}", "0", "characters, more than", 0),
        (None, "1000", "names 0 CPUs", 0),
    ],
)
def test_damaged_ledger_says_why_and_readable_part_counts(
    text: str | None, milli: str | None, problem: str, readable: int
) -> None:
    stated = {OWNED_CPUS: text, OWNED_MILLI_CPU: milli}
    read = read_owned_cpus({name: each for name, each in stated.items() if each is not None})
    assert problem in read.problem
    assert len(read.owners) == readable


def test_ledger_too_long_for_node_cpus_is_unparsed() -> None:
    longest = {
        f"{cpu:036}": CPUOwner(f"{'n' * 63}/{'p' * 253}", CPUSet.of([cpu]), "5f0c9a1e", 9999999)
        for cpu in range(4)
    }
    written = {name: text for name, text in print_owned_cpus(longest).items() if text is not None}
    assert dict(read_owned_cpus(written, 4).owners) == longest
    padded = {**written, OWNED_CPUS: written[OWNED_CPUS].ljust(longest_ledger(4) + 1)}
    read = read_owned_cpus(padded, 4)
    assert not read.owners
    assert read.problem == f"{OWNED_CPUS} has 2561 characters, more than 2560"
    assert read_owned_cpus(padded, 8).owners
    assert longest_ledger(8192) == LONGEST_LEDGER


def test_node_cpus_limit_ledger_in_scheduler_and_manager() -> None:
    text = json.dumps({"u": {"pod": "a/b", "cpus": "0-3"}}).ljust(3000)
    annotations = {OWNED_CPUS: text, OWNED_MILLI_CPU: "4000"}
    for cpus, owners in (("4", 0), ("8", 1)):
        document = {
            "metadata": {"name": "n", "annotations": annotations},
            "status": {"capacity": {"cpu": cpus}},
        }
        facts = read_node_facts(msgspec.convert(document, Node), None).facts
        assert len(facts.owned.owners) == owners
        view = view_of(msgspec.convert(document, Node), None, list)
        assert view.demand().cpuset_milli == owners * 4000


def test_entries_beyond_the_machine_are_not_read() -> None:
    entries = {f"u{each}": {"pod": f"ns/p{each}", "cpus": "0-8191"} for each in range(4)}
    read = read_owned_cpus({OWNED_CPUS: json.dumps(entries), OWNED_MILLI_CPU: "8192000"})
    assert read.problem == f"{OWNED_CPUS} names more than 8192 CPUs"
    assert list(read.owners) == ["u0"]


@given(st.dictionaries(st.sampled_from([OWNED_CPUS, OWNED_MILLI_CPU, OWNED_REQUESTS]), st.text(max_size=60)))
def test_no_text_raises(annotations: dict[str, str]) -> None:
    read = read_owned_cpus(annotations)
    cpus = [cpu for owner in read.owners.values() for cpu in owner.cpus]
    assert len(cpus) == len(set(cpus))


def owned(**owners: str) -> Any:
    return read_owned_cpus(ledger(**owners))


def test_entry_of_unknown_pod_counts_as_own_pod() -> None:
    cluster = cluster_of(node("n1", 8, "2.00", owned=owned(u1="0-3")))
    (row,) = cluster.snapshot().cpu_room.tolist()
    assert row == 8000, "16 amplified CPUs, of which 4 owned ones take 8"
    assert cluster.snapshot().free_cpus.tolist() == [4]
    assert cluster.snapshot().free["pods"].tolist() == [109]
    assert decide(cluster, cpuset("p", 5)).node is None
    assert decide(cluster, share("s", 8.0)).node == "n1"
    assert decide(cluster, share("s", 8.5)).node is None
    assert cluster.unbound_entries == 1


def test_bound_pod_has_its_entry_cpus_counted_once() -> None:
    pod = cpuset("default/u1", 4, uid="u1")
    cluster = cluster_of(node("n1", 8, "2.00", owned=owned(u1="0-3")))
    cluster.put_pod(pod, Placement("n1"))
    assert cluster.snapshot().cpu_room.tolist() == [8000]
    assert cluster.snapshot().free["pods"].tolist() == [109]
    assert cluster.pods_on("n1")["default/u1"][1].cpus == CPUSet.parse("0-3")
    assert cluster.unbound_entries == 0
    cluster.remove_pod("default/u1")
    assert cluster.snapshot().cpu_room.tolist() == [8000], "the entry is still there"
    cluster.put_node(node("n1", 8, "2.00"))
    assert cluster.snapshot().cpu_room.tolist() == [16000]


def test_pod_of_the_same_name_is_not_owner() -> None:
    cluster = cluster_of(node("n1", 8, owned=owned(u1="0-3")))
    cluster.put_pod(cpuset("default/u1", 4, uid="another"), Placement("n1"))
    assert cluster.snapshot().cpu_room.tolist() == [0]
    assert cluster.unbound_entries == 1


def test_decision_about_a_pod_omits_its_own_entry() -> None:
    cluster = cluster_of(node("n1", 4, owned=owned(u1="0-3")))
    with cluster.without_entries("u1"):
        assert decide(cluster, cpuset("p", 4)).node == "n1"
    assert decide(cluster, cpuset("p", 4)).node is None


def test_damaged_ledger_refuses_only_pods_that_own_cpus() -> None:
    cluster = cluster_of(node("n1", 8, owned=read_owned_cpus({OWNED_CPUS: "x"})))
    decision = decide(cluster, cpuset("p", 1))
    assert decision.headline.endswith("1 the node's ledger of owned CPUs is damaged")
    assert decide(cluster, share("s", 1.0)).node == "n1"


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["pod", "no pod", "ledger", "node goes"]),
        st.sampled_from(["u1", "u2"]),
        st.sampled_from(["0-1", "2-3", ""]),
    ),
    max_size=12,
)


@given(STEPS)
def test_rows_after_any_steps_match_a_new_cluster(steps: list[tuple[str, str, str]]) -> None:
    cluster, owners, pods = cluster_of(node("n1", 8, "2.00")), dict[str, str](), dict[str, Placement]()
    for what, uid, cpus in steps:
        if what == "pod":
            pods[uid] = Placement("n1", CPUSet.parse(cpus))
            cluster.put_pod(cpuset(f"default/{uid}", 2, uid=uid), pods[uid])
        elif what == "no pod":
            pods.pop(uid, None)
            cluster.remove_pod(f"default/{uid}")
        elif what == "ledger":
            owners = {**owners, uid: cpus} if cpus and cpus not in owners.values() else {}
            cluster.put_node(node("n1", 8, "2.00", owned=owned(**owners)))
        else:
            cluster.remove_node("n1")
            cluster.put_node(node("n1", 8, "2.00", owned=owned(**owners)))
    new = cluster_of(node("n1", 8, "2.00", owned=owned(**owners)))
    for uid, where in pods.items():
        new.put_pod(cpuset(f"default/{uid}", 2, uid=uid), where)
    seen, wanted = cluster.snapshot(), new.snapshot()
    for column in ("cpu_room", "owned_cpu", "requested_cpu", "free_cpus", "free_cores"):
        assert getattr(seen, column).tolist() == getattr(wanted, column).tolist()
    assert cluster.unbound_entries == new.unbound_entries == len(owners.keys() - pods.keys())


def folded(raw: int, allocatable: int, owned_milli: int, ratio: str = "2.00") -> dict[str, str]:
    return {
        AMPLIFICATION_RATIO: f'{{"cpu":{ratio}}}',
        recorded_raw("allocatable", "cpu"): f"{raw}m",
        recorded_applied("allocatable", "cpu"): f"{allocatable}m",
        OWNED_MILLI_CPU: str(owned_milli),
    }


@pytest.mark.parametrize(
    ("annotations", "in_status", "counts"),
    [
        pytest.param(folded(32000, 44000, 20000), 44000, 64000, id="folded in"),
        pytest.param(folded(32000, 64000, 20000), 64000, 64000, id="written by one that knows no ledger"),
        pytest.param(folded(32000, 44000, 20000), 40000, 40000, id="status is another than recorded"),
        pytest.param(folded(32000, 44000, 20000, "1.50"), 44000, 44000, id="the ratio has changed"),
        pytest.param(folded(3500, 5303, 1000, "1.83"), 5303, 5303, id="one too little"),
        pytest.param(folded(3500, 5575, 1000, "1.83"), 5575, 6405, id="rounded down and up"),
        pytest.param(folded(4000, 0, 9000), 0, 8000, id="not below 0"),
        pytest.param({OWNED_MILLI_CPU: "4000"}, 8000, 8000, id="without a record"),
        pytest.param(folded(4000, 4000, 4000) | {OWNED_MILLI_CPU: "x"}, 4000, 4000, id="unreadable"),
    ],
)
def test_fold_is_added_only_where_surely_in_status(
    annotations: dict[str, str], in_status: int, counts: int
) -> None:
    assert unfolded(in_status, read_node(annotations)) == counts


@pytest.mark.parametrize("in_status", ["44", "64"])
@pytest.mark.parametrize("claims", [None, "0-19", "12-31"])
def test_scheduler_and_corewise_nodes_agree_on_remaining_cpu(*, in_status: str, claims: str | None) -> None:
    """32 CPUs at ratio 2, 20 owned, 3.5 shared: 64 - 40 - 3.5, folded in or not.

    Whether the owner is seen, and what it claims, changes nothing.
    """
    applied = folded(32000, 44000, 20000) if in_status == "44" else folded(32000, 64000, 20000)
    capacity = {recorded_raw("capacity", "cpu"): "32", recorded_applied("capacity", "cpu"): "64"}
    document = {
        "metadata": {"name": "n1", "annotations": {**applied, **capacity, **ledger(u1="0-19")}},
        "status": {"allocatable": {"cpu": in_status}, "capacity": {"cpu": "64"}},
    }
    pods = [pod("default", "share", "3500m", "u2")]
    if claims:
        claim = {RESOURCE_STATUS: json.dumps({"cpuset": claims})}
        pods.append(pod("default", "u1", "20", "u1", labels={QOS_CLASS: "LSR"}, annotations=claim))
    cluster = Cluster()
    cluster.put_node(read_node_facts(msgspec.convert(document, Node), None).facts)
    for each in pods:
        placed = msgspec.convert(each, Pod)
        cluster.put_pod(pod_facts(placed), placement(placed)[0])
    view = view_of(
        msgspec.convert(document, Node),
        None,
        lambda: [msgspec.convert(each, Pod) for each in pods],
    )
    assert cluster.snapshot().cpu_room.tolist() == [20500]
    assert view.free_cpu() == 20500


def pod(namespace: str, name: str, cpu: str, uid: str, **metadata: Any) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    meta = {"namespace": namespace, "name": name, "uid": uid, **metadata}
    return {"metadata": meta, "spec": {"nodeName": "n1", "containers": [container]}}
