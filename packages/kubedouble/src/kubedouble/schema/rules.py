"""The checks that several kinds share: of names, keys and ports, of fields with few values, and of amounts.

Source: k8s.io/apimachinery/pkg/util/validation/validation.go; ValidateResourceRequirements,
ValidateResourceQuantityValue, IsIntegerResourceName of k8s.io/kubernetes/pkg/apis/core.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from kubedouble.errors import Faults
from kubedouble.quantities import NANO, parse_quantity
from kubedouble.schema.structure import Schema, Shape

Object = Mapping[str, Any]

NOT_NEGATIVE = "must be greater than or equal to 0"


_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
DNS_LABEL = re.compile(_LABEL)
SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_NAME_PART = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")

DNS_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    "and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
QUALIFIED_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_CONFIG_KEY_RULE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
    "'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_PORT_RULE = "must be between 1 and 65535, inclusive"


def _name_check(pattern: re.Pattern[str], longest: int, rule: str) -> Callable[[Faults, str, str], None]:
    """Return a check that reports a value that is too long or does not match the pattern."""

    def check(faults: Faults, field: str, value: str) -> None:
        if len(value) > longest:
            faults.invalid(field, value, f"must be no more than {longest} characters")
        elif not pattern.fullmatch(value):
            faults.invalid(field, value, rule)

    return check


dns_label = _name_check(DNS_LABEL, 63, DNS_LABEL_RULE)
subdomain = _name_check(SUBDOMAIN, 253, SUBDOMAIN_RULE)
_config_key = _name_check(_CONFIG_KEY, 253, _CONFIG_KEY_RULE)


def qualified_name(faults: Faults, field: str, value: str) -> None:
    """Note a value that is not a qualified name: an optional DNS prefix, a slash, a name."""
    prefix, slash, name = value.rpartition("/")
    if slash and (not prefix or "/" in prefix or not SUBDOMAIN.fullmatch(prefix)):
        faults.invalid(field, value, f"prefix part {SUBDOMAIN_RULE}")
    elif not name:
        faults.invalid(field, value, "name part must be non-empty")
    elif len(name) > 63:
        faults.invalid(field, value, "name part must be no more than 63 characters")
    elif not _NAME_PART.fullmatch(name):
        faults.invalid(field, value, QUALIFIED_RULE)


def config_key(faults: Faults, field: str, value: str) -> None:
    """Note a value that is not a key of a ConfigMap or Secret."""
    _config_key(faults, field, value)
    if value in {".", ".."}:
        faults.invalid(field, value, f"must not be '{value}'")


def port(faults: Faults, field: str, value: int) -> None:
    """Note a number that is not a port."""
    if not 1 <= value <= 65535:
        faults.invalid(field, value, _PORT_RULE)


def is_label_value(value: str) -> bool:
    """Whether a value may stand in a label."""
    return len(value) <= 63 and _LABEL_VALUE.fullmatch(value) is not None


def unsupported_values(faults: Faults, value: Any, old: Any, schema: Schema, path: str = "") -> None:
    """Note every value that its field does not take; what is as it was before is not looked at."""
    if value is old or not _has_enums(schema):
        return
    if schema.enum:
        if value not in schema.enum:
            faults.unsupported(path, value, schema.enum)
    elif schema.shape is Shape.OBJECT and isinstance(value, dict):
        before = old if isinstance(old, dict) else {}
        for key, place in schema.fields.items():
            if key in value:
                below = f"{path}.{key}" if path else key
                unsupported_values(faults, value[key], before.get(key), place.schema, below)
    elif schema.items and isinstance(value, list):
        for at, item in enumerate(value):
            unsupported_values(faults, item, None, schema.items, f"{path}[{at}]")


@lru_cache(maxsize=2048)
def _has_enums(schema: Schema) -> bool:
    return _finds_enum(schema, set())


def _finds_enum(schema: Schema, seen: set[Schema]) -> bool:
    if schema in seen:
        return False
    seen.add(schema)
    if schema.enum or (schema.items and _finds_enum(schema.items, seen)):
        return True
    return any(_finds_enum(place.schema, seen) for place in schema.fields.values())


_CONTAINER_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})
_COUNTED = frozenset({"pods", "services", "secrets", "configmaps"})
_HUGE_PAGES = "hugepages-"


def amount(faults: Faults, field: str, name: str, text: str) -> None:
    """Note an amount of a resource that is negative, or not whole where only whole ones are."""
    nano, _ = parse_quantity(text)
    if nano < 0:
        faults.invalid(field, text, NOT_NEGATIVE)
    elif nano % NANO and (name in _COUNTED or _is_extended(name)):
        faults.invalid(field, text, "must be an integer")


def requirements(faults: Faults, path: str, wanted: Object) -> None:
    """Report the faults of requests and limits, each by itself and together."""
    limits, requests = wanted.get("limits") or {}, wanted.get("requests") or {}
    for kind, resources in (("limits", limits), ("requests", requests)):
        for name, text in resources.items():
            field = f"{path}.{kind}[{name}]"
            if "/" not in name and name not in _CONTAINER_RESOURCES and not name.startswith(_HUGE_PAGES):
                faults.invalid(field, name, "must be a standard resource for containers")
            qualified_name(faults, field, name)
            amount(faults, field, name, text)
    for name, text in requests.items():
        limit, extended = limits.get(name), _is_extended(name)
        if limit is None:
            if extended:
                faults.required(f"{path}.limits", "Limit must be set for non overcommitable resources")
            continue
        wanted_nano, most = parse_quantity(text)[0], parse_quantity(limit)[0]
        if extended and wanted_nano != most:
            faults.invalid(f"{path}.requests", text, f"must be equal to {name} limit of {limit}")
        elif wanted_nano > most:
            faults.invalid(f"{path}.requests", text, f"must be less than or equal to {name} limit of {limit}")


def _is_extended(name: str) -> bool:
    """Whether a resource is one that others than Kubernetes defined: it cannot be overcommitted."""
    domain, slash, _ = name.partition("/")
    if not slash or name.startswith(_HUGE_PAGES):
        return False
    return domain != "kubernetes.io" and not domain.endswith(".kubernetes.io")
