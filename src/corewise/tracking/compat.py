"""Whether to follow the document or what Nova finally shipped, where the two differ.

================================================ ================================ ==========================
point                                            spec                             nova
================================================ ================================ ==========================
``vcpu_pin_set`` without ``cpu_dedicated_set``   its CPUs are PCPU and VCPU       VCPU only
``reserved_host_cpus`` with a new option         ignored, with a warning          start-up error
``vcpu_pin_set`` with ``cpu_dedicated_set``      ignored if both new options are  start-up error
                                                 set, with a warning
fallback query                                   only when the first finds none   always, results joined
reshape of ``isolate`` guests on SMT hosts       siblings count as PCPU too       they do not
================================================ ================================ ==========================
"""

from __future__ import annotations

from enum import StrEnum


class Compat(StrEnum):
    """``nova`` is for hosts that live beside Nova."""

    SPEC = "spec"
    NOVA = "nova"
