"""The API client: typed calls on ``Resource`` values over one shared transport.

A ``Client`` is cheap: it is an identity (the user it impersonates) over a ``Transport`` (connections,
credentials, retries). ``as_user`` gives another identity over the same connections.

Bodies are anything msgspec can encode (a dict, a struct) or bytes that are JSON already. Answers are decoded
to the type of the resource; ``resource.typed(dict)`` gives plain dicts.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from enum import Enum
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from corewise.kube.clock import SYSTEM_CLOCK, Clock
from corewise.kube.config import ClusterConfig, UserConfig
from corewise.kube.decoding import (
    Bookmark,
    DecodedList,
    Page,
    Undecodable,
    WatchEvent,
    decode_object,
    decode_page,
)
from corewise.kube.errors import DecodeError, Forbidden, Gone, NotFound
from corewise.kube.objects import OwnerReference, PartialObject
from corewise.kube.resources import PODS, Resource
from corewise.kube.transport import HTTPTransport, Request, Transport
from corewise.kube.watch import Gathering, watch_events
from corewise.vocabulary.errors import UNREADABLE

if TYPE_CHECKING:
    from typing import Self

T = TypeVar("T")

PAGE_SIZE = 500
AFTER_EXPIRY = 10
"""How many times larger pages are once a list has expired on the way: then there are fewer of them."""


class PatchType(Enum):
    """The four patch formats, by their media types."""

    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


# Patches that may be sent twice: the second changes nothing more, or conflicts if it names a version.
_REPEATABLE_PATCHES = frozenset({PatchType.MERGE, PatchType.APPLY})


class _DiscoveredResource(msgspec.Struct):
    name: str


class _Discovered(msgspec.Struct):
    resources: tuple[_DiscoveredResource, ...] = ()


_DISCOVERED = msgspec.json.Decoder(_Discovered)


class Client:
    """An identity at an API server: ``async with Client(load_config()) as client: ...``."""

    def __init__(
        self,
        config: ClusterConfig,
        *,
        timeout: float = 30.0,
        connections: int = 64,
        attempts: int = 5,
        on_warning: Callable[[str], None] | None = None,
        clock: Clock = SYSTEM_CLOCK,
        rng: random.Random | None = None,
        transport: Transport | None = None,
    ) -> None:
        # A transport that is given belongs to the giver, who opens and closes it.
        self.config = config
        self._transport = transport or HTTPTransport(
            config,
            timeout=timeout,
            connections=connections,
            attempts=attempts,
            on_warning=on_warning,
            clock=clock,
            rng=rng or random.Random(),  # noqa: S311 - spreads retries in time, guards nothing
        )
        self._owns_transport = transport is None
        self._headers = _impersonation(config.user)

    async def __aenter__(self) -> Self:
        if self._owns_transport:
            await self._transport.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._owns_transport:
            await self._transport.close()

    def as_user(self, name: str, groups: Sequence[str] = (), uid: str = "") -> Client:
        """The same connections under another name; it lives as long as this client and needs no closing."""
        user = dataclasses.replace(
            self.config.user, impersonate=name, impersonate_groups=tuple(groups), impersonate_uid=uid
        )
        return Client(dataclasses.replace(self.config, user=user), transport=self._transport)

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        """One object; ``NotFound`` if there is none."""
        body = await self.request("GET", resource.path(name, namespace=namespace))
        return decode_object(resource, body, resource.label(name, namespace))

    async def list(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        page_size: int = PAGE_SIZE,
        held: Callable[[T], T] = lambda item: item,
    ) -> DecodedList[T]:
        """All objects, fetched in pages.

        ``held`` returns the object to keep for each that arrives: one that the caller has already, if they
        are the same. So a list of what is known takes the memory of one page.

        A continue token that expires on the way (410) restarts the list with larger pages, but not in one:
        that could not expire, but 200,000 pods are 2 GB, more than a program may have.
        """
        chosen = _selectors(label_selector, field_selector)
        try:
            return await self._list_pages(resource, namespace, chosen, page_size, held)
        except Gone:
            return await self._list_pages(resource, namespace, chosen, page_size * AFTER_EXPIRY, held)

    async def _list_pages(
        self,
        resource: Resource[T],
        namespace: str,
        chosen: Mapping[str, str],
        page_size: int,
        held: Callable[[T], T],
    ) -> DecodedList[T]:
        params = dict(chosen)
        if page_size:
            params["limit"] = str(page_size)
        items: list[T] = []
        broken: list[Undecodable] = []
        while True:
            page: Page[T] = decode_page(
                resource, await self.request("GET", resource.path(namespace=namespace), params=params)
            )
            items += map(held, page.items)
            broken += page.undecodable
            if not page.continue_token:
                return DecodedList(tuple(items), page.resource_version, tuple(broken))
            params["continue"] = page.continue_token

    async def serves(self, resource: Resource[Any]) -> bool:
        """Say whether the API server has such objects at all, in this version of their group."""
        group = f"/apis/{resource.group}" if resource.group else "/api"
        try:
            found = _DISCOVERED.decode(await self.request("GET", f"{group}/{resource.version}"))
        except NotFound:
            return False
        except UNREADABLE as error:
            raise DecodeError(f"discovery of {resource.api_version}: {error}") from error
        return any(each.name == resource.plural for each in found.resources)

    async def owners(self, resource: Resource[PartialObject], name: str) -> tuple[OwnerReference, ...]:
        """Return an object as the owner of others; nothing if there is none, or if it may not be read."""
        try:
            uid = (await self.get(resource, name)).metadata.uid if name else ""
        except (Forbidden, NotFound):
            uid = ""
        if not uid:
            return ()
        return (OwnerReference(resource.api_version, resource.kind, name, uid),)

    async def create(
        self,
        resource: Resource[T],
        body: object,
        namespace: str = "",
        *,
        field_manager: str = "",
        dry_run: bool = False,
    ) -> T:
        """Create an object; ``AlreadyExists`` if there is one."""
        answer = await self.request(
            "POST",
            resource.path(namespace=namespace),
            params=_writing(field_manager=field_manager, dry_run=dry_run),
            body=_with_kind(resource, body),
        )
        return decode_object(resource, answer, resource.label(namespace=namespace))

    async def replace(
        self,
        resource: Resource[T],
        name: str,
        body: object,
        namespace: str = "",
        *,
        subresource: str = "",
        field_manager: str = "",
        dry_run: bool = False,
    ) -> T:
        """Put a whole object; ``Conflict`` if its resourceVersion is not the stored one."""
        answer = await self.request(
            "PUT",
            resource.path(name, namespace=namespace, subresource=subresource),
            params=_writing(field_manager=field_manager, dry_run=dry_run),
            body=_with_kind(resource, body),
        )
        return decode_object(resource, answer, resource.label(name, namespace))

    async def patch(
        self,
        resource: Resource[T],
        name: str,
        body: object,
        *,
        type: PatchType = PatchType.MERGE,  # noqa: A002 - the word of the API
        namespace: str = "",
        subresource: str = "",
        field_manager: str = "",
        force: bool = False,
        dry_run: bool = False,
    ) -> T:
        """Change an object. ``APPLY`` needs a ``field_manager``; ``force`` takes fields from others."""
        if type is PatchType.APPLY:
            if not field_manager:
                raise ValueError("server-side apply needs a field_manager")
            body = _with_kind(resource, body)
        params = _writing(field_manager=field_manager, dry_run=dry_run)
        if force:
            params["force"] = "true"
        answer = await self.request(
            "PATCH",
            resource.path(name, namespace=namespace, subresource=subresource),
            params=params,
            body=body,
            content_type=type.value,
            repeatable=type in _REPEATABLE_PATCHES,
        )
        return decode_object(resource, answer, resource.label(name, namespace))

    async def delete(
        self,
        resource: Resource[Any],
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        grace_period: int | None = None,
        dry_run: bool = False,
    ) -> None:
        """Delete an object; with a ``uid``, that very one (``Conflict`` if another has its name)."""
        options: dict[str, object] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid:
            options["preconditions"] = {"uid": uid}
        if grace_period is not None:
            options["gracePeriodSeconds"] = grace_period
        if dry_run:
            options["dryRun"] = ["All"]
        await self.request("DELETE", resource.path(name, namespace=namespace), body=options)

    async def evict(self, name: str, namespace: str, *, uid: str, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as of request
        """Evict that very pod; ``TooManyRequests`` if a PodDisruptionBudget forbids it, now.

        It is sent once: whether the pod is still to go after a wait is for the caller to decide.
        """
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }
        path = PODS.path(name, namespace=namespace, subresource="eviction")
        encoded, headers = msgspec.json.encode(body), self._headers
        await self._transport.send(
            Request("POST", path, body=encoded, headers=headers, repeatable=False, timeout=timeout, once=True)
        )

    def watch(
        self,
        resource: Resource[T],
        resource_version: str = "",
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int = 300,
        on_open: Callable[[], None] | None = None,
        gathering: Gathering | None = None,
    ) -> AsyncGenerator[WatchEvent[T] | Bookmark | Undecodable, None]:
        """Changes after ``resource_version``, until the server ends the watch in order (the iterator ends).

        ``on_open`` is called when the server has accepted the watch: the first change may be hours away.
        ``gathering`` lets changes pile up in the kernel.

        Raises ``Gone`` when the version is too old, ``TransportError`` when the connection is cut.
        """
        params = _selectors(label_selector, field_selector) | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(timeout_seconds),
        }
        if resource_version:
            params["resourceVersion"] = resource_version
        request = Request("GET", resource.path(namespace=namespace), params=params, headers=self._headers)
        return watch_events(
            self._transport, resource, request, timeout_seconds, on_open=on_open, gathering=gathering
        )

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = "application/json",
        repeatable: bool | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - of each attempt, not of the call
    ) -> bytes:
        """The raw answer to any request; ``repeatable`` says whether sending it twice does no harm.

        By default that is so for GET, PUT and DELETE.
        """
        return await self._transport.send(
            Request(
                method,
                path,
                params=params or {},
                body=body if body is None or isinstance(body, bytes) else msgspec.json.encode(body),
                content_type=content_type,
                headers=self._headers,
                repeatable=method in {"GET", "PUT", "DELETE"} if repeatable is None else repeatable,
                timeout=timeout,
            )
        )


def _with_kind(resource: Resource[Any], body: object) -> object:
    """The body with apiVersion and kind, which the structs leave out."""
    if isinstance(body, bytes):
        return body
    return {"apiVersion": resource.api_version, "kind": resource.kind} | msgspec.to_builtins(body)


def _selectors(label_selector: str, field_selector: str) -> dict[str, str]:
    both = {"labelSelector": label_selector, "fieldSelector": field_selector}
    return {key: value for key, value in both.items() if value}


def _writing(*, field_manager: str, dry_run: bool) -> dict[str, str]:
    params = {"fieldManager": field_manager} if field_manager else {}
    if dry_run:
        params["dryRun"] = "All"
    return params


def _impersonation(user: UserConfig) -> tuple[tuple[str, str], ...]:
    """The headers that ask to be someone else; one for each group."""
    if not user.impersonate:
        return ()
    headers = [("Impersonate-User", user.impersonate)]
    headers += [("Impersonate-Group", group) for group in user.impersonate_groups]
    if user.impersonate_uid:
        headers.append(("Impersonate-Uid", user.impersonate_uid))
    return tuple(headers)
