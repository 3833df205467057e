"""The agent's measurement of a CPU beside the service: once in a trial, at any load.

The agent itself would not begin on a busy node. Here it begins all the same: that is the worst it can do.
The cgroups of the child are within the tree, so that other work on the machine takes little from it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from threading import Event, Thread

from corewise.agent.evaluation_run import KernelBench
from corewise.kernel.machine import read_machine
from corewise.vocabulary.findings import Finding
from experiments.latency.arms import ChildPlace
from real_load.kubelet_tree import KubeletTree, small_pod

_PATIENCE = 1.5
_REQUEST = "20m"


class _TreePlace:
    """A cgroup of the tree, for the child."""

    def __init__(self, tree: KubeletTree, place: ChildPlace) -> None:
        self._tree = tree
        if place is ChildPlace.AGENT:
            pod = small_pod("agent", _REQUEST)
            tree.start(pod)
            self._cgroup = tree.container(pod)
        else:
            self._cgroup = tree.beside("evaluation")
            tree.file(self._cgroup, "cpu.idle").write_text("1")

    def take(self, process: int) -> None:
        for directory in self._tree.process_directories(self._cgroup):
            (directory / "cgroup.procs").write_text(str(process))

    def remove(self) -> None:
        """Do nothing: the tree removes it."""


def started_evaluation(place: ChildPlace, tree: KubeletTree) -> Thread:
    """Start a measurement of the last CPU in a thread, and return that."""
    bench = KernelBench(Path("/"), patience=_PATIENCE, place=_TreePlace(tree, place))

    def measure() -> None:
        found = bench.measure(read_machine().host.topology, max(bench.allowed()), Event())
        print(f"#   {found.message if isinstance(found, Finding) else 'measured'}", file=sys.stderr)

    thread = Thread(target=measure)
    thread.start()
    return thread
