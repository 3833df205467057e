r"""Objects as rows: the ``metav1.Table`` that ``kubectl get`` prints, with kube-apiserver's columns.

A custom kind has the columns that its ``additionalPrinterColumns`` name by JSONPath, of which printer columns
use a part: ``.a.b``, ``.a\.b``, ``['a.b']``, ``[0]``, ``[*]``, and the filter ``[?(@.type=="Ready")]``. More
than one result is shown comma-separated, none as empty.

Source: print* of k8s.io/kubernetes/pkg/printers/internalversion/printers.go;
apiextensions-apiserver/pkg/registry/customresource/tableconvertor/tableconvertor.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec

from kubedouble.pod_cells import NONE, UNKNOWN, human_duration, instant, pod_cells, since
from kubedouble.resources import ResourceInfo

Object = Mapping[str, Any]
Cells = Callable[[Object, datetime], Iterable[Any]]
"""What makes the cells of an object, without those of the columns Name, Age and Created At."""

_NODE = "Name Status Roles Age Version *Internal-IP *External-IP *OS-Image *Kernel-Version *Container-Runtime"
_NAME = {"name": "Name", "type": "string", "format": "name"}
_AGE = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
_STEP = re.compile(
    r"""\.?(?:
        (?P<name>(?:[^.\[\]\\]|\\.)+)
      | \[\s*'(?P<quoted>[^']*)'\s*\]
      | \[\s*(?P<index>-?\d+|\*)\s*\]
      | \[\?\(\s*@\.(?P<key>[\w.-]+)\s*==\s*["'](?P<value>[^"']*)["']\s*\)\]
    )""",
    re.VERBOSE,
)
_ROLE = "node-role.kubernetes.io/"


def _node(obj: Object, _: datetime) -> list[Any]:
    status = _at(obj, "status")
    info = status.get("nodeInfo") or {}
    addresses = {each["type"]: each["address"] for each in reversed(status.get("addresses") or ())}
    return [
        _node_status(obj),
        ",".join(_roles(obj["metadata"].get("labels") or {})) or NONE,
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


def _service(obj: Object, _: datetime) -> list[Any]:
    spec = _at(obj, "spec")
    ports = [_port(port) for port in spec.get("ports") or ()]
    return [
        spec.get("type", ""),
        spec.get("clusterIP") or NONE,
        ",".join(spec.get("externalIPs") or ()) or spec.get("externalName") or NONE,
        ",".join(ports) or NONE,
        _pairs(spec.get("selector")),
    ]


def _port(port: Object) -> str:
    number = f"{port['port']}:{port['nodePort']}" if port.get("nodePort") else str(port["port"])
    return f"{number}/{port.get('protocol', 'TCP')}"


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
    ]


def _source(obj: Object) -> str:
    source = obj.get("source") or obj.get("deprecatedSource") or {}
    component = (
        source.get("component") or obj.get("reportingComponent") or obj.get("reportingController") or ""
    )
    host = source.get("host") or obj.get("reportingInstance") or ""
    return f"{component}, {host}" if host else component


def _deployment(obj: Object, _: datetime) -> list[Any]:
    spec, status = _at(obj, "spec"), _at(obj, "status")
    return [
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        *_pods(spec),
    ]


def _replica_set(obj: Object, _: datetime) -> list[Any]:
    spec, status = _at(obj, "spec"), _at(obj, "status")
    counts = [spec.get("replicas", 1), status.get("replicas", 0), status.get("readyReplicas", 0)]
    return [*counts, *_pods(spec)]


def _job(obj: Object, now: datetime) -> list[Any]:
    spec, status = _at(obj, "spec"), _at(obj, "status")
    ended = {each["type"] for each in status.get("conditions") or () if each.get("status") == "True"}
    words = [word for word in ("Complete", "Failed", "Suspended") if word in ended] or ["Running"]
    completions = str(spec.get("completions", f"1 of {spec.get('parallelism', 1)}"))
    started, end = instant(status.get("startTime")), instant(status.get("completionTime"))
    lasted = human_duration(((end or now) - started).total_seconds()) if started else ""
    return [
        words[0],
        f"{status.get('succeeded', 0)}/{completions}",
        lasted,
        *_pods(spec),
    ]


def _autoscaler(obj: Object, _: datetime) -> list[Any]:
    spec, status = _at(obj, "spec"), _at(obj, "status")
    reference = _at(spec, "scaleTargetRef")
    found = [*(status.get("currentMetrics") or ()), *({} for _ in spec.get("metrics") or ())]
    shown = []
    for metric, current in zip(spec.get("metrics") or (), found, strict=False):
        kind = metric["type"].lower()
        source, value = metric.get(kind) or {}, _at(current.get(kind) or {}, "current")
        name = f"{source['name']}: " if "name" in source else ""
        for field, unit in (("averageUtilization", "%"), ("averageValue", ""), ("value", "")):
            if (goal := (source.get("target") or {}).get(field)) is not None:
                now = f"{value[field]}{unit}" if field in value else UNKNOWN
                shown.append(f"{name}{now}/{goal}{unit}")
    return [
        f"{reference.get('kind')}/{reference.get('name')}",
        ", ".join(shown) or NONE,
        spec.get("minReplicas", 1),
        spec.get("maxReplicas"),
        status.get("currentReplicas", 0),
    ]


def _daemon_set(obj: Object, _: datetime) -> list[Any]:
    spec, status = _at(obj, "spec"), _at(obj, "status")
    counts = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled",
              "numberAvailable")  # fmt: skip
    template = _at(_at(spec, "template"), "spec")
    return [
        *(status.get(count, 0) for count in counts),
        _pairs(template.get("nodeSelector")),
        *_pods(spec),
    ]


def _disruption_budget(obj: Object, _: datetime) -> list[Any]:
    spec, status = _at(obj, "spec"), _at(obj, "status")
    limits = (str(spec.get(limit, "N/A")) for limit in ("minAvailable", "maxUnavailable"))
    return [*limits, status.get("disruptionsAllowed", 0)]


def _binding(obj: Object, _: datetime) -> list[Any]:
    """Return the cells of a RoleBinding or ClusterRoleBinding."""
    role = obj.get("roleRef") or {}
    subjects: Iterable[Object] = obj.get("subjects") or ()
    names: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in subjects:
        place = f"{subject.get('namespace', '')}/" if subject.get("kind") == "ServiceAccount" else ""
        names.setdefault(subject.get("kind", ""), []).append(f"{place}{subject.get('name', '')}")
    shown = (", ".join(names[kind]) for kind in ("User", "Group", "ServiceAccount"))
    return [f"{role.get('kind', '')}/{role.get('name', '')}", *shown]


def _policy(obj: Object, _: datetime) -> list[Any]:
    """Return the cells of an admission policy of either kind."""
    spec = _at(obj, "spec")
    kind = _at(spec, "paramKind")
    param = f"{kind.get('apiVersion')}/{kind.get('kind')}" if kind else "<unset>"
    return [len(spec.get("validations") or spec.get("mutations") or ()), param]


def _policy_binding(obj: Object, _: datetime) -> list[Any]:
    """Return the cells of a binding of an admission policy of either kind."""
    spec = _at(obj, "spec")
    param = _at(spec, "paramRef")
    named = f"{param.get('namespace', '*')}/{param.get('name', '')}" if param else "<unset>"
    return [spec.get("policyName", ""), named]


def _at(obj: Object, key: str) -> Object:
    found: Object = obj.get(key) or {}
    return found


def _pairs(labels: Mapping[str, str] | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


def _pods(spec: Object) -> list[str]:
    """Return names and images of the containers of a workload's pods, and its selector."""
    containers = _at(_at(spec, "template"), "spec").get("containers") or ()
    texts = (",".join(each.get(key, "") for each in containers) for key in ("name", "image"))
    return [*texts, selector(spec.get("selector"))]


def selector(labels: Object | None) -> str:
    """Return a LabelSelector as text."""
    chosen = labels or {}
    parts = [f"{key}={value}" for key, value in sorted((chosen.get("matchLabels") or {}).items())]
    parts += map(_expression, chosen.get("matchExpressions") or ())
    return ",".join(parts) or NONE


def _expression(each: Object) -> str:
    key, values = str(each.get("key", "")), ",".join(sorted(each.get("values") or ()))
    texts = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "DoesNotExist": f"!{key}"}
    return texts.get(each.get("operator", ""), key)


_BINDING = ("Name Role Age *Users *Groups *ServiceAccounts", _binding)
_WEBHOOKS = ("Name Webhooks Age", lambda obj, _: [len(obj.get("webhooks") or ())])
_CREATED = ("Name Created_At", lambda *_: ())
_TABLES: Mapping[str, tuple[str, Cells]] = {
    "nodes": (_NODE, _node),
    "pods": ("Name Ready Status Restarts Age *IP *Node *Nominated_Node *Readiness_Gates", pod_cells),
    "namespaces": ("Name Status Age", lambda obj, _: [_at(obj, "status").get("phase", "")]),
    "configmaps": (
        "Name Data Age",
        lambda obj, _: [len(obj.get("data") or {}) + len(obj.get("binaryData") or {})],
    ),
    "secrets": ("Name Type Data Age", lambda obj, _: [obj.get("type", ""), len(obj.get("data") or {})]),
    "serviceaccounts": ("Name Secrets Age", lambda obj, _: [len(obj.get("secrets") or ())]),
    "services": ("Name Type Cluster-IP External-IP Port(s) Age *Selector", _service),
    "events": ("Last_Seen Type Reason Object *Subobject *Source Message *First_Seen *Count *Name", _event),
    "leases": ("Name Holder Age", lambda obj, _: [_at(obj, "spec").get("holderIdentity", "")]),
    "deployments": ("Name Ready Up-to-date Available Age *Containers *Images *Selector", _deployment),
    "replicasets": ("Name Desired Current Ready Age *Containers *Images *Selector", _replica_set),
    "jobs": ("Name Status Completions Duration Age *Containers *Images *Selector", _job),
    "horizontalpodautoscalers": ("Name Reference Targets MinPods MaxPods Replicas Age", _autoscaler),
    "daemonsets": (
        "Name Desired Current Ready Up-to-date Available Node_Selector Age *Containers *Images *Selector",
        _daemon_set,
    ),
    "poddisruptionbudgets": (
        "Name Min_Available Max_Unavailable Allowed_Disruptions Age",
        _disruption_budget,
    ),
    "roles": _CREATED,
    "clusterroles": _CREATED,
    "rolebindings": _BINDING,
    "clusterrolebindings": _BINDING,
    "mutatingwebhookconfigurations": _WEBHOOKS,
    "validatingwebhookconfigurations": _WEBHOOKS,
    "mutatingadmissionpolicies": ("Name Mutations ParamKind Age", _policy),
    "mutatingadmissionpolicybindings": ("Name PolicyName ParamRef Age", _policy_binding),
    "validatingadmissionpolicies": ("Name Validations ParamKind Age", _policy),
    "validatingadmissionpolicybindings": ("Name PolicyName ParamRef Age", _policy_binding),
    "networkpolicies": (
        "Name Pod-Selector Age",
        lambda obj, _: [selector(_at(_at(obj, "spec"), "podSelector"))],
    ),
    "customresourcedefinitions": _CREATED,
    "": ("Name Age", lambda *_: ()),
}
"""Resource -> its columns and cells; "" is every other. ``*``: only in wide output; ``_``: a space."""
_INTEGERS = frozenset(
    {"Data", "Secrets", "Webhooks", "Up-to-date", "Available", "Desired", "Current", "Count"}
)
_ABOUT = {
    "Name": "Name must be unique within a namespace.",
    "Age": "Time since the object was created.",
    "Created At": "When the object was created.",
}


def render_table(
    resource: ResourceInfo,
    objects: Iterable[Object],
    *,
    printer_columns: Sequence[Mapping[str, Any]] = (),
    now: datetime | None = None,
) -> tuple[list[dict[str, Any]], list[list[Any]]]:
    """Return column definitions, and a row of cells for every object.

    Args:
        resource: whose objects these are.
        objects: the objects.
        printer_columns: ``additionalPrinterColumns`` of a custom kind's definition.
        now: what ages are counted from; the clock's time unless given.
    """
    now = now or datetime.now(UTC)
    if resource.custom:
        return _custom_table(objects, printer_columns, now)
    columns, cells = _TABLES.get(resource.plural, _TABLES[""])
    definitions = [_definition(column) for column in columns.split()]
    return definitions, [_row(definitions, obj, cells(obj, now), now) for obj in objects]


def _row(
    definitions: Iterable[Mapping[str, Any]], obj: Object, cells: Iterable[Any], now: datetime
) -> list[Any]:
    metadata, others = obj["metadata"], iter(cells)
    created = metadata.get("creationTimestamp")
    shared = {"Name": metadata["name"], "Age": since(created, now), "Created At": created or UNKNOWN}
    return [shared[name] if (name := each["name"]) in shared else next(others) for each in definitions]


def _definition(column: str) -> dict[str, Any]:
    name = column.lstrip("*").replace("_", " ")
    return {
        "name": name,
        "type": "integer" if name in _INTEGERS else "string",
        "format": "name" if name == "Name" else "",
        "description": _ABOUT.get(name, f"{name} of the object."),
        "priority": 1 if column.startswith("*") else 0,
    }


def _custom_table(
    objects: Iterable[Object], printer_columns: Sequence[Mapping[str, Any]], now: datetime
) -> tuple[list[dict[str, Any]], list[list[Any]]]:
    columns = list(printer_columns) or [_AGE]
    definitions = [*map(_custom_definition, [_NAME, *columns])]
    rows = [[obj["metadata"]["name"], *(_cell(obj, column, now) for column in columns)] for obj in objects]
    return definitions, rows


def _custom_definition(column: Mapping[str, Any]) -> dict[str, Any]:
    path = column.get("jsonPath", "")
    about = column.get("description") or f"Custom resource definition column (in JSONPath format): {path}"
    return {
        "name": column["name"],
        "type": column["type"],
        "format": column.get("format", ""),
        "description": about,
        "priority": column.get("priority", 0),
    }


def _cell(obj: Object, column: Mapping[str, Any], now: datetime) -> Any:
    found = find(obj, column["jsonPath"])
    if not found:
        return None
    if column["type"] == "date":
        return since(found[0], now)
    if column["type"] in {"integer", "number", "boolean"} and len(found) == 1:
        return found[0]
    return ",".join(each if isinstance(each, str) else msgspec.json.encode(each).decode() for each in found)


def find(obj: Any, path: str) -> list[Any]:
    """Return the values that a JSONPath finds; none for a path of another form."""
    values = [obj]
    for step in _steps(path):
        values = [found for value in values for found in _follow(value, step)]
    return values


@lru_cache(maxsize=512)
def _steps(path: str) -> tuple[re.Match[str], ...]:
    text = path.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    steps, at = [], 0
    while at < len(text) and (match := _STEP.match(text, at)):
        steps.append(match)
        at = match.end()
    return tuple(steps)


def _follow(value: Any, step: re.Match[str]) -> list[Any]:
    if (name := step["quoted"] or step["name"]) is not None:
        key = re.sub(r"\\(.)", r"\1", name)
        return [value[key]] if isinstance(value, Mapping) and value.get(key) is not None else []
    if not isinstance(value, list):
        return list(value.values()) if step["index"] == "*" and isinstance(value, Mapping) else []
    if step["key"] is not None:
        return [item for item in value if step["value"] in map(str, find(item, "." + step["key"]))]
    if step["index"] == "*":
        return value
    index = int(step["index"])
    return [value[index]] if -len(value) <= index < len(value) else []
