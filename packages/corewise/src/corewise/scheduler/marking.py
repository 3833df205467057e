"""The mark that has kube-scheduler ask about interference: a request of corewise.io/interference: 0.

kube-scheduler calls an extender with ``managedResources`` only for pods that name one of them, whatever the
amount. So a pod is marked when it is created, and everybody else's pods never pass through corewise:

- it matches a profile, by its type label or by the profile's selector, that has an affinity above 0 or moves
  more bytes/s than ``askAbove``;
- it is not bound yet, and names the resource in no container;
- it owns no CPUs by its class: kube-scheduler asks about such pods anyway;
- it belongs to no DaemonSet: such a pod goes to the node that it was made for;
- its priority is below that of system-cluster-critical: those pods keep the cluster alive, corewise's own
  among them, so they may not wait for it.

The amount is 0. kube-scheduler's own check of resources passes over amounts of 0, and so do other schedulers
and kubelet: a marked pod is scheduled also where kube-scheduler was not told of the extender.

From Kubernetes 1.36 on a MutatingAdmissionPolicy marks pods in the API server. Before, a webhook of the
scheduler does, by the same conditions. Both follow the configuration: who is at stake stands in their
conditions. A pod that is created before they have followed, or while they fail, is placed as a plain one; the
scheduler counts it. So their failurePolicy is Ignore, but for the policy it is Fail with ``whileAway: wait``:
then it marks every such pod whether corewise runs or not. A webhook with Fail would refuse to create these
pods while no replica answers, those of corewise itself too if a profile selects them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec

from corewise.config.interference.model import InterferenceConfiguration, WhileAway
from corewise.kube.admission import AdmissionRequest, Operation
from corewise.kube.decoding import decode_object
from corewise.kube.resources import MUTATING_POLICIES, MUTATING_POLICY_BINDINGS, MUTATING_WEBHOOKS
from corewise.scheduler.policy import (
    NEW_PODS,
    is_unmarked,
    request_operations,
    request_patch,
    requests_it,
    taken_to_work,
    unmarked,
)
from corewise.service.installation import Alternative, ClientConfig, Objects, Path
from corewise.service.webhooks import Answer, Review, allowed, webhook
from corewise.vocabulary.names import INTERFERENCE_RESOURCE, QOS_CLASS
from corewise.vocabulary.qos import OWNERS_OF_CPUS, SYSTEM_CRITICAL
from corewise.vocabulary.selectors import LabelSelector, Operator, Requirement
from corewise.workload.pods import WORKLOAD_PODS, Pod

NAME = "corewise-interference"
"""Of the policy, its binding, and the webhook configuration."""
WEBHOOK_PATH = "/mark-interference"
_DAEMON_SET = "DaemonSet"
_NODE = "Node"
"""The owner of the mirror of a static pod, which kubelet starts by itself."""

Settings = Callable[[], InterferenceConfiguration | None]
"""What is in force now; None while interference is not configured."""


def has_stake(pod: Pod, settings: InterferenceConfiguration | None) -> bool:
    """Whether kube-scheduler is to ask about a pod's interference, if it is not bound."""
    if settings is None or pod.metadata.labels.get(QOS_CLASS) in OWNERS_OF_CPUS:
        return False
    if any(each.kind == _DAEMON_SET for each in pod.metadata.owner_references):
        return False
    if (pod.spec.priority or 0) >= SYSTEM_CRITICAL:
        return False
    return any(each in settings.at_stake for each in settings.types_of(pod.metadata.labels))


def is_missed(pod: Pod, settings: InterferenceConfiguration | None) -> bool:
    """Whether a bound pod was placed as a plain one although it has a stake; a static pod never is."""
    if requests_it(pod, INTERFERENCE_RESOURCE) or not has_stake(pod, settings):
        return False
    return all(each.kind != _NODE for each in pod.metadata.owner_references)


def match_conditions(settings: InterferenceConfiguration) -> list[dict[str, str]]:
    """Return which new pods are marked, as policies and webhooks have it."""
    owners = json.dumps(sorted(OWNERS_OF_CPUS))
    conditions = {
        "has-a-stake": _matches_any(settings),
        "owns-no-cpus": f'!({_label(QOS_CLASS)}.orValue("") in {owners})',
        "of-no-daemon-set": (
            f'!object.metadata.?ownerReferences.orValue([]).exists(r, r.kind == "{_DAEMON_SET}")'
        ),
        "below-system-critical": f"object.spec.?priority.orValue(0) < {SYSTEM_CRITICAL}",
    }
    own = [{"name": name, "expression": text} for name, text in conditions.items()]
    return [*own, *unmarked(INTERFERENCE_RESOURCE)]


def _label(key: str) -> str:
    return f"object.metadata.?labels[?{json.dumps(key)}]"


def _matches_any(settings: InterferenceConfiguration) -> str:
    """Return whether any of :meth:`InterferenceConfiguration.types_of` is at stake, as an expression."""
    names = json.dumps(sorted(each.name for each in settings.at_stake))
    named = f'{_label(settings.type_label)}.orValue("") in {names}'
    selected = [_selects(each.selector) for each in settings.at_stake if each.selector]
    return " ||\n".join([named, *selected])


def _selects(selector: LabelSelector) -> str:
    if selector.selects_nothing:
        return "false"
    return "(" + " && ".join(map(_holds, selector.requirements)) + ")" if selector.requirements else "true"


def _holds(requirement: Requirement) -> str:
    """Return the expression for :meth:`Requirement.holds`."""
    label = _label(requirement.key)
    among = f'{label}.orValue("") in {json.dumps(sorted(requirement.values))}'
    match requirement.operator:
        case Operator.IN:
            return f"({label}.hasValue() && {among})"
        case Operator.NOT_IN:
            return f"!({label}.hasValue() && {among})"
        case Operator.EXISTS:
            return f"{label}.hasValue()"
        case Operator.DOES_NOT_EXIST:
            return f"!{label}.hasValue()"


def mutating_policy(settings: InterferenceConfiguration) -> dict[str, Any]:
    """Return the MutatingAdmissionPolicy. Some profile must be at stake."""
    patch = request_patch(INTERFERENCE_RESOURCE, '"0"')
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": NAME},
        "spec": {
            "failurePolicy": "Fail" if settings.while_away is WhileAway.WAIT else "Ignore",
            "reinvocationPolicy": "IfNeeded",
            "matchConstraints": {"resourceRules": [NEW_PODS]},
            "matchConditions": match_conditions(settings),
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}],
        },
    }


def policy_binding() -> dict[str, Any]:
    """Return the MutatingAdmissionPolicyBinding: for the whole cluster."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": NAME},
        "spec": {"policyName": NAME},
    }


def webhook_configuration(config: ClientConfig, settings: InterferenceConfiguration | None) -> dict[str, Any]:
    """Return the MutatingWebhookConfiguration that does the same before Kubernetes 1.36.

    Without a type at stake it has no webhooks: it is to be removed.
    """
    webhooks: list[dict[str, Any]] = []
    if settings is not None and settings.at_stake:
        asked = {
            **webhook("interference.corewise.io", config(WEBHOOK_PATH), NEW_PODS),
            "matchConditions": match_conditions(settings),
            "reinvocationPolicy": "IfNeeded",
        }
        webhooks = [asked]
    return {"metadata": {"name": NAME}, "webhooks": webhooks}


def alternative(settings: Settings, report: Callable[[frozenset[Path]], None]) -> Alternative:
    """Return the policy and the webhook, as they are to be now; neither without a type at stake."""

    def policies() -> Objects:
        now = settings()
        # What is there and is to go is found by its name; until then it says what it said.
        policy = mutating_policy(now) if now and now.at_stake else {"metadata": {"name": NAME}}
        return [(MUTATING_POLICIES, policy), (MUTATING_POLICY_BINDINGS, policy_binding())]

    def is_stopped() -> bool:
        now = settings()
        return now is None or not now.at_stake

    return Alternative(
        policies=policies,
        webhooks=lambda config: [(MUTATING_WEBHOOKS, webhook_configuration(config, settings()))],
        forced=None,
        works=taken_to_work,
        report=lambda paths: report(frozenset() if is_stopped() else paths),
        stopped=is_stopped,
    )


def marker(settings: Settings) -> Review:
    """Return the review of a new pod, which changes it as the policy does."""

    async def mark(request: AdmissionRequest) -> Answer:
        pod = decode_object(WORKLOAD_PODS, request.object, "object")
        return allowed(request, patch=marked(pod, request.object, settings()))

    return mark


def marked(pod: Pod, document: msgspec.Raw, settings: InterferenceConfiguration | None) -> list[Operation]:
    """Return the operations that mark a new pod; none where it is not to be marked."""
    if not (has_stake(pod, settings) and is_unmarked(pod, INTERFERENCE_RESOURCE)):
        return []
    return request_operations(document, INTERFERENCE_RESOURCE, "0")
