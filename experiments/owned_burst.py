"""Put a burst of pods that own CPUs on a cluster, kill replicas of the scheduler meanwhile, and check it all.

``python -m experiments.owned_burst --kubeconfig FILE [--pods 60] [--namespace owned-burst]``

The cluster has corewise, a kube-scheduler that calls it, and nodes with as much room as the pods request. A
third of the pods own normalized CPUs, a third own CPUs as they are, a third shares. When a third of them is
bound, and again at two thirds, the oldest pod of the Deployment corewise-scheduler is deleted. At every look:

- no CPU has two owners, by the nodes' ledgers and by the pods' annotations;
- each pod of the burst owns as many CPUs as its node's ratio says;
- each node's allocatable cpu is exact, and covers the requests of its pods.

A replica that dies between its two writes leaves an entry in a ledger for a pod that another replica binds
elsewhere. The next leader removes it, so the last looks wait until ledgers and pods agree.

Nodes' ratios must not change meanwhile, and no node may run the static CPU manager. The namespace is deleted
at the end. ``tests/local_cluster/test_normalized_bursts.py`` does the same on a local cluster.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from corewise.amplification import normalized_cpus
from corewise.amplification.annotations import read_node
from corewise.kube.client import Client
from corewise.kube.config import load_config
from corewise.kube.errors import AlreadyExists, KubeError
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
KILLS = 2
"""Replicas, killed at equal parts of the pods."""
_LOOK_EVERY = 0.1
_WITHIN = 300.0
_AGREE_WITHIN = 180.0
"""Seconds: a killed leader's lease ends after 15 s, an entry of a pod that is not bound after 90 s."""
_ENDED = frozenset({"Succeeded", "Failed"})
_CREATED = itemgetter("creationTimestamp")
_KINDS = ("normalized", "plain", "shared")

Document = dict[str, Any]
Kill = Callable[[], Awaitable[None]]


class BurstError(Exception):
    """Something is not exact, or not every pod found a node; the message says what."""


@dataclass(frozen=True, slots=True)
class BurstResult:
    """Pods bound, in how many seconds, and looks at the whole cluster.

    ``left``: entries in ledgers whose pods another node has, when the last pod was bound. ``agreed``: seconds
    after that in which ledgers and pods came to agree.
    """

    bound: int
    seconds: float
    looks: int
    left: int
    agreed: float


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


def disagreements(nodes: Iterable[Document], pods: Sequence[Document], namespace: str) -> Iterator[str]:
    """Yield each entry of a ledger, or pod that owns CPUs, for which the other says something else.

    ``pods``: all of the namespace, listed after the nodes.
    """
    for node in nodes:
        name = node["metadata"]["name"]
        owners = read_owned_cpus(node["metadata"].get("annotations") or {}).owners
        here = {pod["metadata"]["uid"]: pod for pod in pods if pod["spec"].get("nodeName") == name}
        stated = {uid: stated_cpus(_notes(pod).get(RESOURCE_STATUS)) for uid, pod in here.items()}
        for uid, owner in owners.items():
            if owner.namespace == namespace and owner.cpus != stated.get(uid):
                yield f"node {name}: its ledger has {owner.pod} own CPUs {owner.cpus}, and the pod does not"
        for uid in stated.keys() - owners.keys():
            if stated[uid] and _is_running(here[uid]):
                pod_name = here[uid]["metadata"]["name"]
                yield f"node {name}: {namespace}/{pod_name} owns CPUs and is not in the ledger"


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
        BurstError: if anything is wrong at a look, or what is to happen does not happen in time.
    """
    loop = asyncio.get_running_loop()
    begin = loop.time()
    await asyncio.gather(*(client.create(_PODS, each, namespace) for each in pods))
    looks, left, kills = 0, None, [each * len(pods) // (KILLS + 1) for each in range(1, KILLS + 1)]
    while True:
        nodes, own = await _look(client, namespace)
        looks += 1
        bound = sum(bool(pod["spec"].get("nodeName")) for pod in own)
        if bound == len(pods):
            break
        if kills and bound >= kills[0]:
            del kills[0]
            await kill()
        if loop.time() > begin + _WITHIN:
            raise BurstError(f"{len(pods) - bound} of {len(pods)} pods have no node after {_WITHIN:.0f} s")
        await asyncio.sleep(_LOOK_EVERY)
    last = loop.time()
    if kills:
        raise BurstError("the last pod was bound before the last replica was killed; give more --pods")
    while True:
        nodes, own = await _look(client, namespace)
        looks += 1
        found = list(disagreements(nodes, own, namespace))
        left = len(found) if left is None else left
        if not found:
            return BurstResult(bound, last - begin, looks, left, loop.time() - last)
        if loop.time() > last + _AGREE_WITHIN:
            raise BurstError("; ".join(found))
        await asyncio.sleep(_LOOK_EVERY)


async def _look(client: Client, namespace: str) -> tuple[list[Document], list[Document]]:
    """Return all nodes, and the pods of a namespace as they were after that.

    Raises:
        BurstError: if anything is wrong in the whole cluster.
    """
    nodes = list(await client.list(_NODES))
    pods = list(await client.list(_PODS))
    if problems := list(wrong(nodes, pods)):
        raise BurstError("; ".join(problems))
    return nodes, [pod for pod in pods if pod["metadata"]["namespace"] == namespace]


async def _on_cluster(kubeconfig: str, namespace: str, pods: int) -> BurstResult:
    async with Client(load_config(kubeconfig, None)) as client:

        async def kill() -> None:
            replicas = await client.list(_PODS, SYSTEM_NAMESPACE, label_selector=_REPLICAS)
            oldest = min((pod["metadata"] for pod in replicas), key=_CREATED, default=None)
            if oldest is None:
                raise BurstError(f"no replica of the scheduler is in {SYSTEM_NAMESPACE} ({_REPLICAS})")
            await client.delete(PODS, oldest["name"], SYSTEM_NAMESPACE, grace_period=0)

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
    try:
        result = asyncio.run(_on_cluster(given.kubeconfig, given.namespace, given.pods))
    except (BurstError, KubeError) as error:
        parser.exit(1, f"{error}\n")
    print(
        f"{result.bound} pods bound in {result.seconds:.1f} s, {KILLS} replicas killed meanwhile; "
        f"exact at each of {result.looks} looks; {result.left} entries left, gone after {result.agreed:.1f} s"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
