"""Runs the real ``corewise agent`` against a local API server, both in the guest, on a pod's real cgroups.

The ratio is changed on the Node; the agent is killed, misses a change, is started again, and ends in order.
At last its writes are undone with the API server gone.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

from corewise.vocabulary.names import CPU_BASIC_INFO, CPU_RATIO_APPLIED
from node.agent_cluster import PATIENCE, AgentCluster, agent_cluster
from node.guest.pods import CONTAINERS, MOUNT, make_cgroup
from node.guest.records import Program, Report

STATE = Path("/run/corewise-program")
CGROUP_ROOT = "/program"
LIMITS = {"one": "1", "two": "2"}
IDS = {name: CONTAINERS[f"web/{name}"] for name in LIMITS}
KUBELETS = {"": 300_000, "one": 100_000, "two": 200_000}
QUOTAS = {
    "1.50": {"": 200_000, "one": 66_667, "two": 133_334},
    "2.00": {"": 150_000, "one": 50_000, "two": 100_000},
    "1.20": {"": 250_000, "one": 83_334, "two": 166_667},
    "1.60": {"": 187_500, "one": 62_500, "two": 125_000},
    "removed": KUBELETS,
}
OPTIONS = ("--cgroup-root", CGROUP_ROOT, "--no-nri")


class RunningPod:
    """A pod that the API server knows, and its cgroups."""

    def __init__(self, cluster: AgentCluster) -> None:
        self._cluster = cluster
        own = f"{CGROUP_ROOT}/kubepods/burstable/pod{cluster.add_pod('web', LIMITS)}"
        self._cgroups = {"": own, **{name: f"{own}/{number}" for name, number in IDS.items()}}
        for cgroup in self._cgroups.values():
            make_cgroup(cgroup)
        for name, quota in KUBELETS.items():
            self._file(name).write_text(f"{quota} 100000")
        cluster.run_pod("web", IDS)

    def quotas(self) -> dict[str, int]:
        """Return the quotas of the pod ("") and its containers, read by nothing of corewise."""
        return {name: int(self._file(name).read_text().split()[0]) for name in self._cgroups}

    def come_to(self, quotas: Mapping[str, int]) -> dict[str, int]:
        """Wait for these quotas, and return what there is."""
        self._cluster.wait_for(lambda: self.quotas() == quotas, f"{quotas} are applied")
        return self.quotas()

    def _file(self, name: str) -> Path:
        return MOUNT / self._cgroups[name].lstrip("/") / "cpu.max"


def observe(report: Report) -> None:
    """Tell what the program made of each change, what it reported, and how it ended."""
    STATE.mkdir()
    with agent_cluster(STATE) as cluster:
        pod = RunningPod(cluster)
        report.add("program/kubelet's", pod.quotas())
        _follow(report, cluster, pod)
        ended = _go_on(report, cluster, pod)
        report.add("program/topology", _reported(cluster))
    restored = cluster.restore()
    report.add("program/restored", pod.quotas())
    bugs = cluster.said("Traceback") + cluster.said("this is a bug")
    report.add("program", Program(ended, restored, bugs))


def _follow(report: Report, cluster: AgentCluster, pod: RunningPod) -> None:
    """Change the ratio under an agent, and once more after it was killed."""
    cluster.annotate("1.50")
    with cluster.agent(*OPTIONS) as agent:
        for ratio in ("1.50", "2.00", "1.20"):
            cluster.annotate(ratio)
            report.add(f"program/{ratio}", pod.come_to(QUOTAS[ratio]))
        agent.kill()
        agent.wait()
        cluster.annotate("1.60")
        report.add("program/killed", pod.quotas())


def _go_on(report: Report, cluster: AgentCluster, pod: RunningPod) -> int:
    """Have another agent go on from the journal, and end it in order; return its exit code."""
    with cluster.agent(*OPTIONS) as agent:
        report.add("program/1.60", pod.come_to(QUOTAS["1.60"]))
        cluster.annotate(None)
        report.add("program/removed", pod.come_to(KUBELETS))
        cluster.annotate("2.00")
        pod.come_to(QUOTAS["2.00"])
        cluster.wait_for(lambda: _applied(cluster) == "2.00", "the machine is reported as amplified")
        agent.terminate()
        code = _waited(agent)
        report.add("program/ended", pod.quotas())
    return code


def _waited(agent: subprocess.Popen[bytes]) -> int:
    try:
        return agent.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        return -1


def _applied(cluster: AgentCluster) -> str:
    """Return the ratio that the reported zones are amplified by; "" as long as there are none."""
    return str(cluster.topology().get("metadata", {}).get("annotations", {}).get(CPU_RATIO_APPLIED, ""))


def _reported(cluster: AgentCluster) -> dict[str, object]:
    """Return what the agent has reported of the machine: its facts, and CPUs and zones as it counts them."""
    topology = cluster.topology()
    facts = json.loads(topology["metadata"]["annotations"][CPU_BASIC_INFO])
    zones = {
        zone["name"]: next(each["capacity"] for each in zone["resources"] if each["name"] == "cpu")
        for zone in topology["zones"]
    }
    return {"model": facts["cpuModel"], "hyperThreading": facts["hyperThreadEnabled"], "zones": zones}
