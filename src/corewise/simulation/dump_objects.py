"""The objects of a dump, typed and checked: what ``kubectl get … -o json`` printed, as far as it is read.

An object that does not have the form of its kind is refused with the file, its place in the list, its name
and the field.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import msgspec

from corewise.quantities import Quantity, QuantityError
from corewise.simulation.plan import InputError
from corewise.vocabulary.errors import UNREADABLE

HOW_TO = "make it with: kubectl get nodes,pods -A -o json"
Texts = dict[str, str] | None
Amounts = dict[str, str | int]


class _Struct(msgspec.Struct, rename="camel", frozen=True):
    """camelCase on the wire; fields that nobody reads are passed over."""


class Metadata(_Struct, frozen=True):
    """Name and what is written on the object."""

    name: Annotated[str, msgspec.Meta(min_length=1)]
    namespace: str = "default"
    labels: Texts = None
    annotations: Texts = None


class NodeStatus(_Struct, frozen=True):
    """What the node offers."""

    capacity: Amounts = msgspec.field(default_factory=dict)
    allocatable: Amounts = msgspec.field(default_factory=dict)


class DumpedNode(_Struct, frozen=True):
    """core/v1 Node."""

    metadata: Metadata
    status: NodeStatus = NodeStatus()


class DumpedContainer(_Struct, frozen=True, omit_defaults=True):
    """core/v1 Container: what it runs and what it asks for."""

    name: str
    image: str = ""
    resources: dict[str, Any] | None = None
    restart_policy: str | None = None


class DumpedPodSpec(_Struct, frozen=True, omit_defaults=True):
    """core/v1 PodSpec."""

    containers: Annotated[tuple[DumpedContainer, ...], msgspec.Meta(min_length=1)]
    node_name: str = ""
    init_containers: tuple[DumpedContainer, ...] | None = None
    overhead: Amounts | None = None
    resources: dict[str, Any] | None = None


class PodStatus(_Struct, frozen=True):
    """core/v1 PodStatus."""

    phase: str = ""


class DumpedPod(_Struct, frozen=True):
    """core/v1 Pod."""

    metadata: Metadata
    spec: DumpedPodSpec
    status: PodStatus = PodStatus()


class DumpedConfigMap(_Struct, frozen=True):
    """core/v1 ConfigMap."""

    metadata: Metadata
    data: Texts = None


class DumpedTopology(_Struct, frozen=True):
    """NodeResourceTopology: its annotations."""

    metadata: Metadata


AnyDumped = DumpedNode | DumpedPod | DumpedConfigMap | DumpedTopology
T = TypeVar("T", DumpedNode, DumpedPod, DumpedConfigMap, DumpedTopology)


@dataclass(frozen=True, slots=True)
class Item(Generic[T]):
    """An object and its place, for messages."""

    path: Path
    index: int
    kind: str
    object: T

    @property
    def name(self) -> str:
        return self.object.metadata.name

    @property
    def key(self) -> tuple[str, str]:
        return self.object.metadata.namespace, self.name

    @property
    def labels(self) -> dict[str, str]:
        return self.object.metadata.labels or {}

    @property
    def annotations(self) -> dict[str, str]:
        return self.object.metadata.annotations or {}

    def error(self, message: str) -> InputError:
        return InputError(f"{self.path}: items[{self.index}] ({self.kind} {self.name}): {message}")

    def quantity(self, amounts: Amounts, field: str, resource: str) -> Quantity:
        """Read one amount of a resource list.

        Raises:
            InputError: if it is missing or not a quantity of at least 0.
        """
        if resource not in amounts:
            raise self.error(f"{field}.{resource} is missing")
        try:
            amount = Quantity.parse(str(amounts[resource]))
        except QuantityError as error:
            raise self.error(f"{field}.{resource}: {error}") from None
        if amount.nano < 0:
            raise self.error(f"{field}.{resource}: {amount} is negative")
        return amount


@dataclass(frozen=True, slots=True)
class Dump:
    """The objects of a dump, by kind."""

    nodes: tuple[Item[DumpedNode], ...]
    pods: tuple[Item[DumpedPod], ...]
    topologies: tuple[Item[DumpedTopology], ...]
    config_maps: tuple[Item[DumpedConfigMap], ...]


def read_dump(path: Path) -> Dump:
    """Read a List of objects; kinds that nobody needs are passed over.

    Raises:
        InputError: naming the first thing that is wrong.
    """
    items = read_items(path)
    dump = Dump(
        nodes=_of_kind(path, items, "Node", DumpedNode),
        pods=_of_kind(path, items, "Pod", DumpedPod),
        topologies=_of_kind(path, items, "NodeResourceTopology", DumpedTopology),
        config_maps=_of_kind(path, items, "ConfigMap", DumpedConfigMap),
    )
    if not dump.nodes:
        raise InputError(f"{path}: no nodes in it; {HOW_TO}")
    return dump


def read_items(path: Path) -> list[Any]:
    """Read a List of objects of any kind.

    Raises:
        InputError: if the file is none.
    """
    try:
        document = msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    except UNREADABLE as error:
        raise InputError(f"{path}: not JSON: {error}") from error
    items = document.get("items") if isinstance(document, dict) else None
    if not isinstance(items, list):
        raise InputError(f"{path}: not a list of objects; {HOW_TO}")
    return items


def _of_kind(path: Path, items: list[Any], kind: str, form: type[T]) -> tuple[Item[T], ...]:
    found: dict[tuple[str, str], Item[T]] = {}
    for index, value in enumerate(items):
        if not isinstance(value, dict) or value.get("kind") != kind:
            continue
        item = Item(path, index, kind, _converted(path, index, kind, value, form))
        if item.key in found:
            raise item.error("metadata.name is there twice")
        found[item.key] = item
    return tuple(found.values())


def _converted(path: Path, index: int, kind: str, value: dict[str, Any], form: type[T]) -> T:
    try:
        return msgspec.convert(value, form)
    except msgspec.ValidationError as error:
        metadata = value.get("metadata")
        name = metadata.get("name", "?") if isinstance(metadata, dict) else "?"
        raise InputError(f"{path}: items[{index}] ({kind} {name}): {error}") from None
