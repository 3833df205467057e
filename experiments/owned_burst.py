"""Put a burst of pods that own CPUs on a cluster, kill replicas of the scheduler meanwhile, and check it all.

``python -m experiments.owned_burst --kubeconfig FILE [--pods 60] [--namespace owned-burst]``

The cluster has corewise, a kube-scheduler that calls it, and nodes with as much room as the pods request. A
third of the pods own normalized CPUs, a third own CPUs as they are, a third shares. When a third of them is
bound, and again at two thirds, a pod of the Deployment corewise-scheduler is deleted. At every look:

- no CPU has two owners, by the nodes' ledgers and by the pods' annotations;
- each pod of the burst owns as many CPUs as its node's ratio says;
- each node's allocatable cpu is exact, and covers the requests of its pods.

Nodes' ratios must not change meanwhile, and no node may run the static CPU manager. The namespace is deleted
at the end. ``tests/local_cluster/test_normalized_bursts.py`` does the same on a local cluster.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from corewise.amplification import normalized_cpus
from corewise.amplification.annotations import read_node
from corewise.kube.client import Client
from corewise.kube.config import load_config
from corewise.kube.errors import AlreadyExists
from corewise.kube.resources import NAMESPACES, NODES, PODS
from corewise.quantities import Quantity, Ratio, amplify
from corewise.vocabulary.cpu_annotations import stated_cpus
from corewise.vocabulary.names import (
    NORMALIZATION_RATIO,
    NORMALIZE_CPUSET,
    QOS_CLASS,
    RESOURCE_STATUS,
    SYSTEM_NAMESPACE,
)
from corewise.vocabulary.owned_cpus import read_owned_cpus

_NODES, _PODS = NODES.typed(dict[str, Any]), PODS.typed(dict[str, Any])
_NAMESPACES = NAMESPACES.typed(dict[str, Any])
_REPLICAS = "app.kubernetes.io/name=corewise,app.kubernetes.io/component=scheduler"
_LOOK_EVERY = 0.5
_WITHIN = 300.0
_ENDED = frozenset({"Succeeded", "Failed"})
_KINDS = ("normalized", "plain", "shared")

Document = dict[str, Any]
Kill = Callable[[], Awaitable[None]]


class BurstError(Exception):
    """Something is not exact, or not every pod found a node; the message says what."""


@dataclass(frozen=True, slots=True)
class BurstResult:
    """The number of pods bound, of looks at the whole cluster, and of replicas killed."""

    bound: int
    looks: int
    killed: int


def burst(pods: int) -> list[Document]:
    """Return the pods: 2 to 5 normalized CPUs, 1 or 2 CPUs, 1 shared CPU, in turn."""
    return [_pod(number) for number in range(pods)]


def _pod(number: int) -> Document:
    kind = _KINDS[number % len(_KINDS)]
    cpus = {"normalized": 2 + number % 4, "plain": 1 + number % 2, "shared": 1}[kind]
    amounts = {"cpu": str(cpus), "memory": "64Mi"}
    labels = {} if kind == "shared" else {QOS_CLASS: "LSR"}
    notes = {NORMALIZE_CPUSET: "true"} if kind == "normalized" else {}
    container = {
        "name": "c",
        "image": "registry.k8s.io/pause:3.10",
        "resources": {"requests": amounts, "limits": amounts},
    }
    metadata = {"name": f"{kind}-{number}", "labels": labels, "annotations": notes}
    return {"metadata": metadata, "spec": {"containers": [container]}}


def wrong(nodes: Iterable[Document], pods: Sequence[Document]) -> Iterator[str]:
    """Yield each amount that is not exact. ``pods``: all of the cluster, listed after the nodes."""
    by_uid = {pod["metadata"]["uid"]: pod for pod in pods}
    for node in nodes:
        name = node["metadata"]["name"]
        here = [pod for pod in pods if pod["spec"].get("nodeName") == name and _is_running(pod)]
        yield from (f"node {name}: {each}" for each in _wrong_on(node, here, by_uid))


def _wrong_on(node: Document, here: Sequence[Document], by_uid: Mapping[str, Document]) -> Iterator[str]:
    notes = node["metadata"].get("annotations") or {}
    ledger, stated = read_owned_cpus(notes), read_node(notes)
    if ledger.problem:
        yield ledger.problem
    claimed = [cpu for pod in here for cpu in stated_cpus(_notes(pod).get(RESOURCE_STATUS))]
    if len(claimed) != len(set(claimed)):
        yield f"pods' annotations name a CPU twice: {sorted(claimed)}"
    ratio = stated.ratio("cpu") or Ratio(100)
    normalization = min(Ratio.parse(notes.get(NORMALIZATION_RATIO, "1.00")), ratio)
    owned = requests = 0
    for uid, owner in ledger.owners.items():
        owned, requests = owned + len(owner.cpus), requests + owner.requested
        pod = by_uid.get(uid)
        if pod is None:
            continue
        by = normalization.hundredths if _notes(pod).get(NORMALIZE_CPUSET) == "true" else 100
        wanted = normalized_cpus(_requested(pod) // 1000, by)
        if len(owner.cpus) != wanted:
            yield f"{owner.pod} owns {len(owner.cpus)} CPUs, not {wanted}"
    allocatable = Quantity.parse(node["status"]["allocatable"]["cpu"]).milli
    known = stated.known["allocatable", "cpu"].raw
    if known is not None:
        fold = max(0, owned * 10 * ratio.hundredths - requests * 1000)
        if allocatable != amplify(known, ratio) - fold:
            yield f"allocatable is {allocatable}m, not {amplify(known, ratio) - fold}m"
    used = sum(map(_requested, here))
    if used > allocatable:
        yield f"its pods request {used}m, and allocatable is {allocatable}m"


def _is_running(pod: Document) -> bool:
    return pod.get("status", {}).get("phase") not in _ENDED


def _notes(pod: Document) -> Mapping[str, str]:
    notes: Mapping[str, str] = pod["metadata"].get("annotations") or {}
    return notes


def _requested(pod: Document) -> int:
    """Return a pod's request; pods of the burst have one container, and others are counted alike."""
    amounts = (
        each.get("resources", {}).get("requests", {}).get("cpu", "0") for each in pod["spec"]["containers"]
    )
    return sum(Quantity.parse(each).milli for each in amounts)


async def run(client: Client, namespace: str, pods: Sequence[Document], kill: Kill) -> BurstResult:
    """Create the pods at once, and look until all are bound; ``kill`` ends a replica of the scheduler.

    Raises:
        BurstError: if anything is wrong at a look, or pods stay pending for five minutes.
    """
    await asyncio.gather(*(client.create(_PODS, each, namespace) for each in pods))
    loop = asyncio.get_running_loop()
    until, looks, kills = loop.time() + _WITHIN, 0, [len(pods) // 3, 2 * len(pods) // 3]
    while True:
        nodes = list(await client.list(_NODES))
        every = list(await client.list(_PODS))
        looks += 1
        problems = list(wrong(nodes, every))
        if problems:
            raise BurstError("; ".join(problems))
        own = [pod for pod in every if pod["metadata"]["namespace"] == namespace]
        bound = sum(bool(pod["spec"].get("nodeName")) for pod in own)
        if kills and bound >= kills[0]:
            del kills[0]
            await kill()
        if bound == len(pods):
            return BurstResult(bound, looks, 2 - len(kills))
        if loop.time() > until:
            raise BurstError(f"{len(pods) - bound} of {len(pods)} pods have no node after {_WITHIN:.0f} s")
        await asyncio.sleep(_LOOK_EVERY)


async def _on_cluster(kubeconfig: str, namespace: str, pods: int) -> BurstResult:
    async with Client(load_config(kubeconfig, None)) as client:

        async def kill() -> None:
            replicas = list(await client.list(_PODS, SYSTEM_NAMESPACE, label_selector=_REPLICAS))
            if not replicas:
                raise BurstError(f"no replica of the scheduler is in {SYSTEM_NAMESPACE} ({_REPLICAS})")
            await client.delete(PODS, replicas[0]["metadata"]["name"], SYSTEM_NAMESPACE, grace_period=0)

        try:
            await client.create(_NAMESPACES, {"metadata": {"name": namespace}})
        except AlreadyExists as error:
            raise BurstError(f"namespace {namespace} exists; name another with --namespace") from error
        try:
            return await run(client, namespace, burst(pods), kill)
        finally:
            await client.delete(_NAMESPACES, namespace)


def main(arguments: Sequence[str]) -> None:
    """Run it on the cluster that a kubeconfig names, and print the result."""
    parser = argparse.ArgumentParser(prog="python -m experiments.owned_burst", description=__doc__)
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--pods", type=int, default=60)
    parser.add_argument("--namespace", default="owned-burst")
    given = parser.parse_args(arguments)
    result = asyncio.run(_on_cluster(given.kubeconfig, given.namespace, given.pods))
    print(
        f"{result.bound} pods bound, {result.killed} replicas killed; exact at each of {result.looks} looks"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
