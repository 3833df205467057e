"""The cells of every built-in kind, one function a kind; wide columns included.

Source: print* of k8s.io/kubernetes/pkg/printers/internalversion/printers.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from kubedouble.tables.ages import UNKNOWN, since
from kubedouble.tables.pods import pod_cells

Object = Mapping[str, Any]
NONE = "<none>"
_ROLE = "node-role.kubernetes.io/"


def _age(obj: Object, now: datetime) -> str:
    """Return how long ago an object was created."""
    return since(obj["metadata"].get("creationTimestamp"), now)


def _name_age(obj: Object, now: datetime) -> list[Any]:
    return [obj["metadata"]["name"], _age(obj, now)]


def _name_created(obj: Object, _: datetime) -> list[Any]:
    return [obj["metadata"]["name"], obj["metadata"].get("creationTimestamp", UNKNOWN)]


def _namespace(obj: Object, now: datetime) -> list[Any]:
    return [obj["metadata"]["name"], _at(obj, "status").get("phase", ""), _age(obj, now)]


def _node(obj: Object, now: datetime) -> list[Any]:
    status = _at(obj, "status")
    info = status.get("nodeInfo") or {}
    addresses = {each["type"]: each["address"] for each in reversed(status.get("addresses") or ())}
    return [
        obj["metadata"]["name"],
        _node_status(obj),
        ",".join(_roles(obj["metadata"].get("labels") or {})) or NONE,
        _age(obj, now),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP", NONE),
        addresses.get("ExternalIP", NONE),
        info.get("osImage") or UNKNOWN,
        info.get("kernelVersion") or UNKNOWN,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _node_status(obj: Object) -> str:
    conditions = {each.get("type"): each.get("status") for each in _at(obj, "status").get("conditions") or ()}
    ready = conditions.get("Ready")
    words = ["Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"]
    if _at(obj, "spec").get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _roles(labels: Mapping[str, str]) -> list[str]:
    named = {key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE)} - {""}
    if labels.get("kubernetes.io/role"):
        named.add(labels["kubernetes.io/role"])
    return sorted(named)


def _config_map(obj: Object, now: datetime) -> list[Any]:
    return [
        obj["metadata"]["name"],
        len(obj.get("data") or {}) + len(obj.get("binaryData") or {}),
        _age(obj, now),
    ]


def _secret(obj: Object, now: datetime) -> list[Any]:
    return [obj["metadata"]["name"], obj.get("type", ""), len(obj.get("data") or {}), _age(obj, now)]


def _service_account(obj: Object, now: datetime) -> list[Any]:
    return [obj["metadata"]["name"], len(obj.get("secrets") or ()), _age(obj, now)]


def _service(obj: Object, now: datetime) -> list[Any]:
    spec = _at(obj, "spec")
    ports = [_port(port) for port in spec.get("ports") or ()]
    return [
        obj["metadata"]["name"],
        spec.get("type", ""),
        spec.get("clusterIP") or NONE,
        ",".join(spec.get("externalIPs") or ()) or spec.get("externalName") or NONE,
        ",".join(ports) or NONE,
        _age(obj, now),
        _pairs(spec.get("selector")),
    ]


def _port(port: Object) -> str:
    number = f"{port['port']}:{port['nodePort']}" if port.get("nodePort") else str(port["port"])
    return f"{number}/{port.get('protocol', 'TCP')}"


def _lease(obj: Object, now: datetime) -> list[Any]:
    return [obj["metadata"]["name"], _at(obj, "spec").get("holderIdentity", ""), _age(obj, now)]


def _event(obj: Object, now: datetime) -> list[Any]:
    """Return the cells of an Event of either group."""
    about = obj.get("involvedObject") or obj.get("regarding") or {}
    series = obj.get("series") or {}
    first = obj.get("firstTimestamp") or obj.get("deprecatedFirstTimestamp") or obj.get("eventTime")
    last = obj.get("lastTimestamp") or obj.get("deprecatedLastTimestamp")
    count = obj.get("count") or obj.get("deprecatedCount") or 1
    return [
        since(series.get("lastObservedTime") or last or first, now),
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}",
        about.get("fieldPath", ""),
        _source(obj),
        (obj.get("message") or obj.get("note") or "").strip(),
        since(first, now),
        series.get("count") or count,
        obj["metadata"]["name"],
    ]


def _source(obj: Object) -> str:
    source = obj.get("source") or obj.get("deprecatedSource") or {}
    component = (
        source.get("component") or obj.get("reportingComponent") or obj.get("reportingController") or ""
    )
    host = source.get("host") or obj.get("reportingInstance") or ""
    return f"{component}, {host}" if host else component


def _deployment(obj: Object, now: datetime) -> list[Any]:
    spec, status = _at(obj, "spec"), _at(obj, "status")
    return [
        obj["metadata"]["name"],
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        _age(obj, now),
        *_containers(spec),
        _selector(spec.get("selector")),
    ]


def _daemon_set(obj: Object, now: datetime) -> list[Any]:
    spec, status = _at(obj, "spec"), _at(obj, "status")
    counts = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled",
              "numberAvailable")  # fmt: skip
    template = _at(_at(spec, "template"), "spec")
    return [
        obj["metadata"]["name"],
        *(status.get(count, 0) for count in counts),
        _pairs(template.get("nodeSelector")),
        _age(obj, now),
        *_containers(spec),
        _selector(spec.get("selector")),
    ]


def _disruption_budget(obj: Object, now: datetime) -> list[Any]:
    spec, status = _at(obj, "spec"), _at(obj, "status")
    return [
        obj["metadata"]["name"],
        str(spec.get("minAvailable", "N/A")),
        str(spec.get("maxUnavailable", "N/A")),
        status.get("disruptionsAllowed", 0),
        _age(obj, now),
    ]


def _binding(obj: Object, now: datetime) -> list[Any]:
    """Return the cells of a RoleBinding or ClusterRoleBinding."""
    role = obj.get("roleRef") or {}
    subjects: Iterable[Object] = obj.get("subjects") or ()
    names: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in subjects:
        place = f"{subject.get('namespace', '')}/" if subject.get("kind") == "ServiceAccount" else ""
        names.setdefault(subject.get("kind", ""), []).append(f"{place}{subject.get('name', '')}")
    return [
        obj["metadata"]["name"],
        f"{role.get('kind', '')}/{role.get('name', '')}",
        _age(obj, now),
        ", ".join(names["User"]),
        ", ".join(names["Group"]),
        ", ".join(names["ServiceAccount"]),
    ]


def _webhook_configuration(obj: Object, now: datetime) -> list[Any]:
    return [obj["metadata"]["name"], len(obj.get("webhooks") or ()), _age(obj, now)]


def _policy(obj: Object, now: datetime) -> list[Any]:
    """Return the cells of a ValidatingAdmissionPolicy."""
    spec = _at(obj, "spec")
    kind = _at(spec, "paramKind")
    param = f"{kind.get('apiVersion')}/{kind.get('kind')}" if kind else "<unset>"
    return [obj["metadata"]["name"], len(spec.get("validations") or ()), param, _age(obj, now)]


def _policy_binding(obj: Object, now: datetime) -> list[Any]:
    """Return the cells of a ValidatingAdmissionPolicyBinding."""
    spec = _at(obj, "spec")
    param = _at(spec, "paramRef")
    named = f"{param.get('namespace', '*')}/{param.get('name', '')}" if param else "<unset>"
    return [obj["metadata"]["name"], spec.get("policyName", ""), named, _age(obj, now)]


def _network_policy(obj: Object, now: datetime) -> list[Any]:
    return [obj["metadata"]["name"], _selector(_at(_at(obj, "spec"), "podSelector")), _age(obj, now)]


def _at(obj: Object, key: str) -> Object:
    found: Object = obj.get(key) or {}
    return found


def _pairs(labels: Mapping[str, str] | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


def _containers(spec: Object) -> tuple[str, str]:
    containers = _at(_at(spec, "template"), "spec").get("containers") or ()
    return ",".join(each.get("name", "") for each in containers), ",".join(
        each.get("image", "") for each in containers
    )


def _selector(selector: Object | None) -> str:
    chosen = selector or {}
    parts = [f"{key}={value}" for key, value in sorted((chosen.get("matchLabels") or {}).items())]
    parts += map(_expression, chosen.get("matchExpressions") or ())
    return ",".join(parts) or NONE


def _expression(each: Object) -> str:
    values = ",".join(sorted(each.get("values") or ()))
    match each.get("operator"):
        case "In":
            return f"{each['key']} in ({values})"
        case "NotIn":
            return f"{each['key']} notin ({values})"
        case "DoesNotExist":
            return f"!{each['key']}"
        case _:
            return str(each.get("key", ""))


CELLS: Mapping[str, Callable[[Object, datetime], list[Any]]] = {
    "nodes": _node,
    "pods": pod_cells,
    "namespaces": _namespace,
    "configmaps": _config_map,
    "secrets": _secret,
    "serviceaccounts": _service_account,
    "services": _service,
    "events": _event,
    "leases": _lease,
    "deployments": _deployment,
    "daemonsets": _daemon_set,
    "poddisruptionbudgets": _disruption_budget,
    "roles": _name_created,
    "clusterroles": _name_created,
    "rolebindings": _binding,
    "clusterrolebindings": _binding,
    "mutatingwebhookconfigurations": _webhook_configuration,
    "validatingwebhookconfigurations": _webhook_configuration,
    "validatingadmissionpolicies": _policy,
    "validatingadmissionpolicybindings": _policy_binding,
    "networkpolicies": _network_policy,
    "customresourcedefinitions": _name_created,
    "": _name_age,
}
"""Resource -> what makes its cells; the empty name is for every other."""
