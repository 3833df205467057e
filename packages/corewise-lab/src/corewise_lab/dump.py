"""A real cluster as a plan, read from what ``kubectl get nodes,pods -A -o json`` printed.

An object that does not have the form of its kind is refused with the file, its place in the list, its name
and the field.

``noderesourcetopologies`` and ``configmaps`` may be in the list too: CPU facts and configuration are then the
cluster's own. Where facts are missing, a table by labels gives them (``cpuFacts`` of a scenario,
:mod:`corewise_lab.label_facts`); a node that neither knows stays without, and gets the verdict that
real ones get. The plan's advice says how to state the facts of these.

The nodes start with corewise off: raw amounts are taken from the raw annotations where a node came amplified,
and what was written about corewise is left out, except what a user wrote (the enablement label, an
amplification ratio of his own, the memory bandwidth); that is put back when corewise is turned on. Of pods,
those that run on one of the nodes are taken, with what matters for CPU: resources, labels, annotations of
Koordinator and of the local cluster.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import msgspec

from corewise.config.facts import CPUFacts, parse_cpu_basic_info
from corewise.normalization.decision import STATED
from corewise.planner.inputs import FINISHED
from corewise.quantities import MILLI, Bytes, Quantity, QuantityError, RawMilli
from corewise.vocabulary.errors import UNREADABLE, unreadable_text
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.names import (
    ALLOW_UNSAFE_CHANGE,
    AMPLIFICATION_ORIGINAL,
    AMPLIFICATION_RATIO,
    BATCH_CPU,
    BATCH_MEMORY,
    CONFIG_NAME,
    CPU_BASIC_INFO,
    MEMORY_BANDWIDTH,
    NORMALIZATION_RATIO,
    RAW_ALLOCATABLE,
    RAW_CAPACITY,
    NameKind,
)
from corewise_lab.label_facts import CPUChoice, CPURow, choice_of, table_to_fill_in
from corewise_lab.machines import CPUModel, Machine
from corewise_lab.plan import SWITCHES, InputError, NodeMetadata, Plan

HOW_TO = "make it with: kubectl get nodes,pods -A -o json"
Texts = dict[str, str]
AmountTexts = dict[str, str | int]


class _Struct(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """camelCase on the wire; unknown fields are skipped."""


class Metadata(_Struct, frozen=True):
    """The name, labels and annotations of the object."""

    name: Annotated[str, msgspec.Meta(min_length=1)]
    namespace: str = "default"
    labels: Texts = {}
    annotations: Texts = {}


class DumpedNodeStatus(_Struct, frozen=True):
    """The amounts that the node offers."""

    capacity: AmountTexts = {}
    allocatable: AmountTexts = {}


class DumpedNode(_Struct, frozen=True):
    """core/v1 Node."""

    metadata: Metadata
    status: DumpedNodeStatus = DumpedNodeStatus()


class DumpedContainer(_Struct, frozen=True):
    """core/v1 Container: its image and its resources."""

    name: str
    image: str = ""
    resources: dict[str, Any] | None = None
    restart_policy: str | None = None


class DumpedPodSpec(_Struct, frozen=True):
    """core/v1 PodSpec."""

    containers: Annotated[tuple[DumpedContainer, ...], msgspec.Meta(min_length=1)]
    node_name: str = ""
    init_containers: tuple[DumpedContainer, ...] | None = None
    overhead: AmountTexts | None = None
    resources: dict[str, Any] | None = None


class DumpedPodStatus(_Struct, frozen=True):
    """core/v1 PodStatus."""

    phase: str = ""


class DumpedPod(_Struct, frozen=True):
    """core/v1 Pod."""

    metadata: Metadata
    spec: DumpedPodSpec
    status: DumpedPodStatus = DumpedPodStatus()


class DumpedRecord(_Struct, frozen=True):
    """core/v1 ConfigMap, and NodeResourceTopology, of which only annotations count."""

    metadata: Metadata
    data: Texts = {}


T = TypeVar("T")
D = TypeVar("D", DumpedNode, DumpedPod, DumpedRecord)


@dataclass(frozen=True, slots=True)
class Item(Generic[D]):
    """An object and its place, for messages."""

    path: Path
    index: int
    kind: str
    object: D

    @property
    def name(self) -> str:
        return self.object.metadata.name

    def error(self, message: str) -> InputError:
        return InputError(f"{self.path}: items[{self.index}] ({self.kind} {self.name}): {message}")

    def quantity(self, amounts: AmountTexts, field: str, resource: str) -> Quantity:
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
        raise InputError(f"{path}: not what kubectl prints: {unreadable_text(error)}; {HOW_TO}") from error
    items = document.get("items") if isinstance(document, dict) else None
    if not isinstance(items, list):
        raise InputError(f"{path}: not a list of objects; {HOW_TO}")
    return items


def objects_of(
    path: Path, items: list[Any], kind: str, form: type[T], *, strict: bool = True
) -> dict[int, T]:
    """Return the objects of a kind by their place in the list. A null is an absent field.

    Raises:
        InputError: naming the first one that does not have the form.
    """
    found: dict[int, T] = {}
    for index, value in enumerate(items):
        if not isinstance(value, dict) or value.get("kind") != kind:
            continue
        try:
            found[index] = msgspec.convert(_without_nulls(value), form, strict=strict)
        except RecursionError:
            raise InputError(f"{path}: items[{index}] ({kind}): nested too deep") from None
        except msgspec.ValidationError as error:
            metadata = value.get("metadata")
            name = metadata.get("name", "?") if isinstance(metadata, dict) else "?"
            raise InputError(f"{path}: items[{index}] ({kind} {name}): {error}") from None
    return found


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


def _items_of(path: Path, items: list[Any], kind: str, form: type[D]) -> list[Item[D]]:
    found: dict[tuple[str, str], Item[D]] = {}
    for index, each in objects_of(path, items, kind, form).items():
        item = Item(path, index, kind, each)
        if found.setdefault((each.metadata.namespace, item.name), item) is not item:
            raise item.error("metadata.name is there twice")
    return list(found.values())


_STATED_ELSEWHERE = frozenset(
    {
        *("cpu", "memory", "ephemeral-storage", "hugepages-1Gi", "hugepages-2Mi", "pods"),
        *(BATCH_CPU, BATCH_MEMORY),
    }
)
"""Amounts that follow from the machine, or that corewise works out; all others are taken as they are."""
_KEPT_ANNOTATIONS = ("koordinator.sh/", "corewise.io/")
_USER_ANNOTATIONS = (
    ALLOW_UNSAFE_CHANGE,
    MEMORY_BANDWIDTH,
    *(each.name for each in STATED if each.kind is NameKind.ANNOTATION),
)
_SHOWN = 5
_FACTS_FILE = "facts.yaml"
_MOST_CPUS = 1_000_000


def load_dump(
    path: Path, *, config: Mapping[str, str], table: Iterable[CPURow], models: Mapping[str, CPUModel]
) -> Plan:
    """Read a dump. ``config`` is used where the dump has no ConfigMap of corewise's.

    Raises:
        InputError: naming file, item and field of the first thing that is wrong.
    """
    items, known = read_items(path), tuple(table)
    nodes = _items_of(path, items, "Node", DumpedNode)
    pods = _items_of(path, items, "Pod", DumpedPod)
    topologies = _items_of(path, items, "NodeResourceTopology", DumpedRecord)
    facts = {
        item.name: parse_cpu_basic_info(text)
        for item in topologies
        if (text := item.object.metadata.annotations.get(CPU_BASIC_INFO)) is not None
    }
    maps = _items_of(path, items, "ConfigMap", DumpedRecord)
    if not nodes:
        raise InputError(f"{path}: no nodes in it; {HOW_TO}")
    machines = tuple(
        _machine(node, _choice(facts.get(node.name), node.object.metadata.labels, known, models))
        for node in nodes
    )
    names = {machine.name for machine in machines}
    unfinished = [item.object for item in pods if item.object.status.phase not in FINISHED]
    running = [pod for pod in unfinished if pod.spec.node_name in names]
    return Plan(
        source=f"dump {path.name}",
        machines=machines,
        config=next((item.object.data for item in maps if item.name == CONFIG_NAME), {}) or config,
        pods=tuple(map(_pod, running)),
        when_on={node.name: own for node in nodes if (own := _user_metadata(node)) is not None},
        notes=_notes(machines, facts, skipped_pods=len(unfinished) - len(running)),
        advice=_advice(path, machines),
    )


def _choice(
    facts: CPUFacts | Finding | None,
    labels: Mapping[str, str],
    table: tuple[CPURow, ...],
    models: Mapping[str, CPUModel],
) -> CPUChoice | None:
    if isinstance(facts, CPUFacts):
        unknown = CPUModel(facts.model, facts.vendor, "amd64", None, l3_mask=facts.l3_mask)
        return CPUChoice(models.get(facts.model, unknown), facts.hyper_threading, facts.turbo)
    return choice_of(labels, table)


def _machine(node: Item[DumpedNode], choice: CPUChoice | None) -> Machine:
    status = node.object.status
    capacity = _raw(node, RAW_CAPACITY, status.capacity)
    allocatable = _raw(node, RAW_ALLOCATABLE, status.allocatable)
    cpu, memory = (node.quantity(capacity, "status.capacity", key) for key in ("cpu", "memory"))
    cpu_left, memory_left = (
        node.quantity(allocatable, "status.allocatable", key) for key in ("cpu", "memory")
    )
    cpus = -(-cpu.milli // MILLI)
    if not 0 < cpus <= _MOST_CPUS:
        raise node.error(f"status.capacity.cpu: {cpu} is out of range: 1 to {_MOST_CPUS}")
    return Machine(
        name=node.name,
        model=choice.model if choice else None,
        cpus=cpus,
        memory=Bytes(memory.units),
        hyper_threading=bool(choice and choice.hyper_threading),
        turbo=bool(choice and choice.turbo),
        reserved_cpu=RawMilli(max(0, cpus * MILLI - cpu_left.milli)),
        reserved_memory=Bytes(max(0, memory.units - memory_left.units)),
        max_pods=node.quantity(capacity, "status.capacity", "pods").units if "pods" in capacity else 110,
        labels={key: value for key, value in node.object.metadata.labels.items() if key not in SWITCHES},
        other_resources={key: str(value) for key, value in capacity.items() if key not in _STATED_ELSEWHERE},
    )


def _raw(node: Item[DumpedNode], annotation: str, in_status: AmountTexts) -> AmountTexts:
    """Return the node's raw amounts: what its raw annotation says, else its status."""
    text = node.object.metadata.annotations.get(annotation)
    if text is None:
        return in_status
    try:
        return in_status | msgspec.json.decode(text, type=AmountTexts)
    except UNREADABLE as error:
        raise node.error(
            f"annotation {annotation}: not a JSON resource list: {unreadable_text(error)}"
        ) from None


def _user_metadata(node: Item[DumpedNode]) -> NodeMetadata | None:
    """Return the user's own annotations and labels about corewise on a node, or None."""
    annotations, own = node.object.metadata.annotations, {}
    if AMPLIFICATION_ORIGINAL in annotations:
        if annotations[AMPLIFICATION_ORIGINAL] != "{}":
            own[AMPLIFICATION_RATIO] = annotations[AMPLIFICATION_ORIGINAL]
    elif AMPLIFICATION_RATIO in annotations and NORMALIZATION_RATIO not in annotations:
        own[AMPLIFICATION_RATIO] = annotations[AMPLIFICATION_RATIO]
    own |= {name: annotations[name] for name in _USER_ANNOTATIONS if name in annotations}
    enabled = {key: value for key, value in node.object.metadata.labels.items() if key in SWITCHES}
    return NodeMetadata(enabled, own) if enabled or own else None


def _pod(pod: DumpedPod) -> dict[str, Any]:
    metadata, spec = pod.metadata, msgspec.to_builtins(pod.spec)
    for container in [*spec["containers"], *(spec.get("initContainers") or ())]:
        container.setdefault("image", "unknown")
    annotations = {
        key: value
        for key, value in metadata.annotations.items()
        if any(part in key for part in _KEPT_ANNOTATIONS)
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": metadata.name,
            "namespace": metadata.namespace,
            "labels": metadata.labels,
            "annotations": annotations,
        },
        "spec": {**spec, "terminationGracePeriodSeconds": 0},
    }


def _notes(
    machines: Collection[Machine], stated: Mapping[str, CPUFacts | Finding], skipped_pods: int
) -> tuple[str, ...]:
    notes = []
    by_label = [
        each.name for each in machines if each.model and not isinstance(stated.get(each.name), CPUFacts)
    ]
    if by_label:
        notes.append(f"CPU facts by label, from cpuFacts: {len(by_label)} ({_shown(by_label)})")
    names = [machine.name for machine in machines if machine.model is None]
    if names:
        notes.append(
            f"nodes without CPU facts: {len(names)} ({_shown(names)}): fill in the table printed first"
        )
    models = {each.model.name for each in machines if each.model and each.model.core_speed is None}
    if models:
        named = ", ".join(sorted(models))
        why = "what these nodes deliver is not reported (cpuModels in a scenario states a speed)"
        notes.append(f"no speed is known for {named}: {why}")
    if skipped_pods:
        notes.append(f"pods left out because they run on none of the nodes: {skipped_pods}")
    return tuple(notes)


def _shown(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (" …" if len(names) > _SHOWN else "")


def _advice(path: Path, machines: Collection[Machine]) -> tuple[str, ...]:
    """Return lines to state missing CPU facts with: comments, and a table that lacks only models."""
    rows = table_to_fill_in(machines)
    if not rows:
        return ()
    missing = f"# No CPU facts of {sum(each.model is None for each in machines)} of {len(machines)} nodes"
    return (
        f"{missing}: they keep their raw CPUs. Save these lines as {_FACTS_FILE},",
        "# write each model as lscpu prints it (Model name) on such a node, check the settings, and run:",
        f"# corewise up --from {shlex.quote(str(path))} --scenario {_FACTS_FILE}",
        *rows,
    )
