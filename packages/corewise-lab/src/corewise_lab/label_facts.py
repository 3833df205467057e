"""CPU facts from a node's labels, where no agent states them: a table by instance type, NFD or any label.

A CPU model is never guessed: it comes from a row that a user wrote (``cpuFacts`` of a scenario), found by
the first selector that fits:

    instanceType  the label node.kubernetes.io/instance-type; a shell pattern, such as ``m5.*``; an empty text
                  is a node without that label
    nfd           vendor, family and id, as Node Feature Discovery (NFD) labels nodes. They name a generation
                  of CPUs (a microarchitecture), of which a cluster often has one model, but not the model
    matchLabels   any labels

Hyper-threading and turbo are those of the row, else those of NFD's labels, else off. NFD states turbo with
the driver intel_pstate only.

For nodes that no row fits, :func:`table_to_fill_in` returns rows that need nothing but the models.

Sources. NFD's labels: "Feature labels" of its documentation, and source/cpu/cpu.go. Generations: Linux
arch/x86/include/asm/intel-family.h and arch/x86/kernel/cpu/amd.c.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from types import MappingProxyType

from corewise_lab.machines import CPUModel, Machine

INSTANCE_TYPES = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
"""The label, and its name before Kubernetes 1.17."""
ARCHITECTURE = "kubernetes.io/arch"
_NFD = "feature.node.kubernetes.io/cpu-"
_VENDOR, _FAMILY, _ID = f"{_NFD}model.vendor_id", f"{_NFD}model.family", f"{_NFD}model.id"
_MULTITHREADING, _TURBO = f"{_NFD}hardware_multithreading", f"{_NFD}pstate.turbo"
_USUAL_ARCHITECTURE = frozenset({"amd64", ""})
_SHOWN = 3
_MOST_ROWS = 20


@dataclass(frozen=True, slots=True)
class NFDModel:
    """The CPU model in NFD's labels: ``AMD``, 25, 17 is a Genoa (EPYC 9004)."""

    vendor: str
    family: int
    id: int


@dataclass(frozen=True, slots=True)
class CPUChoice:
    """A CPU with its settings."""

    model: CPUModel
    hyper_threading: bool
    turbo: bool


@dataclass(frozen=True, slots=True)
class CPURow:
    """A row of the table. A setting that is None is NFD's; selectors that are absent fit every node."""

    model: CPUModel
    hyper_threading: bool | None = None
    turbo: bool | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    instance_type: str | None = None
    nfd: NFDModel | None = None

    def fits(self, labels: Mapping[str, str]) -> bool:
        """Return whether a node with these labels has this CPU."""
        pattern = self.instance_type
        if pattern is not None and not fnmatchcase(instance_type_of(labels), pattern):
            return False
        if self.nfd and self.nfd != nfd_model_of(labels):
            return False
        return all(labels.get(key) == value for key, value in self.labels.items())


def choice_of(labels: Mapping[str, str], table: Iterable[CPURow]) -> CPUChoice | None:
    """Return the CPU of a node with these labels by the first row that fits; None if none does."""
    row = next((row for row in table if row.fits(labels)), None)
    if row is None:
        return None
    hyper_threading, turbo = _nfd_settings(labels)
    if row.hyper_threading is not None:
        hyper_threading = row.hyper_threading
    if row.turbo is not None:
        turbo = row.turbo
    return CPUChoice(row.model, bool(hyper_threading), bool(turbo))


def instance_type_of(labels: Mapping[str, str]) -> str:
    """Return the node's instance type, or an empty text."""
    return next((labels[name] for name in INSTANCE_TYPES if labels.get(name)), "")


def nfd_model_of(labels: Mapping[str, str]) -> NFDModel | None:
    """Return the model as NFD's labels state it; None without them."""
    family, number = labels.get(_FAMILY, ""), labels.get(_ID, "")
    if not (labels.get(_VENDOR) and _is_number(family) and _is_number(number)):
        return None
    return NFDModel(labels[_VENDOR], int(family), int(number))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 6


def _nfd_settings(labels: Mapping[str, str]) -> tuple[bool | None, bool | None]:
    """Return hyper-threading and turbo as NFD's labels state them; None where they do not.

    NFD leaves the label of hyper-threading out where it is off.
    """
    turbo = {"true": True, "false": False}.get(labels.get(_TURBO, ""))
    if nfd_model_of(labels) is None and _MULTITHREADING not in labels:
        return None, turbo
    return labels.get(_MULTITHREADING) == "true", turbo


@dataclass(frozen=True, slots=True)
class _Kind:
    """Nodes that one row can describe."""

    instance_type: str
    nfd: NFDModel | None
    architecture: str
    hyper_threading_known: bool
    turbo_known: bool

    def selectors(self, *, among_types: bool) -> Iterator[str]:
        """Yield selectors of these nodes alone; ``among_types``: others have an instance type."""
        if self.instance_type or among_types or not self.nfd:
            yield f'instanceType: "{self.instance_type}"'
        if self.nfd:
            yield f"nfd: {{vendor: {self.nfd.vendor}, family: {self.nfd.family}, id: {self.nfd.id}}}"
        elif not self.instance_type and self.architecture not in _USUAL_ARCHITECTURE:
            yield f"matchLabels: {{{ARCHITECTURE}: {self.architecture}}}"

    def row(self, names: Collection[str], *, among_types: bool) -> str:
        """Return the row, with an empty model, and which nodes it is for."""
        parts = [*self.selectors(among_types=among_types), 'model: ""']
        if self.architecture != "arm64":
            parts += [] if self.hyper_threading_known else ["hyperThreading: true"]
            parts += [] if self.turbo_known else ["turbo: true"]
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        generation = _GENERATIONS.get((self.nfd.vendor, self.nfd.family, self.nfd.id)) if self.nfd else None
        remark = f"{', '.join(sorted(names)[:_SHOWN])}{more}" + (f"; {generation}" if generation else "")
        return f"  - {{{', '.join(parts)}}}  # {remark}"


def table_to_fill_in(machines: Collection[Machine]) -> list[str]:
    """Return a table, in YAML, for the machines that have no CPU model: one row for each kind of node.

    The specific rows come first, and no row fits a machine that has its model from its instance type. Sizes
    of a family (``m5.large``, ``m5.xlarge``) share a row: they have the same CPUs.
    """
    kinds: dict[_Kind, list[str]] = {}
    for machine in machines:
        if machine.model is None:
            kinds.setdefault(_kind(machine.labels), []).append(machine.name)
    ordered = sorted(kinds.items(), key=lambda each: (_generality(each[0]), -len(each[1]), each[1]))
    types = any(instance_type_of(machine.labels) for machine in machines)
    rows = [kind.row(names, among_types=types) for kind, names in ordered[:_MOST_ROWS]]
    if left_out := [name for _, names in ordered[_MOST_ROWS:] for name in names]:
        rows.append(f"  # and rows for {len(left_out)} more nodes: {', '.join(left_out[:_SHOWN])} …")
    return ["cpuFacts:", *rows] if rows else []


def _kind(labels: Mapping[str, str]) -> _Kind:
    family, dot, _ = instance_type_of(labels).partition(".")
    hyper_threading, turbo = _nfd_settings(labels)
    return _Kind(
        instance_type=f"{family}.*" if dot else family,
        nfd=nfd_model_of(labels),
        architecture=labels.get(ARCHITECTURE, ""),
        hyper_threading_known=hyper_threading is not None,
        turbo_known=turbo is not None,
    )


def _generality(kind: _Kind) -> int:
    if kind.instance_type:
        return int(kind.nfd is None)
    return 2 + 2 * (kind.nfd is None) + (kind.architecture in _USUAL_ARCHITECTURE)


_GENERATIONS: Mapping[tuple[str, int, int], str] = MappingProxyType(
    {
        ("Intel", 6, 63): "Haswell, Xeon v3",
        ("Intel", 6, 79): "Broadwell, Xeon v4",
        ("Intel", 6, 85): "Skylake, Cascade Lake or Cooper Lake",
        ("Intel", 6, 106): "Ice Lake",
        ("Intel", 6, 143): "Sapphire Rapids",
        ("Intel", 6, 173): "Granite Rapids",
        ("Intel", 6, 175): "Sierra Forest",
        ("Intel", 6, 207): "Emerald Rapids",
        ("AMD", 23, 1): "Naples, EPYC 7001",
        ("AMD", 23, 49): "Rome, EPYC 7002",
        ("AMD", 25, 1): "Milan, EPYC 7003",
        ("AMD", 25, 17): "Genoa, EPYC 9004",
        ("AMD", 25, 160): "Bergamo or Siena, EPYC 97x4 or 8004",
        ("AMD", 26, 2): "Turin, EPYC 9005",
        ("AMD", 26, 17): "Turin with Zen 5c, EPYC 9005",
    }
)
"""Server CPUs by NFD's vendor, family and id."""
