"""The nodes of the benchmarks: of the size real ones have, and the reviews their kubelets' writes become."""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import isqrt
from typing import Any

import msgspec

from corewise.vocabulary.names import (
    AMPLIFICATION_RATIO,
    CPU_BASIC_INFO,
    RAW_ALLOCATABLE,
    RAW_CAPACITY,
    recorded_applied,
    recorded_raw,
)

MODEL = "Intel(R) Xeon(R) Platinum 8369B CPU @ 2.70GHz"
_IMAGES = 30
_WORKERS = 16
"""The default of kube-scheduler's ``parallelism``."""

_CONDITIONS = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
_RAW = {"cpu": "64", "memory": "263842560Ki", "pods": "110", "ephemeral-storage": "309504832Ki"}
_AMPLIFIED = _RAW | {"cpu": "96"}
HEARTBEAT = "2026-01-01T00:00:00Z"


def node_name(index: int) -> str:
    """Names as cloud providers make them: they sort, and none is a prefix of another."""
    return f"node-{index:05d}.bench"


def node(index: int) -> dict[str, Any]:
    """A Node of about 8 KB, as its kubelet registers it."""
    name = node_name(index)
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/zone": f"zone-{index % 3}",
        "node.kubernetes.io/instance-type": "c7.16xlarge",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"podCIDR": "10.0.0.0/24", "providerID": f"bench://{name}"},
        "status": status(),
    }


def status(heartbeat: str = HEARTBEAT) -> dict[str, Any]:
    """Return a kubelet's status: raw amounts, conditions, and the images that make nodes big."""
    return {
        "capacity": dict(_RAW),
        "allocatable": dict(_RAW),
        "conditions": [_condition(kind, heartbeat) for kind in _CONDITIONS],
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "machineID": "0123456789abcdef0123456789abcdef",
            "systemUUID": "01234567-89ab-cdef-0123-456789abcdef",
            "bootID": "01234567-89ab-cdef-0123-456789abcdef",
            "kernelVersion": "6.1.0-40-amd64",
            "osImage": "Debian GNU/Linux 12 (bookworm)",
            "containerRuntimeVersion": "containerd://1.7.24",
            "kubeletVersion": "v1.33.1",
            "kubeProxyVersion": "v1.33.1",
            "operatingSystem": "linux",
            "architecture": "amd64",
        },
        "images": [
            {
                "names": [
                    f"registry.example/team-{i}/service@sha256:{i:064x}",
                    f"registry.example/t{i}:v1.{i}",
                ],
                "sizeBytes": 100_000_000 + i,
            }
            for i in range(_IMAGES)
        ],
    }


def _condition(kind: str, heartbeat: str) -> dict[str, str]:
    return {
        "type": kind,
        "status": "True" if kind == "Ready" else "False",
        "lastHeartbeatTime": heartbeat,
        "lastTransitionTime": "2025-12-01T00:00:00Z",
        "reason": f"Kubelet{kind}",
        "message": f"kubelet has {kind}",
    }


def topology(index: int) -> dict[str, Any]:
    """The node's NodeResourceTopology with its CPU facts."""
    facts = {"cpuModel": MODEL, "hyperThreadEnabled": True, "turboEnabled": True}
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha1",
        "kind": "NodeResourceTopology",
        "metadata": {
            "name": node_name(index),
            "annotations": {CPU_BASIC_INFO: msgspec.json.encode(facts).decode()},
        },
        "topologyPolicies": ["None"],
        "zones": [],
    }


def normalization_config(ratio: str) -> str:
    """The ConfigMap key that gives every node of the fleet this ratio."""
    return f'{{"enable":true,"ratioModel":{{"{MODEL}":{{"hyperThreadTurboEnabledRatio":{ratio}}}}}}}'


def kubelet_review(index: int, now: str) -> bytes:
    """Return the review of an amplified node's kubelet restating its raw amounts, with fresh heartbeats."""
    name = node_name(index)
    stored = node(index)
    raw = {key: _RAW[key] for key in ("cpu",)}
    record = {
        name(field, key): amounts[key]
        for field in ("capacity", "allocatable")
        for name, amounts in ((recorded_raw, raw), (recorded_applied, _AMPLIFIED))
        for key in raw
    }
    stored["metadata"] |= {
        "uid": f"00000000-0000-0000-0000-{index:012d}",
        "resourceVersion": str(1000 + index),
        "annotations": {
            AMPLIFICATION_RATIO: '{"cpu":1.50}',
            **record,
            RAW_CAPACITY: msgspec.json.encode(raw).decode(),
            RAW_ALLOCATABLE: msgspec.json.encode(raw).decode(),
        },
    }
    old = stored | {"status": status(now) | {"capacity": _AMPLIFIED, "allocatable": _AMPLIFIED}}
    new = stored | {"status": status(now[:-2] + "9Z")}
    request = {
        "uid": f"{index:08d}-0000-0000-0000-000000000000",
        "kind": {"group": "", "version": "v1", "kind": "Node"},
        "resource": {"group": "", "version": "v1", "resource": "nodes"},
        "subResource": "status",
        "name": name,
        "operation": "UPDATE",
        "userInfo": {
            "username": f"system:node:{name}",
            "groups": ["system:nodes", "system:authenticated"],
        },
        "object": new,
        "oldObject": old,
        "dryRun": False,
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": "PatchOptions"},
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return msgspec.json.encode(review)


def as_sent(names: Sequence[str], count: int, turn: int) -> list[str]:
    """Names in the order in which kube-scheduler sends them, another one each turn.

    It goes on where it stopped at the last pod, and 16 workers take up a stretch of nodes each at a time.
    """
    chance = random.Random(turn)  # noqa: S311 - an order of names is no secret
    begin = chance.randrange(len(names))
    rotated = [*names[begin:], *names[:begin]][:count]
    stretch = isqrt(count) + 1
    sent: list[str] = []
    for first in range(0, count, _WORKERS * stretch):
        last = min(count, first + _WORKERS * stretch)
        workers = [iter(rotated[each : min(last, each + stretch)]) for each in range(first, last, stretch)]
        turns = [worker for worker in workers for _ in range(stretch)]
        chance.shuffle(turns)
        sent += [name for name in (next(worker, None) for worker in turns) if name is not None]
    return sent
