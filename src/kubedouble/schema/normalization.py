"""From an object as it was sent to the object as it is stored, or the refusal that says why not.

What a write with a field the kind does not have comes to is the client's choice, ``fieldValidation``:
``Strict`` refuses it, ``Warn`` (the default) drops the field and says so, ``Ignore`` drops it. A value of
the wrong type is always refused: 400 for an object that was sent whole, 422 for what a patch made.

Source: k8s.io/apiserver/pkg/endpoints/handlers/{create,patch,rest}.go.
"""

from __future__ import annotations

from typing import Any

from kubedouble.errors import StatusError, cause
from kubedouble.schema.decoding import Decoder
from kubedouble.schema.defaults import complete, with_string_data
from kubedouble.schema.pruning import Pruner
from kubedouble.schema.scalars import Undecodable
from kubedouble.schema.structure import Schema

JSON = dict[str, Any]
_SECRET = "io.k8s.api.core.v1.Secret"  # noqa: S105 - a type's name


def normalize(
    obj: JSON,
    schema: Schema,
    *,
    base: JSON | None = None,
    field_validation: str = "Warn",
    patch: str | None = None,
) -> tuple[JSON, tuple[str, ...]]:
    """Return an object in stored form, and warnings for the client.

    Args:
        obj: the object, with apiVersion and kind.
        schema: the kind's.
        base: the stored object, if there is one; parts of ``obj`` that *are* parts of it are not looked at.
        field_validation: ``Strict``, ``Warn`` or ``Ignore``.
        patch: the text of the patch that made the object, if one did.

    Raises:
        StatusError: 400 (422 for a patch) if a value is of the wrong type, or strict validation finds a
        field
            that the kind does not have.
    """
    walk = Pruner() if schema.custom else Decoder()
    try:
        decoded: JSON = walk.decode(obj, schema, base)
    except Undecodable as error:
        raise _refusal(obj, str(error), patch) from None
    warnings = tuple(f'unknown field "{path}"' for path in walk.unknown)
    if warnings and field_validation == "Strict":
        raise _refusal(obj, "strict decoding error: " + ", ".join(warnings), patch)
    if not schema.custom:
        decoded = complete(decoded, schema, base)
        if schema.name == _SECRET:
            decoded = with_string_data(decoded)
    return decoded, warnings if field_validation != "Ignore" else ()


def _refusal(obj: JSON, why: str, patch: str | None) -> StatusError:
    if patch is None:
        kind, version = obj.get("kind", ""), obj.get("apiVersion", "").rpartition("/")[2]
        message = f'{kind} in version "{version}" cannot be handled as a {kind}: {why}'
        return StatusError(400, "BadRequest", message)
    message = f"Invalid value: {_quoted(patch)}: {why}"
    causes = [cause("FieldValueInvalid", message, "patch")]
    return StatusError(422, "Invalid", f' "" is invalid: patch: {message}', {"causes": causes})


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
