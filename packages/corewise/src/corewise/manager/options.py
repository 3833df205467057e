"""The options of the manager."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from corewise.quantities import Ratio
from corewise.service.options import Address, ReplicaOptions
from corewise.vocabulary.names import CONFIG_NAME, CONFIG_NAMESPACE, LARGEST_RATIO

MUTATING_NAME = "corewise-mutating"
VALIDATING_NAME = "corewise-validating"
PODS_NAME = "corewise-pods"
"""The names of the webhook configurations."""
KUBELET_USER = "system:node:"
LARGEST_AMPLIFICATION = Ratio(1000)


class AmplifyBy(StrEnum):
    """The amplifier: the best that the API server supports, or the user's choice."""

    AUTO = "auto"
    POLICY = "policy"
    WEBHOOK = "webhook"


class FailurePolicy(StrEnum):
    """The fate of a write while the webhook cannot be asked."""

    FAIL = "Fail"
    IGNORE = "Ignore"


class OfflinePods(StrEnum):
    """The fate of a new pod that is marked as offline and asks for cpu or memory."""

    TRANSLATE = "translate"
    REFUSE = "refuse"
    LEAVE = "leave"


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerOptions(ReplicaOptions):
    """All options of the manager. An empty address means: do not listen."""

    config_name: str = CONFIG_NAME
    config_namespace: str = CONFIG_NAMESPACE
    webhook_listen: Address | None = None
    dry_run: bool = False
    quiet_heartbeats: bool = True
    kubelet_users: tuple[str, ...] = (KUBELET_USER,)
    largest_amplification: Ratio = LARGEST_AMPLIFICATION
    amplify_by: AmplifyBy = AmplifyBy.AUTO
    node_status_failure_policy: FailurePolicy = FailurePolicy.FAIL
    offline_pods: OfflinePods = OfflinePods.TRANSLATE
    pod_failure_policy: FailurePolicy = FailurePolicy.IGNORE
    concurrency: int = 16

    @property
    def elects_leader(self) -> bool:
        """Whether this replica takes part in the election; a dry run writes no Lease."""
        return self.leader_elect and not self.dry_run

    @property
    def webhooks_at(self) -> Address | None:
        """Where the webhooks are served; a dry run serves none."""
        return None if self.dry_run else self.webhook_listen

    def stated_on(self, configuration: Mapping[str, Any]) -> dict[str, Any]:
        """Return a MutatingWebhookConfiguration that states the largest ratio, for whoever judges ratios."""
        annotations = {LARGEST_RATIO: str(self.largest_amplification)}
        return {**configuration, "metadata": {**configuration["metadata"], "annotations": annotations}}
