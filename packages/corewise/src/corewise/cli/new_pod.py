"""The manifest of ``corewise explain pod --file``: a pod or a workload that makes pods, and its Namespace."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from corewise.cli.errors import Failure
from corewise.cli.files import bytes_of
from corewise.config.yaml_text import NotYAMLError, load_documents
from corewise.kube.decoding import decode_object
from corewise.kube.errors import DecodeError
from corewise.kube.objects import Namespace
from corewise.kube.resources import NAMESPACES
from corewise.manager.pod_owners import WorkloadSelector
from corewise.quantities import Quantity, QuantityError
from corewise.workload.pods import WORKLOAD_PODS

_TEMPLATES = (("spec", "template"), ("spec", "jobTemplate", "spec", "template"))


@dataclass(frozen=True, slots=True)
class Manifest:
    """A pod, or the pod that a workload makes, and the Namespaces beside it.

    ``selected``: the keys of the labels by which the workload selects its pods; None if they are unknown.
    """

    pod: Mapping[str, Any]
    selected: Collection[str] | None
    namespaces: tuple[Namespace, ...]


def read_new_pod(file: Path) -> Manifest:
    """Read a pod or a workload from YAML or JSON; of other documents, only Namespaces count.

    Raises:
        Failure: if the file cannot be read, or does not have one pod.
    """
    hint = (
        "it must have one Pod or one workload with a pod template, such as a Job, and may have its Namespace"
    )
    try:
        documents = [each for each in load_documents(bytes_of(file)) if isinstance(each, dict)]
        found = [(pod, each) for each in documents if (pod := _pod_of(each)) is not None]
        if len(found) != 1:
            raise Failure(f"{file} has {len(found) or 'no'} pod{'s' if found else ''}", hint=hint)
        [(pod, document)] = found
        write_amounts_as_text(pod, str(file), hint)
        decode_object(WORKLOAD_PODS, msgspec.json.encode(pod), "the pod")
        namespaces = tuple(
            decode_object(NAMESPACES, msgspec.json.encode(each), "the Namespace")
            for each in documents
            if each.get("kind") == "Namespace"
        )
    except (NotYAMLError, DecodeError) as error:
        raise Failure(f"{file} cannot be used: {error}", hint=hint) from None
    return Manifest(pod, _selected_in(document), namespaces)


def _selected_in(document: Mapping[str, Any]) -> Collection[str] | None:
    if document.get("kind") in {"Job", "CronJob"}:
        return ()
    if document.get("kind") == "Pod":
        owners = document["metadata"].get("ownerReferences") or () if document.get("metadata") else ()
        return None if any(each.get("controller") for each in owners) else ()
    spec = document.get("spec")
    selector = spec.get("selector") if isinstance(spec, dict) else None
    try:
        return msgspec.convert(selector, WorkloadSelector).keys
    except msgspec.ValidationError:
        return None


def _pod_of(document: dict[str, Any]) -> dict[str, Any] | None:
    """Return the pod with the namespace of the workload that makes it."""
    if document.get("kind") == "Pod":
        return {**document, "metadata": document.get("metadata") or {}}
    for path in _TEMPLATES:
        found: Any = document
        for step in path:
            found = found.get(step) if isinstance(found, dict) else None
        if isinstance(found, dict):
            own = (document.get("metadata") or {}).get("namespace", "")
            return {**found, "metadata": {"namespace": own, **(found.get("metadata") or {})}}
    return None


def write_amounts_as_text(pod: dict[str, Any], file: str, hint: str) -> None:
    """Replace amounts that are numbers by text, as the API server does.

    Raises:
        Failure: if the pod has no spec, or an amount cannot be read.
    """
    spec = pod.get("spec")
    if not isinstance(spec, dict):
        raise Failure(f"{file}: spec is missing, or no object", hint=hint)
    for where, holder, name in _amounts(spec):
        amounts = holder.get(name)
        if isinstance(amounts, dict):
            here = f"{file}: spec.{where}{name}"
            holder[name] = {key: _amount(value, f"{here}.{key}", hint) for key, value in amounts.items()}


def _amounts(spec: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield where a pod's spec has amounts: the path of an object, the object, and the name in it."""
    yield "", spec, "overhead"
    holders = [("", spec)]
    for kind in ("containers", "initContainers"):
        containers = spec.get(kind)
        for place, container in enumerate(containers if isinstance(containers, list) else ()):
            if isinstance(container, dict):
                holders.append((f"{kind}[{place}].", container))
    for where, holder in holders:
        resources = holder.get("resources")
        if isinstance(resources, dict):
            yield from ((f"{where}resources.", resources, name) for name in ("requests", "limits"))


def _amount(value: Any, where: str, hint: str) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise Failure(f"{where}: {value!r} is not an amount", hint=hint)
    try:
        quantity = Quantity.parse(str(value))
    except QuantityError as error:
        raise Failure(f"{where}: {error}", hint=hint) from None
    if quantity.nano < 0:
        raise Failure(f"{where}: {value} is negative", hint=hint)
    return str(value)
