"""The part of kube-scheduler that calls an extender: filter, prioritize and bind, over HTTPS.

The addresses are those of replicas behind one Service: the first that answers is the one. As with
kube-scheduler, a call that fails leaves the pod without a node, to be tried again, unless the extender is
ignorable; a failing prioritize is always passed over. Source: Kubernetes, pkg/scheduler/extender.go.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp
import msgspec

from corewise.kube.client import Client
from corewise.kube.errors import NotFound
from corewise.kube.resources import SECRETS
from corewise.scheduler.installation import (
    BIND,
    CLIENT_SECRET_NAME,
    FILTER,
    HTTP_TIMEOUT,
    INTERFERENCE,
    PRIORITIZE,
    PROFILED_TIMEOUT_MS,
    PROFILED_WEIGHT,
    WEIGHT,
    Pods,
)
from corewise.scheduler.policy import requests_it
from corewise.vocabulary.names import INTERFERENCE_RESOURCE, OWNED_CPUS_RESOURCE, SYSTEM_NAMESPACE
from corewise.workload.pods import Pod

CERTIFICATE, KEY, AUTHORITIES = "tls.crt", "tls.key", "ca.crt"
"""Keys of the Secret."""
_POLL = 0.1
_OK = 200
_TENTH = 10
"""Of a plugin's best score is an extender's best."""
Document = Mapping[str, Any]


class ExtenderError(Exception):
    """The extender did not answer, or refused; the message says which, with the reason."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One of kube-scheduler's extenders, as ``corewise scheduler config`` prints it."""

    calls: ExtenderCalls
    below: str = ""
    weight: int = WEIGHT
    timeout: float = HTTP_TIMEOUT
    binds: bool = True
    ignorable: bool = False

    async def filter(self, pod: Document, nodes: Sequence[str]) -> tuple[list[str], Counter[str]]:
        """Return the nodes that suit a pod, and the number of the others by cause.

        Raises:
            ExtenderError: if there is no answer.
        """
        sent = {"Pod": pod, "Nodes": None, "NodeNames": nodes}
        try:
            found = await self.calls.call(self.below + FILTER, sent, self.timeout)
        except ExtenderError:
            if self.ignorable:
                return list(nodes), Counter()
            raise
        refused = [found.get(each) or {} for each in ("FailedNodes", "FailedAndUnresolvableNodes")]
        return found.get("NodeNames") or [], Counter(text for each in refused for text in each.values())

    async def prioritize(self, pod: Document, nodes: Sequence[str]) -> Mapping[str, int]:
        """Return the nodes' scores, on the scale of plugins' scores; nothing if there is no answer."""
        sent = {"Pod": pod, "Nodes": None, "NodeNames": nodes}
        try:
            scores = await self.calls.call(self.below + PRIORITIZE, sent, self.timeout)
        except ExtenderError:
            return {}
        return {each["Host"]: each["Score"] * _TENTH * self.weight for each in scores}

    async def bind(self, pod: Pod, node: str) -> None:
        """Bind a pod.

        Raises:
            ExtenderError: if it is not bound, or there is no answer.
        """
        meta = pod.metadata
        where = {"PodName": meta.name, "PodNamespace": meta.namespace, "PodUID": meta.uid, "Node": node}
        await self.calls.call(BIND, where, self.timeout)


class ExtenderCalls:
    """Calls the extenders for ``pods``; ``context`` has the client certificate and the authorities."""

    def __init__(
        self, urls: Sequence[str], context: ssl.SSLContext, pods: Pods, *, ignorable: bool = True
    ) -> None:
        """``ignorable``: pods with a stake in interference are placed also while no replica answers."""
        self._urls = urls
        self._context = context
        self._pods = pods
        self._ignorable = ignorable
        self._session: aiohttp.ClientSession | None = None

    @classmethod
    async def connect(
        cls, client: Client, urls: Sequence[str], pods: Pods, *, ignorable: bool = True
    ) -> ExtenderCalls:
        """Wait for the client certificate that ``corewise scheduler`` makes, and return who shows it."""
        data: Mapping[str, bytes] = {}
        while not {CERTIFICATE, KEY, AUTHORITIES} <= data.keys():
            await asyncio.sleep(_POLL)
            with suppress(NotFound):
                data = (await client.get(SECRETS, CLIENT_SECRET_NAME, SYSTEM_NAMESPACE)).data
        context = ssl.create_default_context(cadata=data[AUTHORITIES].decode())
        with TemporaryDirectory() as folder:
            pair = Path(folder) / "pair.pem"
            pair.touch(mode=0o600)
            pair.write_bytes(data[CERTIFICATE] + data[KEY])
            context.load_cert_chain(pair)
        return cls(urls, context, pods, ignorable=ignorable)

    def entry(self, pod: Pod) -> Entry | None:
        """Return the extender that kube-scheduler calls for a pod; None if it calls none."""
        if self._pods is Pods.ALL or requests_it(pod, OWNED_CPUS_RESOURCE):
            return Entry(self)
        if self._pods is Pods.PROFILED and requests_it(pod, INTERFERENCE_RESOURCE):
            return Entry(
                self,
                f"{INTERFERENCE}/",
                PROFILED_WEIGHT,
                PROFILED_TIMEOUT_MS / 1000,
                binds=False,
                ignorable=self._ignorable,
            )
        return None

    async def call(self, path: str, body: object, seconds: float) -> Any:
        """Return an answer.

        Raises:
            ExtenderError: if there is none, or it is a refusal.
        """
        if self._session is None:
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=self._context))
        timeout = aiohttp.ClientTimeout(total=seconds)
        text, problem = msgspec.json.encode(body), "no address"
        for url in self._urls:
            try:
                headers = {"Content-Type": "application/json"}
                post = self._session.post(f"{url}/{path}", data=text, headers=headers, timeout=timeout)
                async with post as response:
                    status, said = response.status, await response.read()
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                problem = f"{type(error).__name__}: {error}"
                continue
            if status != _OK:
                raise ExtenderError(f"extender {path}: {status} {said.decode(errors='replace')}")
            answered = msgspec.json.decode(said)
            if isinstance(answered, dict) and answered.get("Error"):
                raise ExtenderError(str(answered["Error"]))
            return answered
        raise ExtenderError(f"extender {path}: no replica answers: {problem}")

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None
