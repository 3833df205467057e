"""Whatever happens to a node: no CPU has two owners, everybody runs where they should, and all comes back.

A history is any sequence of: pods that come with and without claims, good and bad ones, that change their
claim or go, containers that restart, CPUs that go offline and come back, ratios, restarts of the agent and
its death before or after any write. After each step that the agent lives through, every pod has what a plain
reading of the claims gives it; a second cycle writes nothing. In the end, whether the pods give up their CPUs
or the journal is undone, the tree is kubelet's: CPU sets and quotas.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.pinning_node import ONLINE, Killed, PinNode, claim, pin_pod
from corewise.agent.objects import QuotaPod
from corewise.kernel.cgroups.layout import Version
from corewise.kernel.writing.quota_writer import QuotaWriter
from corewise.kernel.writing.setting_writer import SettingWriter
from corewise.topology import CPUSet
from tally import step

NAMES = "abcde"
QOS = dict(zip(NAMES, ("Guaranteed", "Guaranteed", "Burstable", "BestEffort", "Burstable"), strict=True))
CLAIMS = st.sampled_from([None, "", "0-1", "1-3", "2-4", "4-5", "6-7", "0-3", "7", "0-7", "8", "5-9", "{"])
OPERATIONS = st.one_of(
    st.tuples(st.just("pod"), st.tuples(st.sampled_from(NAMES), CLAIMS)),
    st.tuples(st.just("go"), st.sampled_from(NAMES)),
    st.tuples(st.just("anew"), st.sampled_from(NAMES)),
    st.tuples(st.just("online"), st.sampled_from(["0-7", "0-5", "0,2-7"])),
    st.tuples(st.just("ratio"), st.sampled_from([100, 150, 300])),
    st.tuples(st.just("restart"), st.none()),
    st.tuples(st.just("die"), st.integers(0, 30)),
)


class History:
    """One node through its life."""

    def __init__(self, root: Path, version: Version) -> None:
        self.node = PinNode(root, version)
        self.claims: dict[str, str | None] = {}
        self.order: list[str] = []
        self.online = CPUSet.parse("0-7")
        self.ratio = 100
        self.containers = 0
        self.owners: Mapping[str, CPUSet] = {}

    def pods(self) -> list[QuotaPod]:
        return [self.pod(name) for name in self.claims]

    def pod(self, name: str) -> QuotaPod:
        stated = self.claims.get(name)
        text = stated if stated is None or stated == "{" else claim(stated)
        return pin_pod(name, text, bound=f"{self.order.index(name):02}", qos=QOS[name])

    def take(self, what: str, argument: Any) -> None:
        step({"restart": "restart"}.get(what))
        match what, argument:
            case "pod", (str(name), stated):
                self.come(name, stated)
            case "go", str(name) if name in self.claims:
                self.owners = {each: cpus for each, cpus in self.owners.items() if each != name}
                self.node.remove(self.node.cgroup(self.pod(name)))
                del self.claims[name]
            case "anew", str(name) if name in self.claims:
                self.containers += 1
                self.node.make(f"{self.node.cgroup(self.pod(name))}/cri-containerd-{self.containers}.scope")
            case "online", str(cpus):
                self.online = CPUSet.parse(cpus)
                self.node.put(ONLINE, cpus)
            case "ratio", int(ratio):
                self.ratio = ratio
                self.node.ratio(ratio)
            case "restart", _:
                self.restart()
            case "die", int(points):
                self.die(points)

    def come(self, name: str, stated: str | None) -> None:
        is_new = name not in self.claims
        self.claims[name] = stated
        if is_new:
            self.order = [*(each for each in self.order if each != name), name]
            self.node.start(self.pod(name))

    def restart(self) -> None:
        self.node.restart()
        self.node.ratio(self.ratio)
        self.owners = {name: cpus for name, cpus in self.owners.items() if cpus & self.online}

    def die(self, points: int) -> None:
        self.node.mortal.points_left = points
        with suppress(Killed):
            self.node.cycle(*self.pods())
        self.restart()

    def cycle(self) -> None:
        self.owners = self.owned()
        self.node.cycle(*self.pods())
        assert self.node.everything(self.pods()) == self.expected()
        assert not self.node.cycle(*self.pods()).written
        self.check_division()

    def check_division(self) -> None:
        owners = self.node.local.pins.division.owners.values()
        assert sum(len(owner.cpus) for owner in owners) == len(self.node.local.pins.division.owned)
        if owners:
            shared = self.node.local.pins.division.shared
            assert self.node.local.pins.division.owned & self.online | shared == self.online

    def owned(self) -> Mapping[str, CPUSet]:
        """Return the CPUs of each owner by a plain reading of the claims, and of who owned them before."""
        owned: dict[str, CPUSet] = {}
        everything = CPUSet.parse("0-7")
        wanted = {
            name: CPUSet() if text in {None, "{"} else CPUSet.parse(text or "")
            for name, text in self.claims.items()
        }
        kept = {name for name, cpus in wanted.items() if self.owners.get(name) == cpus}
        for name in sorted(self.claims, key=lambda name: (name not in kept, self.order.index(name))):
            cpus = wanted[name]
            taken = any(not cpus.isdisjoint(others) for others in owned.values())
            left = (everything if name in kept else self.online) - cpus
            left -= CPUSet.of(cpu for others in owned.values() for cpu in others)
            if cpus and left and not taken and cpus <= everything:
                owned[name] = cpus
        return owned

    def expected(self) -> dict[str, str]:
        owned = self.owned()
        shared = self.online - CPUSet.of(cpu for cpus in owned.values() for cpu in cpus)
        pool = str(shared) if owned and shared else self.node.kubelets
        return {
            f"default/{name}": str(owned.get(name, CPUSet()) & self.online) or pool for name in self.claims
        }

    def is_kubelets(self) -> bool:
        sets = set(self.node.everything(self.pods()).values())
        quotas = {self.node.machine.quota(pod, "a") for pod in self.pods()}
        return sets <= {self.node.kubelets} and quotas <= {100_000}


@pytest.mark.parametrize("version", Version)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(OPERATIONS, max_size=12), st.sampled_from(["claims go", "owners go", "restore"]))
def test_any_history_places_pods_right_and_restores_everything(
    version: Version, operations: list[tuple[str, Any]], end: str
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        history = History(Path(directory), version)
        for what, argument in operations:
            history.take(what, argument)
            history.cycle()
        history.cycle()
        if end == "restore":
            undo(history.node)
        else:
            leave(history, end)
        assert history.is_kubelets()


def undo(node: PinNode) -> None:
    """Put back what the journal holds, as ``corewise agent restore`` does."""
    assert not QuotaWriter(node.files, node.log, now=lambda: 0.0).restore().failed
    assert not SettingWriter(node.files, node.log, now=lambda: 0.0).restore().failed


def leave(history: History, end: str) -> None:
    for name in list(history.claims):
        if end == "claims go":
            history.claims[name] = None
        elif history.claims[name]:
            history.take("go", name)
    history.take("ratio", 100)
    history.cycle()
    assert not history.node.local.cgroups.find().settings.held
