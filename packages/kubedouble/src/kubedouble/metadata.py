"""The server's changes to the metadata of every object: names, identity, versions, deletion marks.

Source: k8s.io/apiserver/pkg/registry/rest/{create,update,meta}.go,
apimachinery/pkg/api/validation/objectmeta.go.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from kubedouble.errors import Faults, StatusError, bad_request, cause, conflict, invalid, precondition_failed
from kubedouble.requests import Call
from kubedouble.resources import ResourceInfo
from kubedouble.schema.decoding import timestamp
from kubedouble.schema.rules import (
    DNS_LABEL,
    DNS_LABEL_RULE,
    QUALIFIED_RULE,
    SUBDOMAIN,
    SUBDOMAIN_RULE,
    is_label_value,
)
from kubedouble.store import Object

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_LONGEST_BASE = 58
_LARGEST = 256 * 1024
_FORBIDDEN_ON_CREATE = ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")
_IMMUTABLE = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
_STORED_ONE_HOLDS = ("creationTimestamp", "generation", "resourceVersion")
_KEPT_IF_ABSENT = ("uid", "deletionGracePeriodSeconds")
_PATH_SEGMENT = re.compile(r"(?!\.\.?$)[^/%]+")
_QUALIFIED = re.compile(rf"({SUBDOMAIN.pattern}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?")

_OTHER_NAMESPACE = "the namespace of the provided object does not match the namespace sent on the request"
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used "
    "for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def check_type(resource: ResourceInfo, obj: Object) -> dict[str, Any]:
    """Return the object with the type of the resource it was sent to.

    Raises:
        StatusError: 400, if it says that it is of another type, or its metadata is none.
    """
    api_version, kind = obj.get("apiVersion", ""), obj.get("kind", "")
    if (api_version and api_version != resource.api_version) or (kind and kind != resource.kind):
        wanted = f"{resource.api_version}, Kind={resource.kind}"
        raise bad_request(
            f"the object provided is of type {api_version}, Kind={kind}, but {wanted} is expected"
        )
    if not isinstance(obj.get("metadata", {}), Mapping):
        raise bad_request(f"{resource.kind}.metadata must be an object")
    return {
        **obj,
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": obj.get("metadata", {}),
    }


def for_create(call: Call, obj: Object) -> dict[str, Any]:
    """Give a new object its place, identity and time.

    Raises:
        StatusError: if it names another namespace or name than the request, or a version.
    """
    metadata = {k: v for k, v in obj["metadata"].items() if k not in _FORBIDDEN_ON_CREATE and v is not None}
    if metadata.get("resourceVersion"):
        raise StatusError(500, "", "resourceVersion should not be set on objects to be created")
    metadata.pop("resourceVersion", None)
    _place(call, metadata)
    metadata["uid"] = str(uuid4())
    metadata["creationTimestamp"] = timestamp(call.time)
    metadata.pop("generation", None)
    if call.resource.generation is not None:
        metadata["generation"] = 1
    return {**obj, "metadata": metadata}


def with_generated_name(obj: Object) -> Object:
    """Give a new object the name it is to be generated, if it has none.

    This is done after mutating admission, which sees ``generateName`` alone.
    """
    metadata = obj["metadata"]
    base = metadata.get("generateName")
    if metadata.get("name") or not base:
        return obj
    suffix = "".join(secrets.choice(_SUFFIX_LETTERS) for _ in range(5))
    return {**obj, "metadata": {**metadata, "name": base[:_LONGEST_BASE] + suffix}}


def for_update(call: Call, old: Object, new: Object) -> dict[str, Any]:
    """Check an update's identity and version, and keep the fields that it leaves out.

    Raises:
        StatusError: 400 if it names another object, 409 if it is about another uid or version.
    """
    metadata = {key: value for key, value in new["metadata"].items() if value is not None}
    _place(call, metadata)
    _check_identity(call, old["metadata"], metadata)
    return {**new, "metadata": _with_kept(old["metadata"], metadata)}


def check_update(faults: Faults, old: Object, new: Object) -> None:
    """Note the immutable metadata that an update changes."""
    before, after = old["metadata"], new["metadata"]
    for name in _IMMUTABLE:
        faults.immutable(f"metadata.{name}", after.get(name), before.get(name))
    added = set(after.get("finalizers") or ()) - set(before.get("finalizers") or ())
    if added and before.get("deletionTimestamp"):
        listed = ", ".join(f'"{name}"' for name in sorted(added))
        faults.forbidden(
            "metadata.finalizers",
            "no new finalizers can be added if the object is being deleted, found new finalizers "
            f"[]string{{{listed}}}",
        )


def check(faults: Faults, resource: ResourceInfo, obj: Object) -> None:
    """Report the faults of an object's metadata."""
    metadata = obj["metadata"]
    _check_name(faults, resource, metadata.get("name", ""))
    for key, value in (metadata.get("labels") or {}).items():
        if not _QUALIFIED.fullmatch(key):
            faults.invalid("metadata.labels", key, QUALIFIED_RULE)
        if not isinstance(value, str) or not is_label_value(value):
            faults.invalid("metadata.labels", value, _VALUE_RULE)
    annotations = metadata.get("annotations") or {}
    for key in annotations:
        if not _QUALIFIED.fullmatch(key.lower()):
            faults.invalid("metadata.annotations", key, QUALIFIED_RULE)
    if sum(len(key.encode()) + len(str(value).encode()) for key, value in annotations.items()) > _LARGEST:
        faults.too_long("metadata.annotations", _LARGEST)


def _check_name(faults: Faults, resource: ResourceInfo, name: str) -> None:
    rule = ""
    if not name:
        faults.required("metadata.name", "name or generateName is required")
    elif resource.group == "rbac.authorization.k8s.io":
        if not _PATH_SEGMENT.fullmatch(name):
            rule = "may not be '.' or '..' and may not contain '/' or '%'"
    elif resource.plural in {"namespaces", "services"}:
        if not DNS_LABEL.fullmatch(name) or len(name) > 63:
            rule = DNS_LABEL_RULE
    elif not SUBDOMAIN.fullmatch(name) or len(name) > 253:
        rule = SUBDOMAIN_RULE
    if rule:
        faults.invalid("metadata.name", name, rule)


def _check_identity(call: Call, current: Object, metadata: Object) -> None:
    name, uid, version = (metadata.get(field, "") for field in ("name", "uid", "resourceVersion"))
    if not name:
        raise bad_request("name must be provided")
    if name != call.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({call.name})")
    if uid and uid != current["uid"]:
        raise precondition_failed(call.resource, call.name, "UID", uid, current["uid"])
    if not version and not call.resource.unconditional_update:
        message = "Invalid value: 0x0: must be specified for an update"
        causes = [cause("FieldValueInvalid", message, "metadata.resourceVersion")]
        raise invalid(call.resource, call.name, causes)
    if version and version != current["resourceVersion"]:
        raise conflict(call.resource, call.name)


def _with_kept(current: Object, metadata: Object) -> Object:
    """Return the metadata of an update with the fields that it cannot change, or may leave out."""
    kept = {k: v for k, v in metadata.items() if k not in {*_STORED_ONE_HOLDS, "selfLink"}}
    kept.update((name, current[name]) for name in _STORED_ONE_HOLDS if name in current)
    kept.update((name, current[name]) for name in _KEPT_IF_ABSENT if name in current and not kept.get(name))
    if "deletionTimestamp" in current:
        kept["deletionTimestamp"] = current["deletionTimestamp"]
    return kept


def _place(call: Call, metadata: dict[str, Any]) -> None:
    if not call.resource.namespaced:
        if metadata.get("namespace"):
            raise bad_request(_OTHER_NAMESPACE)
        metadata.pop("namespace", None)
        return
    if metadata.setdefault("namespace", call.namespace) not in {"", call.namespace}:
        raise bad_request(_OTHER_NAMESPACE)
    metadata["namespace"] = call.namespace
