"""Nodes: taints, amounts, and what of a node's identity stays.

Source: ValidateNode, ValidateNodeUpdate of k8s.io/kubernetes/pkg/apis/core/validation/validation.go.
"""

from __future__ import annotations

from collections.abc import Iterable

from corewise.quantities import Quantity
from kubedouble.schema.validation.faults import NOT_NEGATIVE, Faults, Object
from kubedouble.schema.validation.names import is_label_value, qualified_name
from kubedouble.schema.validation.resources import is_integer

_WHOLE = 10**9


def node(faults: Faults, obj: Object, old: Object | None) -> None:
    """Note what is wrong with a node, and with what changed of it."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    before = (old or {}).get("status") or {}
    _taints(faults, spec.get("taints") or ())
    for kind in ("capacity", "allocatable"):
        if status.get(kind) is not before.get(kind):
            _amounts(faults, f"status.{kind}", status.get(kind) or {})
    if old is not None:
        _identity(faults, spec, old.get("spec") or {})


def _amounts(faults: Faults, path: str, resources: Object) -> None:
    for name, text in resources.items():
        amount = Quantity.parse(text)
        if amount.nano < 0:
            faults.invalid(f"{path}.{name}", text, NOT_NEGATIVE)
        elif is_integer(name) and amount.nano % _WHOLE:
            faults.invalid(f"{path}.{name}", text, "must be an integer")


def _taints(faults: Faults, listed: Iterable[Object]) -> None:
    seen: set[tuple[str, str]] = set()
    for at, taint in enumerate(listed):
        field = f"spec.taints[{at}]"
        key, effect = taint.get("key", ""), taint.get("effect", "")
        qualified_name(faults, f"{field}.key", key)
        if not is_label_value(taint.get("value", "")):
            faults.invalid(
                f"{field}.value", taint["value"], "a valid label must be an empty string or a name"
            )
        if not effect:
            faults.required(f"{field}.effect")
        if (key, effect) in seen:
            faults.duplicate(field, taint)
        seen.add((key, effect))


def _identity(faults: Faults, spec: Object, before: Object) -> None:
    for name, word in (("podCIDRs", "podCIDR"), ("providerID", "providerID")):
        if before.get(name) and spec.get(name) != before[name]:
            faults.forbidden(f"spec.{name}", f'node updates may not change {word} except from "" to valid')
