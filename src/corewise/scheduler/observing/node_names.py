"""Which node a series belongs to: its label names it, in one of the ways in which nodes are named.

    the Node's name, its label kubernetes.io/hostname, an address of its status; each with a port or without

A way that two nodes share names neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

HOST_NAME = "kubernetes.io/hostname"
_PORT = re.compile(r"^\[?(?P<host>.*?)\]?(?::[0-9]{1,5})?$")


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    """A node, and what else it is called."""

    name: str
    aliases: tuple[str, ...] = ()


class NodeNames:
    """The nodes that there are, in order."""

    def __init__(self, nodes: Iterable[NodeIdentity]) -> None:
        listed = tuple(nodes)
        self.names = tuple(each.name for each in listed)
        self._places: dict[str, int] = {}
        shared: set[str] = set()
        for place, node in enumerate(listed):
            for alias in node.aliases:
                if self._places.setdefault(alias, place) != place:
                    shared.add(alias)
        for alias in shared:
            del self._places[alias]
        self._places.update({name: place for place, name in enumerate(self.names)})

    def __len__(self) -> int:
        return len(self.names)

    def place(self, text: str) -> int | None:
        """Return the place of the node that a label's value names; None if it names none."""
        found = self._places.get(text)
        if found is None:
            match = _PORT.fullmatch(text)
            found = self._places.get(match["host"]) if match else None
        return found
