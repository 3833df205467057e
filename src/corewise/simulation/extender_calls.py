"""The part of kube-scheduler that calls an extender: filter, prioritize and bind, over HTTPS.

The addresses are those of replicas behind one Service: the first that answers is the one. As with
kube-scheduler and an extender that is not ignorable, a call that fails leaves the pod without a node, to be
tried again; only a failing prioritize is passed over. Source: Kubernetes, pkg/scheduler/extender.go.
"""

from __future__ import annotations

import asyncio
import random
import ssl
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

import msgspec

_TIMEOUT = 5.0
_OK = 200


class ExtenderError(Exception):
    """The extender did not answer, or refused; the message says which and why."""


@dataclass(frozen=True, slots=True)
class ExtenderCalls:
    """Calls one extender. ``context`` has the client certificate to show, and the authorities to trust."""

    urls: Sequence[str]
    context: ssl.SSLContext

    async def place(self, pod: Mapping[str, Any], nodes: Sequence[str]) -> str:
        """Have the extender choose among nodes and bind the pod; return the node.

        Raises:
            ExtenderError: if no node suits the pod, or there is no answer.
        """
        meta = pod["metadata"]
        found = await self._call("filter", {"Pod": pod, "Nodes": None, "NodeNames": list(nodes)})
        left = found.get("NodeNames") or []
        if not left:
            refused = [found.get(each) or {} for each in ("FailedNodes", "FailedAndUnresolvableNodes")]
            counted = Counter(text for by_node in refused for text in by_node.values())
            causes = ", ".join(f"{count} {text}" for text, count in sorted(counted.items()))
            raise ExtenderError(f"0/{len(nodes)} nodes are available: {causes}.")
        node = await self._best(pod, left)
        where = {"PodName": meta["name"], "PodNamespace": meta["namespace"], "PodUID": meta["uid"]}
        await self._call("bind", {**where, "Node": node})
        return node

    async def _best(self, pod: Mapping[str, Any], nodes: list[str]) -> str:
        try:
            scores = await self._call("prioritize", {"Pod": pod, "Nodes": None, "NodeNames": nodes})
        except ExtenderError:
            return random.choice(nodes)  # noqa: S311 - as good as any
        return str(max(scores, key=lambda each: each["Score"])["Host"])

    async def _call(self, verb: str, body: object) -> Any:
        text, problem = msgspec.json.encode(body), "no address"
        for url in self.urls:
            try:
                status, said = await asyncio.to_thread(self._post, f"{url}/{verb}", text)
            except (HTTPException, OSError) as error:
                problem = f"{type(error).__name__}: {error}"
                continue
            if status != _OK:
                raise ExtenderError(f"extender {verb}: {status} {said.decode(errors='replace')}")
            answered = msgspec.json.decode(said)
            if isinstance(answered, dict) and answered.get("Error"):
                raise ExtenderError(str(answered["Error"]))
            return answered
        raise ExtenderError(f"extender {verb}: no replica answers: {problem}")

    def _post(self, url: str, body: bytes) -> tuple[int, bytes]:
        """Send one request over a connection of its own; this blocks."""
        where = urlsplit(url)
        connection = HTTPSConnection(where.netloc, timeout=_TIMEOUT, context=self.context)
        try:
            connection.request("POST", where.path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()
