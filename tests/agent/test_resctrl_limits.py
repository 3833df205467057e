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
from pathlib import Path

import pytest

from agent.fake_node import container, pod
from agent.offline_node import GIB, OfflineNode, batch_container, offline_pod
from corewise.agent.cgroups import NodeCgroups
from corewise.agent.local_node import LocalNode
from corewise.agent.objects import QuotaPod
from corewise.agent.offline_controller import OfflineController, Tick
from corewise.config.colocation import OversubscriptionSettings, ResctrlSettings, SuppressionSettings
from corewise.kernel.cgroups.layout import Version
from corewise.kernel.host_files import Absent
from corewise.kernel.writing.entries import HeldGroup, still_held
from corewise.kernel.writing.journal import MemoryLog
from corewise.kernel.writing.journaled_writer import Point
from corewise.kernel.writing.resctrl_writer import DIRECTORY, GROUP, MADE, ResctrlWriter
from corewise.suppression.offer import OfflineAmounts
from corewise.vocabulary.names import OVERSUBSCRIPTION, QOS_CLASS
from corewise.vocabulary.offline_report import ResctrlReport
from corewise.vocabulary.reasons import Reason
from kernel.resctrl_kernel import ResctrlKernel

ON = ResctrlSettings(enabled=True, cat_start=0, cat_end=30, mba=20)
JOB = offline_pod("job", batch_container("a", limit=1000))
OTHER = offline_pod("other", batch_container("a", limit=1000))
LIMITS = {"L3": {0: 0x3F, 1: 0x3F}, "MB": {0: 20, 1: 20}}


class Scene:
    """A node, its resctrl, and an agent's controller. Task 1 is kubelet's, 2 an online pod's."""

    def __init__(
        self, root: Path, kernel: ResctrlKernel | None = None, version: Version = Version.V2
    ) -> None:
        self.node = OfflineNode(root, version)
        self.kernel = kernel or ResctrlKernel()
        self.log = MemoryLog()
        self.pods: list[QuotaPod] = []
        self.settings: ResctrlSettings | None = None
        self.label = "true"
        self.kernel.tasks |= {1: "", 2: ""}
        self.restart()
        self.settings = ON

    def restart(self) -> None:
        cgroups = NodeCgroups(self.node.root, "/", self.log, now=lambda: 1.0, groups=self.kernel)
        self.local = LocalNode("n1", self.node.root, cgroups)
        self.controller = OfflineController(self.local, self.node.root)
        self.tick(0)

    def start(self, started: QuotaPod, *tasks: int) -> None:
        self.node.start(started)
        self.run_in(self.node.machine.cgroup(started))
        self.pods.append(started)
        self.kernel.tasks |= dict.fromkeys(tasks, "")
        self.run_in(self.node.machine.cgroup(started, "a"), *tasks)

    def run_in(self, cgroup: str, *tasks: int) -> None:
        file = "cgroup.threads" if self.node.machine.version is Version.V2 else "tasks"
        path = self.node.path("cpu", cgroup, file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{task}\n" for task in tasks))

    def tick(self, seconds: float = 10) -> Tick:
        self.local.see({})
        self.controller.configure(
            OversubscriptionSettings(), SuppressionSettings(enabled=False), self.settings
        )
        self.controller.observe(
            {OVERSUBSCRIPTION: self.label}, OfflineAmounts(16000, 60 * GIB), self.local.ratio
        )
        return self.controller.tick(now := self.node.pass_time(seconds), now, self.pods)

    @property
    def report(self) -> ResctrlReport:
        """What the agent would show on the Node."""
        tick = self.tick()
        assert tick.report is not None
        assert tick.report.resctrl is not None
        return tick.report.resctrl

    def assert_undone(self) -> None:
        assert self.kernel.groups() == set()
        assert self.kernel.inside("") == self.kernel.tasks.keys()
        assert not [each for each in still_held(self.log.entries()) if isinstance(each, HeldGroup)]


@pytest.mark.parametrize("version", Version)
def test_threads_of_offline_pods_are_limited_and_no_others(tmp_path: Path, version: Version) -> None:
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


def test_an_offline_pod_with_limits_of_kubelets_own_is_limited_too(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.start(pod("native", container("a", "2"), labels={QOS_CLASS: "BE"}), 10)
    scene.tick()
    assert scene.kernel.inside(GROUP) == {10}


def test_what_a_task_forks_while_it_is_moved_is_found(tmp_path: Path) -> None:
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


def test_a_group_whose_offer_nobody_knows_any_more_is_made_anew(tmp_path: Path) -> None:
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


class Killed(BaseException):
    """Stands for kill -9."""


@pytest.mark.parametrize("goes_on", [True, False])
@pytest.mark.parametrize("deadly", range(9))
def test_after_a_kill_at_any_point_the_next_agent_goes_on_or_undoes(
    tmp_path: Path,
    deadly: int,
    goes_on: bool,
) -> None:
    scene = Scene(tmp_path)
    scene.start(JOB, 10)
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
        pass
    else:
        assert deadly == 8, "the agent must die at this point"
    scene.restart()
    if goes_on:
        assert scene.kernel.schemata[GROUP] == LIMITS
        assert scene.kernel.inside(GROUP) == {10}
    else:
        assert ResctrlWriter(scene.kernel, scene.log, now=lambda: 1.0).restore().failed == {}
        scene.assert_undone()


def absent(kernel: ResctrlKernel) -> None:
    kernel.absent = Absent(Reason.RESCTRL_UNSUPPORTED, "there is no sys/fs/resctrl")


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
def test_where_nothing_can_be_limited_there_is_no_group_and_the_report_says_why(
    tmp_path: Path, case: str
) -> None:
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
def test_the_part_that_can_be_limited_is_and_the_report_says_what_is_not(
    tmp_path: Path, kernel: ResctrlKernel, reason: Reason, limited: set[str]
) -> None:
    scene = Scene(tmp_path, kernel)
    scene.start(JOB, 10)
    scene.tick()
    assert scene.report.reason == reason
    assert kernel.inside(GROUP) == {10}
    assert {each.partition(":")[0] for each in scene.report.schemata.split()} == limited


def test_tasks_that_the_agent_cannot_see_are_refused_in_words(tmp_path: Path) -> None:
    """Outside of the node's PID namespace the kernel shows each task as 0."""
    scene = Scene(tmp_path)
    scene.start(JOB, 0)
    scene.tick()
    assert scene.report.reason == Reason.RESCTRL_TASKS_HIDDEN
    assert not scene.kernel.groups()
