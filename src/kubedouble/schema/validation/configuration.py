"""ConfigMaps and Secrets: keys, size, and what ``immutable`` means.

Source: ValidateConfigMap, ValidateSecret and their updates, k8s.io/kubernetes/pkg/apis/core/validation.
"""

from __future__ import annotations

import base64

from kubedouble.schema.validation.faults import Faults, Object
from kubedouble.schema.validation.names import config_key

_LARGEST = 1024 * 1024
_SEALED = "field is immutable when `immutable` is set"


def config_map(faults: Faults, obj: Object, old: Object | None) -> None:
    """Note what is wrong with a ConfigMap."""
    data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    for key in data:
        config_key(faults, f"data[{key}]", key)
        if key in binary:
            faults.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
    for key in binary:
        config_key(faults, f"binaryData[{key}]", key)
    size = sum(len(value.encode()) for value in data.values()) + sum(map(_decoded_size, binary.values()))
    if size > _LARGEST:
        faults.too_long("", _LARGEST)
    _sealed(faults, obj, old, ("data", "binaryData"))


def secret(faults: Faults, obj: Object, old: Object | None) -> None:
    """Note what is wrong with a Secret."""
    data = obj.get("data") or {}
    for key in data:
        config_key(faults, f"data[{key}]", key)
    if sum(map(_decoded_size, data.values())) > _LARGEST:
        faults.too_long("data", _LARGEST)
    if old is not None:
        faults.immutable("type", obj.get("type", ""), old.get("type", ""))
    _sealed(faults, obj, old, ("data",))


def _sealed(faults: Faults, obj: Object, old: Object | None, fields: tuple[str, ...]) -> None:
    if old is None or not old.get("immutable"):
        return
    if not obj.get("immutable"):
        faults.forbidden("immutable", _SEALED)
    for field in fields:
        if (obj.get(field) or {}) != (old.get(field) or {}):
            faults.forbidden(field, _SEALED)


def _decoded_size(text: str) -> int:
    return len(base64.b64decode(text))
