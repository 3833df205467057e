"""Merging a configuration into an object, and taking fields out of one, by the kind's structure.

Merging never removes anything: leaves of the configuration win, containers are merged. A map list keeps the
object's order as far as the configuration does not order its items otherwise.

Source: sigs.k8s.io/structured-merge-diff/v6/typed/{merge,remove}.go.
"""

from __future__ import annotations

from typing import Any

from kubedouble.patching.comparison import is_leaf
from kubedouble.patching.field_paths import item_element, list_items
from kubedouble.patching.field_sets import FieldSet, is_member
from kubedouble.schema.structure import Schema


def merge_config(live: Any, config: Any, schema: Schema | None) -> Any:
    """Return a value with a configuration of it merged in."""
    if is_leaf(schema, config) or is_leaf(schema, live) or type(live) is not type(config):
        return config
    if isinstance(config, dict):
        merged = live.copy()
        for key, value in config.items():
            below = schema and schema.child(key)
            merged[key] = merge_config(live[key], value, below) if key in live else value
        return merged
    return live if schema is None else _merge_items(live, config, schema)


def _merge_items(live: list[Any], config: list[Any], schema: Schema) -> list[Any]:
    mine, theirs = list_items(live, schema), list_items(config, schema)
    merged = []
    shared = [element for element in theirs if element in mine]
    waiting = list(theirs)
    for element, items in mine.items():
        if element not in theirs:
            merged += items
        elif shared and element == shared[0]:
            shared.pop(0)
            while waiting:
                following = waiting.pop(0)
                merged.append(_merge_item(mine.get(following), theirs[following][0], schema))
                if following == element:
                    break
    return merged + [_merge_item(mine.get(element), theirs[element][0], schema) for element in waiting]


def _merge_item(live: list[Any] | None, config: Any, schema: Schema) -> Any:
    # An item that the object has more than once is not merged with: there is no telling which.
    return merge_config(live[0], config, schema.items) if live and len(live) == 1 else config


def remove_fields(value: Any, fields: FieldSet, schema: Schema | None) -> Any:
    """Return a value without the members of a set; a container that loses all stays, empty."""
    if not fields or is_leaf(schema, value) or not value:
        return value
    if isinstance(value, dict):
        left: dict[str, Any] = {}
        for key, item in value.items():
            node = fields.get(f"f:{key}")
            if node is None:
                left[key] = item
            elif not is_member(node):
                left[key] = remove_fields(item, node, schema and schema.child(key))
        return left
    if schema is None:
        return value
    return _remove_items(value, fields, schema)


def _remove_items(items: list[Any], fields: FieldSet, schema: Schema) -> list[Any]:
    left = []
    for item in items:
        node = fields.get(item_element(item, schema))
        if node is None:
            left.append(item)
        elif not is_member(node):
            left.append(remove_fields(item, node, schema.items))
    return left
