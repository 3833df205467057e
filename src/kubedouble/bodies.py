"""Request bodies in JSON and YAML.

YAML is read within limits, so that no body ends the server or takes its memory: libyaml composes recursively,
in C, where no exception can be caught; an alias counts as many values, and is as deep, as what it stands for
(ten lines of ten aliases each would be 10^10 values). Times stay text, as in JSON.
"""

from __future__ import annotations

from typing import Any

import msgspec
import yaml

from kubedouble.errors import UNREADABLE, bad_request

_DEEPEST = 100
"""Levels of an object: schemas of custom resources are deeper than anything else."""
_MOST_VALUES = 500_000
_LONGEST_NUMBER = 1000
_SAFE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_STANDARD = "tag:yaml.org,2002:"


def decode_json(body: bytes) -> dict[str, Any]:
    """Decode a JSON object.

    Raises:
        StatusError: 400, if it is not JSON or not an object.
    """
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except UNREADABLE as error:
        raise bad_request(f"the object provided is unrecognized (must be of type JSON): {error}") from error


def decode_yaml(body: bytes) -> dict[str, Any]:
    """Decode a YAML (or JSON) object.

    Raises:
        StatusError: 400, if it is neither, or not an object.
    """
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except UNREADABLE:
        pass
    try:
        return msgspec.convert(_load(body), dict[str, Any])
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise bad_request(f"error decoding YAML: {error}") from error


def _load(text: bytes) -> Any:
    """Return the one document of a text; None if it is empty.

    Raises:
        yaml.YAMLError: if it is not YAML, beyond the limits, or has a value that its tag does not allow.
    """
    depth = 0
    for event in yaml.parse(text, Loader=_SAFE):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise _refused(event, f"nested deeper than {_DEEPEST} levels")
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _measure(node, {})
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _measure(node: yaml.Node, known: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """Return how many values a node has and how many levels, with what its aliases stand for."""
    found = known.get(id(node))
    if found == (0, 0):
        raise _refused(node, "an alias stands within the value that it names")
    if found:
        return found
    known[id(node)] = values, levels = 0, 0
    parts: list[yaml.Node] = []
    if isinstance(node, yaml.SequenceNode):
        parts = node.value
    elif isinstance(node, yaml.MappingNode):
        parts = [part for pair in node.value for part in pair]
    for part in parts:
        below = _measure(part, known)
        values, levels = values + below[0], max(levels, below[1])
    known[id(node)] = values, levels = values + 1, levels + isinstance(node, yaml.CollectionNode)
    if values > _MOST_VALUES:
        raise _refused(node, f"more than {_MOST_VALUES} values, with what aliases stand for")
    if levels > _DEEPEST:
        raise _refused(node, f"nested deeper than {_DEEPEST} levels")
    return values, levels


class _Loader(_SAFE):  # type: ignore[misc]
    """Constructs plain values; what a tag does not allow is a YAMLError."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:  # noqa: FBT001, FBT002 - as called
        if node.tag in {f"{_STANDARD}int", f"{_STANDARD}float"} and len(node.value) > _LONGEST_NUMBER:
            raise _not_of_its_tag(node)
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, OverflowError) as error:
            raise _not_of_its_tag(node) from error


_Loader.add_constructor(f"{_STANDARD}timestamp", _Loader.construct_scalar)


def _not_of_its_tag(node: yaml.Node) -> yaml.YAMLError:
    shown = f"{node.value[:40]!r}" if isinstance(node, yaml.ScalarNode) else "this"
    return _refused(node, f"{shown} is no {node.tag.removeprefix(_STANDARD)}")


def _refused(place: Any, problem: str) -> yaml.YAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=place.start_mark)
