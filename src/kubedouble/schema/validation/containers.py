"""Containers: names, images, ports, environment, probes, mounts.

Source: validateContainers of k8s.io/kubernetes/pkg/apis/core/validation/validation.go.
"""

from __future__ import annotations

from collections.abc import Iterable

from kubedouble.schema.validation.faults import NOT_NEGATIVE, Faults, Object
from kubedouble.schema.validation.names import dns_label, port
from kubedouble.schema.validation.resources import requirements

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
_COUNTS = (
    "initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold",
)  # fmt: skip


def containers(
    faults: Faults, path: str, listed: Iterable[Object], volumes: set[str], names: set[str]
) -> None:
    """Note what is wrong with a list of containers; ``names`` are those taken already."""
    for at, container in enumerate(listed):
        field = f"{path}[{at}]"
        _name(faults, f"{field}.name", container.get("name", ""), names)
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


def _name(faults: Faults, field: str, name: str, names: set[str]) -> None:
    if not name:
        faults.required(field)
        return
    dns_label(faults, field, name)
    if name in names:
        faults.duplicate(field, name)
    names.add(name)


def _ports(faults: Faults, path: str, listed: Iterable[Object]) -> None:
    names: set[str] = set()
    for at, each in enumerate(listed):
        field = f"{path}[{at}]"
        if name := each.get("name"):
            if name in names:
                faults.duplicate(f"{field}.name", name)
            names.add(name)
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
        sources = [key for key in each["valueFrom"] if key.endswith("Ref")]
        if not sources:
            faults.invalid(
                f"{path}[{at}].valueFrom",
                "",
                "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`",
            )
        elif each.get("value"):
            faults.invalid(f"{path}[{at}].valueFrom", "", "may not be specified when `value` is not empty")
        elif len(sources) > 1:
            faults.invalid(
                f"{path}[{at}].valueFrom", "", "may not have more than one field specified at a time"
            )


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
