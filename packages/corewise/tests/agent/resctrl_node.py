"""A node with offline pods and resctrl, and an agent's controller that limits them."""

from __future__ import annotations

from pathlib import Path

from agent.offline_node import GIB, OfflineNode, batch_container, offline_pod
from corewise.agent.cgroups import NodeCgroups
from corewise.agent.local_node import LocalNode
from corewise.agent.objects import QuotaPod
from corewise.agent.offline_controller import OfflineController
from corewise.agent.publication import Tick
from corewise.config.colocation import OversubscriptionSettings, ResctrlSettings, SuppressionSettings
from corewise.kernel.cgroups.layout import Version
from corewise.kernel.writing.entries import HeldGroup, still_held
from corewise.kernel.writing.journal import MemoryLog
from corewise.suppression.offer import OfflineAmounts
from corewise.vocabulary.names import OVERSUBSCRIPTION
from corewise.vocabulary.offline_report import ResctrlReport
from kernel.resctrl_kernel import ResctrlKernel

ON = ResctrlSettings(enabled=True, cat_start=0, cat_end=30, mba=20)
JOB = offline_pod("job", batch_container("a", limit=1000))
OTHER = offline_pod("other", batch_container("a", limit=1000))


class Scene:
    """A node, its resctrl, and an agent's controller. Task 1 is kubelet's, 2 an online pod's."""

    def __init__(
        self,
        root: Path,
        kernel: ResctrlKernel | None = None,
        version: Version = Version.V2,
        log: MemoryLog | None = None,
    ) -> None:
        self.node = OfflineNode(root, version)
        self.kernel = kernel or ResctrlKernel()
        self.log = log or MemoryLog()
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
        """Return the report that the agent would show on the Node."""
        tick = self.tick()
        assert tick.report is not None
        assert tick.report.resctrl is not None
        return tick.report.resctrl

    def assert_undone(self) -> None:
        assert self.kernel.groups() == set()
        assert self.kernel.inside("") == self.kernel.tasks.keys()
        assert not [each for each in still_held(self.log.entries()) if isinstance(each, HeldGroup)]
