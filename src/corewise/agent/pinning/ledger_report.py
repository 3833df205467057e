"""Who owns which CPUs of a node, as the NodeResourceTopology tells it, in Koordinator's form. Pure.

``[{"namespace": "default", "name": "db", "uid": "…", "cpuset": "0-3"}, …]``, by namespace and name. Pods that
own CPUs by kubelet's static policy are marked ``"managedByKubelet": true``.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from corewise.agent.cpu_manager import CPUManager
from corewise.agent.objects import QuotaPod
from corewise.agent.pinning.division import Division
from corewise.topology import CPUSet


class _PodCPUs(msgspec.Struct, omit_defaults=True):
    namespace: str
    name: str
    uid: str
    cpuset: str
    managed_by_kubelet: bool = msgspec.field(name="managedByKubelet", default=False)


def print_ledger(division: Division, pods: Iterable[QuotaPod], manager: CPUManager) -> str:
    """Write the annotation."""
    rows = [_row(owner.pod, owner.cpus) for owner in division.owners.values()]
    rows += [
        _row(pod, manager.exclusive[pod.uid], by_kubelet=True)
        for pod in pods
        if pod.uid in manager.exclusive and not pod.has_ended
    ]
    return msgspec.json.encode(sorted(rows, key=lambda row: (row.namespace, row.name, row.uid))).decode()


def _row(pod: QuotaPod, cpus: CPUSet, *, by_kubelet: bool = False) -> _PodCPUs:
    meta = pod.metadata
    return _PodCPUs(meta.namespace, meta.name, meta.uid, str(cpus), by_kubelet)
