"""The path, verb and options of a request, read as kube-apiserver reads them.

Source: k8s.io/apiserver/pkg/endpoints/request/requestinfo.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import unquote

from kubedouble.authentication import User
from kubedouble.bodies import decode_json, decode_protobuf, decode_yaml
from kubedouble.errors import Faults, bad_request, unsupported_media_type
from kubedouble.resources import ResourceInfo

_VERBS = {
    "POST": "create",
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_FIELD_VALIDATION = ("Ignore", "Warn", "Strict")
_NAMESPACE_SUBRESOURCES = ("status", "finalize")
_NAME_FIELD = re.compile(r"(?:^|,)metadata\.name==?([^,]+)(?:,|$)")
_DECODERS: Mapping[str, Callable[[bytes], dict[str, Any]]] = {
    "application/json": decode_json,
    "application/yaml": decode_yaml,
    "application/vnd.kubernetes.protobuf": decode_protobuf,
}
"""Media type of a body -> what reads it."""


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """A request as authorization and routing see it. ``plural`` is empty if it is for no resource."""

    verb: str
    path: str
    group: str = ""
    version: str = ""
    plural: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """One authorized request for a resource, with all that a handler needs of it."""

    info: RequestInfo
    resource: ResourceInfo
    user: User
    query: Mapping[str, str]
    headers: Mapping[str, str]
    time: datetime
    body: bytes = b""

    @property
    def namespace(self) -> str:
        return self.info.namespace if self.resource.namespaced else ""

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def dry_run(self) -> bool:
        return bool(self.query.get("dryRun"))

    @property
    def manager(self) -> str:
        """The field manager: the one named, else the client program's name."""
        return (
            self.query.get("fieldManager")
            or self.headers.get("User-Agent", "").split("/")[0][:128]
            or "unknown"
        )

    @property
    def media_type(self) -> str:
        return self.headers.get("Content-Type", "").split(";")[0].strip().lower()

    def flag(self, name: str) -> bool:
        """Whether a boolean parameter is set, as Go's conversion reads it."""
        return self.query.get(name, "false").lower() not in {"false", "0", "f", ""}

    def number(self, name: str) -> int | None:
        """Return an integer parameter, or ``None`` if it is absent."""
        text = self.query.get(name, "")
        if not text:
            return None
        if not re.fullmatch(r"-?[0-9]{1,18}", text):
            raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
        return int(text)

    def decoded(self) -> dict[str, Any]:
        """Return the body of a write as a JSON object.

        Raises:
            StatusError: 415 for another format than JSON or YAML, 400 for a body that is none.
        """
        decode = _DECODERS.get(self.media_type or "application/json")
        if decode is None:
            raise unsupported_media_type(_DECODERS)
        return decode(self.body)

    def options(self, operation: str) -> dict[str, Any]:
        """Return the options of a write as reviews carry them: a patch has those of the resulting write."""
        options: dict[str, Any] = {"kind": OPTIONS[operation.lower()].kind, "apiVersion": "meta.k8s.io/v1"}
        if self.dry_run:
            options["dryRun"] = ["All"]
        for name in ("fieldManager", "fieldValidation"):
            if self.query.get(name):
                options[name] = self.query[name]
        return options

    def check_options(self) -> None:
        """Refuse parameters of a write that have no such value.

        Raises:
            StatusError: 422 for a bad dryRun or fieldValidation.
        """
        faults = Faults()
        if (dry_run := self.query.get("dryRun", "")) not in {"", "All"}:
            faults.unsupported("dryRun", dry_run, ("All",))
        if (validation := self.query.get("fieldValidation", "")) not in {"", *_FIELD_VALIDATION}:
            faults.unsupported("fieldValidation", validation, _FIELD_VALIDATION)
        faults.refuse(OPTIONS[self.info.verb], "")


OPTIONS = {
    verb: ResourceInfo("meta.k8s.io", "v1", "", "", kind, namespaced=False)
    for verb, kind in (
        ("create", "CreateOptions"), ("update", "UpdateOptions"), ("patch", "PatchOptions"),
        ("delete", "DeleteOptions"), ("deletecollection", "DeleteOptions"), ("list", "ListOptions"),
    )
}  # fmt: skip
"""Verb -> the kind of its options, as messages about them name it."""


def parse(method: str, path: str, query: Mapping[str, str]) -> RequestInfo:
    """Read method, path and query into verb and resource."""
    verb = _VERBS.get(method, method.lower())
    parts = [unquote(part) for part in path.split("/") if part]
    if parts[:1] == ["api"] and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[:1] == ["apis"] and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return RequestInfo(method.lower() if verb == "create" else verb, path)
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
            rest = rest[2:]
    plural, name, subresource = (*rest, "", "")[:3]
    verb, name = _refine(verb, name, query)
    return RequestInfo(
        verb, path, group, version, plural, "/".join(rest[2:]) and subresource, namespace, name
    )


def _refine(verb: str, name: str, query: Mapping[str, str]) -> tuple[str, str]:
    """Tell list and watch from get, deletecollection from delete; find the name that a list is limited to."""
    if name or verb not in {"get", "delete"}:
        return verb, name
    if verb == "delete":
        return "deletecollection", name
    watching = query.get("watch", "false").lower() not in {"false", "0", ""}
    limited = _NAME_FIELD.search(query.get("fieldSelector", ""))
    return "watch" if watching else "list", limited[1] if limited else ""
