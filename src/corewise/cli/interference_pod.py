"""The pod of a file, as far as the decision about memory bandwidth and cache reads it."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec
import yaml

from corewise.cli.errors import Failure
from corewise.config.json_text import DEEPEST
from corewise.config.json_tree import Positions
from corewise.config.yaml_text import LimitError, PlainLoader, load_document
from corewise.engine.facts import CPU, MEMORY
from corewise.engine.objects import PlacedPod
from corewise.engine.reading import key_of, pod_facts
from corewise.interference import PodRequests
from corewise.quantities import Quantity, QuantityError

_HINT = "write a Pod, as kubectl get pod NAME -o yaml prints it"


class _Loader(PlainLoader):
    """No key is given twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT002 - as it is called
        _once(
            key.value
            for key, _ in node.value
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge"
        )
        found: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return found


@dataclass(frozen=True, slots=True)
class ExplainedPod:
    """``exempt``: it belongs to a DaemonSet, so the filter does not ask."""

    name: str
    labels: Mapping[str, str]
    requests: PodRequests
    exempt: bool


def parse_pod(text: str, file: str) -> ExplainedPod:
    """Read one Pod in YAML or JSON.

    Raises:
        Failure: if it is none, or states an amount that cannot be read.
    """
    document = _document(text, file)
    kind = document.get("kind") if isinstance(document, dict) else None
    if kind != "Pod":
        found = f"a {kind}" if isinstance(kind, str) else "no object of Kubernetes"
        raise Failure(f"{file} is {found}, not a Pod", hint=_HINT)
    _amounts_as_text(document, file)
    _complete_owners(document)
    try:
        pod = msgspec.convert(document, PlacedPod)
    except msgspec.ValidationError as error:
        raise Failure(f"{file} is not a Pod that can be read: {error}", hint=_HINT) from None
    facts = pod_facts(pod)
    return ExplainedPod(
        name=key_of(pod) if pod.metadata.name else f"{key_of(pod)}(no name)",
        labels=pod.metadata.labels,
        requests=PodRequests(facts.requests.get(CPU, 0), facts.requests.get(MEMORY, 0)),
        exempt=facts.daemon,
    )


def _document(text: str, file: str) -> Any:
    try:
        return _parsed(text, file)
    except _GivenTwice as error:
        raise Failure(f"{file}: the key {error} is given twice", hint=_HINT) from None
    except ValueError as error:
        raise Failure(f"{file} is not YAML: {' '.join(str(error).split())}", hint=_HINT) from None


def _parsed(text: str, file: str) -> Any:
    if text.lstrip().startswith("{"):
        with suppress(ValueError, RecursionError):
            return json.loads(text, object_pairs_hook=_object)
    try:
        return load_document(text, _Loader, DEEPEST)
    except LimitError as error:
        line, column = Positions(text).at(error.offset)
        raise Failure(f"{file}: line {line}, column {column}: {error.problem}", hint=_HINT) from None


class _GivenTwice(Exception):  # noqa: N818 - a fault of the text
    """A key that an object has twice: nobody can say which of its values is meant."""


def _once(keys: Iterable[str]) -> None:
    seen: set[str] = set()
    for key in keys:
        if key in seen:
            raise _GivenTwice(key)
        seen.add(key)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    _once(key for key, _ in pairs)
    return dict(pairs)


def _amounts_as_text(document: dict[str, Any], file: str) -> None:
    """Write amounts that are numbers as text, as the API server takes them, and refuse what is no amount."""
    spec = document.get("spec")
    if not isinstance(spec, dict):
        raise Failure(f"{file}: spec is missing, or no object", hint=_HINT)
    for where, resources in _resources(spec):
        for name in ("requests", "limits"):
            amounts = resources.get(name)
            if isinstance(amounts, dict):
                here = f"{file}: spec.{where}.{name}"
                resources[name] = {key: _amount(value, f"{here}.{key}") for key, value in amounts.items()}


def _complete_owners(document: dict[str, Any]) -> None:
    """Let owners stand without what nothing here reads: a pod written by hand has no UID of its DaemonSet."""
    metadata = document.get("metadata")
    owners = metadata.get("ownerReferences") if isinstance(metadata, dict) else None
    for owner in owners if isinstance(owners, list) else ():
        if isinstance(owner, dict):
            for key in ("apiVersion", "name", "uid"):
                owner.setdefault(key, "")


def _resources(spec: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield where a container states resources, and what it states."""
    for kind in ("containers", "initContainers"):
        containers = spec.get(kind)
        for place, container in enumerate(containers if isinstance(containers, list) else ()):
            resources = container.get("resources") if isinstance(container, dict) else None
            if isinstance(resources, dict):
                yield f"{kind}[{place}].resources", resources


def _amount(value: Any, where: str) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise Failure(f"{where}: {value!r} is not an amount", hint=_HINT)
    try:
        quantity = Quantity.parse(str(value))
    except QuantityError as error:
        raise Failure(f"{where}: {error}", hint=_HINT) from None
    if quantity.nano < 0:
        raise Failure(f"{where}: {value} is negative", hint=_HINT)
    return str(value)
