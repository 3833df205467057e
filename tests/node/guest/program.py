"""Runs the real ``corewise agent`` against a local API server, both in the guest, on a pod's real cgroups.

The ratio is changed on the Node; the agent is killed, misses a change, is started again, and ends in order.
Another pod owns a CPU, shares, and owns one again. At last all writes are undone with the API server gone.
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
KUBELETS = {"": 300_000, "one": 100_000, "two": 200_000}
QUOTAS = {
    "1.50": {"": 200_000, "one": 66_667, "two": 133_334},
    "2.00": {"": 150_000, "one": 50_000, "two": 100_000},
    "1.20": {"": 250_000, "one": 83_334, "two": 166_667},
    "1.60": {"": 187_500, "one": 62_500, "two": 125_000},
    "removed": KUBELETS,
}
OWNERS = {"": 100_000, "only": 100_000}
LIFTED, OWNERS_DIVIDED = dict.fromkeys(OWNERS, -1), dict.fromkeys(OWNERS, 62_500)
OPTIONS = ("--cgroup-root", CGROUP_ROOT, "--no-nri")


class RunningPod:
    """A pod that the API server knows, and its cgroups with kubelet's quotas, the pod's under ""."""

    def __init__(
        self,
        cluster: AgentCluster,
        name: str,
        limits: Mapping[str, str],
        kubelets: Mapping[str, int],
        cpus: str = "",
    ) -> None:
        self._cluster = cluster
        ids = {container: CONTAINERS[f"{name}/{container}"] for container in limits}
        own = f"{CGROUP_ROOT}/kubepods/burstable/pod{cluster.add_pod(name, limits, cpus)}"
        self._cgroups = {"": own, **{each: f"{own}/{number}" for each, number in ids.items()}}
        for cgroup in self._cgroups.values():
            make_cgroup(cgroup)
        for each, quota in kubelets.items():
            self._file(each).write_text(f"{quota} 100000")
        cluster.run_pod(name, ids)

    def quotas(self) -> dict[str, int]:
        """Return the quotas of the pod ("") and its containers, -1 for none, read by nothing of corewise."""
        texts = {name: self._file(name).read_text().split()[0] for name in self._cgroups}
        return {name: -1 if text == "max" else int(text) for name, text in texts.items()}

    def come_to(self, quotas: Mapping[str, int]) -> dict[str, int]:
        """Wait for these quotas, and return what there is."""
        self._cluster.wait_for(lambda: self.quotas() == quotas, f"{quotas} are applied")
        return self.quotas()

    def _file(self, name: str) -> Path:
        return MOUNT / self._cgroups[name].lstrip("/") / "cpu.max"


def observe(report: Report) -> None:
    """Report the program's reaction to each change, its reports, and its end."""
    STATE.mkdir()
    with agent_cluster(STATE) as cluster:
        pod = RunningPod(cluster, "web", LIMITS, KUBELETS)
        report.add("program/kubelet's", pod.quotas())
        _follow(report, cluster, pod)
        owner = RunningPod(cluster, "db", {"only": "1"}, OWNERS, cpus="1")
        ended = _go_on(report, cluster, pod, owner)
        report.add("program/topology", _reported(cluster))
    restored = cluster.restore()
    report.add("program/restored", pod.quotas())
    report.add("owner/restored", owner.quotas())
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


def _go_on(report: Report, cluster: AgentCluster, pod: RunningPod, owner: RunningPod) -> int:
    """Have another agent go on from the journal, and end it in order; return its exit code."""
    with cluster.agent(*OPTIONS) as agent:
        report.add("program/1.60", pod.come_to(QUOTAS["1.60"]))
        for step, cpus, quotas in (
            ("owns", "1", LIFTED),
            ("shares", "", OWNERS_DIVIDED),
            ("owns again", "2", LIFTED),
        ):
            cluster.own("db", cpus)
            report.add(f"owner/{step}", owner.come_to(quotas))
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
    """Return the machine as the agent has reported it: its facts, and CPUs and zones as it counts them."""
    topology = cluster.topology()
    facts = json.loads(topology["metadata"]["annotations"][CPU_BASIC_INFO])
    zones = {
        zone["name"]: next(each["capacity"] for each in zone["resources"] if each["name"] == "cpu")
        for zone in topology["zones"]
    }
    return {"model": facts["cpuModel"], "hyperThreading": facts["hyperThreadEnabled"], "zones": zones}
