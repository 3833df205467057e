"""``corewise up --scenario outage``: what goes on without any corewise program, and what comes back."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from types import SimpleNamespace
from typing import Any, cast

import pytest

from corewise.kube.objects import ObjectMeta
from corewise.quantities import RawMilli
from corewise.vocabulary.names import AMPLIFICATION_RATIO, OWNED_MILLI_CPU
from corewise.workload.pods import Pod, PodSpec
from corewise_lab.cluster import LocalCluster
from corewise_lab.kubelets import KubeletCounters
from corewise_lab.outage import (
    STREAMS,
    Killable,
    OutageReport,
    Phases,
    Witness,
    _three_phases,
    offered_milli,
)
from kubedouble import expressions
from virtual_time import run_virtual

WITHIN = 300.0

pytestmark = pytest.mark.skipif(
    not expressions.is_available(), reason="the policies need the package cel-expr-python"
)


def outage(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "corewise", "up", "--scenario", "outage", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=WITHIN, check=False)


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    done = outage("--nodes", "3", "--for", "40s", "-o", "json")
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_every_program_is_killed(report: dict[str, Any]) -> None:
    assert report["killed"] == ["manager", "scheduler-a", "scheduler-b", "agents"]


def test_nodes_stay_amplified_through_kubelet_writes(report: dict[str, Any]) -> None:
    assert [each["notAmplified"] for each in report["phases"]] == [0, 0, 0]
    assert all(each["kubeletWrites"] >= report["nodes"] for each in report["phases"]), "they show nothing"
    assert [each["refused"] for each in report["phases"]] == [0, 0, 0]


def test_plain_pods_are_placed_without_corewise(report: dict[str, Any]) -> None:
    on_their_way = 0
    for plain in (each["plain"] for each in report["phases"]):
        on_their_way += plain["created"] - plain["bound"]
        assert on_their_way < plain["created"] / 2, "they waited for more than half of the phase"


def test_pods_wait_for_owned_cpus_and_share_none(report: dict[str, Any]) -> None:
    before, away, after = (each["owner"] for each in report["phases"])
    assert all(each["created"] for each in (before, away, after))
    assert before["bound"], "none was placed before the outage"
    assert away["bound"] <= 1, "one may just get through"
    early = before["bound"] + away["bound"]
    assert early <= before["created"], "one that came in the outage was bound in it"
    assert early + after["bound"] >= before["created"] + away["created"]
    unbound = sum(each["created"] - each["bound"] for each in (before, away, after))
    assert report["waitingAtEnd"] <= unbound + 1, "one may be created and not counted yet"
    assert [each["cpusTwice"] for each in report["phases"]] == [0, 0, 0]


async def end_of_wait(bound_after: float) -> float:
    """Return when the wait for a pod that is bound so late ends; another comes meanwhile, and waits on."""
    witness = Witness(cast("LocalCluster", SimpleNamespace(machines={}, client=None)))
    owners, loop = STREAMS[1], asyncio.get_running_loop()
    async with asyncio.TaskGroup() as pods:
        living = [pods.create_task(witness.live("first", owners))]
        await asyncio.sleep(0)
        bound = Pod(ObjectMeta(uid="first"), PodSpec(node_name="n1"))
        loop.call_later(bound_after, witness._pod_changed, None, bound)
        loop.call_later(1.0, lambda: living.append(pods.create_task(witness.live("later", owners))))
        await witness.until_bound(120.0)
        ended = loop.time()
        for each in living:
            each.cancel()
    return ended


@pytest.mark.parametrize(("bound_after", "ended"), [(7.0, 7.0), (1000.0, 120.0)])
def test_last_phase_awaits_pods_waiting_at_its_end(bound_after: float, ended: float) -> None:
    assert run_virtual(end_of_wait(bound_after)) == ended


def test_phases_follow_each_other_without_a_gap() -> None:
    """Killing takes 1 s, starting 2 s, and the last pod is bound 4 s after the last phase's time."""
    said: list[str] = []
    counters = SimpleNamespace(status_patches=0, failures=0)

    async def three() -> OutageReport:
        async def kubelets() -> None:
            while True:
                await asyncio.sleep(0.5)
                counters.status_patches += 1

        corewise = SimpleNamespace(
            kill=lambda: asyncio.sleep(1), start=lambda: asyncio.sleep(2), check=lambda: None, names=()
        )
        nodes = SimpleNamespace(items={})

        async def until_bound(most: float) -> None:
            assert most == 120.0, "two minutes, as the page says"
            await asyncio.sleep(4)

        witness = SimpleNamespace(until_bound=until_bound, nodes=nodes, waiting=0)
        writing = asyncio.create_task(kubelets())
        report = await _three_phases(
            Phases(10.0, 20.0, 30.0),
            cast("Witness", witness),
            cast("Killable", corewise),
            cast("KubeletCounters", counters),
            said.append,
        )
        writing.cancel()
        return report

    report = run_virtual(three())
    assert [each.seconds for each in report.phases] == [11.0, 20.0, 36.0]
    assert sum(each.kubelet_writes for each in report.phases) == counters.status_patches
    assert said[-2:] == ["all run again, for 30 s", "waiting for pods that have no node"]


@pytest.mark.parametrize(
    ("owned", "offered"),
    [(None, 12000), ("2000", 11000), ("333", 11833), ("-1", 12000), ("two", 12000), ("9" * 5000, 12000)],
)
def test_unreadable_owned_cpus_count_as_none(owned: str | None, offered: int) -> None:
    annotations = {AMPLIFICATION_RATIO: '{"cpu":1.50}'}
    annotations |= {} if owned is None else {OWNED_MILLI_CPU: owned}
    assert offered_milli(RawMilli(8000), annotations) == offered


def test_incompatible_options_are_refused(tmp_path: Any) -> None:
    done = outage("--state", str(tmp_path))
    assert done.returncode == 2
    assert "--nodes, --for and -o only" in done.stderr
