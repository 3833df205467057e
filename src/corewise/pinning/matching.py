"""An assignment of guests' NUMA nodes to hosts': each of the former to one of the latter, none used twice.

Of all assignments the first in the order of preference: the first node gets the best place it can have while
all others get one, then the second, and so on. Whether there is any is decided by augmenting paths
(H. W. Kuhn, "The Hungarian method for the assignment problem"), so 8 nodes on 16 places take some hundred
looks at a pair, and never their permutations.
"""

from __future__ import annotations

from collections.abc import Callable

Fits = Callable[[int, int], bool]
"""Whether a node fits a place."""


def assign(nodes: int, places: int, fits: Fits) -> list[int] | None:
    """Return the place of each node; None if there is no way. Places are given in the order of preference."""
    matching = _Matching(nodes, places, fits)
    if not all(matching.augment(node, set(), 0) for node in range(nodes)):
        return None
    for node in range(nodes):
        matching.improve(node)
    return matching.place_of


class _Matching:
    """Nodes at places; -1 is none."""

    def __init__(self, nodes: int, places: int, fits: Fits) -> None:
        self.place_of = [-1] * nodes
        self._node_at = [-1] * places
        self._fits = fits

    def augment(self, node: int, seen: set[int], settled: int) -> bool:
        """Find a place for a node, moving others along if need be, but none of the first ``settled``."""
        for place, holder in enumerate(self._node_at):
            if place in seen or 0 <= holder < settled or not self._fits(node, place):
                continue
            seen.add(place)
            if holder < 0 or self.augment(holder, seen, settled):
                self._put(node, place)
                return True
        return False

    def improve(self, node: int) -> None:
        """Move a node to the first place that leaves one for all later nodes; earlier ones stay."""
        current = self.place_of[node]
        for place in range(current):
            holder = self._node_at[place]
            if 0 <= holder < node or not self._fits(node, place):
                continue
            self._node_at[current] = -1
            if holder < 0 or self.augment(holder, {place}, node + 1):
                self._put(node, place)
                return
            self._node_at[current] = node

    def _put(self, node: int, place: int) -> None:
        self.place_of[node], self._node_at[place] = place, node
