"""The names of Koordinator and Volcano on a cluster's objects that corewise does not honor.

Looked at are the labels and annotations of Nodes, NodeResourceTopologies, Pods, Namespaces, PriorityClasses
and ClusterColocationProfiles, those that workloads and profiles give to pods, and the keys of the two
projects' ConfigMaps, in every namespace. Nova has no names on Kubernetes' objects. What the account may not
list is reported as not checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeVar

from corewise.kube.errors import Forbidden, NotFound
from corewise.kube.objects import EMPTY, NO_META, ConfigMap, ObjectMeta, PartialObject, Struct
from corewise.kube.resources import (
    COLOCATION_PROFILES,
    CONFIG_MAPS,
    NAMESPACES,
    PODS,
    PRIORITY_CLASSES,
    Resource,
)
from corewise.views.text import count, plural
from corewise.vocabulary.foreign_names import (
    CONFIG_MAPS as THEIR_CONFIG_MAPS,
)
from corewise.vocabulary.foreign_names import ForeignName, NamePlace, unserved_key, unserved_name

if TYPE_CHECKING:
    from corewise.kube.client import Client

T = TypeVar("T")
SHOWN = 3
"""Objects that are named for each name; all are counted."""


class _WithTemplate(Struct, frozen=True):
    template: PartialObject = PartialObject()


class _JobTemplate(Struct, frozen=True):
    spec: _WithTemplate = _WithTemplate()


class _PodSource(Struct, frozen=True):
    """The pod metadata in the spec of a workload or of a profile: only one of the three is present."""

    template: PartialObject = PartialObject()
    job_template: _JobTemplate = _JobTemplate()
    labels: Mapping[str, str] = EMPTY
    annotations: Mapping[str, str] = EMPTY


class TemplatedObject(Struct, frozen=True):
    """An object whose pods get the names in its spec: a Deployment, a CronJob, a ClusterColocationProfile."""

    metadata: ObjectMeta = NO_META
    spec: _PodSource = _PodSource()

    @property
    def templates(self) -> Iterator[ObjectMeta]:
        """Yield the names that pods get, as if the workload had them."""
        spec = self.spec
        for each in (spec, spec.template.metadata, spec.job_template.spec.template.metadata):
            yield ObjectMeta(
                name=self.metadata.name,
                namespace=self.metadata.namespace,
                labels=each.labels,
                annotations=each.annotations,
            )


_PLAIN: Final[Sequence[tuple[Resource[Any], NamePlace]]] = (
    (PODS, NamePlace.POD),
    (NAMESPACES, NamePlace.NAMESPACE),
    (PRIORITY_CLASSES, NamePlace.PRIORITY_CLASS),
    (COLOCATION_PROFILES, NamePlace.OBJECT),
)
TEMPLATED: Final = (
    *(
        Resource("apps", "v1", f"{kind.lower()}s", kind, namespaced=True, type=TemplatedObject)
        for kind in ("Deployment", "StatefulSet", "DaemonSet")
    ),
    *(
        Resource("batch", "v1", f"{kind.lower()}s", kind, namespaced=True, type=TemplatedObject)
        for kind in ("Job", "CronJob")
    ),
    COLOCATION_PROFILES.typed(TemplatedObject),
)


@dataclass(slots=True)
class FoundName:
    """A name that is not honored: its row of the table, how many objects of a kind have it, which first."""

    name: str
    row: ForeignName
    kind: str
    count: int = 0
    objects: list[str] = field(default_factory=list)

    @property
    def instead(self) -> str:
        return self.row.instead.replace("`", "")


@dataclass(slots=True)
class FoundNames:
    """The names found so far. ``unread``: what could not be looked at."""

    found: dict[tuple[str, NamePlace, str], FoundName] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)

    def look_at(self, objects: Iterable[ObjectMeta], place: NamePlace, kind: str = "") -> None:
        """Count the names in labels and annotations; ``kind``: of the objects, if not that of the place."""
        for each in objects:
            called = f"{each.namespace}/{each.name}" if each.namespace else each.name
            for name, value in {**each.labels, **each.annotations}.items():
                row = unserved_name(name, value, place)
                if row is not None:
                    self._count(name, row, kind or place.value, called)

    def look_at_keys(self, config_maps: Iterable[ConfigMap], config_namespace: str) -> None:
        """Count the keys of ConfigMaps."""
        for each in config_maps:
            meta = each.metadata
            for key in each.data:
                row = unserved_key(meta.name, meta.namespace, key, config_namespace)
                if row is not None:
                    self._count(key, row, row.place.value, f"{meta.namespace}/{meta.name}")

    def _count(self, name: str, row: ForeignName, kind: str, called: str) -> None:
        key = (kind, row.place, f"{row.name} {name}")
        found = self.found.setdefault(key, FoundName(name, row, kind))
        found.count += 1
        if len(found.objects) < SHOWN:
            found.objects.append(called)

    @property
    def sorted(self) -> Sequence[FoundName]:
        """Those of a project together, in the order of the places."""
        places = list(NamePlace)
        return sorted(
            self.found.values(),
            key=lambda each: (each.row.project.value, places.index(each.row.place), each.name, each.kind),
        )


async def foreign_names(
    client: Client, nodes: Iterable[ObjectMeta], topologies: Iterable[ObjectMeta], config_namespace: str
) -> FoundNames:
    """Look at a cluster, whose nodes and topologies are known already."""
    names = FoundNames()
    names.look_at(nodes, NamePlace.NODE)
    names.look_at(topologies, NamePlace.TOPOLOGY)
    for resource, place in _PLAIN:
        objects = await _listed(client, resource.typed(PartialObject), names)
        names.look_at((each.metadata for each in objects), place, resource.kind)
    for workload in TEMPLATED:
        templates = chain.from_iterable(each.templates for each in await _listed(client, workload, names))
        names.look_at(templates, NamePlace.POD, workload.kind)
    for name in THEIR_CONFIG_MAPS:
        named = await _listed(client, CONFIG_MAPS, names, field_selector=f"metadata.name={name}")
        names.look_at_keys(named, config_namespace)
    return names


async def _listed(
    client: Client, resource: Resource[T], names: FoundNames, *, field_selector: str = ""
) -> Sequence[T]:
    """List the objects of a kind; none if the cluster does not have it, or the account may not."""
    try:
        return (await client.list(resource, field_selector=field_selector)).items
    except NotFound:
        return ()
    except Forbidden:
        if (kinds := plural(resource.kind)) not in names.unread:
            names.unread.append(kinds)
        return ()


def lines(names: FoundNames) -> Iterator[str]:
    """Yield a line for each name: its objects, and the thing that corewise does instead."""
    for each in names.sorted:
        more = ", ..." if each.count > len(each.objects) else ""
        where = f"{count(each.count, each.kind)}: {', '.join(each.objects)}{more}"
        yield f"{each.row.project.value}'s {each.name} ({where}): {each.row.fate.value}: {each.instead}"


def remarks(names: FoundNames) -> Iterator[str]:
    """Yield the number of names found, and the kinds that were not checked."""
    found = count(len({(each.row.place, each.name) for each in names.found.values()}), "name")
    yield f"{found} of Koordinator and Volcano on the cluster's objects that corewise does not honor"
    for kinds in names.unread:
        yield f"{kinds} were not checked: this account may not list {kinds} in all namespaces"


def names_record(names: FoundNames) -> Mapping[str, Any]:
    """Return the names for -o json."""
    return {
        "found": [
            {
                "name": each.name,
                "project": each.row.project.value,
                "kind": each.kind,
                "honored": each.row.fate.value,
                "count": each.count,
                "objects": each.objects,
                "instead": each.instead,
            }
            for each in names.sorted
        ],
        "unread": names.unread,
    }
