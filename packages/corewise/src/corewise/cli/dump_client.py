"""A client of a dump: what kubectl has printed answers reads as the API server did that it came from.

So a command that explains a cluster explains a file of it by the same code. A kind of which the dump has no
object is one that the server does not serve, nodes and Events apart: a cluster always has pods, so a dump
without any does not know them. Ages are judged by the time of the dump, so it reads the same a week later.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import click
import msgspec

from corewise.cli.files import FILE, decoded
from corewise.kube.client import Client
from corewise.kube.clock import SYSTEM_CLOCK
from corewise.kube.config import ClusterConfig, load_config
from corewise.kube.errors import api_error
from corewise.kube.transport import Request
from corewise.normalization.fleet import moment
from corewise.vocabulary import evaluation_report, interference_report, offline_report
from corewise.vocabulary.names import CPU_EVALUATION, INTERFERENCE_REPORT, OFFLINE_REPORT

_HOW_TO: Final = (
    "make it with: kubectl get nodes,pods,configmaps,mutatingwebhookconfigurations -A -o json\n"
    "  or, for CPUs too: kubectl get nodes,pods,configmaps,mutatingwebhookconfigurations,events,"
    "noderesourcetopologies -A -o json"
)
_ALWAYS: Final = frozenset({"nodes", "events"})
_NODE_METRICS: Final = ("metrics.k8s.io", "nodes")
_METRICS: Final = "nodemetricses"
"""The plural that NodeMetrics would have: they are served as nodes, of another group."""
_TIMED: Final = frozenset({"Node", "NodeResourceTopology"})
_REPORTS: Final = {
    OFFLINE_REPORT: offline_report.decode,
    INTERFERENCE_REPORT: interference_report.decode,
    CPU_EVALUATION: evaluation_report.decode,
}

from_option = click.option(
    "--from",
    "dump",
    type=FILE,
    help="Read this file instead of a cluster: what kubectl get -A -o json prints of nodes, pods, "
    "configmaps, noderesourcetopologies and mutatingwebhookconfigurations. Ages are as of the newest time "
    "in it.",
)


class _Name(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    created: str | None = msgspec.field(name="creationTimestamp", default=None)


class _Head(msgspec.Struct):
    kind: str = ""
    metadata: _Name = msgspec.field(default_factory=_Name)


class _List(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


class _Annotated(msgspec.Struct):
    annotations: dict[str, str] | None = None


class _Condition(msgspec.Struct):
    time: str | None = msgspec.field(name="lastHeartbeatTime", default=None)
    changed: str | None = msgspec.field(name="lastTransitionTime", default=None)


class _Status(msgspec.Struct):
    conditions: list[_Condition] | None = None


class _Timed(msgspec.Struct):
    metadata: _Annotated = msgspec.field(default_factory=_Annotated)
    status: _Status = msgspec.field(default_factory=_Status)


class DumpTransport:
    """Answers GET requests from a file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._objects = decoded(file, _objects, "what kubectl prints", _HOW_TO)

    def time(self, now: datetime) -> datetime:
        """Return the newest time in the dump, ``now`` at the latest or without any.

        Kubelets and agents state times; of a cluster in which all of them have stopped, objects made and
        conditions changed since then tell.
        """
        created = (head.metadata.created for head, _ in self._objects)
        stated = (text for head, raw in self._objects if head.kind in _TIMED for text in _times(raw))
        moments = map(moment, filter(None, (*created, *stated)))
        return min(now, max(filter(None, moments), default=now))

    def client(self) -> Client:
        """Return a client of the dump."""
        return Client(ClusterConfig(server="", source=str(self._file)), transport=self)

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def send(self, request: Request) -> bytes:
        """Return an object or a list."""
        if request.method != "GET" or request.params.get("labelSelector"):
            raise AssertionError(f"a dump does not answer {request.label}")
        parts = [unquote(part) for part in request.path.strip("/").split("/")]
        group, parts = (parts[1], parts[3:]) if parts[0] == "apis" else ("", parts[2:])
        namespace = ""
        if parts[0] == "namespaces" and len(parts) > 2:
            namespace, parts = parts[1], parts[2:]
        plural = _METRICS if (group, parts[0]) == _NODE_METRICS else parts[0]
        kind = [(head, raw) for head, raw in self._objects if _plural(head.kind) == plural]
        found = [(head, raw) for head, raw in kind if namespace in {"", head.metadata.namespace}]
        if len(parts) > 1:
            named = next((raw for head, raw in found if head.metadata.name == parts[1]), None)
            if named is None:
                raise self._missing(f"{parts[0]} {parts[1]}", request)
            return bytes(named)
        if not kind and plural not in _ALWAYS:
            raise self._missing(parts[0], request)
        selector = request.params.get("fieldSelector", "")
        raws = [raw for _, raw in found if not selector or _selected(selector, msgspec.json.decode(raw))]
        return b'{"metadata":{},"items":[' + b",".join(map(bytes, raws)) + b"]}"

    def stream(
        self, request: Request, *, longest: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        raise AssertionError("a dump is not watched")

    def _missing(self, what: str, request: Request) -> Exception:
        status = {
            "kind": "Status",
            "code": 404,
            "reason": "NotFound",
            "message": f"{what}: not in {self._file}",
        }
        return api_error(404, msgspec.json.encode(status), request=request.label)


def _objects(text: bytes) -> list[tuple[_Head, msgspec.Raw]]:
    items = msgspec.json.decode(text, type=_List).items
    raws = [msgspec.Raw(text)] if items is None else items
    return [(msgspec.json.decode(raw, type=_Head), raw) for raw in raws]


def _times(raw: msgspec.Raw) -> Iterator[str]:
    try:
        stated = msgspec.json.decode(raw, type=_Timed)
    except msgspec.ValidationError:
        return
    annotations = stated.metadata.annotations or {}
    for name, decode in _REPORTS.items():
        report = decode(annotations.get(name, ""))
        if report is not None:
            yield report.time
    for each in stated.status.conditions or ():
        yield from filter(None, (each.time, each.changed))


def _plural(kind: str) -> str:
    name = kind.lower()
    if name.endswith("s"):
        return f"{name}es"
    return f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"


def _selected(selector: str, document: Any) -> bool:
    """Return whether a field selector of ``a.b=c`` and ``a.b!=c`` holds."""
    for part in selector.split(","):
        path, operator, wanted = part.partition("!=") if "!=" in part else part.partition("=")
        value = document
        for name in path.split("."):
            value = value.get(name, "") if isinstance(value, dict) else ""
        if (value == wanted) is (operator == "!="):
            return False
    return True


def client_of(dump: Path | None, kubeconfig: str | None, context: str | None) -> Client:
    """Return a client of a dump, or of a cluster if there is none.

    Raises:
        Failure: if the dump cannot be read.
        ConfigError: if the kubeconfig cannot.
    """
    return DumpTransport(dump).client() if dump else Client(load_config(kubeconfig, context))


def client_and_time(
    dump: Path | None, kubeconfig: str | None, context: str | None
) -> tuple[Client, datetime]:
    """Return a client as ``client_of`` does, and the time by which ages are judged.

    Raises:
        Failure: if the dump cannot be read.
        ConfigError: if the kubeconfig cannot.
    """
    now = SYSTEM_CLOCK.now()
    if dump is None:
        return Client(load_config(kubeconfig, context)), now
    transport = DumpTransport(dump)
    return transport.client(), transport.time(now)
