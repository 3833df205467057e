"""Two outcomes of the same pods on the same nodes, side by side."""

from __future__ import annotations

from dataclasses import dataclass

from corewise.simulation.planning.planner import Outcome


@dataclass(frozen=True, slots=True)
class Comparison:
    """What differs. ``gained`` pods have a node only in the second outcome, ``lost`` only in the first."""

    gained: tuple[str, ...]
    lost: tuple[str, ...]
    moved: int
    ratios_changed: int

    @property
    def differs(self) -> bool:
        return bool(self.gained or self.lost or self.moved or self.ratios_changed)


def compare(first: Outcome, second: Outcome) -> Comparison:
    """Compare where pods went and which ratios nodes had."""
    both = first.placed.keys() & second.placed.keys()
    return Comparison(
        gained=tuple(sorted(second.placed.keys() - first.placed.keys())),
        lost=tuple(sorted(first.placed.keys() - second.placed.keys())),
        moved=sum(first.placed[pod] != second.placed[pod] for pod in both),
        ratios_changed=sum(second.ratios.get(node) != ratio for node, ratio in first.ratios.items()),
    )
