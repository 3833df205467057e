"""The runs: who is on the node, what each does, and whether one of them is an antagonist. From a seed alone.

Of ten runs six have an antagonist: it spins, streams memory or forks, in as many threads as the node has
CPUs. It begins some seconds after the first look, and in half of the runs it pauses now and then. Of the
four without one, two have innocent neighbors alone, in one the victim's own threads wait for one another,
in one the victim's own quota throttles it.
"""

from __future__ import annotations

import random

import msgspec

KINDS = ("spin", "stream", "fork", "innocent", "own threads", "own quota")
ANTAGONISTS = KINDS[:3]
_TURNS = (
    "spin",
    "stream",
    "fork",
    "spin",
    "stream",
    "fork",
    "innocent",
    "innocent",
    "own threads",
    "own quota",
)
VICTIM, ANTAGONIST = "default/web", "default/batch"


class Load(msgspec.Struct, frozen=True):
    """A pod under a load that varies: CPUs for each thread, milliseconds, and milli-CPU."""

    name: str
    threads: int
    part: float
    period: float
    request: int
    limit: int = 0


class Scenario(msgspec.Struct, frozen=True):
    """One run. ``begins``: seconds until the antagonist does; ``pauses``: seconds on and off, or nothing."""

    seed: int
    kind: str
    cpus: int
    victim: Load
    neighbors: tuple[Load, ...]
    request: int = 0
    begins: float = 0.0
    pauses: tuple[float, float] | None = None

    @property
    def antagonist(self) -> str:
        """The pod to name; empty if there is none."""
        return ANTAGONIST if self.kind in ANTAGONISTS else ""


def _request(part: float) -> int:
    """Return the request of a well-behaved pod in milli-CPU: half more than it uses on average."""
    return round(part * 1500)


def drawn(seed: int, cpus: int) -> Scenario:
    """Return the run of a seed on a node of so many CPUs."""
    draw = random.Random(seed)  # noqa: S311 - a draw, not a secret
    kind = _TURNS[seed % len(_TURNS)]
    request = draw.choice((250, 400)) * cpus
    part, threads, limit = draw.uniform(0.15, 0.4), cpus, 0
    if kind == "own threads":
        threads, part = cpus * draw.randint(3, 6), draw.uniform(0.4, 1.0)
    if kind == "own quota":
        limit = round(threads * part * draw.uniform(0.4, 0.8) * 1000)
        request = min(request, limit)
    victim = Load(VICTIM, threads, part, draw.uniform(5, 40), request, limit)
    number = draw.randint(3, 5)
    total = draw.uniform(0.05, 0.45) * cpus
    weights = [draw.uniform(0.5, 1.5) for _ in range(number)]
    neighbors = tuple(
        Load(f"default/neighbor-{index}", 1, part, draw.uniform(5, 50), _request(part))
        for index, part in enumerate(total * weight / sum(weights) for weight in weights)
    )
    return Scenario(
        seed,
        kind,
        cpus,
        victim,
        neighbors,
        request=draw.choice((100, 200, 300)) * cpus,
        begins=draw.uniform(0, 6),
        pauses=(draw.uniform(3, 8), draw.uniform(1, 4)) if draw.random() < 0.5 else None,
    )
