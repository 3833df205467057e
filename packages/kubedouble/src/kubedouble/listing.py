"""Reading objects: get, and list with selectors, pages and versions.

Pages of one list show one state: the first page's version stands in the continue token, and later pages are
taken from the store's history at that version. When it is no longer remembered the client gets 410 with a
token that continues in the present, as kube-apiserver gives.

``resourceVersion`` on a list: absent or "0" means now; N with match Exact means exactly then; else "not
older than N", which means now, unless N is still to come.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec

from kubedouble import forms
from kubedouble.cluster import Cluster, Reply
from kubedouble.errors import UNREADABLE, Faults, StatusError, bad_request, expired, too_large_version
from kubedouble.requests import OPTIONS, Call
from kubedouble.selectors import Selection, parse
from kubedouble.store import Expired, Key, Stored

_LIST_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a "
    "new list without the continue parameter, or use the continue token in this response to retrieve "
    "the remainder of the results. Continuing with the provided token results in an inconsistent list - "
    "objects that were created, modified, or deleted between the time the first chunk was returned and "
    "now may show up in the list."
)


class Token(msgspec.Struct, frozen=True):
    """The point where a list continues: at a version (0: now), after a key."""

    v: str
    rv: int
    start: Key


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list, and its metadata."""

    items: list[Stored]
    version: int
    metadata: dict[str, Any]


async def get(cluster: Cluster, call: Call) -> Reply:
    """Answer a get."""
    form = forms.negotiate(call)
    _reject_future(cluster, version_parameter(call))
    return Reply(forms.one(call.resource, cluster.existing(call), form))


async def list_objects(cluster: Cluster, call: Call) -> Reply:
    """Answer a list."""
    form = forms.negotiate(call)
    page = page_of(cluster, call)
    return Reply(forms.many(call.resource, page.items, page.metadata, form))


def page_of(cluster: Cluster, call: Call) -> Page:
    """Select the objects of a list request."""
    selection = select(call)
    table = cluster.store.table(call.resource.storage_key)
    limit, current = call.number("limit") or 0, cluster.store.version
    text = call.query.get("continue", "")
    token = _decode_token(text) if text else None
    check_match(call)
    if token and call.query.get("resourceVersion", "") not in {"", "0"}:
        raise bad_request("specifying resource version is not allowed when using continue")
    version = (token.rv if token else _list_version(cluster, call, limit)) or current
    try:
        fields = None if token else selection.fields
        count, candidates = table.listed(version, call.namespace, fields, token.start if token else None)
    except Expired as error:
        if token:
            raise expired(_LIST_TOO_OLD, **{"continue": _encode_token(0, token.start)}) from error
        raise expired(f"The resourceVersion for the provided list is too old. ({error})") from error
    selected = (stored for stored in candidates if selection.everything or selection.matches(stored.object))
    return _cut(selected, limit, version, count if selection.everything else None)


def select(call: Call) -> Selection:
    """Read the selectors of a call."""
    return parse(call.resource, call.query.get("labelSelector", ""), call.query.get("fieldSelector", ""))


def check_match(call: Call, *, watching: bool = False) -> None:
    """Refuse combinations of version options that have no meaning.

    Raises:
        StatusError: 422, naming the option.
    """
    match = call.query.get("resourceVersionMatch", "")
    version = call.query.get("resourceVersion", "")
    problem = ""
    if watching:
        if match and not call.flag("sendInitialEvents"):
            problem = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        elif "sendInitialEvents" in call.query and match != "NotOlderThan":
            problem = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
    elif match and not version:
        problem = "resourceVersionMatch is forbidden unless resourceVersion is provided"
    elif match and call.query.get("continue"):
        problem = "resourceVersionMatch is forbidden when continue is provided"
    elif match == "Exact" and version == "0":
        problem = 'resourceVersionMatch "Exact" is forbidden for resourceVersion "0"'
    faults = Faults()
    if problem:
        faults.forbidden("resourceVersionMatch", problem)
    elif match not in {"", "Exact", "NotOlderThan"}:
        faults.unsupported("resourceVersionMatch", match, ("Exact", "NotOlderThan"))
    faults.refuse(OPTIONS["list"], "")


def _list_version(cluster: Cluster, call: Call, limit: int) -> int:
    asked = version_parameter(call)
    _reject_future(cluster, asked)
    match = call.query.get("resourceVersionMatch", "")
    if asked and (match == "Exact" or (limit and not match)):
        return asked
    return cluster.store.version


_LONGEST_VERSION = 20  # digits of 64 bits


def version_parameter(call: Call) -> int:
    """Return the version a read asks for, 0 if it asks for none.

    Raises:
        StatusError: 400, if it is not a version.
    """
    text = call.query.get("resourceVersion", "")
    if not text:
        return 0
    if not text.isascii() or not text.isdigit() or len(text) > _LONGEST_VERSION:
        why = f'strconv.ParseUint: parsing "{text}": invalid syntax'
        raise bad_request(f'resourceVersion: Invalid value: "{text}": {why}')
    return int(text)


def _reject_future(cluster: Cluster, asked: int) -> None:
    if asked > cluster.store.version:
        raise too_large_version(asked, cluster.store.version)


def _cut(selected: Iterator[Stored], limit: int, version: int, count: int | None) -> Page:
    """Take a page; ``count``: how many are selected, if that is known."""
    metadata: dict[str, Any] = {"resourceVersion": str(version)}
    items = list(islice(selected, limit + 1 if limit > 0 else None))
    if 0 < limit < len(items):
        items.pop()
        metadata["continue"] = _encode_token(version, items[-1].key)
        if count is not None:
            metadata["remainingItemCount"] = count - len(items)
    return Page(items, version, metadata)


def _encode_token(version: int, start: Key) -> str:
    token = msgspec.json.encode(Token("meta.k8s.io/v1", version, start))
    return base64.urlsafe_b64encode(token).decode().rstrip("=")


def _decode_token(text: str) -> Token:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=Token)
    except (ValueError, *UNREADABLE) as error:
        raise StatusError(400, "BadRequest", f"continue key is not valid: {error}") from error
