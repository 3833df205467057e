"""Amplification: a node offers raw x ratio to the scheduler, exactly once.

What is decided here, all of it pure:

- :mod:`ratio`: the ratio a node is to have, from the user's annotation, configuration and normalization;
- :mod:`status`: what the webhook makes of a write of nodes/status, and when it need not be stored;
- :mod:`repair`: when a node's status is not what it should be, and what to write then;
- :mod:`demand`: what the node's pods request, and whether they fit after a change of ratio;
- :mod:`occupancy`: whether a pod fits a node where CPUSet pods own CPUs;
- :mod:`numa`: which of a node's NUMA nodes a pod may be placed on; it is not exported from here, because it
  needs numpy, and the agent runs without;
- :mod:`annotations`, :mod:`amounts`: what all of them read and write.

NodeAmounts are Quantity, ratios are Ratio, annotations are text; ages and the time are arguments.
"""

from corewise.amplification.amounts import (
    AMPLIFIABLE,
    MAXIMUM,
    NodeAmounts,
    Ratios,
    ResourceList,
    amplified,
)
from corewise.amplification.annotations import (
    LARGEST_RECORDED,
    RatioReading,
    effective_ratios,
    print_amounts,
    print_ratios,
    raw_amounts,
    read_amounts,
    read_node_in_force,
    read_ratios,
)
from corewise.amplification.demand import (
    ContainerDemand,
    Misfit,
    NodeDemand,
    PodDemand,
    allows_unsafe_change,
    busy_raise,
    is_cpuset_by_class,
    misfits,
    node_demand,
    owned_milli,
    pod_request,
    pod_requests,
)
from corewise.amplification.occupancy import (
    amplified_up,
    fits,
    left,
    normalization_of_owned,
    normalized_cpus,
    occupied,
    ratio_of_owned,
    unfolded,
)
from corewise.amplification.ratio import RatioSource, RatioVerdict, decide_ratio
from corewise.amplification.repair import (
    Repair,
    ReportedMachine,
    StatusAssessment,
    StatusObservation,
    StatusState,
    assess,
    assessed_raw,
)
from corewise.amplification.status import (
    StatusVerdict,
    StatusWrite,
    decide_status,
    keeps_stored_times,
    parse_time,
)

__all__ = [
    "AMPLIFIABLE",
    "LARGEST_RECORDED",
    "MAXIMUM",
    "ContainerDemand",
    "Misfit",
    "NodeAmounts",
    "NodeDemand",
    "PodDemand",
    "RatioReading",
    "RatioSource",
    "RatioVerdict",
    "Ratios",
    "Repair",
    "ReportedMachine",
    "ResourceList",
    "StatusAssessment",
    "StatusObservation",
    "StatusState",
    "StatusVerdict",
    "StatusWrite",
    "allows_unsafe_change",
    "amplified",
    "amplified_up",
    "assess",
    "assessed_raw",
    "busy_raise",
    "decide_ratio",
    "decide_status",
    "effective_ratios",
    "fits",
    "is_cpuset_by_class",
    "keeps_stored_times",
    "left",
    "misfits",
    "node_demand",
    "normalization_of_owned",
    "normalized_cpus",
    "occupied",
    "owned_milli",
    "parse_time",
    "pod_request",
    "pod_requests",
    "print_amounts",
    "print_ratios",
    "ratio_of_owned",
    "raw_amounts",
    "read_amounts",
    "read_node_in_force",
    "read_ratios",
    "unfolded",
]
