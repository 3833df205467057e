"""Pods and their containers, and workloads: what makes one valid, and what may change later.

Source: ValidatePodCreate, ValidatePodUpdate, validateContainers of
k8s.io/kubernetes/pkg/apis/core/validation/validation.go; pkg/apis/apps/validation/validation.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from kubedouble.errors import Faults
from kubedouble.schema.rules import (
    NOT_NEGATIVE,
    Object,
    dns_label,
    is_label_value,
    port,
    qualified_name,
    requirements,
    subdomain,
)

_FROZEN = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex "
    "used for validation is '[0-9]+%')"
)
_MUTABLE = frozenset({"containers", "initContainers", "activeDeadlineSeconds", "tolerations",
                      "terminationGracePeriodSeconds", "schedulingGates", "ephemeralContainers"})  # fmt: skip
_OPERATORS = ("Equal", "Exists")


def pod(faults: Faults, obj: Object, old: Object | None) -> None:
    """Report the faults of a pod by itself."""
    spec = obj.get("spec") or {}
    if old is None or spec is not old.get("spec"):
        pod_spec(faults, "spec", spec)


def pod_spec(faults: Faults, path: str, spec: Object) -> None:
    """Report the faults of the spec of a pod, or of a template of pods."""
    volumes = _volumes(faults, f"{path}.volumes", spec.get("volumes") or ())
    names: list[str] = []
    listed = spec.get("containers") or ()
    if not listed:
        faults.required(f"{path}.containers")
    containers(faults, f"{path}.containers", listed, volumes, names)
    containers(faults, f"{path}.initContainers", spec.get("initContainers") or (), volumes, names)
    for name in ("terminationGracePeriodSeconds", "activeDeadlineSeconds"):
        if spec.get(name, 0) < 0:
            faults.invalid(f"{path}.{name}", spec[name], NOT_NEGATIVE)
    for key, value in (spec.get("nodeSelector") or {}).items():
        qualified_name(faults, f"{path}.nodeSelector", key)
        if not is_label_value(value):
            faults.invalid(f"{path}.nodeSelector", value, "a valid label must be an empty string or a name")
    if spec.get("nodeName"):
        subdomain(faults, f"{path}.nodeName", spec["nodeName"])
    if spec.get("hostname"):
        dns_label(faults, f"{path}.hostname", spec["hostname"])
    for at, toleration in enumerate(spec.get("tolerations") or ()):
        _toleration(faults, f"{path}.tolerations[{at}]", toleration)


def _volumes(faults: Faults, path: str, listed: Any) -> set[str]:
    names: list[str] = []
    for at, volume in enumerate(listed):
        field, name = f"{path}[{at}]", volume.get("name", "")
        if not name:
            faults.required(f"{field}.name")
        else:
            dns_label(faults, f"{field}.name", name)
        faults.unique(f"{field}.name", name, names)
        sources = [key for key in volume if key != "name"]
        if not sources:
            faults.required(field, "must specify a volume type")
        for source in sources[1:]:
            faults.forbidden(f"{field}.{source}", "may not specify more than 1 volume type")
    return set(names)


def _toleration(faults: Faults, field: str, toleration: Mapping[str, Any]) -> None:
    key, operator = toleration.get("key", ""), toleration.get("operator", "")
    if key:
        qualified_name(faults, f"{field}.key", key)
    elif operator != "Exists":
        faults.invalid(
            f"{field}.operator",
            operator,
            'operator must be Exists when `key` is empty, which means "match all values and all keys"',
        )
    if operator and operator not in _OPERATORS:
        faults.unsupported(f"{field}.operator", operator, _OPERATORS)
    if operator == "Exists" and toleration.get("value"):
        faults.invalid(f"{field}.operator", toleration, "value must be empty when `operator` is 'Exists'")
    if "tolerationSeconds" in toleration and toleration.get("effect") != "NoExecute":
        why = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        faults.invalid(f"{field}.effect", toleration.get("effect", ""), why)


def pod_update(faults: Faults, obj: Object, old: Object) -> None:
    """Note changes that a running pod does not take."""
    spec, before = obj.get("spec") or {}, old.get("spec") or {}
    if spec is before or spec == before:
        return
    tolerations = spec.get("tolerations") or []
    if any(each not in tolerations for each in before.get("tolerations") or ()):
        faults.forbidden(
            "spec.tolerations", "existing toleration can not be modified except its tolerationSeconds"
        )
    gates = before.get("schedulingGates") or []
    if any(gate not in gates for gate in spec.get("schedulingGates") or ()):
        faults.forbidden("spec.schedulingGates", "only deletion is allowed, but found new scheduling gate")
    _deadline(faults, spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds"))
    if _frozen(spec) != _frozen(before) or not _may_terminate(spec, before):
        faults.forbidden("spec", _FROZEN)


def _deadline(faults: Faults, new: int | None, old: int | None) -> None:
    field = "spec.activeDeadlineSeconds"
    if old is not None and new is None:
        faults.invalid(field, new, "must not update from a positive integer to nil value")
    elif old is not None and new is not None and new > old:
        faults.invalid(field, new, f"must be less than or equal to previous value '{old}'")


def _may_terminate(spec: Object, before: Object) -> bool:
    new, old = spec.get("terminationGracePeriodSeconds"), before.get("terminationGracePeriodSeconds")
    return bool(new == old or (old is not None and old < 0 and new == 1))


def _frozen(spec: Object) -> dict[str, Any]:
    kept = {key: value for key, value in spec.items() if key not in _MUTABLE}
    for kind in ("containers", "initContainers"):
        kept[kind] = [
            {key: value for key, value in each.items() if key != "image"} for each in spec.get(kind) or ()
        ]
    return kept


_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
_COUNTS = (
    "initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold",
)  # fmt: skip


def containers(
    faults: Faults, path: str, listed: Iterable[Object], volumes: set[str], names: list[str]
) -> None:
    """Report the faults of a list of containers; ``names`` are those taken already."""
    for at, container in enumerate(listed):
        field = f"{path}[{at}]"
        if name := container.get("name", ""):
            dns_label(faults, f"{field}.name", name)
            faults.unique(f"{field}.name", name, names)
        else:
            faults.required(f"{field}.name")
        image = container.get("image", "")
        if not image:
            faults.required(f"{field}.image")
        elif image.strip() != image:
            faults.invalid(f"{field}.image", image, "must not have leading or trailing whitespace")
        _ports(faults, f"{field}.ports", container.get("ports") or ())
        _environment(faults, f"{field}.env", container.get("env") or ())
        _mounts(faults, f"{field}.volumeMounts", container.get("volumeMounts") or (), volumes)
        for probe in _PROBES:
            if probe in container:
                _probe(faults, f"{field}.{probe}", container[probe], liveness=probe != "readinessProbe")
        requirements(faults, f"{field}.resources", container.get("resources") or {})


def _ports(faults: Faults, path: str, listed: Iterable[Object]) -> None:
    names: list[str] = []
    for at, each in enumerate(listed):
        field = f"{path}[{at}]"
        if name := each.get("name"):
            faults.unique(f"{field}.name", name, names)
        if not each.get("containerPort"):
            faults.required(f"{field}.containerPort")
        else:
            port(faults, f"{field}.containerPort", each["containerPort"])
        if each.get("hostPort"):
            port(faults, f"{field}.hostPort", each["hostPort"])


def _environment(faults: Faults, path: str, listed: Iterable[Object]) -> None:
    for at, each in enumerate(listed):
        if not each.get("name"):
            faults.required(f"{path}[{at}].name")
        if "valueFrom" not in each:
            continue
        field, sources = f"{path}[{at}].valueFrom", [key for key in each["valueFrom"] if key.endswith("Ref")]
        if not sources:
            why = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
            faults.invalid(field, "", why)
        elif each.get("value"):
            faults.invalid(field, "", "may not be specified when `value` is not empty")
        elif len(sources) > 1:
            faults.invalid(field, "", "may not have more than one field specified at a time")


def _mounts(faults: Faults, path: str, listed: Iterable[Object], volumes: set[str]) -> None:
    places: set[str] = set()
    for at, each in enumerate(listed):
        field = f"{path}[{at}]"
        if not each.get("name"):
            faults.required(f"{field}.name")
        elif each["name"] not in volumes:
            faults.missing(f"{field}.name", each["name"])
        place = each.get("mountPath", "")
        if not place:
            faults.required(f"{field}.mountPath")
        elif place in places:
            faults.invalid(f"{field}.mountPath", place, "must be unique")
        places.add(place)


def _probe(faults: Faults, path: str, probe: Object, *, liveness: bool) -> None:
    handlers = [handler for handler in _HANDLERS if handler in probe]
    if not handlers:
        faults.required(path, "must specify a handler type")
    for handler in handlers[1:]:
        faults.forbidden(f"{path}.{handler}", "may not specify more than 1 handler type")
    for count in _COUNTS:
        if probe.get(count, 0) < 0:
            faults.invalid(f"{path}.{count}", probe[count], NOT_NEGATIVE)
    if liveness and probe.get("successThreshold", 1) > 1:
        faults.invalid(f"{path}.successThreshold", probe["successThreshold"], "must be 1")


def workload(faults: Faults, obj: Object, old: Object | None) -> None:
    """Report the faults of a Deployment, ReplicaSet or DaemonSet."""
    _template(faults, obj, ("replicas", "minReadySeconds", "revisionHistoryLimit"), ("Always",))
    for name in ("strategy", "updateStrategy"):
        for field, value in ((obj["spec"].get(name) or {}).get("rollingUpdate") or {}).items():
            if isinstance(value, str) and not re.fullmatch("[0-9]{1,9}%", value):
                faults.invalid(f"spec.{name}.rollingUpdate.{field}", value, _PERCENT)
            elif isinstance(value, int) and value < 0:
                faults.invalid(f"spec.{name}.rollingUpdate.{field}", value, NOT_NEGATIVE)
    if old is not None:
        faults.immutable("spec.selector", obj["spec"].get("selector"), old["spec"].get("selector"))


def job(faults: Faults, obj: Object, old: Object | None) -> None:
    """Report the faults of a Job."""
    counts = (
        "parallelism",
        "completions",
        "backoffLimit",
        "activeDeadlineSeconds",
        "ttlSecondsAfterFinished",
    )
    _template(faults, obj, counts, ("OnFailure", "Never"))
    for name in ("selector", "completions", "template") if old else ():
        faults.immutable(f"spec.{name}", obj["spec"].get(name), (old or {})["spec"].get(name))


def _template(faults: Faults, obj: Object, counts: tuple[str, ...], restarts: tuple[str, ...]) -> None:
    """Report the faults of counts, the selector and the pod template of a workload."""
    spec = obj.get("spec") or {}
    for name in counts:
        if spec.get(name, 0) < 0:
            faults.invalid(f"spec.{name}", spec[name], NOT_NEGATIVE)
    selector, template = spec.get("selector"), spec.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    if selector is None:
        faults.required("spec.selector")
    elif not selector:
        faults.invalid("spec.selector", selector, "empty selector is invalid for deployment")
    elif any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        faults.invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
    below = template.get("spec") or {}
    pod_spec(faults, "spec.template.spec", below)
    if below.get("restartPolicy", "Always") not in restarts:
        faults.unsupported("spec.template.spec.restartPolicy", below.get("restartPolicy", "Always"), restarts)
