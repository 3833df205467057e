"""The extender keeps the rows of what it let through; a row is another node's once nodes come and go."""

from __future__ import annotations

import json
from zlib import crc32

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from corewise.engine import Cluster, assemble
from corewise.kube.client import Client
from corewise.kube.clock import SYSTEM_CLOCK
from corewise.kube.config import ClusterConfig
from corewise.scheduler.decisions import Decisions
from corewise.scheduler.extender import Arguments, Extender, decode_arguments, spread
from corewise.scheduler.node_names import KnownNames, SentNames
from corewise.scheduler.state import ClusterState
from engine.scenes import node
from scheduler.program_world import pod_document


def extender() -> Extender:
    """An extender over a cluster that no one but the test changes."""
    state = ClusterState(Client(ClusterConfig(server="http://127.0.0.1:1")), SYSTEM_CLOCK)
    engine = assemble()
    return Extender(state, lambda: engine, Decisions(5, SYSTEM_CLOCK), lambda _pod, _why: None)


def about(*names: str) -> Arguments:
    pod = pod_document("p", cpu="4")
    return decode_arguments(json.dumps({"Pod": pod, "NodeNames": names}).encode())


async def test_filtered_nodes_are_the_same_for_prioritize() -> None:
    asked = extender()
    for name, cpus in (("a", 8), ("small", 2), ("b", 32)):
        asked.state.counted.cluster.put_node(node(name, cpus))
    left = asked.filter(about("b", "small", "unheard-of", "a")).names
    assert list(left) == ["b", "a"]
    assert asked.prioritize(about(*left)).tolist() == [10, 0]
    assert asked.prioritize(about("a", "b")).tolist() == [0, 10]


async def test_node_reusing_a_departed_nodes_row_stays_distinct() -> None:
    asked = extender()
    cluster = asked.state.counted.cluster
    cluster.put_node(node("a", 8))
    cluster.put_node(node("b", 8))
    assert list(asked.filter(about("a", "b")).names) == ["a", "b"]
    cluster.remove_node("a")
    cluster.put_node(node("c", 64))
    assert cluster.snapshot().index["c"] == 0
    gone, stays = asked.prioritize(about("a", "b"))
    assert gone == 0
    assert stays > 0


def test_engine_scores_are_spread_over_the_requested_nodes() -> None:
    """totals -> scores; a node that does not suit the pod (x) has 0, and the worst of the others then 1."""
    cases: list[tuple[list[int | None], list[int]]] = [
        ([70, 80, 90], [0, 5, 10]),
        ([99, 100], [0, 10]),
        ([80, None, 90], [1, 0, 10]),
        ([None, None], [0, 0]),
        ([42], [10]),
    ]
    for totals, expected in cases:
        column = np.array([each or 0 for each in totals])
        suits = np.array([each is not None for each in totals])
        assert spread(column, suits, np.zeros_like(column)).tolist() == expected, totals


def test_equal_nodes_have_one_stable_best_per_pod() -> None:
    names = [f"worker-{number}" for number in range(40)]
    equal, suits = np.full(40, 70), np.full(40, fill_value=True)
    cluster, known = Cluster(), KnownNames()
    for name in names:
        cluster.put_node(node(name, 8))

    def best(pod: str, order: list[str]) -> str:
        rows = known.rows_of(SentNames.of(order), cluster.snapshot())
        scores: list[int] = spread(equal, suits, known.checksums(pod, rows)).tolist()
        assert sorted(scores) == [9] * 39 + [10]
        return order[scores.index(10)]

    assert best("a", names) == best("a", names[::-1])
    assert len({best(f"default/web-{number}", names) for number in range(400)}) > 30


_ODD = ("", "node-1", "node-10", "日本", 'q"', 'a",', "q\\", "n" * 300, "x\0", "[", '","')
_NAMES = st.lists(st.sampled_from(_ODD) | st.from_regex("[a-z0-9.-]{1,40}", fullmatch=True), max_size=60)


@given(_NAMES, _NAMES, st.booleans())
def test_names_are_found_and_chosen_as_if_individually(
    there: list[str], others: list[str], escaped: bool
) -> None:
    cluster, known = Cluster(), KnownNames()
    for name in filter(None, there):
        cluster.put_node(node(name, 8))
    for name in set(there[::3]) & set(cluster.nodes):
        cluster.remove_node(name)
    snapshot, sent = cluster.snapshot(), [*filter(None, there), *filter(None, others)]
    plain = json.dumps(sent, separators=(",", ":"), ensure_ascii=escaped).encode()
    names = SentNames.read(plain) or SentNames.of(sent)
    rows = known.rows_of(names, snapshot)
    assert (list(names), rows.tolist()) == (sent, [snapshot.index.get(name, -1) for name in sent])

    here = [name for name in sent if name in snapshot.index]
    left = names.only(rows >= 0)
    assert (list(left), json.loads(left.array)) == (here, here)
    assert known.checksums("ns/pod", rows[rows >= 0]).tolist() == [
        crc32(f"ns/pod{name}".encode()) for name in here
    ]


def test_names_sharing_a_table_slot_are_still_found() -> None:
    cluster, known = Cluster(), KnownNames()
    for number in range(2_000):
        cluster.put_node(node(f"node-{number}", 8))
    index = cluster.snapshot().index
    rows = known.rows_of(SentNames.of(list(index)), cluster.snapshot())
    assert rows.tolist() == list(index.values())


def test_only_plain_name_arrays_skip_the_individual_check() -> None:
    """Everything else is read name by name, with an error that says which one is wrong."""
    others = (
        '[""]',
        "[]",
        "null",
        '["a",1]',
        '["a",[]]',
        '[["a"]]',
        '[{"a":"b"}]',
        '{"a":"b"}',
        '["a", "b"]',
    )
    for other in (
        *others,
        '["\\u0041"]',
        '["\\""]',
        '["\\",\\""]',
        '["日"]',
        '["a",null]',
        '"a"',
        '["a",""]',
    ):
        assert SentNames.read(other.encode()) is None, other
    assert list(SentNames.read(b'["a","bcd"]') or ()) == ["a", "bcd"]
