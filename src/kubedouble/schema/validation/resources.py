"""Amounts of resources: what pods ask for, what nodes have.

Source: ValidateResourceRequirements, ValidateResourceQuantityValue, IsIntegerResourceName.
"""

from __future__ import annotations

from corewise.quantities import Quantity
from kubedouble.schema.validation.faults import NOT_NEGATIVE, Faults, Object
from kubedouble.schema.validation.names import qualified_name

_STANDARD = frozenset({"cpu", "memory", "storage", "ephemeral-storage", "pods", "services", "secrets",
                       "configmaps"})  # fmt: skip
_WHOLE = 10**9


def amounts(faults: Faults, path: str, resources: Object) -> None:
    """Note amounts that are negative, or not whole where only whole ones are."""
    for name, text in resources.items():
        field = f"{path}[{name}]"
        qualified_name(faults, field, name)
        amount = Quantity.parse(text)
        if amount.nano < 0:
            faults.invalid(field, text, NOT_NEGATIVE)
        elif is_integer(name) and amount.nano % _WHOLE:
            faults.invalid(field, text, "must be an integer")


def requirements(faults: Faults, path: str, wanted: Object) -> None:
    """Note what is wrong with requests and limits, each by itself and together."""
    limits, requests = wanted.get("limits") or {}, wanted.get("requests") or {}
    for kind, resources in (("limits", limits), ("requests", requests)):
        for name in resources:
            _container_resource(faults, f"{path}.{kind}[{name}]", name)
        amounts(faults, f"{path}.{kind}", resources)
    for name, text in requests.items():
        limit = limits.get(name)
        field = f"{path}.requests"
        if limit is None:
            if is_extended(name):
                faults.required(f"{path}.limits", "Limit must be set for non overcommitable resources")
        elif is_extended(name) and Quantity.parse(text) != Quantity.parse(limit):
            faults.invalid(field, text, f"must be equal to {name} limit of {limit}")
        elif Quantity.parse(text) > Quantity.parse(limit):
            faults.invalid(field, text, f"must be less than or equal to {name} limit of {limit}")


def _container_resource(faults: Faults, field: str, name: str) -> None:
    if "/" not in name and name not in {"cpu", "memory", "ephemeral-storage"} and not _is_huge_page(name):
        faults.invalid(field, name, "must be a standard resource for containers")


def is_integer(name: str) -> bool:
    """Whether only whole amounts of a resource exist."""
    return name in {"pods", "services", "secrets", "configmaps"} or is_extended(name)


def is_extended(name: str) -> bool:
    """Whether a resource is one that others than Kubernetes defined: it cannot be overcommitted."""
    if name in _STANDARD or _is_huge_page(name):
        return False
    domain, slash, _ = name.partition("/")
    return bool(slash) and not (domain == "kubernetes.io" or domain.endswith(".kubernetes.io"))


def _is_huge_page(name: str) -> bool:
    return name.startswith("hugepages-")
