"""The syntax of names, keys and ports that fields hold.

Source: k8s.io/apimachinery/pkg/util/validation/validation.go.
"""

from __future__ import annotations

import re

from kubedouble.schema.validation.faults import Faults

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_LABEL = re.compile(_LABEL)
_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
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


def dns_label(faults: Faults, field: str, value: str) -> None:
    """Note a value that is no RFC 1123 label."""
    if len(value) > 63:
        faults.invalid(field, value, "must be no more than 63 characters")
    elif not _DNS_LABEL.fullmatch(value):
        faults.invalid(field, value, DNS_LABEL_RULE)


def subdomain(faults: Faults, field: str, value: str) -> None:
    """Note a value that is no RFC 1123 subdomain."""
    if len(value) > 253:
        faults.invalid(field, value, "must be no more than 253 characters")
    elif not _SUBDOMAIN.fullmatch(value):
        faults.invalid(field, value, SUBDOMAIN_RULE)


def qualified_name(faults: Faults, field: str, value: str) -> None:
    """Note a value that is no qualified name: an optional DNS prefix, a slash, a name."""
    prefix, slash, name = value.rpartition("/")
    if slash and (not prefix or "/" in prefix or not _SUBDOMAIN.fullmatch(prefix)):
        faults.invalid(field, value, f"prefix part {SUBDOMAIN_RULE}")
    elif not name:
        faults.invalid(field, value, "name part must be non-empty")
    elif len(name) > 63:
        faults.invalid(field, value, "name part must be no more than 63 characters")
    elif not _NAME_PART.fullmatch(name):
        faults.invalid(field, value, QUALIFIED_RULE)


def config_key(faults: Faults, field: str, value: str) -> None:
    """Note a value that is no key of a ConfigMap or Secret."""
    if len(value) > 253:
        faults.invalid(field, value, "must be no more than 253 characters")
    elif not _CONFIG_KEY.fullmatch(value):
        faults.invalid(field, value, _CONFIG_KEY_RULE)
    elif value in {".", ".."}:
        faults.invalid(field, value, f"must not be '{value}'")


def port(faults: Faults, field: str, value: int) -> None:
    """Note a number that is no port."""
    if not 1 <= value <= 65535:
        faults.invalid(field, value, _PORT_RULE)


def is_label_value(value: str) -> bool:
    """Whether a value may stand in a label."""
    return len(value) <= 63 and _LABEL_VALUE.fullmatch(value) is not None
