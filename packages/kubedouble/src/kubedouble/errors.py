"""Refusals of the API server, as ``metav1.Status`` says them.

Code, reason, message and details are those of k8s.io/apimachinery/pkg/api/errors: clients decide by reason
and details, people read the message. A handler raises one; the router turns it into the response.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from kubedouble.resources import ResourceInfo

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for a text that is not the wanted JSON: wrong, not UTF-8, or nested too deep."""
OBJECT_MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


class StatusError(Exception):
    """A refusal: HTTP code, machine-readable reason, message, and details for clients."""

    def __init__(
        self, code: int, reason: str, message: str, details: Mapping[str, Any] | None = None, **metadata: Any
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.metadata = metadata
        self.warnings: tuple[str, ...] = ()
        """Warnings for the client; a webhook that refuses may send some, too."""

    def status(self) -> dict[str, Any]:
        """Return the ``metav1.Status`` object of this refusal."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details:
            status["details"] = dict(self.details)
        status["code"] = self.code
        return status


def cause(reason: str, message: str, field: str = "") -> dict[str, str]:
    """Return one entry of ``details.causes``."""
    entry = {"reason": reason, "message": message}
    return {**entry, "field": field} if field else entry


def bad_request(message: str) -> StatusError:
    """Refuse a request that cannot be understood."""
    return StatusError(400, "BadRequest", message)


def not_found(resource: ResourceInfo, name: str) -> StatusError:
    """Return the error for an object that does not exist."""
    message = f'{resource.group_resource} "{name}" not found'
    return StatusError(404, "NotFound", message, _of(resource, name))


def no_such_path() -> StatusError:
    """Return the error for an unknown path: no such kind, version or subresource."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(resource: ResourceInfo, name: str) -> StatusError:
    """Refuse to create what is there."""
    message = f'{resource.group_resource} "{name}" already exists'
    return StatusError(409, "AlreadyExists", message, _of(resource, name))


def generated_name_exists(resource: ResourceInfo, name: str) -> StatusError:
    """Refuse a create whose generated name is taken: the client may try again."""
    what = f'{resource.group_resource} "{name}" already exists'
    message = f"{what}, the server was not able to generate a unique name"
    return StatusError(409, "AlreadyExists", message, {**_of(resource, name), "retryAfterSeconds": 1})


def conflict(resource: ResourceInfo, name: str, why: str = OBJECT_MODIFIED) -> StatusError:
    """Refuse a write that is about another state of the object than the present one."""
    message = f'Operation cannot be fulfilled on {resource.group_resource} "{name}": {why}'
    return StatusError(409, "Conflict", message, _of(resource, name))


def precondition_failed(
    resource: ResourceInfo, name: str, field: str, wanted: str, found: str
) -> StatusError:
    """Refuse a write that is about another object (UID) or another state of it than there is."""
    why = f"Precondition failed: {field} in precondition: {wanted}, {field} in object meta: {found}"
    return conflict(resource, name, why)


def denied(group: str, resource: str, name: str, why: str, **details: Any) -> StatusError:
    """Refuse a request that a user may not make, by authorization or admission."""
    qualified = f"{resource}.{group}" if group else resource
    subject = f'{qualified} "{name}"' if name else qualified
    found = {"name": name, "group": group, "kind": resource, **details}
    return StatusError(
        403, "Forbidden", f"{subject} is forbidden: {why}", {key: each for key, each in found.items() if each}
    )


def internal_error(message: str) -> StatusError:
    """Return the error for a fault of the server itself, or of what it asks."""
    details = {"causes": [{"message": message}]}
    return StatusError(500, "InternalError", f"Internal error occurred: {message}", details)


def invalid(resource: ResourceInfo, name: str, causes: Iterable[Mapping[str, str]]) -> StatusError:
    """Refuse an object whose fields are wrong; each cause names the field."""
    causes = list(causes)
    problems = [f"{each['field']}: {each['message']}" for each in causes]
    listed = problems[0] if len(problems) == 1 else "[" + ", ".join(problems) + "]"
    group = f".{resource.group}" if resource.group else ""
    details = {"name": name, "group": resource.group, "kind": resource.kind}
    message = f'{resource.kind}{group} "{name}" is invalid: {listed}'
    return StatusError(422, "Invalid", message, _with({k: v for k, v in details.items() if v}, causes))


def expired(message: str, **metadata: Any) -> StatusError:
    """Return the error for a version that is no longer kept; the metadata may tell how to go on."""
    return StatusError(410, "Expired", message, **metadata)


def too_large_version(asked: int, current: int) -> StatusError:
    """Return the error for a version that does not exist yet."""
    message = f"Too large resource version: {asked}, current: {current}"
    causes = [cause("ResourceVersionTooLarge", "Too large resource version")]
    return StatusError(504, "Timeout", f"Timeout: {message}", {"causes": causes, "retryAfterSeconds": 1})


def method_not_allowed(resource: ResourceInfo, verb: str) -> StatusError:
    """Refuse a verb that the resource does not have."""
    message = f"{verb} is not supported on resources of kind {resource.group_resource!r}".replace("'", '"')
    return StatusError(405, "MethodNotAllowed", message, _of(resource, ""))


def not_acceptable(offered: Iterable[str]) -> StatusError:
    """Return the error for a client that accepts none of the forms of response."""
    listed = ", ".join(offered)
    return StatusError(406, "NotAcceptable", f"only the following media types are accepted: {listed}", {})


def unsupported_media_type(offered: Iterable[str]) -> StatusError:
    """Refuse a body in a format that is not read here."""
    listed = ", ".join(offered)
    message = f"the body of the request was in an unknown format - accepted media types include: {listed}"
    return StatusError(415, "UnsupportedMediaType", message, {})


def _of(resource: ResourceInfo, name: str) -> dict[str, Any]:
    details = {"name": name, "group": resource.group, "kind": resource.plural}
    return {key: value for key, value in details.items() if value}


def _with(details: dict[str, Any], causes: Iterable[Mapping[str, str]]) -> dict[str, Any]:
    listed = [dict(each) for each in causes]
    return {**details, "causes": listed} if listed else details


class Faults:
    """Faults of fields in the words of ``field.Error``, in the order they were found.

    Source: k8s.io/apimachinery/pkg/util/validation/field/errors.go.
    """

    def __init__(self) -> None:
        self.causes: list[dict[str, str]] = []

    def required(self, field: str, why: str = "") -> None:
        self._add("FieldValueRequired", f"Required value: {why}" if why else "Required value", field)

    def invalid(self, field: str, value: Any, why: str) -> None:
        self._add("FieldValueInvalid", f"Invalid value: {shown(value)}: {why}", field)

    def wrong_type(self, field: str, value: Any, why: str) -> None:
        self._add("FieldValueTypeInvalid", f"Invalid value: {shown(value)}: {why}", field)

    def unsupported(self, field: str, value: Any, supported: Iterable[Any]) -> None:
        listed = ", ".join(shown(each) for each in supported)
        self._add(
            "FieldValueNotSupported", f"Unsupported value: {shown(value)}: supported values: {listed}", field
        )

    def forbidden(self, field: str, why: str) -> None:
        self._add("FieldValueForbidden", f"Forbidden: {why}", field)

    def duplicate(self, field: str, value: Any) -> None:
        self._add("FieldValueDuplicate", f"Duplicate value: {shown(value)}", field)

    def missing(self, field: str, value: Any) -> None:
        self._add("FieldValueNotFound", f"Not found: {shown(value)}", field)

    def too_long(self, field: str, most: int) -> None:
        self._add("FieldValueTooLong", f"Too long: may not be more than {most} bytes", field)

    def too_many(self, field: str, count: int, most: int) -> None:
        self._add("FieldValueTooMany", f"Too many: {count}: must have at most {most} items", field)

    def unique(self, field: str, value: Any, seen: list[Any]) -> None:
        """Note a value that was seen before, and remember it."""
        if value in seen:
            self.duplicate(field, value)
        seen.append(value)

    def immutable(self, field: str, new: Any, old: Any) -> None:
        """Note a change of a field that cannot change."""
        if new != old:
            self.invalid(field, new, "field is immutable")

    def refuse(self, resource: ResourceInfo, name: str) -> None:
        """Refuse the object if anything was noted.

        Raises:
            StatusError: 422, with a cause for each fault.
        """
        if self.causes:
            raise invalid(resource, name, self.causes)

    def _add(self, reason: str, message: str, field: str) -> None:
        self.causes.append({"reason": reason, "message": message, "field": field})


def shown(value: Any) -> str:
    """Return a value as messages show it: strings quoted, everything else as JSON."""
    return "null" if value is None else msgspec.json.encode(value).decode()
