"""The extender keeps the rows of what it let through; a row is another node's once nodes come and go."""

from __future__ import annotations

import json

from corewise.engine import assemble
from corewise.kube.client import Client
from corewise.kube.clock import SYSTEM_CLOCK
from corewise.kube.config import ClusterConfig
from corewise.scheduler.decisions import Decisions
from corewise.scheduler.extender import Arguments, Extender, decode_arguments
from corewise.scheduler.state import ClusterState
from engine.scenes import node
from scheduler.program_world import pod_document


def extender() -> Extender:
    """An extender over a cluster that nobody but the test changes."""
    state = ClusterState(Client(ClusterConfig(server="http://127.0.0.1:1")), SYSTEM_CLOCK)
    engine = assemble()
    return Extender(state, lambda: engine, Decisions(5, SYSTEM_CLOCK), lambda _pod, _why: None)


def about(*names: str) -> Arguments:
    pod = pod_document("p", cpu="4")
    return decode_arguments(json.dumps({"Pod": pod, "NodeNames": names}).encode())


async def test_the_nodes_let_through_are_the_same_to_prioritize() -> None:
    asked = extender()
    for name, cpus in (("a", 8), ("small", 2), ("b", 32)):
        asked.state.cluster.put_node(node(name, cpus))
    left = asked.filter(about("b", "small", "unheard-of", "a")).names
    assert left == ["b", "a"]
    best, good = asked.prioritize(about(*left))
    assert best > good > 0
    assert list(asked.prioritize(about("a", "b"))) == [good, best]


async def test_a_node_that_took_the_row_of_one_that_went_is_not_taken_for_it() -> None:
    asked = extender()
    cluster = asked.state.cluster
    cluster.put_node(node("a", 8))
    cluster.put_node(node("b", 8))
    assert asked.filter(about("a", "b")).names == ["a", "b"]
    cluster.remove_node("a")
    cluster.put_node(node("c", 64))
    assert cluster.snapshot().index["c"] == 0
    gone, stays = asked.prioritize(about("a", "b"))
    assert gone == 0
    assert stays > 0
