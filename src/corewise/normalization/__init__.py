"""Normalization: which ratio a node has, and what CFS quota its CPUShare pods get. All of it pure."""

from corewise.normalization.decision import STATED, NormalizationVerdict, decide, nearest_model
from corewise.normalization.quota import (
    SMALLEST_QUOTA,
    ContainerLimit,
    PodLimits,
    container_quota,
    divided_quota,
    pod_quota,
)

__all__ = [
    "SMALLEST_QUOTA",
    "STATED",
    "ContainerLimit",
    "NormalizationVerdict",
    "PodLimits",
    "container_quota",
    "decide",
    "divided_quota",
    "nearest_model",
    "pod_quota",
]
