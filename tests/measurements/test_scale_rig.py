"""``make scale``, small: a restart and a lost watch are survived; and what counts as growth."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from corewise_lab.control_plane import MANAGER, SCHEDULER, ClusterError
from experiments.scale.__main__ import main
from experiments.scale.figures import event_cost
from experiments.scale.filling import RigPod
from experiments.scale.rig import CHURN, STORED_EVERY, Reading, kubelet_counters, kubelets, rig
from experiments.scale.soak import SoakResult, judge, judge_all
from kubedouble import expressions
from tools.bench.table import exponent

NODES, PODS = 20, 100
REPLACED = 6


@pytest.mark.skipif(not expressions.is_available(), reason="the policies need the package cel-expr-python")
async def test_the_rig_runs_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    async with rig(NODES, PODS, tmp_path, print, writers=5) as made:
        await asyncio.gather(made.start(MANAGER, "manager-a"), made.start(SCHEDULER, "scheduler-a"))
        await made.start(MANAGER, "manager-b")
        assert await made.change_ratios(0.0) > 0
        await made.connect()
        async with kubelets(made):
            with monkeypatch.context() as patch:
                patch.setattr(made, "tell_server", said.append)
                with made.replaying(500.0):
                    pass
            usual = (NODES - 5) / STORED_EVERY
            assert said == ["replay 500.0", f"replay {usual}"], "heartbeats go on in the phases that follow"
            before, _ = await made.server_counts()
            with made.replaying(200.0):
                await asyncio.sleep(0.5)
            after, _ = await made.server_counts()
            assert 50 <= after - before <= 200
            made.churn_rate = 0.05
            async with asyncio.timeout(60), made.churning():
                await made.lose_watch()
                await made.restart(made.of(SCHEDULER)[0])
                while made.replaced < REPLACED:  # noqa: ASYNC110 - it is counted, and no one says when
                    await asyncio.sleep(0.1)
            made.churn_rate = CHURN / 100
            async with asyncio.timeout(20), made.churning():  # its next replacement is due in 100 minutes
                await asyncio.sleep(0.5)
            lost = len(made.server_said("lost"))
            await made.expire_watches()
            assert len(made.server_said("lost")) >= lost + 2 * 3, "each program watches nodes, pods and more"
            await made.run_pod(RigPod(made.next_pod(), "", 4000, owned=True))
            counters = kubelet_counters(made.folder)
        readings = {each.made.name: await each.read() for each in made.programs}
        made.of(MANAGER)[0].child.process.kill()
        await made.of(MANAGER)[0].child.process.wait()
        with pytest.raises(ClusterError, match=r"manager-[ab] ended by itself"):
            made.check_programs()
    assert not made.failures, made.last_refusal
    assert made.replaced >= REPLACED
    assert made.binds
    assert counters["lease_renewals"] > 0 == counters["failures"]
    assert [readings["manager-a"].leads, readings["manager-b"].leads].count(True) == 1
    for each in readings.values():
        assert each.objects >= 2 * NODES + PODS, "nodes, topologies and pods"
        assert each.tasks > 5 < each.descriptors
        assert 20 < each.pss < each.rss < 300
        assert each.cpu > 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("--nodes 0", "0 is not a whole number of at least 1"),
        ("--nodes -1", "-1 is not a whole number"),
        ("--nodes abc", "abc is not a whole number"),
        ("--nodes 5 --pods 0", "0 is not a whole number"),
        ("--nodes 5 --pods 501", "room for 100 pods, 5 nodes for 500"),
        ("--nodes 5 6 --pods 5", "2 sizes need 2 numbers of pods"),
        ("--soak 60", "60: write a number above 0 with its unit"),
        ("--churn 0s", "0s: write a number above 0 with its unit"),
        ("--churn -5", "-5: write a number above 0 with its unit"),
        ("--soak 59s", "59s is too short"),
        ("--soak 1h --nodes 5 6", "--soak runs one size"),
        ("--out missing/out.json", "cannot write missing/out.json: No such file or directory"),
        ("--out .", "cannot write .: Is a directory"),
        ("--out other.json", "other.json exists and holds no figures by size"),
        ("--soak 1h --out sizes.json", "sizes.json exists and holds no result of a soak"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_runs(
    arguments: str,
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.json").write_text('{"x":')
    (tmp_path / "sizes.json").write_text('{"sizes": []}')
    with pytest.raises(SystemExit, match="2"):
        main(arguments.split())
    assert sentence in capsys.readouterr().err


@pytest.mark.skipif(not expressions.is_available(), reason="the policies need the package cel-expr-python")
async def test_interrupted_run_ends_its_programs_and_keeps_measurements(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    options = ("--nodes", "5", "--replicas", "1", "--out", str(out), "--logs", str(tmp_path / "logs"))
    background = ("sh", "-c", 'trap "" INT; exec "$@"', "sh")
    command = (*background, sys.executable, "-m", "experiments.scale", *options)
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    async with asyncio.timeout(120):
        while not out.exists():  # noqa: ASYNC110 - a file says nothing by itself
            await asyncio.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        _, said = await process.communicate()
    assert process.returncode == 130
    assert said.decode().splitlines()[-1].startswith("interrupted; all programs have ended")
    (size,) = json.loads(out.read_text())["sizes"]
    assert size["figures"]["start to ready, manager [s]"] > 0
    assert not running(str(tmp_path)), "programs are left"


def running(argument: str) -> list[str]:
    """Return the processes that have this in an argument."""
    found = subprocess.run(["pgrep", "-f", argument], capture_output=True, text=True, check=False)
    return found.stdout.split()


def samples(**growth: float) -> list[Reading]:
    """Half an hour; what is named grows by so much, everything else wavers."""
    steady = {"rss": 200.0, "pss": 150.0, "cpu": 0.0, "descriptors": 40, "threads": 5, "tasks": 60}
    found = []
    for at in range(180):
        waver = (at * 7) % 5
        values = {"objects": 60_000, **steady, "rss": 200.0 + waver, "tasks": 60 + waver}
        for name, amount in growth.items():
            values[name] += amount * at / 180
        if at == 100:
            values["rss"] += 120.0
        found.append(Reading(at=at * 10.0, **values))  # type: ignore[arg-type]  # by name
    return found


@pytest.mark.parametrize(
    ("growth", "leaks"),
    [
        ({}, []),  # one sample is high: that is no growth
        ({"rss": 5.0}, []),
        ({"rss": 9.0}, ["rss"]),
        ({"rss": 7.0, "objects": 500}, []),  # objects explain a part of it
        ({"rss": 20.0, "objects": 6_000}, ["objects"]),  # they explain it, but nothing explains them
        ({"rss": 40.0, "objects": 6_000}, ["rss", "objects"]),
        ({"rss": -50.0, "objects": -30_000}, []),
        ({"descriptors": 8}, ["descriptors"]),
        ({"tasks": 10}, ["tasks"]),
        ({"threads": 3}, []),
    ],
)
def test_growth_beyond_what_objects_explain_is_found(growth: dict[str, float], leaks: list[str]) -> None:
    assert [each.what for each in judge("scheduler", samples(**growth)) if each.is_leak] == leaks


def test_a_new_leader_does_more_and_leaks_nothing() -> None:
    before, after = samples()[:90], samples()[90:]
    later = [replace(each, leads=True, rss=each.rss + 15, tasks=each.tasks + 25) for each in after]
    assert not [each for each in judge("manager", before + later) if each.is_leak]
    late = [replace(each, leads=True, rss=each.rss + 15 + at / 5) for at, each in enumerate(after)]
    assert [each.what for each in judge("manager", before + late) if each.is_leak] == ["rss"]


def hour(readings: dict[str, list[Reading]], replaced: int = 6_000) -> list[str]:
    """Return the problems of a soak of an hour at 1,000 nodes with these readings of its second half."""
    result = SoakResult(1_000, 10_000, 3600.0, ended=1795.0, readings=readings)
    result.counts["pods replaced"] = replaced
    judge_all(result)
    return result.problems


def test_a_soak_in_which_little_happened_proves_nothing() -> None:
    assert not hour({"manager-a": samples()})
    assert hour({"manager-a": samples()}, replaced=5_000) == [
        "churn replaced 5000 of 6000 pods: too few to judge growth"
    ]


@pytest.mark.parametrize(
    ("readings", "problem"),
    [
        ([], "it was not read in the second half"),
        (samples()[:170], "it did not answer in the last 105 s"),
        (samples()[:80] + samples()[120:], "it answered 140 of 179 times"),
    ],
)
def test_soak_proves_nothing_of_an_unresponsive_program(readings: list[Reading], problem: str) -> None:
    assert f"manager-a: {problem}" in hour({"manager-a": readings})


def test_soak_that_judges_little_time_proves_nothing() -> None:
    turned = [replace(each, leads=at >= 120) for at, each in enumerate(samples())]
    assert hour({"manager-a": turned}) == [
        "manager-a: only 9.8 of 30.0 minutes could be judged (a late restart, or a new leader): run longer"
    ]


def test_a_written_soak_shows_the_same_table(tmp_path: Path) -> None:
    result = SoakResult(1_000, 10_000, 3600.0, growth=judge("scheduler", samples()), problems=["one"])
    result.write(tmp_path / "soak.json")
    assert SoakResult.of(json.loads((tmp_path / "soak.json").read_text())).table() == result.table()


def test_too_few_samples_are_not_judged() -> None:
    with pytest.raises(ValueError, match="5 samples are too few"):
        judge("scheduler", samples()[:5])


def test_program_use_at_rest_is_no_event_cost() -> None:
    assert event_cost(30.0, 5.0, 10.0, 5_000) == pytest.approx(0.5)


def test_an_exponent_says_how_a_figure_grows() -> None:
    assert exponent((1_000, 3.0), (5_000, 15.0)) == pytest.approx(1.0)
    assert exponent((1_000, 2.0), (10_000, 200.0)) == pytest.approx(2.0)
    assert exponent((1_000, 0.0), (5_000, 1.0)) is None
