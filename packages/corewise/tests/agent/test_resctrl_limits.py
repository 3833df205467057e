"""The resctrl group of offline pods on one node, against a kernel that refuses what a real one does.

| when | what happens |
|---|---|
| switched on, an offline pod runs | a group with both limits; all threads of the pod are in it |
| a task forks while it is moved | its children are found in the next round |
| a pod starts, a task leaves its pod | moved in, moved out, at the next tick |
| somebody changes the schemata | put right |
| switched off, label gone, agent stopped, `agent restore` | no group; tasks are in the root group |
| kill -9 at any point | the next agent goes on, or removes the group |
| no resctrl, no CAT, no MBA, mba_MBps, others' groups, no CLOSID, read-only, hidden PIDs | nothing, and why |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from agent.fake_node import container, pod
from agent.mortal import Killed
from agent.resctrl_node import JOB, ON, OTHER, Scene
from corewise.config.colocation import ResctrlSettings
from corewise.kernel.cgroups.layout import Version
from corewise.kernel.writing.entries import HeldGroup, still_held
from corewise.kernel.writing.journal import MemoryLog
from corewise.kernel.writing.journaled_writer import Point
from corewise.kernel.writing.resctrl_writer import DIRECTORY, GROUP, MADE, ResctrlWriter
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.names import QOS_CLASS
from corewise.vocabulary.offline_report import decode
from corewise.vocabulary.reasons import Reason
from kernel.resctrl_kernel import ResctrlKernel

LIMITS = {"L3": {0: 0x3F, 1: 0x3F}, "MB": {0: 20, 1: 20}}


@pytest.mark.parametrize("version", Version)
def test_threads_of_offline_pods_alone_are_limited(tmp_path: Path, version: Version) -> None:
    scene = Scene(tmp_path, version=version)
    scene.start(JOB, 10, 11)
    scene.run_in(scene.node.machine.cgroup(JOB, "a") + "/nested", 12)
    scene.kernel.tasks[12] = ""
    scene.tick()
    assert scene.kernel.schemata[GROUP] == LIMITS
    assert scene.kernel.inside(GROUP) == {10, 11, 12}
    assert scene.report.reason == Reason.RESCTRL_LIMITED
    assert scene.report.schemata == "L3:0=3f;1=3f MB:0=20;1=20"
    assert scene.report.tasks == 3
    writes = scene.kernel.writes
    scene.tick()
    assert scene.kernel.writes == writes
    scene.start(OTHER, 20)
    scene.run_in(scene.node.machine.cgroup(JOB, "a"), 10)
    scene.tick()
    assert scene.kernel.inside(GROUP) == {10, 12, 20}


def test_offline_pod_with_kubelet_limits_is_limited_too(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.start(pod("native", container("a", "2"), labels={QOS_CLASS: "BE"}), 10)
    scene.tick()
    assert scene.kernel.inside(GROUP) == {10}


def test_threads_forked_during_the_move_are_found(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    cgroup = scene.node.machine.cgroup(JOB, "a")
    scene.start(JOB, 10)

    def fork(task: int) -> None:
        if task in {10, 11, 12}:
            scene.kernel.fork(task, task + 1)
        if task == 11:
            del scene.kernel.tasks[task]
        scene.run_in(cgroup, *sorted(scene.kernel.tasks.keys() - {1, 2}))

    scene.kernel.before_move = fork
    scene.tick()
    assert scene.kernel.inside(GROUP) == {10, 12, 13}


def test_schemata_that_somebody_changed_are_put_right(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.start(JOB, 10)
    scene.tick()
    scene.kernel.schemata[GROUP]["L3"][1] = 0xFFFFF
    scene.tick()
    assert scene.kernel.schemata[GROUP] == LIMITS
    scene.settings = replace(ON, mba=100)
    scene.tick()
    assert scene.kernel.schemata[GROUP]["MB"] == {0: 100, 1: 100}


def test_group_whose_offer_is_unknown_is_recreated(tmp_path: Path) -> None:
    """A percentage is one of what the kernel offered, not of what the agent before has set."""
    scene = Scene(tmp_path)
    scene.start(JOB, 10)
    scene.tick()
    scene.log, scene.settings = MemoryLog(), replace(ON, mba=50)
    scene.restart()
    assert scene.kernel.schemata[GROUP]["MB"] == {0: 50, 1: 50}
    assert scene.kernel.inside(GROUP) == {10}


ENDINGS: dict[str, Callable[[Scene], object]] = {
    "switched off": lambda scene: setattr(scene, "settings", ResctrlSettings()),
    "label gone": lambda scene: setattr(scene, "label", "false"),
    "stopped": lambda scene: scene.controller.stop(),
    "another program comes": lambda scene: scene.kernel.write("BE", DIRECTORY, MADE),
}


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("ending", ENDINGS)
def test_every_end_removes_the_group(tmp_path: Path, ending: str, restarted: bool) -> None:
    scene = Scene(tmp_path)
    scene.start(JOB, 10)
    scene.tick()
    if restarted:
        scene.restart()
    ENDINGS[ending](scene)
    if ending != "stopped":
        scene.tick()
    scene.kernel.schemata.pop("BE", None)
    scene.assert_undone()


def test_unknown_settings_change_nothing(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.start(JOB, 10)
    scene.settings = None
    scene.tick()
    assert not scene.kernel.groups()
    scene.settings = ON
    scene.tick()
    scene.settings = None
    scene.tick()
    assert scene.kernel.schemata[GROUP] == LIMITS


def tick_and_die(scene: Scene, deadly: int) -> bool:
    """Let the agent die at a point of its next tick; return whether there are so many."""
    points = iter(range(100))

    def die(_point: Point, _cgroup: str) -> None:
        if next(points) == deadly:
            raise Killed

    found = scene.local.cgroups.find()
    mortal = ResctrlWriter(scene.kernel, scene.log, now=lambda: 1.0, at=die)
    object.__setattr__(found, "resctrl", mortal)
    try:
        scene.tick()
    except Killed:
        return True
    return False


@pytest.mark.parametrize("goes_on", [True, False])
@pytest.mark.parametrize("deadly", range(9))
def test_kill_at_any_point_is_continued_or_undone(
    tmp_path: Path,
    deadly: int,
    goes_on: bool,
) -> None:
    scene = Scene(tmp_path)
    scene.start(JOB, 10)
    assert tick_and_die(scene, deadly) or deadly == 8, "the agent must die at this point"
    scene.restart()
    if goes_on:
        assert scene.kernel.schemata[GROUP] == LIMITS
        assert scene.kernel.inside(GROUP) == {10}
    else:
        assert ResctrlWriter(scene.kernel, scene.log, now=lambda: 1.0).restore().failed == {}
        scene.assert_undone()


def test_no_kill_makes_an_old_offer_count(tmp_path: Path) -> None:
    """Resctrl is mounted again, another way, and the agent dies while it makes its group again."""
    for deadly in count():
        scene = Scene(tmp_path / str(deadly))
        scene.start(JOB, 10)
        scene.tick()
        scene.kernel.remove(GROUP)
        scene.kernel.bandwidth = (2000, 1, 1)
        died = tick_and_die(scene, deadly)
        scene.restart()
        scene.tick()
        assert scene.kernel.schemata[GROUP]["MB"] == {0: 400, 1: 400}
        if not died:
            break
    assert deadly > 5


def test_each_cache_has_its_own_free_ways(tmp_path: Path) -> None:
    """Where none of the range is free, that cache is left as it is, and written once at most."""
    kernel = ResctrlKernel()
    kernel.taken = {0: 0xFF, 1: 0x3}
    scene = Scene(tmp_path, kernel)
    scene.start(JOB, 10)
    scene.tick()
    assert kernel.schemata[GROUP]["L3"] == {0: 0xFFF00, 1: 0x3C}
    kernel.schemata[GROUP]["L3"][0] = 0x100
    scene.tick()
    assert kernel.schemata[GROUP]["L3"] == {0: 0xFFF00, 1: 0x3C}
    writes = kernel.writes
    assert scene.report.reason == Reason.RESCTRL_CACHE_TAKEN
    assert "L3 of cache 0 is not limited" in scene.report.why
    assert kernel.writes == writes


def test_a_group_that_vanishes_while_removed_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(tmp_path)
    scene.start(JOB, 10)
    scene.tick()

    groups = scene.kernel.groups()
    scene.kernel.remove(GROUP)
    monkeypatch.setattr(scene.kernel, "groups", lambda: groups)
    assert ResctrlWriter(scene.kernel, scene.log, now=lambda: 1.0).restore().failed == {}
    assert not [each for each in still_held(scene.log.entries()) if isinstance(each, HeldGroup)]


def test_a_group_out_of_sight_stays_journaled(tmp_path: Path) -> None:
    """As for an agent that the chart no longer gives resctrl, after a kill of the one before."""
    scene = Scene(tmp_path)
    scene.start(JOB, 10)
    scene.tick()
    kernel, scene.kernel = scene.kernel, ResctrlKernel()
    scene.kernel.absent = Finding(Reason.RESCTRL_UNSUPPORTED, "there is no sys/fs/resctrl")
    scene.restart()
    assert any("corewise agent restore on the node" in each for each in scene.tick().problems.values())
    blind = ResctrlWriter(scene.kernel, scene.log, now=lambda: 1.0).restore()
    assert list(blind.failed) == ["sys/fs/resctrl"]
    scene.kernel = kernel
    assert ResctrlWriter(kernel, scene.log, now=lambda: 1.0).restore().failed == {}
    scene.assert_undone()


@pytest.mark.parametrize("name", ["\udcff\udcfe", "a\nb", "\x1b[2J", f"{GROUP}-2", f"../{GROUP}", "g" * 255])
def test_a_foreign_group_of_any_name_is_reported(tmp_path: Path, name: str) -> None:
    scene = Scene(tmp_path)
    scene.start(JOB, 10)
    scene.tick()
    scene.kernel.schemata[name] = {}
    scene.tick()
    assert scene.kernel.groups() == {name}
    tick = scene.tick()
    assert tick.report is not None
    assert scene.report.reason == Reason.RESCTRL_FOREIGN_GROUPS
    assert scene.report.why.isprintable()
    assert decode(tick.report.encode()) == tick.report


LINES = {
    "no value": "L3:0",
    "empty": "L3:\nMB:",
    "no number": "MB:0=lots;1=20",
    "long": "L3:" + ";".join(f"{each}=x" for each in range(100_000)),
    "many digits": f"MB:0={'9' * 5000}",
    "neither": "ok",
}


@pytest.mark.parametrize("text", LINES.values(), ids=LINES)
def test_strange_schemata_limit_nothing_and_are_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    scene = Scene(tmp_path)
    scene.start(JOB, 10)
    monkeypatch.setattr(scene.kernel, "read", lambda _group, _file: text)
    scene.tick()
    assert scene.report.reason in {Reason.RESCTRL_REFUSED, Reason.RESCTRL_CAT_MISSING}
    assert len(scene.report.why) < 200
    assert scene.kernel.inside("") == scene.kernel.tasks.keys()
    assert ResctrlWriter(scene.kernel, scene.log, now=lambda: 1.0).restore().failed == {}
    scene.assert_undone()


def test_a_pod_of_twenty_thousand_threads_is_moved(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.start(JOB, *range(10, 20_010))
    scene.tick()
    assert scene.kernel.inside(GROUP) == set(range(10, 20_010))
    assert scene.report.tasks == 20_000


def absent(kernel: ResctrlKernel) -> None:
    kernel.absent = Finding(Reason.RESCTRL_UNSUPPORTED, "there is no sys/fs/resctrl")


def groups_of_others(kernel: ResctrlKernel) -> None:
    kernel.write("BE", DIRECTORY, MADE)


def taken(kernel: ResctrlKernel) -> None:
    kernel.usable = 0


def read_only(kernel: ResctrlKernel) -> None:
    kernel.read_only = True


NO_MAXIMUM = (1 << 32) - 1
REFUSALS: dict[str, tuple[ResctrlKernel, Callable[[ResctrlKernel], None], Reason, str]] = {
    "no resctrl": (ResctrlKernel(), absent, Reason.RESCTRL_UNSUPPORTED, "there is no"),
    "others": (ResctrlKernel(), groups_of_others, Reason.RESCTRL_FOREIGN_GROUPS, "groups: BE"),
    "nothing": (
        ResctrlKernel(caches=(), bandwidth=None),
        lambda _: None,
        Reason.RESCTRL_CAT_MISSING,
        "not limited",
    ),
    "no CLOSID": (ResctrlKernel(closids=1), lambda _: None, Reason.RESCTRL_CLOSIDS_USED, "Out of CLOSIDs"),
    "taken": (ResctrlKernel(), taken, Reason.RESCTRL_CACHE_TAKEN, "No space on L3:0"),
    "read-only": (ResctrlKernel(), read_only, Reason.RESCTRL_READ_ONLY, "EROFS"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_nothing_limitable_means_no_group_and_reported_reason(tmp_path: Path, case: str) -> None:
    kernel, spoil, reason, words = REFUSALS[case]
    spoil(kernel)
    before = kernel.groups()
    scene = Scene(tmp_path, kernel)
    scene.start(JOB, 10)
    tick = scene.tick()
    assert scene.report.reason == reason
    assert words in scene.report.why
    assert reason.fix in tick.problems["resctrl"]
    assert kernel.groups() == before
    assert kernel.inside("") == kernel.tasks.keys()
    entries = len(list(scene.log.entries()))
    scene.tick()
    assert len(list(scene.log.entries())) == entries, "the same failure fills the journal"


@pytest.mark.parametrize(
    ("kernel", "reason", "limited"),
    [
        (ResctrlKernel(caches=()), Reason.RESCTRL_CAT_MISSING, {"MB"}),
        (ResctrlKernel(bandwidth=None), Reason.RESCTRL_MBA_MISSING, {"L3"}),
        (ResctrlKernel(bandwidth=(NO_MAXIMUM, 1, 1)), Reason.RESCTRL_MBPS, {"L3"}),
    ],
)
def test_limitable_part_is_limited_and_the_rest_reported(
    tmp_path: Path, kernel: ResctrlKernel, reason: Reason, limited: set[str]
) -> None:
    scene = Scene(tmp_path, kernel)
    scene.start(JOB, 10)
    scene.tick()
    assert scene.report.reason == reason
    assert kernel.inside(GROUP) == {10}
    assert {each.partition(":")[0] for each in scene.report.schemata.split()} == limited


def test_tasks_hidden_from_the_agent_are_refused_explicitly(tmp_path: Path) -> None:
    """Outside of the node's PID namespace the kernel shows each task as 0."""
    scene = Scene(tmp_path)
    scene.start(JOB, 0)
    scene.tick()
    assert scene.report.reason == Reason.RESCTRL_TASKS_HIDDEN
    assert not scene.kernel.groups()
