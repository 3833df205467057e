"""JSON Merge Patch (RFC 7386): objects merge, null removes, everything else replaces.

The document is never changed in place; what the patch does not touch is shared with it.

Source: RFC 7386; k8s.io/apiserver/pkg/endpoints/handlers/patch.go.
"""

from __future__ import annotations

from typing import Any

from kubedouble.errors import StatusError


def merge_patch(document: dict[str, Any], patch: Any) -> dict[str, Any]:
    """Return the document with the patch merged in.

    Raises:
        StatusError: 400 if the patch is not a JSON object.
    """
    if not isinstance(patch, dict):
        raise StatusError(400, "BadRequest", "json: cannot unmarshal a patch that is not an object")
    return _merge(document, patch)


def _merge(target: Any, patch: dict[str, Any]) -> dict[str, Any]:
    result = target.copy() if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = _merge(result.get(key), value)
        else:
            result[key] = value
    return result
