"""What goes out: bodies, query parameters and headers, as the API server wants them."""

from __future__ import annotations

from typing import Any

import msgspec

from corewise.kube.config import UserConfig
from corewise.kube.resources import Resource


def encode(body: object) -> bytes | None:
    """A body as JSON; bytes are JSON already, None is no body."""
    return body if body is None or isinstance(body, bytes) else msgspec.json.encode(body)


def with_kind(resource: Resource[Any], body: object) -> object:
    """The body with apiVersion and kind, which the structs leave out."""
    if isinstance(body, bytes):
        return body
    return {"apiVersion": resource.api_version, "kind": resource.kind} | msgspec.to_builtins(body)


def selectors(label_selector: str, field_selector: str) -> dict[str, str]:
    """The parameters that choose objects."""
    both = {"labelSelector": label_selector, "fieldSelector": field_selector}
    return {key: value for key, value in both.items() if value}


def writing(*, field_manager: str, dry_run: bool) -> dict[str, str]:
    """The parameters of every write."""
    params = {"fieldManager": field_manager} if field_manager else {}
    if dry_run:
        params["dryRun"] = "All"
    return params


def impersonation(user: UserConfig) -> tuple[tuple[str, str], ...]:
    """The headers that ask to be someone else; one for each group."""
    if not user.impersonate:
        return ()
    headers = [("Impersonate-User", user.impersonate)]
    headers += [("Impersonate-Group", group) for group in user.impersonate_groups]
    if user.impersonate_uid:
        headers.append(("Impersonate-Uid", user.impersonate_uid))
    return tuple(headers)
