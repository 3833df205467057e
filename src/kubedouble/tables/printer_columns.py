r"""Columns of custom kinds: the name, and what ``additionalPrinterColumns`` names by JSONPath.

The part of JSONPath that printer columns use: ``.a.b``, ``.a\.b``, ``['a.b']``, ``[0]``, ``[*]``, and the
filter ``[?(@.type=="Ready")]``. More than one result is shown comma-separated, none as empty.

Source: apiextensions-apiserver/pkg/registry/customresource/tableconvertor/tableconvertor.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec

from kubedouble.tables.pods import since

Object = Mapping[str, Any]
_NAME = {"name": "Name", "type": "string", "format": "name", "description": "The object's name."}
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


def custom_columns(
    objects: Iterable[Object], printer_columns: Sequence[Mapping[str, Any]], now: datetime
) -> tuple[list[dict[str, Any]], list[list[Any]]]:
    """Return the column definitions and rows of a custom kind."""
    columns = list(printer_columns) or [_AGE]
    definitions = [
        _definition({"name": "Name", "type": "string", "format": "name"}),
        *map(_definition, columns),
    ]
    rows = [[obj["metadata"]["name"], *(_cell(obj, column, now) for column in columns)] for obj in objects]
    return definitions, rows


def _definition(column: Mapping[str, Any]) -> dict[str, Any]:
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
    """Return what a JSONPath finds in a value; nothing for a path of another form."""
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
