"""The ten headline figures: why each is one, and how a sample of it is taken.

    python -m tools.bench.headlines engine    # one sample, as JSON

All are costs, CPU time or memory: less is better, and other work on the machine changes them less. A run is
the function ``sample`` of one module here, in a process of its own, since addresses and hash seeds differ
between processes; it may give two figures. It uses this tree's benchmark and the packages that Python finds,
which are another tree's when two are compared (pairs.py): so both sides do the same work.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Headline:
    """A figure: the run that measures it, what it is, and the reason why it is one of the ten."""

    name: str
    run: str
    what: str
    unit: str
    reason: str

    @property
    def profile(self) -> str:
        """The command that shows where the time of a sample goes."""
        return f".venv/bin/python -m cProfile -s cumulative -m tools.bench.headlines {self.run}"


HEADLINES = (
    Headline(
        "decision",
        "engine",
        "filter and score of a pod on 5,000 nodes",
        "µs",
        "each pod that owns CPUs waits for it, and so does each pod of a plan",
    ),
    Headline(
        "interference",
        "interference",
        "the same by memory bandwidth and cache: 20 profiles, every node measured",
        "µs",
        "each pod with a profile waits for it",
    ),
    Headline(
        "extender",
        "handler",
        "a call of `/filter` and one of `/prioritize` with 5,000 names, without HTTP",
        "µs",
        "kube-scheduler waits for both before it takes the next pod",
    ),
    Headline(
        "plan",
        "planner",
        "a pod of `corewise plan` on 5,000 nodes, 10,000 pods",
        "µs",
        "plan and what-if place all pods of a cluster twice",
    ),
    Headline(
        "event",
        "watching",
        "a watch event of a Pod of 10 KB, sent and decoded",
        "µs",
        "at rest, programs do little else",
    ),
    Headline(
        "pod-memory",
        "watching",
        "heap of a cached Pod",
        "bytes",
        "manager and scheduler hold every pod of the cluster",
    ),
    Headline(
        "webhook",
        "policy",
        "a kubelet's write of its Node's status: review read, decided, answered",
        "µs",
        "before Kubernetes 1.36 each node's status passes the webhook every 10 s",
    ),
    Headline(
        "guest",
        "guests",
        "choice of a host among 1,000 for a guest with 8 dedicated CPUs",
        "µs",
        "corewise's own part of scheduling a guest of OpenStack",
    ),
    Headline(
        "agent-cycle",
        "agent",
        "a second of the agent at rest that checks all quotas once: 110 pods of two containers",
        "µs",
        "runs on each node, all the time",
    ),
    Headline(
        "agent-memory",
        "agent",
        "memory of the agent there that no file backs",
        "MiB",
        "counts for the agent's memory limit on each node",
    ),
)


async def sample(run: str) -> dict[str, float]:
    """Return a sample of each figure of a run, by name."""
    taken: dict[str, float] = await importlib.import_module(f"tools.bench.{run}").sample()
    return taken


if __name__ == "__main__":
    json.dump(asyncio.run(sample(sys.argv[1])), sys.stdout)
