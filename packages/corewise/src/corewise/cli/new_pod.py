"""The manifest of ``corewise explain pod --file``: a pod, or a workload that makes pods."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import msgspec

from corewise.cli.errors import Failure
from corewise.cli.files import bytes_of
from corewise.config.yaml_text import NotYAMLError, load_document
from corewise.kube.decoding import decode_object
from corewise.kube.errors import DecodeError
from corewise.manager.pod_owners import WorkloadSelector
from corewise.workload.pods import WORKLOAD_PODS

_TEMPLATES = (("spec", "template"), ("spec", "jobTemplate", "spec", "template"))


def read_new_pod(file: Path) -> tuple[dict[str, Any], Collection[str] | None]:
    """Read a pod, or the pod that a workload makes, from YAML or JSON.

    Returns the keys of the labels by which the workload selects its pods, too; None if they are unknown.

    Raises:
        Failure: if the file cannot be read, or has no pod.
    """
    hint = "it must be one Pod, or one workload with a pod template, such as a Job"
    try:
        document = load_document(bytes_of(file))
        pod = _pod_of(document) if isinstance(document, dict) else None
        if pod is None:
            raise Failure(f"{file} has no pod", hint=hint)
        decode_object(WORKLOAD_PODS, msgspec.json.encode(pod), "the pod")
    except (NotYAMLError, DecodeError) as error:
        raise Failure(f"{file} cannot be used: {error}", hint=hint) from None
    return pod, _selected_in(document)


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
