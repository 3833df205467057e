"""Reason codes: one enum, one meaning, the same in events, metrics, logs, CLI output and docs/reference.md.

Every verdict carries one. A verdict that leaves things as they are for want of something (``warning=True``)
becomes a Warning Event on the object it is about, with ``fix`` telling what to do; the others tell how
a good result came about.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from corewise.policy.reasons.amplification import RATIO, SAFETY, STATUS
from corewise.policy.reasons.cgroups import QUOTAS, SETTINGS, WHOSE
from corewise.policy.reasons.codes import Reason
from corewise.policy.reasons.compute import COMPUTE
from corewise.policy.reasons.interference import ANALYSIS, INTERFERENCE, MEASURING
from corewise.policy.reasons.normalization import CONFIGURATION, NORMALIZATION
from corewise.policy.reasons.scheduling import PINNING, SCHEDULING
from corewise.policy.reasons.suppression import OFFER, SUPPRESSION
from corewise.policy.reasons.text import ReasonText
from corewise.policy.reasons.tracking import TRACKING_HOSTS, TRACKING_OPTIONS, TRACKING_REQUEST

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
