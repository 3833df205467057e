"""From an HTTP request to the handler that answers it: who asks, may they, what for.

Authentication, impersonation, authorization and routing happen here, in this order, and refusals become
Status responses here. Handlers know neither headers of connections nor permissions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from aiohttp import web

from kubedouble import deletion, discovery, listing, writing
from kubedouble.authentication import User, impersonate
from kubedouble.cluster import Cluster, Reply
from kubedouble.errors import StatusError, method_not_allowed, no_such_path
from kubedouble.rbac import Access
from kubedouble.requests import Call, RequestInfo, parse
from kubedouble.resources import ResourceInfo
from kubedouble.state import StateError
from kubedouble.subresources import REVIEW_GROUPS, SUBRESOURCES, review
from kubedouble.watching import watch

Handler = Callable[[Cluster, Call], Awaitable[Reply]]

_HEALTH = {"/healthz", "/livez", "/readyz"}


LARGEST_BODY = 3 * 1024 * 1024


def request_of(
    message: Any, payload: Any, protocol: Any, writer: Any, task: asyncio.Task[None]
) -> web.BaseRequest:
    """Make the request object, with the largest body that kube-apiserver takes."""
    loop = task.get_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=LARGEST_BODY)


_HANDLERS: Mapping[str, Handler] = {
    "get": listing.get,
    "list": listing.list_objects,
    "create": writing.create,
    "update": writing.update,
    "patch": writing.patch,
    "delete": deletion.delete,
    "deletecollection": deletion.delete_collection,
}


class Router:
    """Answers every request to the server."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._authenticator = cluster.authenticator
        self._authorizer = cluster.authorizer

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request; a refusal is an answer too."""
        try:
            return await self._answer(request)
        except StatusError as refusal:
            return _refused(refusal)
        except StateError as error:
            return _refused(StatusError(500, "InternalError", f"Internal error occurred: {error}"))
        except RecursionError:
            # Objects are walked recursively before anything is stored; kube-apiserver allows 10,000 levels.
            return _refused(StatusError(400, "BadRequest", "the object is nested too deep"))
        except web.HTTPRequestEntityTooLarge:
            message = f"Request entity too large: limit is {LARGEST_BODY}"
            return _refused(StatusError(413, "RequestEntityTooLarge", message))

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        info = parse(request.method, request.raw_path.partition("?")[0], request.query)
        user = self._user(request)
        self._authorizer.require(user, _access(info, request.query))
        if not info.plural:
            return _response(self._document(info, request))
        resource = self._cluster.registry.find(info.group, info.version, info.plural)
        if resource is None:
            raise no_such_path()
        if request.headers.get("Content-Encoding", "identity").lower() != "identity":
            # kube-apiserver decompresses no request either: it would read the compressed bytes as the object.
            raise StatusError(415, "UnsupportedMediaType", "a body with a Content-Encoding is not read")
        body = await request.read() if request.body_exists else b""
        call = Call(info, resource, user, request.query, request.headers, self._cluster.clock(), body)
        if info.verb == "watch" and "watch" in resource.verbs:
            return await watch(self._cluster, call, request)
        return _response(await _handler(resource, info)(self._cluster, call))

    def _user(self, request: web.BaseRequest) -> User:
        transport = request.transport
        certificate = transport.get_extra_info("peercert") if transport else None
        authorization = request.headers.get("Authorization")
        user = self._authenticator.authenticate(certificate, authorization, now=self._cluster.clock())

        def require(**access: str) -> None:
            self._authorizer.require(user, Access(**access))

        return impersonate(request.headers, require) or user  # type: ignore[arg-type]  # CIMultiDictProxy is its model

    def _document(self, info: RequestInfo, request: web.BaseRequest) -> Reply:
        """Answer a path that is not a resource."""
        path = info.path.rstrip("/") or "/"
        if path in _HEALTH:
            return Reply(b"ok", content_type="text/plain")
        if path == "/version":
            return Reply(msgspec.json.encode(discovery.version(self._cluster.registry, self._cluster.name)))
        accept = request.headers.get("Accept", "")
        if document := self._cluster.openapi.answer(path, accept):
            known = request.headers.get("If-None-Match", "").strip('"') == document.etag
            body, code = (b"", 304) if known else (document.body, 200)
            return Reply(body, code, content_type=document.content_type, etag=document.etag)
        found = discovery.answer(self._cluster.registry, path, accept, request.host)
        if found is None:
            raise no_such_path()
        return found


def _handler(resource: ResourceInfo, info: RequestInfo) -> Handler:
    if info.subresource and info.subresource not in resource.subresources:
        raise no_such_path()
    verbs = resource.kind_of(info.subresource).verbs if info.subresource else resource.verbs
    if info.verb not in verbs:
        raise method_not_allowed(resource, info.verb)
    if resource.group in REVIEW_GROUPS:
        return review
    return SUBRESOURCES.get((resource.storage_key, info.subresource, info.verb)) or _HANDLERS[info.verb]


def _access(info: RequestInfo, query: Mapping[str, str]) -> Access:
    if not info.plural:
        return Access(info.verb, path=info.path)
    return Access(
        info.verb, info.group, info.plural, info.subresource, info.namespace, info.name,
        field_selector=query.get("fieldSelector", ""),
    )  # fmt: skip


def _response(reply: Reply) -> web.Response:
    response = web.Response(body=reply.body, status=reply.code)
    response.headers["Content-Type"] = reply.content_type
    response.headers["Cache-Control"] = "no-cache, private"
    if reply.etag:
        response.headers["ETag"] = f'"{reply.etag}"'
    for warning in reply.warnings:
        response.headers.add("Warning", f"299 - {msgspec.json.encode(warning).decode()}")
    return response


def _refused(refusal: StatusError) -> web.Response:
    status: dict[str, Any] = refusal.status()
    response = _response(Reply(msgspec.json.encode(status), refusal.code, refusal.warnings))
    retry: Any = (refusal.details or {}).get("retryAfterSeconds")
    if retry:
        response.headers["Retry-After"] = str(retry)
    return response
