"""Whatever happened before: once all is calm, the group is as configured; restored, it is not there.

A history is any sequence of ticks, changes of settings and label, pods and tasks that come, fork and go (also
while they are moved), groups of others, a group that somebody changes or removes, ways that others have to
themselves, caches that come online and go, resctrl mounted again, refused writes, restarts, and deaths of the
agent between any two writes.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.mortal import Fate, Killed, MortalLog
from agent.resctrl_node import JOB, ON, OTHER, Scene
from corewise.config.colocation import ResctrlSettings
from corewise.kernel.writing.entries import HeldGroup, still_held
from corewise.kernel.writing.resctrl_writer import GROUP, ResctrlWriter
from corewise.suppression.resctrl_limits import parse_schemata
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason
from kernel.resctrl_kernel import ResctrlKernel
from tally import fault, step

PODS = (JOB, OTHER)
FIRST_TASK = 10
SETTINGS = (
    ON,
    ResctrlSettings(enabled=True, cat_start=60, cat_end=100, mba=100),
    ResctrlSettings(enabled=True, cat_start=0, cat_end=100, mba=1),
    ResctrlSettings(),
    None,
)
FOREIGN = ("BE", f"{GROUP}-2", f"..{GROUP}")
CACHE = st.integers(0, 1)
FAULTS = {
    "change": "write by somebody else",
    "vanish": "group removed",
    "mount": "mounted again",
    "refuse": "refused write",
    "restart": "restart",
}
OPERATIONS = st.one_of(
    *[st.tuples(st.just("tick"), st.none())] * 4,
    st.tuples(st.just("settings"), st.sampled_from(SETTINGS)),
    st.tuples(st.just("label"), st.sampled_from(["true", "true", "false"])),
    st.tuples(st.just("pod"), st.sampled_from(PODS)),
    st.tuples(st.just("fork"), st.sampled_from(PODS)),
    st.tuples(st.just("exit"), st.sampled_from(PODS)),
    st.tuples(st.just("meanwhile"), st.sampled_from(["fork", "exit", "vanish"])),
    st.tuples(st.just("foreign"), st.sampled_from(FOREIGN)),
    st.tuples(st.just("change"), st.tuples(CACHE, st.integers(1, (1 << 20) - 1))),
    st.tuples(st.just("taken"), st.tuples(CACHE, st.sampled_from([0, 0xFF, 0xFFF00, 0xFFFFF]))),
    st.tuples(st.just("online"), st.sampled_from([(0, 1), (0,), (0, 1, 2)])),
    st.tuples(st.just("mount"), st.sampled_from([("L3",), ("L3CODE", "L3DATA"), None])),
    st.tuples(st.just("refuse"), st.sampled_from([errno.EINVAL, errno.EBUSY, errno.ENOSPC, errno.EIO])),
    st.tuples(st.just("vanish"), st.none()),
    st.tuples(st.just("restart"), st.none()),
    st.tuples(st.just("die"), st.integers(0, 8)),
)


class MortalKernel(ResctrlKernel):
    """A kernel before and after each write to which the agent may die."""

    def __init__(self, fate: Fate) -> None:
        super().__init__()
        self._fate = fate

    def write(self, cgroup: str, file: str, text: str) -> None:
        self._fate.strike()
        super().write(cgroup, file, text)
        self._fate.strike()

    def move(self, group: str, tasks: Iterable[int]) -> int:
        self._fate.strike()
        return super().move(group, tasks)


class History:
    """One node through its life. A task of ``running`` is a thread of that pod."""

    def __init__(self, root: Path) -> None:
        self.fate = Fate()
        self.kernel = MortalKernel(self.fate)
        self.scene = Scene(root, self.kernel, log=MortalLog(self.fate))
        self.running: dict[str, list[int]] = {}
        self.foreign: set[str] = set()
        self.next_task = FIRST_TASK
        self.run("pod", JOB)

    def run(self, operation: str, value: Any) -> None:
        step(FAULTS.get(operation))
        try:
            getattr(self, f"on_{operation}")(value)
        except Killed:
            fault("death")
            self.fate.left = None
            self.scene.restart()

    def on_tick(self, _value: None) -> None:
        self.scene.tick()

    def on_settings(self, wanted: ResctrlSettings | None) -> None:
        self.scene.settings = wanted

    def on_label(self, text: str) -> None:
        self.scene.label = text

    def on_pod(self, pod: Any) -> None:
        """A pod starts with a task, or ends with all of them."""
        if pod.name in self.running:
            for task in self.running[pod.name]:
                del self.kernel.tasks[task]
            self._run_in(pod, [])
            del self.running[pod.name]
            self.scene.pods.remove(pod)
            return
        self.scene.start(pod)
        self.running[pod.name] = []
        self._add(pod, "")

    def on_fork(self, pod: Any) -> None:
        tasks = self.running.get(pod.name)
        if tasks:
            self._add(pod, self.kernel.tasks[tasks[0]])

    def on_exit(self, pod: Any) -> None:
        tasks = self.running.get(pod.name)
        if tasks:
            del self.kernel.tasks[tasks.pop()]
            self._run_in(pod, tasks)

    def on_meanwhile(self, operation: str) -> None:
        """Do something just before the next task is moved, once."""

        def strike(_task: int) -> None:
            self.kernel.before_move = lambda _task: None
            getattr(self, f"on_{operation}")(JOB)

        self.kernel.before_move = strike

    def on_foreign(self, group: str) -> None:
        if group in self.foreign:
            self.kernel.remove(group)
        elif self.kernel.absent is None:
            self.kernel.schemata[group] = {"L3": {}}
        self.foreign = set(self.kernel.groups() - {GROUP})

    def on_change(self, value: tuple[int, int]) -> None:
        """Somebody else writes our group's schemata within what the kernel allows."""
        cache, mask = value
        for resource in self.kernel.schemata.get(GROUP, {}):
            if resource != "MB" and cache in self.kernel.domains:
                self.kernel.schemata[GROUP][resource][cache] = mask & -mask

    def on_vanish(self, _value: object) -> None:
        self.kernel.remove(GROUP)

    def on_taken(self, value: tuple[int, int]) -> None:
        """Others get ways to themselves: the kernel allows those that our group does not use."""
        cache, ways = value
        ours = self.kernel.schemata.get(GROUP, {})
        if not any(masks.get(cache, 0) & ways for resource, masks in ours.items() if resource != "MB"):
            self.kernel.taken[cache] = ways

    def on_online(self, caches: tuple[int, ...]) -> None:
        """Caches come online and go; a group's schemata have those that are there."""
        self.kernel.domains = caches
        for resource, values in self.kernel.schemata.get(GROUP, {}).items():
            new = {cache: 100 if resource == "MB" else self.kernel.free(cache) for cache in caches}
            self.kernel.schemata[GROUP][resource] = {cache: values.get(cache, new[cache]) for cache in caches}

    def on_mount(self, kinds: tuple[str, ...] | None) -> None:
        """Somebody unmounts resctrl, with which all groups go, and mounts it maybe another way."""
        for group in self.kernel.groups():
            self.kernel.remove(group)
        self.foreign.clear()
        self.kernel.absent = None if kinds else Finding(Reason.RESCTRL_NOT_MOUNTED, "sys/fs/resctrl is empty")
        self.kernel.caches = kinds or ("L3",)

    def on_refuse(self, code: int) -> None:
        self.kernel.failing.append(code)

    def on_restart(self, _value: None) -> None:
        self.scene.restart()

    def on_die(self, points: int) -> None:
        self.fate.left = points

    def calm(self) -> None:
        self.fate.left = None
        self.kernel.failing.clear()
        self.kernel.before_move = lambda _task: None

    def _add(self, pod: Any, group: str) -> None:
        self.kernel.tasks[self.next_task] = group
        self.running[pod.name].append(self.next_task)
        self.next_task += 1
        self._run_in(pod, self.running[pod.name])

    def _run_in(self, pod: Any, tasks: list[int]) -> None:
        self.scene.run_in(self.scene.node.machine.cgroup(pod, "a"), *tasks)


@given(operations=st.lists(OPERATIONS, max_size=30))
@settings(deadline=None, max_examples=60)
def test_calm_converges_and_restore_leaves_nothing(
    tmp_path_factory: pytest.TempPathFactory, operations: list[tuple[str, Any]]
) -> None:
    history = History(tmp_path_factory.mktemp("node"))
    kernel, scene = history.kernel, history.scene
    for operation, value in operations:
        history.run(operation, value)
    history.calm()
    for _ in range(2):
        scene.tick()
    settled = len(list(scene.log.entries()))
    tick = scene.tick()
    assert len(list(scene.log.entries())) == settled, "a calm node is written to, or fills the journal"
    report = tick.report.resctrl if tick.report else None
    if GROUP in kernel.groups() and report is not None:
        assert kernel.inside(GROUP) == {task for tasks in history.running.values() for task in tasks}
        shown = parse_schemata(kernel.read(GROUP, "schemata"))
        for resource, values in parse_schemata("\n".join(report.schemata.split())).items():
            assert shown[resource].items() >= values.items()
    elif scene.settings is not None:
        assert not {task for task, group in kernel.tasks.items() if group == GROUP}
        assert (report is None) == (scene.label == "false" or not scene.settings.enabled)
    assert kernel.groups() - {GROUP} == history.foreign
    for _ in range(2):
        assert ResctrlWriter(kernel, scene.log, now=lambda: 1.0).restore().failed == {}
    assert kernel.groups() == history.foreign
    assert not [each for each in still_held(scene.log.entries()) if isinstance(each, HeldGroup)]
