"""The agent's measurement of a CPU beside the service: once in a trial, at any load.

The agent itself would not begin on a busy node. Here it begins all the same: that is the worst it can do.
It runs in a process of its own, in the cgroup of a pod that requests as much as an agent's. The cgroups are
within the tree, so that other work on the machine takes little from it.

``python -m experiments.latency.evaluating [DIRECTORY...]`` is that process: it measures when it is told to,
with its child in the cgroup of these directories, or in its own.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event

from corewise.agent.evaluation_run import KernelBench
from corewise.kernel.machine import read_machine
from corewise.vocabulary.findings import Finding
from experiments.latency.arms import ChildPlace
from real_load.kubelet_tree import KubeletTree, small_pod

_PATIENCE = 1.5
_REQUEST = "20m"
_READY = "ready"


class _TreePlace:
    """A cgroup of the tree, for the child."""

    def __init__(self, directories: Sequence[str]) -> None:
        self._directories = directories

    def take(self, process: int) -> None:
        for directory in self._directories:
            Path(directory, "cgroup.procs").write_text(str(process))

    def remove(self) -> None:
        """Do nothing: the tree removes it."""


class WaitingAgent:
    """An agent that is ready to measure the last CPU."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        if self._answer() != _READY:
            raise SystemExit("the agent did not begin; its message is above")

    def begin(self) -> None:
        """Have it measure."""
        print(file=self._process.stdin, flush=True)

    def wait(self) -> None:
        """Wait until it has, and print what came of it."""
        print(f"#   {self._answer()}", file=sys.stderr)

    def _answer(self) -> str:
        return self._process.stdout.readline().strip() if self._process.stdout else ""


@contextmanager
def waiting_agent(place: ChildPlace, tree: KubeletTree) -> Iterator[WaitingAgent]:
    """Start an agent, and end it."""
    pod = small_pod("agent", _REQUEST)
    tree.start(pod)
    directories: Sequence[Path] = ()
    if place is ChildPlace.IDLE:
        idle = tree.beside("evaluation")
        tree.file(idle, "cpu.idle").write_text("1")
        directories = tree.process_directories(idle)
    with subprocess.Popen(
        [sys.executable, "-m", __name__, *map(str, directories)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            _TreePlace([*map(str, tree.process_directories(tree.container(pod)))]).take(process.pid)
            yield WaitingAgent(process)
        finally:
            process.kill()


def main(directories: Sequence[str]) -> None:
    """Wait for an order, and measure."""
    bench = KernelBench(Path("/"), patience=_PATIENCE, place=_TreePlace(directories))
    print(_READY, flush=True)
    if sys.stdin.readline():
        found = bench.measure(read_machine().host.topology, max(bench.allowed()), Event())
        print(found.message if isinstance(found, Finding) else "measured", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
