"""Scenarios of ``corewise up`` for the tests of the page: running ones, and their objects at one moment.

``PYTHONPATH=tests:. python -m web.scenario_world`` records them again, for a changed scenario.
Of the pods of one app on a node, and of Events with one reason, the first few are kept.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from api_process import local_api_server
from corewise.kube.client import Client
from corewise.kube.config import load_config
from corewise.kube.resources import (
    CONFIG_MAPS,
    EVENTS,
    MUTATING_POLICY_BINDINGS,
    NAMESPACES,
    NODE_RESOURCE_TOPOLOGIES,
    NODES,
    PODS,
)
from corewise.vocabulary.names import CONFIG_NAMESPACE
from manager.world import CRD
from web.page_world import aside

Object = dict[str, Any]
RECORDED = Path(__file__).with_name("recorded")
WITHIN = 300.0
SCENARIOS = {
    "builtin": "Ctrl-C",
    "colocation": "Ctrl-C",
    "interference": "Ctrl-C",
    "unknown-model": "Ctrl-C",
    "outage": "all killed",
}
"""Each with what it says when there is something to see."""
KINDS = {
    each.kind: each.typed(dict[str, Any])
    for each in (PODS, CONFIG_MAPS, NODES, NODE_RESOURCE_TOPOLOGIES, EVENTS, MUTATING_POLICY_BINDINGS)
}
"""What the page reads. Pods come first: a node's ledger has the uids that they got."""
ALIKE = 3
_OF_THE_SERVER = (
    *("managedFields", "resourceVersion", "creationTimestamp", "generation", "ownerReferences"),
    *("terminationMessagePath", "terminationMessagePolicy", "imagePullPolicy", "lastHeartbeatTime"),
)
_POD = {"spec": ("containers", "nodeName"), "status": ("phase",)}
_NODE = {"status": ("capacity", "allocatable", "conditions", "nodeInfo")}
_TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


@contextmanager
def running(name: str, nodes: int) -> Iterator[tuple[int, str]]:
    """Run a scenario until the block ends; when there is something to see, yields its process and its log."""
    options = ["--for", "30s"] if name == "outage" else []
    command = [sys.executable, "-m", "corewise", "up", "--scenario", name, "--nodes", str(nodes), *options]
    with (
        tempfile.NamedTemporaryFile("w+") as log,
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log) as process,
    ):
        try:
            deadline = time.monotonic() + WITHIN
            while SCENARIOS[name] not in (said := Path(log.name).read_text()):
                assert process.poll() is None, said
                assert time.monotonic() < deadline, said
                time.sleep(0.1)
            yield process.pid, said
        finally:
            process.send_signal(signal.SIGINT)


def descendants(pid: int) -> Iterator[tuple[int, list[str]]]:
    """Yield the processes below one, each with its command line."""
    for child in map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
        yield child, Path(f"/proc/{child}/cmdline").read_text().split("\0")
        yield from descendants(child)


@contextmanager
def stopped(pid: int) -> Iterator[Path]:
    """Stop a scenario's processes but the API server; yields the kubeconfig."""
    below = dict(descendants(pid))
    held = [pid, *(each for each, words in below.items() if "kubedouble" not in words)]
    (served,) = (words for words in below.values() if "kubedouble" in words)
    for each in held:
        os.kill(each, signal.SIGSTOP)
    try:
        yield Path(served[served.index("--kubeconfig-out") + 1])
    finally:
        for each in held:
            os.kill(each, signal.SIGCONT)


async def objects_of(kubeconfig: Path) -> list[Object]:
    """Return the objects of a cluster that the page reads, without what the API server adds."""
    seen: Counter[tuple[str, ...]] = Counter()
    async with Client(load_config(str(kubeconfig))) as client:
        every = [
            _slim({**each, "kind": kind})
            for kind, resource in KINDS.items()
            for each in await client.list(resource)
        ]
    for each in every:
        seen[alike := _alike(each)] += 1
        each["kept"] = seen[alike] <= ALIKE
    return [each for each in every if each.pop("kept")]


def _alike(each: Object) -> tuple[str, ...]:
    """Return the part of an object that it shares with those that show nothing more."""
    match each:
        case {"kind": "Pod", "metadata": meta, "spec": spec}:
            return "Pod", spec.get("nodeName", ""), meta["labels"]["app"]
        case {"kind": "Event", "reason": reason}:
            return "Event", reason
    return each["kind"], each["metadata"]["name"]


def _slim(each: Object) -> Object:
    each = _bare(each)
    for part, keys in (_POD if each["kind"] == "Pod" else _NODE if each["kind"] == "Node" else {}).items():
        each[part] = {key: each[part][key] for key in keys if key in each[part]}
    for container in each.get("spec", {}).get("containers", ()):
        container["image"] = "pause"
    return each


def _bare(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _bare(each) for key, each in value.items() if key not in _OF_THE_SERVER}
    return [_bare(each) for each in value] if isinstance(value, list) else value


async def fill(kubeconfig: Path, text: str) -> None:
    """Create recorded objects. The last of their times is an hour from now, so that no age differs."""
    newest = max(datetime.fromisoformat(found[0]) for found in _TIME.finditer(text))
    later = datetime.now(UTC) + timedelta(hours=1) - newest

    def moved(found: re.Match[str]) -> str:
        return f"{datetime.fromisoformat(found[0]) + later:%Y-%m-%dT%H:%M:%SZ}"

    lines = _TIME.sub(moved, text).splitlines()
    uids: dict[str, str] = {}
    async with Client(load_config(str(kubeconfig))) as client:
        await client.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body=CRD)
        await client.create(NAMESPACES, {"metadata": {"name": CONFIG_NAMESPACE}})
        for line in lines:
            each = json.loads(re.sub("|".join(uids) or "$.", lambda found: uids[found[0]], line))
            resource, meta = KINDS[each["kind"]], each["metadata"]
            where = meta.get("namespace", "")
            made = await client.create(resource, each, where)
            if each["kind"] == "Pod":
                uids[meta["uid"]] = made["metadata"]["uid"]
            if "status" in each:
                status = {"status": each["status"]}
                await client.patch(resource, meta["name"], status, namespace=where, subresource="status")


@contextmanager
def recorded(name: str, directory: Path) -> Iterator[Path]:
    """Serve the recorded objects of a scenario; yields the kubeconfig."""
    with local_api_server(directory) as kubeconfig:
        text = (RECORDED / f"{name}.jsonl").read_text()
        aside(lambda: asyncio.run(fill(kubeconfig, text)))
        yield kubeconfig


def record(name: str) -> None:
    """Run a scenario, and keep its objects, one a line."""
    with running(name, nodes=4) as (pid, _), stopped(pid) as kubeconfig:
        objects = asyncio.run(objects_of(kubeconfig))
    text = "".join(json.dumps(each, sort_keys=True, separators=(",", ":")) + "\n" for each in objects)
    (RECORDED / f"{name}.jsonl").write_text(text)


if __name__ == "__main__":
    RECORDED.mkdir(exist_ok=True)
    for each in sys.argv[1:] or SCENARIOS:
        record(each)
