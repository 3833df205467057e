"""Which names of Koordinator and Volcano a cluster's objects have that corewise does not honour.

Looked at are the labels and annotations of Nodes, NodeResourceTopologies and Pods, and the keys of the two
projects' ConfigMaps, in every namespace. Nova has no names on Kubernetes' objects. What the account may not
list is reported as not checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from corewise.cli import output
from corewise.kube.errors import Forbidden
from corewise.kube.objects import ConfigMap, ObjectMeta, PartialObject
from corewise.kube.resources import CONFIG_MAPS, PODS
from corewise.vocabulary.foreign_names import (
    CONFIG_MAPS as THEIR_CONFIG_MAPS,
)
from corewise.vocabulary.foreign_names import ForeignName, NamePlace, unserved_key, unserved_name

if TYPE_CHECKING:
    from corewise.kube.client import Client

SHOWN = 3
"""Objects that are named for each name; all are counted."""


@dataclass(slots=True)
class FoundName:
    """A name that is not honoured: its row of the table, how many objects have it, and the first of them."""

    name: str
    row: ForeignName
    count: int = 0
    objects: list[str] = field(default_factory=list)

    @property
    def instead(self) -> str:
        return self.row.instead.replace("`", "")


@dataclass(slots=True)
class FoundNames:
    """The names found so far. ``unread``: what could not be looked at."""

    found: dict[tuple[NamePlace, str], FoundName] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)

    def look_at(self, objects: Iterable[ObjectMeta], place: NamePlace) -> None:
        """Count the names in labels and annotations."""
        for each in objects:
            called = f"{each.namespace}/{each.name}" if each.namespace else each.name
            for name, value in {**each.labels, **each.annotations}.items():
                row = unserved_name(name, value, place)
                if row is not None:
                    self._count(name, row, called)

    def look_at_keys(self, config_maps: Iterable[ConfigMap]) -> None:
        """Count the keys of ConfigMaps."""
        for each in config_maps:
            meta = each.metadata
            for key in each.data:
                row = unserved_key(meta.name, meta.namespace, key)
                if row is not None:
                    self._count(key, row, f"{meta.namespace}/{meta.name}")

    def _count(self, name: str, row: ForeignName, called: str) -> None:
        found = self.found.setdefault((row.place, f"{row.name} {name}"), FoundName(name, row))
        found.count += 1
        if len(found.objects) < SHOWN:
            found.objects.append(called)

    @property
    def sorted(self) -> Sequence[FoundName]:
        """Those of a project together, in the order of the places."""
        places = list(NamePlace)
        return sorted(
            self.found.values(),
            key=lambda each: (each.row.project.value, places.index(each.row.place), each.name),
        )


async def foreign_names(
    client: Client, nodes: Iterable[ObjectMeta], topologies: Iterable[ObjectMeta]
) -> FoundNames:
    """Look at a cluster, whose nodes and topologies are known already."""
    names = FoundNames()
    names.look_at(nodes, NamePlace.NODE)
    names.look_at(topologies, NamePlace.TOPOLOGY)
    try:
        pods = await client.list(PODS.typed(PartialObject))
        names.look_at((each.metadata for each in pods), NamePlace.POD)
    except Forbidden:
        names.unread.append("Pods")
    try:
        for name in THEIR_CONFIG_MAPS:
            names.look_at_keys(await client.list(CONFIG_MAPS, field_selector=f"metadata.name={name}"))
    except Forbidden:
        names.unread.append("ConfigMaps")
    return names


def lines(names: FoundNames) -> Iterator[str]:
    """Yield a line for each name: on which objects, and what corewise does instead."""
    for each in names.sorted:
        more = ", ..." if each.count > len(each.objects) else ""
        where = f"{output.count(each.count, each.row.place.value)}: {', '.join(each.objects)}{more}"
        yield f"{each.row.project.value}'s {each.name} ({where}): {each.row.fate.value}: {each.instead}"


def remarks(names: FoundNames) -> Iterator[str]:
    """Yield what the lines do not show."""
    found = output.count(len(names.found), "name")
    yield f"{found} of Koordinator and Volcano on the cluster's objects that corewise does not honour"
    for kind in names.unread:
        yield f"{kind} were not checked: this account may not list {kind} in all namespaces"


def names_record(names: FoundNames) -> Mapping[str, Any]:
    """Return what programs read."""
    return {
        "found": [
            {
                "name": each.name,
                "project": each.row.project.value,
                "kind": each.row.place.value,
                "honoured": each.row.fate.value,
                "count": each.count,
                "objects": each.objects,
                "instead": each.instead,
            }
            for each in names.sorted
        ],
        "unread": names.unread,
    }
