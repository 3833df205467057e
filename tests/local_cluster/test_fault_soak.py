"""The soak with faults at the network: its plan of faults, and a short run of all of it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from corewise.vocabulary.names import RESOURCE_STATUS
from corewise.workload.pods import Pod
from experiments.fault_soak.api_proxy import Eviction
from experiments.fault_soak.evictions import COOLDOWN, wrong_evictions
from experiments.fault_soak.links import LONGEST, OF_HTTP, OF_TLS, SHORTEST, Fault, spells
from experiments.fault_soak.result import Options
from experiments.fault_soak.run import run
from experiments.fault_soak.witness import Claims
from kubedouble import expressions

SEED = 1
HOUR = 3600.0


@pytest.mark.parametrize("faults", [OF_HTTP, OF_TLS], ids=["HTTP", "TLS"])
def test_every_kind_of_fault_strikes_each_link(faults: tuple[Fault, ...]) -> None:
    drawn = spells("one to another", faults, SEED, HOUR)
    assert {spell.fault for spell in drawn[: len(faults)]} == set(faults)
    assert len(drawn) > HOUR / 20
    assert spells("one to another", (), SEED, HOUR) == ()


def test_spells_follow_each_other_and_end_in_time() -> None:
    drawn = spells("one to another", OF_HTTP, SEED, HOUR)
    assert all(one.ends < two.begins for one, two in pairwise(drawn))
    assert all(SHORTEST <= spell.ends - spell.begins <= LONGEST for spell in drawn[:-1])
    assert drawn[-1].ends <= HOUR


def test_a_seed_draws_the_same_faults_again() -> None:
    drawn = [spells(link, OF_HTTP, seed, HOUR) for link, seed in (("a", 1), ("a", 1), ("a", 2), ("b", 1))]
    assert drawn[0] == drawn[1]
    assert drawn[0] not in drawn[2:]


@pytest.mark.parametrize(
    ("accepted", "wrong"),
    [
        ([("a", 0.0), ("b", COOLDOWN)], []),
        ([("a", 0.0), ("elsewhere", 1.0)], []),
        ([("a", 0.0), ("a", 1000.0)], ["pod a was evicted 2 times"]),
        ([("a", 0.0), ("b", 1.0)], ["node n1: two pods were evicted within 1 s"]),
    ],
)
def test_evictions_too_many_or_too_soon_are_named(
    accepted: list[tuple[str, float]], wrong: list[str]
) -> None:
    node_of = {"a": "n1", "b": "n1", "elsewhere": "n2"}
    evictions = [Eviction(at, uid) for uid, at in accepted]
    assert list(wrong_evictions(evictions, node_of)) == wrong


def owner(name: str, cpus: str, phase: str = "Running", node: str = "n1") -> Pod:
    status = {RESOURCE_STATUS: f'{{"cpuset":"{cpus}"}}'}
    metadata = {"name": name, "namespace": "default", "uid": name, "annotations": status}
    return msgspec.convert(
        {"metadata": metadata, "spec": {"nodeName": node, "containers": []}, "status": {"phase": phase}}, Pod
    )


def test_two_pods_on_one_cpu_are_seen() -> None:
    claims = Claims()
    assert claims.take(owner("first", "2-3")) == []
    assert claims.take(owner("elsewhere", "2-3", node="n2")) == []
    assert claims.take(owner("second", "3-4")) == [3]
    claims.free("second")
    assert claims.take(owner("first", "2-3", "Failed")) == []
    assert claims.take(owner("third", "2-4")) == []


@pytest.mark.skipif(not expressions.is_available(), reason="the policies need the package cel-expr-python")
async def test_nothing_wrong_lasts_after_network_faults(tmp_path: Path) -> None:
    said: list[str] = []
    result = await run(Options(nodes=2, seconds=40.0, seed=SEED), tmp_path, said.append)
    assert result.problems == []
    assert len(result.links) == 12
    assert all(link.passed for link in result.links if "API server to" not in link.name)
    assert result.struck.total() > 0
