"""Requests that do something else than read or write their object: binding, eviction, tokens, logs, reviews.

Source: k8s.io/kubernetes/pkg/registry/core/pod/storage/{storage,eviction}.go,
core/serviceaccount/storage/token.go.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from kubedouble import deletion, disruption, forms, tables, writing
from kubedouble.authentication import service_account
from kubedouble.cluster import Cluster, Reply
from kubedouble.errors import Faults, StatusError, bad_request, conflict, precondition_failed
from kubedouble.requests import Call
from kubedouble.schema.decoding import timestamp
from kubedouble.schema.kinds import builtin_schema
from kubedouble.schema.normalization import normalize
from kubedouble.store import Object, Stored

Handler = Callable[[Cluster, Call], Awaitable[Reply]]

_CREATED = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
_SHORTEST_TOKEN = 600
_DEFAULT_TOKEN = 3600


async def bind(cluster: Cluster, call: Call) -> Reply:
    """Assign a pod to a node."""
    call.check_options()
    binding = _taken(call)
    node = _target(call, binding)
    binding, warnings = await cluster.mutate(call, "CREATE", binding, None)
    warnings += await cluster.validate(call, "CREATE", binding, None)
    pod = cluster.existing(call)
    _check_bindable(call, pod, binding)
    if not call.dry_run:
        cluster.store.put("pods", pod.key, _bound(pod.object, binding, node, timestamp(cluster.clock())))
    return Reply(forms.encode(_CREATED), 201, warnings)


async def evict(cluster: Cluster, call: Call) -> Reply:
    """Delete a pod, unless a PodDisruptionBudget forbids it (:mod:`kubedouble.disruption`)."""
    call.check_options()
    eviction = _taken(call)
    pod = cluster.existing(call)
    eviction, warnings = await cluster.mutate(call, "CREATE", eviction, None)
    warnings += await cluster.validate(call, "CREATE", eviction, None)
    given = eviction.get("deleteOptions") or {}
    call = _dry_run_of(call, given)
    options = deletion.options_of(given, call)
    current = cluster.existing(call)
    if pod.object["metadata"]["uid"] == current.object["metadata"]["uid"]:
        disruption.check(cluster, current, dry_run=call.dry_run)
        deletion.delete_stored(cluster, call.resource, current, options, dry_run=call.dry_run)
    return Reply(forms.encode(_CREATED), 201, warnings)


def _dry_run_of(call: Call, given: Object) -> Call:
    """Return the call as a dry run if the options of the delete ask for one (``propagateDryRun``).

    Raises:
        StatusError: 500, if the request asks for another one; 422 for a value that makes no sense.
    """
    wanted, asked = ",".join(given.get("dryRun") or ()), call.query.get("dryRun", "")
    if wanted and asked and wanted != asked:
        message = f"Non-matching dry-run options in request and content: [{asked}] and [{wanted}]"
        raise StatusError(500, "", message)
    call = replace(call, query={**call.query, "dryRun": wanted or asked})
    call.check_options()
    return call


async def refuse(cluster: Cluster, call: Call) -> Reply:
    """Refuse a request that needs a container."""
    cluster.existing(call)
    lacks = _NO_CONTAINERS[call.info.subresource]
    message = f'pod "{call.name}" {lacks}: the local cluster simulates its nodes and runs no containers'
    raise StatusError(501, "", message)


_NO_CONTAINERS = {
    "log": "has no log",
    "exec": "runs no command",
    "attach": "has no input and output to attach to",
    "portforward": "has no ports to forward",
    "ephemeralcontainers": "takes no container to debug it",
}


async def scale(cluster: Cluster, call: Call) -> Reply:
    """Show or change how many pods a workload should have, as a Scale."""
    shown = _scale_of(cluster.existing(call).object)
    if call.info.verb == "get":
        return Reply(forms.encode(shown))
    call.check_options()
    if call.info.verb == "patch":
        schema = builtin_schema("autoscaling", "v1", "Scale")
        wanted = writing.patch_for(call, schema).make(shown) if schema else shown
    else:
        wanted = _taken(call)
    replicas, version = (
        (wanted.get("spec") or {}).get("replicas", 0),
        wanted["metadata"].get("resourceVersion"),
    )

    def change(obj: Object | None) -> Object:
        before = obj or {}
        named = {"resourceVersion": version} if version else {}
        metadata = {**before["metadata"], **named}
        return {**before, "metadata": metadata, "spec": {**before["spec"], "replicas": replicas}}

    whole = replace(call, info=replace(call.info, subresource="", verb="update"))
    outcome = await writing.change_object(cluster, whole, writing.Change(change))
    return Reply(forms.encode(_scale_of(outcome.stored.object)), 200, outcome.warnings)


def _scale_of(obj: Object) -> dict[str, Any]:
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    selector = {"selector": tables.selector(obj["spec"].get("selector"))}
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {name: obj["metadata"][name] for name in kept},
        "spec": {"replicas": obj["spec"]["replicas"]},
        "status": {"replicas": (obj.get("status") or {}).get("replicas", 0), **selector},
    }


async def issue_token(cluster: Cluster, call: Call) -> Reply:
    """Issue a bearer token for a service account (``kubectl create token``)."""
    request = _taken(call)
    account = cluster.existing(call)
    seconds = (request.get("spec") or {}).get("expirationSeconds") or _DEFAULT_TOKEN
    if not isinstance(seconds, int) or seconds < _SHORTEST_TOKEN:
        faults = Faults()
        faults.invalid("spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
        faults.refuse(call.resource, call.name)
    expires = cluster.clock() + timedelta(seconds=seconds)
    user = service_account(call.namespace, call.name, account.object["metadata"]["uid"])
    token = cluster.authenticator.tokens.issue(user, expires=expires)
    status = {"token": token, "expirationTimestamp": timestamp(expires)}
    return Reply(forms.encode({**request, "status": status}), 201)


async def review(cluster: Cluster, call: Call) -> Reply:
    """Answer a question about identity or permission; nothing is stored."""
    answer = cluster.reviews.answer(
        call.resource.kind, _taken(call), call.user, namespace=call.namespace, now=cluster.clock()
    )
    return Reply(forms.encode(answer), 201)


SUBRESOURCES: Mapping[tuple[str, str, str], Handler] = {
    ("pods", "binding", "create"): bind,
    ("pods", "eviction", "create"): evict,
    **{("pods", name, verb): refuse for name in _NO_CONTAINERS for verb in ("create", "get", "patch")},
    ("serviceaccounts", "token", "create"): issue_token,
    **{
        (f"{workload}.apps", "scale", verb): scale
        for workload in ("deployments", "replicasets")
        for verb in ("get", "update", "patch")
    },
}
"""Storage key, subresource and verb -> handler, for what is not a read or write of the object itself."""

REVIEW_GROUPS = frozenset({"authentication.k8s.io", "authorization.k8s.io"})


def _taken(call: Call) -> dict[str, Any]:
    """Return the body as an object of the kind that is taken here.

    Raises:
        StatusError: 400, if it is of another kind, or has values of the wrong type.
    """
    body = call.decoded()
    wanted = call.resource.kind_of(call.info.subresource)
    if body.get("kind", wanted.kind) != wanted.kind:
        raise bad_request(f"the object provided is of kind {body['kind']}, but {wanted.kind} is expected")
    api_version = f"{wanted.group}/{wanted.version}" if wanted.group else wanted.version
    body = {"apiVersion": api_version, **body, "kind": wanted.kind}
    schema = builtin_schema(wanted.group, wanted.version, wanted.kind)
    decoded = normalize(body, schema)[0] if schema else body
    return {**decoded, "metadata": decoded.get("metadata") or {}}


def _target(call: Call, binding: Object) -> str:
    target = binding.get("target") or {}
    faults = Faults()
    if target.get("kind", "") not in {"", "Node"}:
        faults.unsupported("target.kind", target["kind"], ("Node", "<empty>"))
    if not target.get("name"):
        faults.required("target.name")
    faults.refuse(replace(call.resource, kind="Binding"), call.name)
    name: str = target["name"]
    return name


def _check_bindable(call: Call, pod: Stored, binding: Object) -> None:
    metadata = pod.object["metadata"]
    wanted = binding["metadata"]
    where = replace(call.resource, plural="pods/binding")
    if wanted.get("uid") and wanted["uid"] != metadata["uid"]:
        raise precondition_failed(where, call.name, "UID", wanted["uid"], metadata["uid"])
    if (version := wanted.get("resourceVersion")) and version != str(pod.version):
        raise precondition_failed(where, call.name, "ResourceVersion", version, str(pod.version))
    if metadata.get("deletionTimestamp"):
        raise conflict(where, call.name, f"pod {call.name} is being deleted, cannot be assigned to a host")
    if node := pod.object["spec"].get("nodeName"):
        raise conflict(where, call.name, f'pod {call.name} is already assigned to node "{node}"')
    if pod.object["spec"].get("schedulingGates"):
        raise conflict(where, call.name, f"pod {call.name} has non-empty .spec.schedulingGates")


def _bound(pod: Object, binding: Object, node: str, now: str) -> Object:
    metadata, status = {**pod["metadata"]}, pod.get("status") or {}
    if annotations := binding["metadata"].get("annotations"):
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **annotations}
    others = [each for each in status.get("conditions") or () if each.get("type") != "PodScheduled"]
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    status = {**status, "conditions": [*others, scheduled]}
    return {**pod, "metadata": metadata, "spec": {**pod["spec"], "nodeName": node}, "status": status}
