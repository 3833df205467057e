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
    place_of: list[int] = [-1] * nodes
    node_at: list[int] = [-1] * places
    for node in range(nodes):
        if not _augment(node, fits, place_of, node_at, set(), 0):
            return None
    for node in range(nodes):
        _improve(node, fits, place_of, node_at)
    return place_of


def _augment(
    node: int, fits: Fits, place_of: list[int], node_at: list[int], seen: set[int], settled: int
) -> bool:
    """Find a place for a node, moving others along if need be, but none of the first ``settled``."""
    for place in range(len(node_at)):
        if place in seen or not fits(node, place):
            continue
        seen.add(place)
        holder = node_at[place]
        if holder >= 0 and (
            holder < settled or not _augment(holder, fits, place_of, node_at, seen, settled)
        ):
            continue
        place_of[node], node_at[place] = place, node
        return True
    return False


def _improve(node: int, fits: Fits, place_of: list[int], node_at: list[int]) -> None:
    """Move a node to the first place that leaves one for all later nodes; earlier ones stay."""
    current = place_of[node]
    for place in range(current):
        holder = node_at[place]
        if 0 <= holder < node or not fits(node, place):
            continue
        node_at[current] = -1
        if holder < 0 or _augment(holder, fits, place_of, node_at, {place}, node + 1):
            place_of[node], node_at[place] = place, node
            return
        node_at[current] = node
