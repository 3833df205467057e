"""The requests that make kube-scheduler call the extender: corewise.io/owned-cpus: N of pods that own CPUs.

kube-scheduler calls an extender with ``managedResources`` only for pods that request one of them. So the
resource is added to each new pod that is to own CPUs by its class, and to no other pod:

- its label koordinator.sh/qosClass is LSR or LSE, in any namespace: where LSE is not allowed
  (vocabulary/qos.py), the extender refuses the pod and says why, whereas kube-scheduler alone would place it
  without CPUs of its own;
- it is not bound yet, and states the resource in no container;
- N is its request of cpu as the engine counts it (amplification/demand.py), in CPUs, rounded up: a pod that
  requests 2500m must reach the extender too, which says why it fits nowhere. A pod that requests none owns
  none.

N stands in requests and limits of the first container, as Kubernetes wants it of extended resources, and a
ResourceQuota of ``requests.corewise.io/owned-cpus`` limits it.

Such a pod also gets the annotation node.corewise.io/normalize-cpuset: "true" if it does not have that
annotation, and its namespace has the label of this name with the value true, or, where the scheduler's file
has normalizeCPUSet: true, any value but false. From then on the pod alone says whether its CPUs are
normalized: what becomes of the label changes no pod that exists.

From Kubernetes 1.36 on a MutatingAdmissionPolicy does that in the API server. Before, a webhook of the
scheduler does, by the same conditions. Both have failurePolicy Fail: a pod that slipped through would own its
CPUs late, if at all. They concern pods with these labels alone, and what one has added the other finds.

Binding and webhook configuration carry the scheduler's QoS rules as an annotation, for commands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from corewise.engine.facts import CPU
from corewise.engine.reading import pod_facts
from corewise.kube.admission import AdmissionRequest, Operation, merge_operations
from corewise.kube.decoding import decode_object
from corewise.kube.objects import PartialObject
from corewise.kube.resources import MUTATING_POLICIES, MUTATING_POLICY_BINDINGS, MUTATING_WEBHOOKS
from corewise.quantities import MILLI
from corewise.service.installation import Alternative, ClientConfig, Path
from corewise.service.webhooks import Answer, allowed, rule, webhook
from corewise.vocabulary.cpu_annotations import NO, YES
from corewise.vocabulary.names import NORMALIZE_CPUSET, OWNED_CPUS_RESOURCE, QOS_CLASS
from corewise.vocabulary.qos import OWNERS_OF_CPUS, QoSRules
from corewise.workload.pods import WORKLOAD_PODS, Pod

NAME = "corewise-owned-cpus"
"""Of the policy, its binding, and the webhook configuration."""
WEBHOOK_PATH = "/add-owned-cpus"
NORMALIZE_PATH = "/normalize-cpuset"
NEW_PODS = rule("pods", "CREATE", scope="Namespaced")
_LISTS = ("requests", "limits")

_CPU = """int(quantity({0}.?resources.?requests[?"cpu"].orValue("0")).asApproximateFloat() * 1000.0 + 0.5)"""
_STATES_IT = """{0}.?resources.?requests[?"{1}"].hasValue() || {0}.?resources.?limits[?"{1}"].hasValue()"""


def unmarked(resource: str) -> list[dict[str, str]]:
    """Return the conditions of policies and webhooks that a pod has no node and no such request."""
    states = _STATES_IT.format("c", resource)
    conditions = {
        "not-bound": "!has(object.spec.nodeName)",
        "not-stated-by-a-container": f"!object.spec.containers.exists(c,\n{states})",
        "nor-by-an-init-container": f"!object.spec.?initContainers.orValue([]).exists(c,\n{states})",
    }
    return [{"name": name, "expression": text} for name, text in conditions.items()]


def mutating_policy(*, normalize: bool = False) -> dict[str, Any]:
    """Return the MutatingAdmissionPolicy; ``normalize``: CPUs are normalized unless a label says no."""
    patches = request_patch(OWNED_CPUS_RESOURCE, "string(variables.cpus)"), _normalize_patch()
    patch = "variables.cpus == 0 ? [] :\n" + " +\n".join(patches)
    mutation = {"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}
    variables = {**_variables(), "normalizes": f"{_UNSTATED} &&\n{_of_namespace(normalize=normalize)}"}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": NAME},
        "spec": {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "IfNeeded",
            "matchConstraints": {"objectSelector": _selector(), "resourceRules": [NEW_PODS]},
            "matchConditions": unmarked(OWNED_CPUS_RESOURCE),
            "variables": [{"name": name, "expression": text} for name, text in variables.items()],
            "mutations": [mutation],
        },
    }


_UNSTATED = f'!object.metadata.?annotations[?"{NORMALIZE_CPUSET}"].hasValue()'


def _of_namespace(*, normalize: bool) -> str:
    """Return the expression that a pod's namespace normalizes CPUs."""
    label = f'namespaceObject.metadata.?labels[?"{NORMALIZE_CPUSET}"].orValue("")'
    return f'{label} != "{NO}"' if normalize else f'{label} == "{YES}"'


def _normalize_patch() -> str:
    """Return the expression of the JSON patch that annotates the pod, if its CPUs are to be normalized."""
    parent = 'JSONPatch{op: "add", path: "/metadata/annotations", value: {}}'
    path = f'"/metadata/annotations/" + jsonpatch.escapeKey("{NORMALIZE_CPUSET}")'
    entry = f'JSONPatch{{op: "add", path: {path},\nvalue: "{YES}"}}'
    return (
        f"(variables.normalizes && !has(object.metadata.annotations) ? [{parent}] : []) +\n"
        f"(variables.normalizes ? [{entry}] : [])"
    )


def _variables() -> dict[str, str]:
    """Return the variables that count a pod's request, as ``pod_request`` of amplification/demand.py does.

    The API server has rounded requests up to milli-CPU by then, and set those of containers that state limits
    alone.
    """
    milli, sidecar = _CPU.format, '{0}.?restartPolicy.orValue("") == "Always"'.format
    return {
        "init": "object.spec.?initContainers.orValue([])",
        "names": "variables.init.map(i, i.name)",
        "running": f"object.spec.containers.map(c,\n{milli('c')}).sum()",
        "sidecars": f"variables.init.filter(s, {sidecar('s')}).map(s,\n{milli('s')}).sum()",
        "starting": (
            f"variables.init.map(i,\n{milli('i')} +\nvariables.init.filter(s, {sidecar('s')} &&\n"
            "variables.names.indexOf(s.name) < variables.names.indexOf(i.name)).map(s,\n"
            f"{milli('s')}).sum())"
        ),
        "summed": "(variables.starting + [variables.running + variables.sidecars]).max()",
        "total": (
            f'object.spec.?resources.?requests[?"cpu"].hasValue() ?\n{milli("object.spec")} :\n'
            "variables.summed"
        ),
        "overhead": (
            'int(quantity(object.spec.?overhead[?"cpu"].orValue("0")).asApproximateFloat() * 1000.0 + 0.5)'
        ),
        "cpus": "(variables.total + variables.overhead + 999) / 1000",
    }


def request_patch(resource: str, amount: str) -> str:
    """Return the expression of the JSON patch that has the first container request an amount, and limits it.

    Parents that are missing come first, then both entries.
    """
    here, there = "/spec/containers/0/resources", "object.spec.containers[0]"
    steps = [(f"has({there}.resources)", here)]
    steps += [(f"{there}.?resources.?{each}.hasValue()", f"{here}/{each}") for each in _LISTS]
    parents = [f'({has} ? [] : [JSONPatch{{op: "add", path: "{path}", value: {{}}}}])' for has, path in steps]
    entries = [
        f'JSONPatch{{op: "add", path: "{here}/{each}/" + jsonpatch.escapeKey("{resource}"),\n'
        f"value: {amount}}}"
        for each in _LISTS
    ]
    both = ",\n".join(entries)
    return " +\n".join([*parents, f"[{both}]"])


def policy_binding(rules: QoSRules) -> dict[str, Any]:
    """Return the MutatingAdmissionPolicyBinding: for the whole cluster, with the rules published."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": NAME, "annotations": rules.annotations},
        "spec": {"policyName": NAME},
    }


def webhook_configuration(
    config: ClientConfig, rules: QoSRules, *, normalize: bool = False
) -> dict[str, Any]:
    """Return the MutatingWebhookConfiguration that does the same before Kubernetes 1.36.

    The API server selects namespaces for the first webhook, so the scheduler reads none. It comes first,
    because the second one's mark keeps both from being called.
    """
    common = {"objectSelector": _selector(), "reinvocationPolicy": "IfNeeded"}
    operator, value = ("NotIn", NO) if normalize else ("In", YES)
    namespaces = {"key": NORMALIZE_CPUSET, "operator": operator, "values": [value]}
    conditions = unmarked(OWNED_CPUS_RESOURCE)
    normalizing = {
        **webhook("normalize-cpuset.corewise.io", config(NORMALIZE_PATH), NEW_PODS, failure_policy="Fail"),
        **common,
        "namespaceSelector": {"matchExpressions": [namespaces]},
        "matchConditions": [*conditions, {"name": "does-not-state-it", "expression": _UNSTATED}],
    }
    asked = {
        **webhook("owned-cpus.corewise.io", config(WEBHOOK_PATH), NEW_PODS, failure_policy="Fail"),
        **common,
        "matchConditions": conditions,
    }
    return {"metadata": {"name": NAME, "annotations": rules.annotations}, "webhooks": [normalizing, asked]}


def published_rules(installed: Iterable[PartialObject]) -> QoSRules | None:
    """Return the QoS rules of a cluster's scheduler from bindings or webhook configurations."""
    own = (each for each in installed if each.metadata.name == NAME)
    return next(filter(None, (QoSRules.published(each.metadata.annotations) for each in own)), None)


def alternative(
    rules: QoSRules, normalizes: Callable[[], bool], report: Callable[[frozenset[Path]], None]
) -> Alternative:
    """Return the policy and the webhook; what the API server serves decides between them.

    ``normalizes`` says whether CPUs are normalized, by the configuration that is active.
    The policy is taken to work once it has been installed for a while: it depends on nothing else. A dry run
    that shows it, as the manager makes one of its own, would need the permission to create pods, and whoever
    has that in a namespace can act as every service account there.
    """
    return Alternative(
        policies=lambda: [
            (MUTATING_POLICIES, mutating_policy(normalize=normalizes())),
            (MUTATING_POLICY_BINDINGS, policy_binding(rules)),
        ],
        webhooks=lambda config: [
            (MUTATING_WEBHOOKS, webhook_configuration(config, rules, normalize=normalizes()))
        ],
        forced=None,
        works=taken_to_work,
        report=report,
    )


async def taken_to_work() -> bool:
    """Say that a policy works: where it is served, it depends on nothing else."""
    return True


def _selector() -> dict[str, Any]:
    owners = {"key": QOS_CLASS, "operator": "In", "values": sorted(OWNERS_OF_CPUS)}
    return {"matchExpressions": [owners]}


async def add_owned_cpus(request: AdmissionRequest) -> Answer:
    """Answer a review of a new pod, as the policy changes it.

    Raises:
        DecodeError: if the object is not a pod.
    """
    pod = decode_object(WORKLOAD_PODS, request.object, "object")
    return allowed(request, patch=added(pod, request.object))


def added(pod: Pod, document: msgspec.Raw) -> list[Operation]:
    """Return the operations that give a new pod the resource; none where it is not to have it."""
    cpus = _cpus_to_mark(pod)
    return request_operations(document, OWNED_CPUS_RESOURCE, str(cpus)) if cpus else []


def _cpus_to_mark(pod: Pod) -> int:
    """Return the CPUs that a new pod is to request as owned ones; 0 where it is not to be marked."""
    if pod.metadata.labels.get(QOS_CLASS) not in OWNERS_OF_CPUS or not is_unmarked(pod, OWNED_CPUS_RESOURCE):
        return 0
    return -(-pod_facts(pod).requests.get(CPU, 0) // MILLI)


async def normalize_cpuset(request: AdmissionRequest) -> Answer:
    """Answer a review of a new pod in a namespace whose CPUs are normalized, as the policy changes it.

    Raises:
        DecodeError: if the object is not a pod.
    """
    pod = decode_object(WORKLOAD_PODS, request.object, "object")
    return allowed(request, patch=normalized(pod, request.object))


def normalized(pod: Pod, document: msgspec.Raw) -> list[Operation]:
    """Return the operations that have a new pod's CPUs normalized; none where it says itself whether."""
    if NORMALIZE_CPUSET in pod.metadata.annotations or not _cpus_to_mark(pod):
        return []
    whole = msgspec.json.decode(document)
    return merge_operations(whole, {"metadata": {"annotations": {NORMALIZE_CPUSET: YES}}})


def is_unmarked(pod: Pod, resource: str) -> bool:
    """Whether a pod has no node and no such request."""
    return not pod.spec.node_name and not requests_it(pod, resource)


def requests_it(pod: Pod, resource: str) -> bool:
    """Whether a pod names a resource in its requests or limits, with any amount."""
    every = (each.resources for each in (*pod.spec.containers, *pod.spec.init_containers))
    return any(resource in each.requests or resource in each.limits for each in every)


def request_operations(document: msgspec.Raw, resource: str, amount: str) -> list[Operation]:
    """Return the operations that have a pod's first container request an amount, and limit it."""
    first = msgspec.json.decode(document)["spec"]["containers"][0]
    both = {resource: amount}
    operations = merge_operations(first, {"resources": {"requests": both, "limits": both}})
    return [msgspec.structs.replace(each, path=f"/spec/containers/0{each.path}") for each in operations]
