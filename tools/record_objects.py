"""Records what this version writes to a cluster, for the tests of later ones (docs/operate/release.md).

``python -m tools.record_objects VERSION`` runs manager and agent against the local API server until the agent
has reported a machine and the manager has amplified its node. Both objects go to tests/release/previous.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from golden.cluster import Cluster, Program, running_cluster, until
from machine_trees import intel

ROOT = Path(__file__).parents[1]
PREVIOUS = ROOT / "tests/release/previous"
NODE, RAW, AMPLIFIED = "n1", "16", "32"
NAMESPACE, CONFIG = "corewise-system", "slo-controller-config"
RATIO = "node.koordinator.sh/cpu-normalization-ratio"
_MODEL = "Intel(R) Xeon(R) Gold 6252 CPU @ 2.10GHz"
_RATIOS = {
    "baseRatio": 1,
    "hyperThreadEnabledRatio": 1,
    "turboEnabledRatio": 1,
    "hyperThreadTurboEnabledRatio": 2,
}
_INPUTS = ROOT / "tests/golden/inputs/clusters/managed.json"
_OF_THE_SERVER = (
    "managedFields",
    "resourceVersion",
    "uid",
    "creationTimestamp",
    "generation",
    "ownerReferences",
)
Object = dict[str, Any]


def configuration(*, enabled: bool) -> Object:
    """Return the ConfigMap that gives the machine the ratio 2.00."""
    text = json.dumps({"enable": enabled, "ratioModel": {_MODEL: _RATIOS}})
    metadata = {"name": CONFIG, "namespace": NAMESPACE}
    return {"kind": "ConfigMap", "metadata": metadata, "data": {"cpu-normalization-config": text}}


def raw_node() -> Object:
    """Return a node that no manager has seen."""
    amounts = {"cpu": RAW, "memory": "16Gi", "pods": "110"}
    status = {"capacity": amounts, "allocatable": amounts}
    return {"kind": "Node", "metadata": {"name": NODE}, "spec": {}, "status": status}


@contextmanager
def cluster_of(directory: Path, objects: Iterable[Object]) -> Iterator[Cluster]:
    """Run an API server that has the objects, the configuration, and what corewise needs."""
    needed = [each for each in json.loads(_INPUTS.read_text()) if each["kind"] == "CustomResourceDefinition"]
    namespace = {"kind": "Namespace", "metadata": {"name": NAMESPACE}}
    file = directory / "objects.json"
    file.write_text(json.dumps([*needed, namespace, configuration(enabled=True), *objects]))
    with running_cluster(directory, file) as cluster:
        yield cluster


@contextmanager
def manager(directory: Path, cluster: Cluster) -> Iterator[None]:
    """Run the manager, with its webhooks."""
    options = ("--kubeconfig", str(cluster.kubeconfig), "--config-namespace", NAMESPACE, "--no-leader-elect")
    serving = ("--manage-webhooks", "--webhook-listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0")
    with Program(directory, "manager", *options, *serving) as program:
        program.is_ready()
        yield


@contextmanager
def agent(directory: Path, cluster: Cluster) -> Iterator[Program]:
    """Run the agent on a machine that is a directory."""
    root = directory / "machine"
    if not root.exists():
        intel(root)
    options = ("--kubeconfig", str(cluster.kubeconfig), "--node-name", NODE, "--root", str(root), "--no-nri")
    with Program(directory, "agent", *options, "--metrics-listen", "127.0.0.1:0") as program:
        yield program


def offers(cluster: Cluster, cpu: str) -> None:
    """Wait until the node's status has so many CPUs after kubelet has written the raw ones."""
    until(lambda: cluster.kubelet_writes(NODE, RAW)[1]["status"]["allocatable"]["cpu"] == cpu, f"{cpu} CPUs")


def record(directory: Path) -> list[Object]:
    """Return Node and NodeResourceTopology, as manager and agent of this version write them."""
    with cluster_of(directory, [raw_node()]) as cluster:
        with agent(directory, cluster):
            until(lambda: cluster.get("NodeResourceTopology"), "the agent has reported nothing")
        with manager(directory, cluster):
            offers(cluster, AMPLIFIED)
            until(lambda: RATIO in cluster.get("Node", NODE)["metadata"]["annotations"], "no ratio")
        objects = [cluster.get("Node", NODE), *cluster.get("NodeResourceTopology")]
    for each, kind in zip(objects, ("Node", "NodeResourceTopology"), strict=True):
        each["kind"] = kind
        each["metadata"] = {name: of for name, of in each["metadata"].items() if name not in _OF_THE_SERVER}
    return objects


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python -m tools.record_objects VERSION")
    with tempfile.TemporaryDirectory() as scratch:
        text = json.dumps(record(Path(scratch)), indent=1, sort_keys=True) + "\n"
    target = PREVIOUS / f"{sys.argv[1]}.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(text)
    print(target)
