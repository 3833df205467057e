"""The stand-in of kube-scheduler follows a pod that takes the name of another."""

from __future__ import annotations

from corewise.kube.client import Client
from corewise.kube.clock import SYSTEM_CLOCK
from corewise.kube.config import ClusterConfig
from corewise.kube.objects import ObjectMeta
from corewise.workload.pods import Pod, PodSpec
from corewise_lab.local_scheduler import NAME, LocalScheduler


def pod(uid: str) -> Pod:
    meta = ObjectMeta(name="p", namespace="default", uid=uid)
    return Pod(metadata=meta, spec=PodSpec(scheduler_name=NAME))


def test_replaced_pod_is_scheduled_after_a_relist() -> None:
    """The watch was away, so the list shows another pod in place of one that waited and asked the same."""
    scheduler = LocalScheduler(Client(ClusterConfig(server="http://memory")), clock=SYSTEM_CLOCK)
    scheduler._running = True
    scheduler._pod_changed(None, pod("first"))
    scheduler._pod_changed(pod("first"), pod("second"))
    assert scheduler.pending == 1
