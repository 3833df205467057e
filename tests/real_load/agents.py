"""The agent's own code, holding back the offline pods of a real node; in its loop is nothing of a test's.

The journal of writes is a real one, in a directory of its own. ``root`` is where the machine's load is read
(proc/stat, proc/meminfo); cgroups are this machine's. Leaving it puts everything back as kubelet made it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from corewise.agent.cgroups import NodeCgroups
from corewise.agent.local_node import LocalNode
from corewise.agent.objects import QuotaPod
from corewise.agent.offline_controller import OfflineController
from corewise.agent.publication import Tick
from corewise.agent.sampler import Sampler, Samples
from corewise.config.colocation import OversubscriptionSettings, SuppressionMode, SuppressionSettings
from corewise.kernel.host_files import read_boot_id
from corewise.kernel.writing.journal import Journal
from corewise.quantities import Seconds
from corewise.suppression.offer import OfflineAmounts
from corewise.vocabulary.names import NORMALIZATION_RATIO, OVERSUBSCRIPTION
from experiments.suppression_proof.holders import Held
from real_load.kubelet_tree import KubeletTree

_HERE = Path("/")
_MEMORY = 8 << 30


OPTION_1 = SuppressionSettings()
"""The defaults: one quota for all offline pods."""

OPTION_2 = SuppressionSettings(mode=SuppressionMode.PER_POD_QUOTA)
"""The defaults with a quota for each offline pod."""

EACH_SECOND = OversubscriptionSettings(interval=Seconds(1))


def _nothing() -> None:
    """Do nothing."""


class Agent:
    """An agent on a real node of so many milli-CPU."""

    def __init__(
        self,
        tree: KubeletTree,
        pods: Sequence[QuotaPod],
        milli: int,
        directory: Path,
        *,
        suppression: SuppressionSettings = OPTION_1,
        root: Path = _HERE,
        samples: Callable[[Path, NodeCgroups], Samples] = Sampler,
    ) -> None:
        self._tree = tree
        self._pods = pods
        self._exit = ExitStack()
        log = self._exit.enter_context(Journal.open(directory, boot=read_boot_id(_HERE), now=time.time))
        self.cgroups = NodeCgroups(_HERE, tree.root, log, now=time.time)
        self._exit.callback(self.cgroups.close)
        self.local = LocalNode("n1", root, self.cgroups)
        self.controller = OfflineController(self.local, root, samples=samples(root, self.cgroups))
        self.set(suppression)
        self._allocatable = OfflineAmounts(milli, _MEMORY)
        self.label("true")
        self.ticks: list[Tick] = []
        self.before_tick: Callable[[], None] = _nothing

    def set(self, suppression: SuppressionSettings) -> None:
        """Configure suppression."""
        self.controller.configure(EACH_SECOND, suppression)

    def label(self, text: str | None) -> None:
        """Label the Node as somebody switches oversubscription."""
        labels = {} if text is None else {OVERSUBSCRIPTION: text}
        self.controller.observe(labels, self._allocatable, self.local.ratio)

    def normalize(self, ratio: str | None) -> None:
        """Annotate the Node with a ratio, or not, and divide the quotas of its pods by it."""
        self.local.see({} if ratio is None else {NORMALIZATION_RATIO: ratio})
        self.label(None)
        cycle = self.local.cycle(self._pods)
        assert cycle.problems == {}, cycle.problems

    def tick(self, now: float) -> Held:
        """Do what an interval asks for, and say what offline pods have now."""
        self.before_tick()
        tick = self.controller.tick(now, time.time(), self._pods)
        self.ticks.append(tick)
        holds = tick.report.suppression if tick.report else None
        if holds is None:
            return Held()
        if holds.mode == SuppressionMode.PER_POD_QUOTA:
            return Held(self._pods_together())
        return Held(holds.quota_milli, holds.target_milli)

    def _pods_together(self) -> int:
        """Return the sum of the quotas of all offline pods, in milli-CPU."""
        cgroups = self._tree.files.children(self._tree.best_effort)
        return sum(self._tree.milli(cgroup) or 0 for cgroup in cgroups)

    @property
    def writes(self) -> int:
        """The number of files it has written."""
        return sum(len(tick.written) for tick in self.ticks)

    def restore(self) -> None:
        """Put everything back."""
        found = self.cgroups.find()
        found.writer.restore()
        found.settings.restore()

    def stop(self) -> None:
        """End as a killed process does: nothing is put back."""
        self._exit.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.restore()
        self.stop()
