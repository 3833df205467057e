"""The inputs of ``explain interference`` and others: the scheduler's file, a file of measurements, a Pod.

Measurements are JSON, in base units: ``{"n1": {"memorybandwidth_used": 2e10, ...}}``. Beside the columns of
:class:`corewise.interference.Pressure` a node may state ``labels``, by which capacity rules select it, and
``placed``: pods of known types that are there, each with its profile and its age in seconds. The values do
not show those placed recently, and all may lose cache to the new pod. null is a missing value; NaN and
infinities, for which JSON has no form, are read as JavaScript and Prometheus write them, and are missing.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Hashable, Iterable
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from corewise.cli.errors import Failure
from corewise.cli.files import text_of
from corewise.cli.new_pod import write_amounts_as_text
from corewise.cli.output import say
from corewise.config.decoding import Decoder, Parsed, Place, did_you_mean, shown
from corewise.config.interference.amounts import number
from corewise.config.interference.metrics import METRICS
from corewise.config.interference.model import InterferenceConfiguration
from corewise.config.interference.reading import INTERFERENCE, parse_interference
from corewise.config.json_text import DEEPEST, Positions, read_json
from corewise.config.yaml_text import LimitError, PlainLoader, load_document
from corewise.engine.interference import interfering_requests
from corewise.engine.reading import key_of, pod_facts
from corewise.interference.pressure import COLUMNS
from corewise.scheduler.configuration import DEFAULTS, SchedulerConfiguration, read_configuration
from corewise.views.interference_explanation import ExplainedPod, MeasuredNode, PlacedPod
from corewise.workload.pods import Pod

T = TypeVar("T")

_CONSTANTS = {"NaN": '"N"', "Infinity": '"Inf"   ', "-Infinity": '"-Inf"   '}
_STRING_OR_CONSTANT = re.compile(r'"(?:[^"\\\n]|\\.)*"|-?\bInfinity\b|\bNaN\b')
_ODD = {"N": math.nan, "NaN": math.nan, "Inf": math.inf, "+Inf": math.inf, "-Inf": -math.inf}
_OLDEST = 10**9
_BASE_UNITS = {metric.column: spec.kind.base for metric, spec in METRICS.items()} | {
    "memorylatency_slope": "seconds",
    "llc_mpki_level": "the level of the cache: 2 is L2",
}
_HINT = "write a Pod as printed by: kubectl get pod NAME -o yaml"


def read_interference(file: Path) -> InterferenceConfiguration:
    """Read the section; print warnings.

    Raises:
        Failure: if the file cannot be read, has errors, or has no such section.
    """
    found = _told(file, parse_interference(text_of(file)))
    if found is None:
        raise Failure(f"{file} has no section {INTERFERENCE!r}")
    return found


def read_scheduler_file(file: Path) -> SchedulerConfiguration:
    """Read the whole file; print warnings.

    Raises:
        Failure: if the file cannot be read or has errors.
    """
    return _told(file, read_configuration(text_of(file))) or DEFAULTS


def _told(file: Path, parsed: Parsed[T]) -> T | None:
    if parsed.errors:
        raise Failure("\n".join(f"{file}: {problem}" for problem in parsed.errors))
    for problem in parsed.warnings:
        say(f"{file}: {problem}")
    return parsed.value


def parse_nodes(text: str, config: InterferenceConfiguration) -> Parsed[list[MeasuredNode]]:
    """Read the file; profiles of ``placed`` pods are those of the configuration."""
    decoder = Decoder(read_json(_STRING_OR_CONSTANT.sub(_quoted, text)), strict=True)
    entries = decoder.entries(decoder.root)
    return decoder.finish([_node(decoder, str(key.path[-1]), place, config) for key, place in entries])


def _quoted(match: re.Match[str]) -> str:
    """Return text of the same length, so that positions stay true."""
    return _CONSTANTS.get(match[0], match[0])


def _node(decoder: Decoder, name: str, place: Place, config: InterferenceConfiguration) -> MeasuredNode:
    if place.value is None:
        decoder.error(place, "must be an object of values, not null")
    fields = decoder.fields(place, (*COLUMNS, "labels", "placed"))
    stated = ((column, _value(decoder, fields[column], column)) for column in COLUMNS)
    placed = decoder.items(fields["placed"])
    return MeasuredNode(
        name,
        {column: value for column, value in stated if value is not None},
        {
            str(key.path[-1]): text
            for key, value in decoder.entries(fields["labels"])
            if (text := decoder.text(value)) is not None
        },
        tuple(_placed(decoder, each, config) for each in placed),
    )


def _value(decoder: Decoder, place: Place, column: str) -> float | None:
    if place.is_empty:
        return None
    if isinstance(place.value, Decimal):
        return float(place.value)
    if isinstance(place.value, str) and place.value in _ODD:
        return _ODD[place.value]
    decoder.error(place, f"must be a number ({_BASE_UNITS[column]}) or null, not {shown(place.value)}")
    return None


def _placed(decoder: Decoder, place: Place, config: InterferenceConfiguration) -> PlacedPod:
    fields = decoder.fields(place, ("profile", "age"))
    profile = decoder.text(fields["profile"])
    if profile is None:
        decoder.error(fields["profile"], "the name of a profile is missing")
    elif profile not in config.profiles:
        near = did_you_mean(profile, config.profiles)
        decoder.error(fields["profile"], f"{shown(profile)} is not a profile of the configuration{near}")
    age = number(decoder, fields["age"], 0, _OLDEST)
    return PlacedPod(profile or "", float(age or 0))


class _GivenTwice(Exception):  # noqa: N818 - a fault of the text
    """A key that an object has twice: which of its values is meant is unknown."""


def _once(keys: Iterable[str]) -> None:
    for key, times in Counter(keys).items():
        if times > 1:
            raise _GivenTwice(key)


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


def parse_pod(text: str, file: str) -> ExplainedPod:
    """Read one Pod in YAML or JSON.

    Raises:
        Failure: if it is none, or states an amount that cannot be read.
    """
    document = _document(text, file)
    kind = document.get("kind") if isinstance(document, dict) else None
    if kind != "Pod":
        found = f"a {kind}, not a Pod" if isinstance(kind, str) else "not a Pod: it has no kind"
        raise Failure(f"{file} is {found}", hint=_HINT)
    write_amounts_as_text(document, file, _HINT)
    _complete_owners(document)
    try:
        pod = msgspec.convert(document, Pod)
    except msgspec.ValidationError as error:
        raise Failure(f"{file} is not a valid Pod: {error}", hint=_HINT) from None
    facts = pod_facts(pod)
    return ExplainedPod(
        name=key_of(pod) if pod.metadata.name else f"{key_of(pod)}(no name)",
        labels=pod.metadata.labels,
        requests=interfering_requests(facts),
        exempt=facts.daemon,
    )


def _document(text: str, file: str) -> Any:
    """Return plain values: a Pod is not corewise's own, and may use more of YAML than configuration does."""
    try:
        if text.lstrip().startswith("{"):
            with suppress(ValueError, RecursionError):  # then it is YAML in braces, or too deep
                return json.loads(text, object_pairs_hook=_object)
        return load_document(text, _Loader, DEEPEST)
    except _GivenTwice as error:
        raise Failure(f"{file}: the key {error} is given twice", hint=_HINT) from None
    except LimitError as error:
        line, column = Positions(text).at(error.offset)
        raise Failure(f"{file}: line {line}, column {column}: {error.problem}", hint=_HINT) from None
    except ValueError as error:
        raise Failure(f"{file} is not YAML: {' '.join(str(error).split())}", hint=_HINT) from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    _once(key for key, _ in pairs)
    return dict(pairs)


def _complete_owners(document: dict[str, Any]) -> None:
    """Let owners stand without what nothing here reads: a pod written by hand has no UID of its DaemonSet."""
    metadata = document.get("metadata")
    owners = metadata.get("ownerReferences") if isinstance(metadata, dict) else None
    for owner in owners if isinstance(owners, list) else ():
        if isinstance(owner, dict):
            for key in ("apiVersion", "name", "uid"):
                owner.setdefault(key, "")
