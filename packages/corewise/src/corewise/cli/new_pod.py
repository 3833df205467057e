"""The manifest of ``corewise explain pod --file``: a pod or a workload that makes pods, and its Namespace."""

from __future__ import annotations

from collections.abc import Collection, Mapping
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
