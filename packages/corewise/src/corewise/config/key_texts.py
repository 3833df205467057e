"""Find the configuration keys in a file: a ConfigMap in YAML or JSON, a list of them, or one key's text.

The text of one key is JSON, or of suppression the YAML ``cpuSuppression: {...}``.

Everything found keeps its place in the file, so that a problem at line 3, column 7 of a key's JSON can be
reported at the line and column of the file that a person has open.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain

import yaml

from corewise.config.colocation import (
    OVERSUBSCRIPTION_MEMBERS,
    RESOURCE_QOS_MEMBERS,
    SUPPRESSION_BLOCKS,
    SUPPRESSION_MEMBERS,
    is_suppression_yaml,
    not_honored,
)
from corewise.config.configuration import AMPLIFICATION_MEMBERS, NORMALIZATION_MEMBERS
from corewise.config.decoding import Problem, Severity, did_you_mean
from corewise.config.eviction import RESOURCE_THRESHOLD_MEMBERS
from corewise.config.json_text import BROKEN, Items, Located, Members, Positions, read_json
from corewise.config.yaml_text import NotYAMLError, json_string, read_texts, yaml_scalar
from corewise.vocabulary.foreign_names import UNREAD_KEYS
from corewise.vocabulary.names import (
    AMPLIFICATION_KEY,
    CONFIG_NAME,
    CONFIG_NAMESPACE,
    NORMALIZATION_KEY,
    OVERSUBSCRIPTION_KEY,
    RESOURCE_QOS_KEY,
    RESOURCE_THRESHOLD_KEY,
    SUPPRESSION_KEY,
)

_MEMBERS = {
    NORMALIZATION_KEY: NORMALIZATION_MEMBERS,
    AMPLIFICATION_KEY: AMPLIFICATION_MEMBERS,
    OVERSUBSCRIPTION_KEY: OVERSUBSCRIPTION_MEMBERS,
    SUPPRESSION_KEY: (*SUPPRESSION_MEMBERS, *SUPPRESSION_BLOCKS),
    RESOURCE_QOS_KEY: RESOURCE_QOS_MEMBERS,
    RESOURCE_THRESHOLD_KEY: RESOURCE_THRESHOLD_MEMBERS,
}
KEYS = tuple(_MEMBERS)
_COUNTS = Counter(chain.from_iterable(_MEMBERS.values()))
_SHARED = frozenset(member for member, keys in _COUNTS.items() if keys > 1)
"""Members that do not say which key a text is of."""
_OBJECT_KEYS = {"apiVersion", "kind", "metadata", "data"}

Align = Callable[[Located, str], Sequence[int]]


@dataclass(frozen=True, slots=True)
class KeyText:
    """The text of one key; ``places`` holds the offset in the file of each character, and of the end."""

    key: str
    text: str
    places: Sequence[int]
    positions: Positions = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "positions", Positions(self.text))

    def in_file(self, problem: Problem, file: Positions) -> Problem:
        """Return a problem of the text with its line and column in the file."""
        offset = min(self.positions.offset(problem.line, problem.column), len(self.text))
        line, column = file.at(self.places[offset])
        return Problem(problem.severity, line, column, problem.path, problem.message)


@dataclass(slots=True)
class Contents:
    """The contents of a file: keys, and problems of the file itself. Nothing else is kept of it.

    ``namespace``: where the ConfigMap is to be. ``stated``: which keys it has; None if the file has no such
    ConfigMap.
    """

    text: str
    namespace: str = CONFIG_NAMESPACE
    keys: list[KeyText] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    stated: frozenset[str] | None = None
    positions: Positions = field(init=False)

    def __post_init__(self) -> None:
        self.positions = Positions(self.text)

    def tell(self, offset: int, message: str, severity: Severity = Severity.ERROR) -> None:
        self.problems.append(Problem(severity, *self.positions.at(offset), "", message))


class UndecidedKeyError(ValueError):
    """The text is the JSON of one key, but does not say which."""


def read_contents(text: str, wanted: str | None, namespace: str = CONFIG_NAMESPACE) -> Contents:
    """Find the keys in a file's text; ``wanted`` names the only key to look for.

    A ConfigMap of another ``namespace`` is read too, with a warning.

    Raises:
        UndecidedKeyError: if it is one key's JSON, and may be that of several.
    """
    contents = Contents(text, namespace)
    if text.lstrip().startswith("{"):
        _read_json_file(contents, wanted)
    elif wanted in {None, SUPPRESSION_KEY} and is_suppression_yaml(text):
        contents.keys.append(KeyText(SUPPRESSION_KEY, text, range(len(text) + 1)))
    else:
        _read_yaml_file(contents, wanted)
    return contents


def _read_json_file(contents: Contents, wanted: str | None) -> None:
    text = contents.text
    reading = read_json(text)
    root = reading.root or Located(BROKEN, 0)
    names = _names(root)
    if not names & _OBJECT_KEYS:
        contents.keys.append(KeyText(wanted or _decide(root, names), text, range(len(text) + 1)))
        return
    contents.problems += [
        Problem(Severity.ERROR, fault.line, fault.column, fault.path, fault.message)
        for fault in reading.faults
    ]
    _objects(contents, root, wanted, lambda value, string: json_string(text, value.offset, string))


def _names(value: Located) -> set[str]:
    return {member.key for member in value.value} if isinstance(value.value, Members) else set()


def _decide(root: Located, names: set[str]) -> str:
    entries = _member(root, "nodeConfigs")
    if entries is not None and isinstance(entries.value, Items):
        names = names.union(*(_names(entry) for entry in entries.value))
    possible = [key for key, members in _MEMBERS.items() if names.intersection(members) - _SHARED]
    if len(possible) != 1:
        raise UndecidedKeyError
    return possible[0]


def _read_yaml_file(contents: Contents, wanted: str | None) -> None:
    scalars: dict[int, yaml.ScalarNode] = {}

    def align(value: Located, _: str) -> Sequence[int]:
        return yaml_scalar(contents.text, scalars[value.offset])

    try:
        for document in read_texts(contents.text, scalars):
            _objects(contents, document, wanted, align)
    except NotYAMLError as error:
        contents.tell(error.offset, error.problem)


def _objects(contents: Contents, root: Located, wanted: str | None, align: Align) -> None:
    """Look at a document: a ConfigMap, a list of objects, or something else."""
    items = _member(root, "items")
    listed = items.value if items is not None and isinstance(items.value, Items) else Items([root])
    for item in listed:
        kind = _member(item, "kind")
        if kind is not None and kind.value == "ConfigMap":
            _config_map(contents, item, wanted, align)


def _config_map(contents: Contents, config_map: Located, wanted: str | None, align: Align) -> None:
    data = _member(config_map, "data")
    if data is None or not isinstance(data.value, Members):
        return
    found = []
    for name, offset, value in data.value:
        if name in KEYS:
            found.append(name)
            if wanted in {None, name}:
                _key(contents, name, value, align)
            if found.count(name) > 1:
                contents.tell(offset, f"the key {name} is given twice")
        elif name in UNREAD_KEYS:
            text = value.value if isinstance(value.value, str) else ""
            contents.tell(offset, not_honored(name, text), Severity.WARNING)
        elif hint := did_you_mean(name, KEYS, closeness=0.85):
            contents.tell(offset, f"key {name} is unknown to corewise{hint}", Severity.WARNING)
    _named(contents, config_map, found)


def _named(contents: Contents, config_map: Located, found: Sequence[str]) -> None:
    """Note the keys of a ConfigMap if it is the one that corewise reads, and tell why not."""
    metadata = _member(config_map, "metadata") or Located(None, 0)
    called, placed = _member(metadata, "name"), _member(metadata, "namespace")
    if called is None or called.value == CONFIG_NAME:
        contents.stated = frozenset(found)
    if found and called is not None and called.value != CONFIG_NAME:
        message = f"corewise reads the ConfigMap {CONFIG_NAME}, not this one"
        contents.tell(called.offset, message, Severity.WARNING)
    elif found and placed is not None and placed.value != contents.namespace:
        message = f"the ConfigMap is read in namespace {contents.namespace} (--config-namespace)"
        contents.tell(placed.offset, message, Severity.WARNING)


def _key(contents: Contents, name: str, value: Located, align: Align) -> None:
    if isinstance(value.value, str):
        contents.keys.append(KeyText(name, value.value, align(value, value.value)))
    else:
        contents.tell(value.offset, f"{name} must be text that holds JSON: write it as a block, |")


def _member(value: Located, name: str) -> Located | None:
    members = value.value if isinstance(value.value, Members) else ()
    return next((member.value for member in members if member.key == name), None)
