"""The options of the scheduler."""

from __future__ import annotations

from dataclasses import dataclass

from corewise.scheduler.configuration import DEFAULTS, SchedulerConfiguration
from corewise.service.http_servers import EXTENDER
from corewise.service.options import Address, ReplicaOptions
from corewise.vocabulary.qos import DEFAULT_RULES, QoSRules

PROMETHEUS_MISSING = "--prometheus is missing: interference is configured, and needs measurements"
"""Said at the start, and of a file that changes later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerOptions(ReplicaOptions):
    """All options of the scheduler.

    ``configuration`` is what ``configuration_file`` held at the start; it is read again when it changes.
    ``max_extender_body`` is the largest request of kube-scheduler, in bytes.
    ``prometheus`` is the URL of the server that knows the nodes' memory bandwidth and cache.
    ``rules``: which pods may be LSE.
    """

    listen: Address
    max_extender_body: int = EXTENDER.max_body
    configuration: SchedulerConfiguration = DEFAULTS
    configuration_file: str = ""
    prometheus: str = ""
    rules: QoSRules = DEFAULT_RULES
