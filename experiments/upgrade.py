"""Replace the programs of one revision by those of another while pods run, go back, and look all the time.

``python -m experiments.upgrade --from REV [--to REV]``; without ``--to``, the present working tree.

The local API server of the present version serves both. Node n1 is a machine of files with cgroup v2; this
program is its kubelet and kube-scheduler. The node is amplified (2.00), quotas are divided, two pods share
CPUs under a limit, one owns CPUs, two are offline and suppressed. Manager and scheduler are replaced as their
Deployments do it: the new replica is ready before the old one ends. The agent ends first, as in a DaemonSet.
Then one more owner and one more limited pod start, and the same is done backwards. Looked at:

- each state of the Node and of each pod, by watch: amounts, ledger, claims, restarts;
- each quota, weight and CPU set, every 50 ms; while programs are replaced, none of them may change. A pod
  that owns CPUs has no quota once its CPU set is its own;
- each answer that kubelet gets when it writes the Node's status, every second.

Both revisions run with the Roles of the present one. Ends with 1 if anything was wrong. What differs as
documented is named and is not wrong: ``cpu.idle`` and quotas over 1 s of offline pods.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

import msgspec

from agent.fake_node import container, manifest
from agent.offline_node import OfflineNode, batch_container
from corewise.agent.objects import QuotaPod
from corewise.quantities import Quantity
from corewise.topology import CPUSet
from corewise.vocabulary.cpu_annotations import stated_cpus
from corewise.vocabulary.names import OFFLINE_REPORT, OVERSUBSCRIPTION, QOS_CLASS, RESOURCE_STATUS
from corewise.vocabulary.owned_cpus import read_owned_cpus
from experiments.owned_burst import wrong
from golden.cluster import MERGE, Cluster, Program, fetch
from golden.harness import identity, with_client_certificate
from machine_trees import intel
from tools.record_objects import AMPLIFIED, CONFIG, NAMESPACE, NODE, RAW, cluster_of, offers, raw_node

ROOT = Path(__file__).parents[1]
PODS = "apps"
_CPUS = int(RAW)
_MEMORY = 16 << 30
_LOOK_EVERY = 0.05
_BEAT_EVERY = 1.0
_SETTLED_AFTER = 4.0
"""Seconds without a change: several cycles of the agent, writes of kubelet, and steps of suppression."""
_WATCHED = ("cpu.max", "cpu.weight", "cpu.idle", "cpuset.cpus")
_SETTINGS = {
    "oversubscription-config": '{"intervalSeconds": 1}',
    "cpu-suppression-config": '{"adjustStep": 1}',
}
QUOTAS, OWNERS = "quotas at most kubelet's", "CPU sets of owners apart"
CHANGES = "cgroups unchanged by a replacement"
AMOUNTS, LEDGER, CLAIMS = "amounts exact, once amplified", "ledger complete", "claims apart"
RUNNING, BEATS = "pods not restarted, not evicted", "kubelet's writes accepted"
_ADMISSION = ("admissionpolicies", "webhookconfigurations")
_IDLE = "cpu.idle of offline pods (docs/concepts/isolation.md)"
_PERIOD = "the same quota over another period (docs/concepts/isolation.md)"

Document = dict[str, Any]
Files = dict[str, str]


class UpgradeError(Exception):
    """A pod cannot be started, or a look failed; the message says which."""


@dataclass
class Findings:
    """The number of looks at each thing, and what was wrong, each once."""

    looks: Counter[str] = field(default_factory=Counter)
    wrong: Counter[tuple[str, str]] = field(default_factory=Counter)
    documented: set[tuple[str, str]] = field(default_factory=set)
    """What may differ, by the file in which it does."""
    _lock: Lock = field(default_factory=Lock)

    def look(self, what: str, found: Iterable[str]) -> None:
        """Count a look, and what it found wrong."""
        with self._lock:
            self.looks[what] += 1
            for each in found:
                if not self.wrong[what, each]:
                    print(f"WRONG: {what}: {each}", file=sys.stderr)
                self.wrong[what, each] += 1


class Watcher:
    """What looks at the cluster and at the machine, in threads of its own."""

    def __init__(self, cluster: Cluster, machine: OfflineNode) -> None:
        self.found = Findings()
        self._cluster, self._machine = cluster, machine
        self._base = machine.root / "sys/fs/cgroup"
        self._limits: dict[str, int] = {}
        self._owners: dict[str, str] = {}
        self._started: dict[str, list[Any]] = {}
        self._seen: set[str] = set()
        self._claims: dict[str, str | None] = {}
        self._steady: Files | None = None
        self._ended = Event()
        self._failed: list[str] = []

    def files(self) -> Files:
        """Return the watched files of all cgroups of pods, each read until two reads agree."""
        paths = (path for name in _WATCHED for path in self._base.glob(f"kubepods.slice/**/{name}"))
        return {str(path.relative_to(self._base)): _settled(path) for path in paths}

    def add(self, stored: Document, kubelets: Files, *, owns: bool) -> None:
        """Look after a pod that runs; ``kubelets``: the files of its cgroups as kubelet made them."""
        for path, text in kubelets.items():
            if path.endswith("cpu.max"):
                self._limits[path] = _quota(text)
        uid = stored["metadata"]["uid"]
        if owns:
            self._owners[uid] = min(kubelets).rpartition("/")[0]
        self._started[uid] = _runs(stored)

    @contextmanager
    def nothing_changes(self) -> Iterator[None]:
        """Hold each file to what it has at the beginning."""
        self._steady = self.files()
        yield
        self._steady = None

    def end(self) -> None:
        """Stop looking.

        Raises:
            UpgradeError: if a look has failed meanwhile.
        """
        self._ended.set()
        if self._failed:
            raise UpgradeError(self._failed[0])

    def start(self) -> None:
        """Look until the end."""
        threading.excepthook = lambda failed: self._failed.append(repr(failed.exc_value))
        for loop in (self._files_loop, self._beat_loop):
            Thread(target=loop, daemon=True).start()
        for kind, look in (("Node", self._node), ("Pod", self.pod)):
            Thread(target=self._watch, args=(kind, look), daemon=True).start()

    def _watch(self, kind: str, look: Callable[[str, Document], None]) -> None:
        try:
            for change, found in self._cluster.watch(kind):
                look(change, found)
        except (OSError, HTTPException):
            if not self._ended.is_set():
                raise

    def _node(self, _change: str, node: Document) -> None:
        """Check the Node by itself; requests of its pods are compared at the end of each phase."""
        ledger = read_owned_cpus(node["metadata"].get("annotations") or {})
        owners = list(self._owners)  # a pod may be added meanwhile
        self.found.look(LEDGER, (f"{uid} is not in it" for uid in owners if uid not in ledger.owners))
        amount = Quantity.parse(node["status"]["allocatable"]["cpu"]).milli
        bounded = _CPUS * 1000 < amount <= int(AMPLIFIED) * 1000
        self.found.look(AMOUNTS, [*([] if bounded else [f"{amount}m"]), *wrong([node], [])])

    def pod(self, change: str, pod: Document) -> None:
        """Check a state of a pod."""
        uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
        same, started = change != "DELETED", self._started.get(uid)
        if started and _runs(pod) == started:
            self._seen.add(uid)  # watches may tell later of what was before it ran
        if uid in self._seen:
            same = same and _runs(pod) == started
            self.found.look(RUNNING, [] if same else [f"{name}: {change} {started} -> {_runs(pod)}"])
        self._claims[uid] = (pod["metadata"].get("annotations") or {}).get(RESOURCE_STATUS)
        self.found.look(CLAIMS, twice(cpu for claim in self._claims.values() for cpu in stated_cpus(claim)))

    def _files_loop(self) -> None:
        while not self._ended.wait(_LOOK_EVERY):
            steady, owners, limits = self._steady, list(self._owners.values()), dict(self._limits)
            files = self.files()
            sets = {pod: CPUSet.parse(files[f"{pod}/cpuset.cpus"]) for pod in owners}
            confined = tuple(pod for pod, cpus in sets.items() if cpus)
            above = (
                f"{path}: {files[path]}"
                for path, limit in limits.items()
                if _quota(files[path]) > limit and not path.startswith(confined)
            )
            self.found.look(QUOTAS, above)
            self.found.look(OWNERS, twice(cpu for cpus in sets.values() for cpu in cpus))
            if steady is not None:
                self.found.look(CHANGES, self._undocumented(steady, files))

    def _undocumented(self, before: Files, after: Files) -> Iterator[str]:
        for line in differences(before, after):
            path = line.partition(":")[0]
            why = ""
            if "besteffort-pod" in path and path.endswith("cpu.idle"):
                why = _IDLE
            elif path.endswith("cpu.max") and _quota(before[path]) == _quota(after[path]):
                why = _PERIOD
            if why:
                self.found.documented.add((why, path))
            else:
                yield line

    def _beat_loop(self) -> None:
        while not self._ended.wait(_BEAT_EVERY):
            status, answer = self._cluster.kubelet_writes(NODE, RAW)
            self.found.look(BEATS, [] if status == 200 else [f"{status} {answer}"])


def twice(cpus: Iterable[int]) -> list[str]:
    """Return a line for each CPU that is there more than once."""
    return [f"CPU {cpu} has two owners" for cpu, times in Counter(cpus).items() if times > 1]


def differences(before: Files, after: Files) -> list[str]:
    """Return each file whose content differs."""
    texts = ((path, before.get(path), after.get(path)) for path in sorted(before.keys() | after.keys()))
    return [f"{path}: {old} -> {new}" for path, old, new in texts if old != new]


def _settled(path: Path) -> str:
    text = path.read_text()
    while (again := path.read_text()) != text:
        text = again
    return text.strip()


def _quota(text: str) -> int:
    """Return cpu.max as microseconds in a second."""
    quota, period = text.split()
    return sys.maxsize if quota == "max" else int(quota) * 1_000_000 // int(period)


def _runs(pod: Document) -> list[Any]:
    states = pod["status"].get("containerStatuses", ())
    stated = [(each["name"], each["containerID"], each["restartCount"]) for each in states]
    return [pod["status"].get("phase"), pod["metadata"].get("deletionTimestamp"), *stated]


class Rig:
    """The cluster, its node, and the programs that run."""

    def __init__(self, directory: Path, cluster: Cluster, machine: OfflineNode, programs: ExitStack) -> None:
        self.directory, self.cluster, self.machine = directory, cluster, machine
        self.watcher = Watcher(cluster, machine)
        self._programs, self._running = programs, dict[str, Program]()
        self._extenders: dict[str, str] = {}
        self._count = 0

    def replace(self, name: str, sources: str) -> None:
        """Start a program of other sources; manager and scheduler end once it is ready, the agent before."""
        old = self._running.get(name)
        if old and name == "agent":
            old.__exit__()
        self._count += 1
        folder = self.directory / f"{self._count}-{name}"
        folder.mkdir()
        options = (*identity(self.cluster, name), "--metrics-listen", "127.0.0.1:0", *self._options(name))
        new = Program(folder, name, *options, sources=sources)
        self._programs.callback(new.__exit__)
        new.is_ready()
        if old and name != "agent":
            old.__exit__()
        self._running[name] = new
        time.sleep(_SETTLED_AFTER)

    def _options(self, name: str) -> tuple[str, ...]:
        """Return options that all versions since commit ffe585e take."""
        if name == "agent":
            machine = ("--node-name", NODE, "--root", str(self.machine.root), "--interval", "1s")
            return (*machine, "--no-nri", "--no-latency-probe")
        if name == "manager":
            return ("--manage-webhooks", "--webhook-listen", "127.0.0.1:0")
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.address = f"127.0.0.1:{probe.getsockname()[1]}"
        return ("--manage-webhooks", "--listen", self.address)

    def start(self, document: Document) -> None:
        """Create a pod, bind it as kube-scheduler does, and run it as kubelet does."""
        name, owns = document["metadata"]["name"], QOS_CLASS in document["metadata"]["labels"]
        metadata = {**document["metadata"], "namespace": PODS}
        spec = {key: value for key, value in document["spec"].items() if key != "nodeName"}
        created = self.cluster.create({"kind": "Pod", "metadata": metadata, "spec": spec})
        path = f"/api/v1/namespaces/{PODS}/pods/{name}"
        if owns:
            self._bind(created)
        else:
            binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": NODE}}
            status, answer = self.cluster.call("POST", f"{path}/binding", binding)
            if status != 201:
                raise UpgradeError(f"{name} is not bound: {answer}")
        states = {key: value for key, value in document["status"].items() if key != "qosClass"}
        _, stored = self.cluster.call("PATCH", f"{path}/status", {"status": states}, MERGE)
        pod, before = msgspec.convert(stored, QuotaPod), self.watcher.files()
        self.machine.start(pod)
        made = self.watcher.files()
        new = {path: text for path, text in made.items() if path not in before}
        self.watcher.add(stored, new, owns=owns)

    def _bind(self, pod: Document) -> None:
        metadata = pod["metadata"]
        body = {
            "PodName": metadata["name"],
            "PodNamespace": PODS,
            "PodUID": metadata["uid"],
            "Node": NODE,
        }
        tls = with_client_certificate(self.cluster)
        status, answer = fetch(f"https://{self.address}/bind", tls, "POST", body)
        if status != 200 or answer.get("Error"):
            raise UpgradeError(f"{metadata['name']} is not bound: {answer}")

    def settled(self) -> tuple[Files, Files]:
        """Return the files and what the programs state once no file changes; compare amounts with pods."""
        files, since = self.watcher.files(), time.monotonic()
        while time.monotonic() < since + _SETTLED_AFTER:
            time.sleep(_LOOK_EVERY)
            if (found := self.watcher.files()) != files:
                files, since = found, time.monotonic()
        node, pods = self.cluster.get("Node", NODE), self.cluster.get("Pod")
        self.watcher.found.look(AMOUNTS, wrong([node], pods))
        for each in pods:
            self.watcher.pod("LISTED", each)
        return files, {**stated(node), **self._installed()}

    def _installed(self) -> Files:
        """Return the names of what manager and scheduler have installed, and the report of the agent."""
        kinds = [f"{how}{what}" for how in ("mutating", "validating") for what in _ADMISSION]
        base = "/apis/admissionregistration.k8s.io/v1"
        names = {
            f"{kind} {each['metadata']['name']}": "there"
            for kind in kinds
            for each in self.cluster.call("GET", f"{base}/{kind}")[1]["items"]
        }
        report: Files = self.cluster.get("NodeResourceTopology", NODE)["metadata"]["annotations"]
        return {**names, **report}


def limited(name: str) -> Document:
    """Return a pod that shares CPUs, of two containers with a limit each."""
    return manifest(name, container("a", "4", "500m"), container("b", "1500m"))


def owner(name: str) -> Document:
    """Return a pod that is to own two CPUs."""
    return manifest(name, container("a", "2"), qos="Guaranteed", labels={QOS_CLASS: "LSR"})


def offline(name: str) -> Document:
    """Return an offline pod."""
    return manifest(name, batch_container("a", limit=3000, memory=1 << 30), qos="BestEffort")


def stated(node: Document) -> Files:
    """Return annotations, amounts, conditions and labels; of the offline report its members."""
    notes = dict(node["metadata"]["annotations"])
    members = {f"{OFFLINE_REPORT} {each}": "there" for each in json.loads(notes.pop(OFFLINE_REPORT))}
    status = node["status"]
    amounts = {
        f"{at}.{name}": text for at in ("capacity", "allocatable") for name, text in status[at].items()
    }
    conditions = {f"condition {each['type']}": each["status"] for each in status.get("conditions", ())}
    return {**notes, **members, **amounts, **conditions, **node["metadata"].get("labels", {})}


def run(directory: Path, old: str, new: str) -> Findings:
    """Upgrade and go back; print what differs between one settled state and the next."""
    with cluster_of(directory, [raw_node()]) as cluster, ExitStack() as programs:
        intel(directory / "machine")
        machine = OfflineNode(directory / "machine", cpus=_CPUS, memory=_MEMORY)
        cluster.create({"kind": "Namespace", "metadata": {"name": PODS}})
        cluster.patch("ConfigMap", CONFIG, {"data": _SETTINGS}, NAMESPACE)
        cluster.patch("Node", NODE, {"metadata": {"labels": {OVERSUBSCRIPTION: "true"}}})
        rig = Rig(directory, cluster, machine, programs)
        for name in ("agent", "manager", "scheduler"):
            rig.replace(name, old)
        offers(cluster, AMPLIFIED)
        for pod in (limited("web"), limited("api"), owner("owner-1"), offline("job-1"), offline("job-2")):
            rig.start(pod)
        state = rig.settled()
        rig.watcher.start()
        for title, sources, number in (("upgrade", new, 2), ("back", old, 3)):
            with rig.watcher.nothing_changes():
                for name in ("manager", "scheduler", "agent"):
                    rig.replace(name, sources)
            after = rig.settled()
            print(
                f"\n{title}: what the programs state differently",
                *differences(state[1], after[1]),
                sep="\n  ",
            )
            rig.start(owner(f"owner-{number}"))
            rig.start(limited(f"web-{number}"))
            state = rig.settled()
        rig.watcher.end()
        return rig.watcher.found


def sources_of(revision: str, folder: Path) -> str:
    """Unpack a revision and return where its packages are.

    Raises:
        SystemExit: if git does not know it.
    """
    folder.mkdir()
    archive = subprocess.run(["git", "archive", revision], cwd=ROOT, check=False, capture_output=True)
    if archive.returncode:
        sys.exit(f"{revision} cannot be unpacked: {archive.stderr.decode().strip()}")
    subprocess.run(["tar", "x", "-C", folder], input=archive.stdout, check=True)
    return path_of(folder)


def path_of(root: Path) -> str:
    """Return the PYTHONPATH of a tree with one package, or with several."""
    return ":".join(map(str, [*root.glob("src"), *root.glob("packages/*/src")]))


def main() -> int:
    """Run it, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--from", dest="old", required=True, metavar="REV")
    parser.add_argument("--to", dest="new", metavar="REV", help="default: the working tree")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        old = sources_of(given.old, directory / "old")
        new = sources_of(given.new, directory / "new") if given.new else path_of(ROOT)
        (directory / "run").mkdir()
        found = run(directory / "run", old, new)
    print(f"\n{'looked at':<42}{'looks':>7}{'wrong':>7}")
    for what, looks in found.looks.items():
        print(f"{what:<42}{looks:>7}{sum(times for (at, _), times in found.wrong.items() if at == what):>7}")
    for why, files in Counter(why for why, _ in found.documented).items():
        print(f"differs as documented, in {files} files: {why}")
    for (what, line), times in found.wrong.items():
        print(f"{what}: {line} ({times} times)")
    return 1 if found.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
