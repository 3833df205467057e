"""Reason codes: one enum, one meaning, the same in events, metrics, logs, CLI output and docs/reference.md.

Every verdict carries one. A verdict that leaves things as they are for want of something (``warning=True``)
becomes a Warning Event on the object it is about, with ``fix`` telling what to do; the others tell how
a good result came about.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from corewise.vocabulary.reasons.codes import Reason, ReasonText
from corewise.vocabulary.reasons.compute import COMPUTE, TRACKING_HOSTS, TRACKING_OPTIONS, TRACKING_REQUEST
from corewise.vocabulary.reasons.nodes import (
    CONFIGURATION,
    NORMALIZATION,
    QUOTAS,
    RATIO,
    SAFETY,
    SETTINGS,
    STATUS,
    WHOSE,
)
from corewise.vocabulary.reasons.scheduling import ANALYSIS, INTERFERENCE, MEASURING, PINNING, SCHEDULING
from corewise.vocabulary.reasons.suppression import OFFER, SUPPRESSION

REASONS: Mapping[Reason, ReasonText] = MappingProxyType(
    {
        **NORMALIZATION,
        **CONFIGURATION,
        **RATIO,
        **SAFETY,
        **STATUS,
        **WHOSE,
        **QUOTAS,
        **SETTINGS,
        **OFFER,
        **SUPPRESSION,
        **PINNING,
        **SCHEDULING,
        **MEASURING,
        **INTERFERENCE,
        **ANALYSIS,
        **TRACKING_OPTIONS,
        **TRACKING_REQUEST,
        **TRACKING_HOSTS,
        **COMPUTE,
    }
)

__all__ = ["REASONS", "Reason", "ReasonText"]
