"""What a workload wishes of the CPUs of a machine, and the answer.

========== ======================== =================================== ======================
use        Kubernetes               meaning                             Nova's thread policy
========== ======================== =================================== ======================
WHOLE      FullPCPUs                whole cores                         prefer, require
SPREAD     SpreadByPCPUs            one thread a core first             -
ISOLATED   -                        one thread a core; the core's other isolate
                                    threads stay empty
========== ======================== =================================== ======================

A use that is not required gives way when the machine has CPUs enough, but not in that shape. Exclusivity
always gives way. ISOLATED is always required.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from corewise.topology import CPUSet
from corewise.vocabulary.reasons import Reason


class CoreUse(Enum):
    """How the CPUs lie on cores."""

    WHOLE = "whole"
    SPREAD = "spread"
    ISOLATED = "isolated"


class Exclusivity(Enum):
    """What a workload would rather not share with others that wish the same."""

    NONE = "none"
    CORE = "core"
    NUMA_NODE = "numa node"


@dataclass(frozen=True, slots=True)
class Wish:
    """A number of CPUs, and where they should lie.

    ``within``: the only CPUs it may get, such as those of some NUMA nodes; None for any.
    """

    count: int
    use: CoreUse = CoreUse.WHOLE
    required: bool = False
    exclusive: Exclusivity = Exclusivity.NONE
    within: CPUSet | None = None

    @property
    def is_strict(self) -> bool:
        """Whether no other shape will do."""
        return self.required or self.use is CoreUse.ISOLATED


@dataclass(frozen=True, slots=True)
class Grant:
    """The CPUs chosen. ``withheld``: other threads of their cores, which nobody else may get."""

    cpus: CPUSet
    withheld: CPUSet = field(default_factory=CPUSet)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why no CPUs were chosen. ``hopeless``: not even the empty machine could grant the wish."""

    reason: Reason
    message: str
    hopeless: bool = False
