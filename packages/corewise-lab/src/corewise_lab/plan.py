"""The plan of a local cluster, from any source: machines, pods, configuration.

Scenario, dump and trace all become a :class:`Plan`. ``notes`` say what had to be assumed on the way; they
stand in the report.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from corewise.config.colocation import parse_oversubscription, parse_resource_qos, parse_suppression
from corewise.config.configuration import parse_amplification, parse_normalization
from corewise.config.eviction import parse_resource_threshold
from corewise.normalization.decision import STATED
from corewise.quantities import Bytes
from corewise.scheduler.configuration import read_configuration
from corewise.vocabulary.errors import OperationalError
from corewise.vocabulary.exit_codes import ExitCode
from corewise.vocabulary.names import (
    AMPLIFICATION_KEY,
    NORMALIZATION_KEY,
    OVERSUBSCRIPTION,
    OVERSUBSCRIPTION_KEY,
    RESOURCE_QOS_KEY,
    RESOURCE_THRESHOLD_KEY,
    SUPPRESSION_KEY,
    NameKind,
)
from corewise.vocabulary.qos import DEFAULT_NAMESPACES
from corewise_lab.contention import MemoryUse
from corewise_lab.load import Load
from corewise_lab.machines import Machine

_PARSERS = (
    (NORMALIZATION_KEY, parse_normalization),
    (AMPLIFICATION_KEY, parse_amplification),
    (OVERSUBSCRIPTION_KEY, parse_oversubscription),
    (SUPPRESSION_KEY, parse_suppression),
    (RESOURCE_QOS_KEY, parse_resource_qos),
    (RESOURCE_THRESHOLD_KEY, parse_resource_threshold),
)

SWITCHES = frozenset({OVERSUBSCRIPTION, *(each.name for each in STATED if each.kind is NameKind.LABEL)})
"""Labels of nodes that mean something to corewise alone; they are not there before it is turned on."""


class InputError(OperationalError):
    """An input file cannot be used; the message names the file, the place in it and the fault."""

    exit_code = ExitCode.BAD_INPUT


@dataclass(frozen=True, slots=True)
class PodGroup:
    """Like pods: either so many ``replicas``, or as many as fill a share of the CPU.

    That is the schedulable CPU, and for offline pods, whose share should not grow with it, the raw one.
    """

    name: str
    cpu_milli: int
    memory: Bytes
    replicas: int = 0
    fill: float = 0.0
    limited: bool = True
    offline: bool = False
    """Whether they request batch CPU and memory; then ``cpu_milli`` and ``memory`` are of these."""
    qos_class: str = "LS"
    load: Load | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    memory_use: MemoryUse | None = None


@dataclass(frozen=True, slots=True)
class NodeMetadata:
    """A user's metadata about corewise on a node, set aside while it is off, and put back with it."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """A cluster to build."""

    source: str
    machines: tuple[Machine, ...]
    config: Mapping[str, str]
    pods: tuple[dict[str, Any], ...] = ()
    """Pod manifests, each with the node it runs on."""
    groups: tuple[PodGroup, ...] = ()
    """Pods still to be scheduled, by what the nodes offer."""
    when_on: Mapping[str, NodeMetadata] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    """Lines that say how to state what the input lacks; printed before the run."""
    scheduler: str = ""
    """The scheduler's file while corewise is on; without one, the scheduler knows nothing of memory."""

    @property
    def qos_namespaces(self) -> tuple[str, ...]:
        """The namespaces whose pods may be LSE or SYSTEM: all that the plan uses."""
        used = {pod["metadata"]["namespace"] for pod in self.pods}
        return tuple(sorted(used.union(DEFAULT_NAMESPACES, {"default"})))


def check_config(plan: Plan) -> None:
    """Check the configuration before a cluster is started for it.

    Raises:
        InputError: with every error in it.
    """
    texts = ((key, plan.config.get(key), parse) for key, parse in _PARSERS)
    errors = [
        f"  {key}, {problem}"
        for key, text, parse in texts
        if text is not None
        for problem in parse(text).errors
    ]
    errors += [f"  scheduler, {problem}" for problem in read_configuration(plan.scheduler).errors]
    if errors:
        raise InputError("\n".join([f"{plan.source}: {len(errors)} error(s) in its configuration", *errors]))
