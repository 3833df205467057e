"""Test what the kubelet of this machine rewrites of its cgroups, and when.

Creates one pod of each QoS class on the node, gives quotas, weights, cpu.idle and CPU sets other values than
kubelet's, and watches: while nothing happens, when another pod starts and ends, when pods are changed,
resized in place, and restarted. Prints a table, and writes the record as JSON. Run it as root on the node.
It takes five minutes. Pods are deleted at the end, and files get back what they had.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from corewise.kernel.cgroups.files import CgroupFiles
from corewise.kernel.cgroups.layout import find_layout, find_pod_cgroups
from corewise.kernel.host_files import read_boot_id
from corewise.kube.client import Client
from corewise.kube.clock import SYSTEM_CLOCK, Clock
from corewise.kube.config import load_config
from corewise.kube.errors import NotFound
from corewise.kube.resources import NODES
from corewise.service.program import on_stop_signals
from corewise.topology import CPUSet
from corewise.vocabulary.errors import OperationalError
from experiments.kubelet_rewrites.marks import Machine
from experiments.kubelet_rewrites.observing import Observer
from experiments.kubelet_rewrites.pods import KubeletTestError, TestPods, read_procs
from experiments.kubelet_rewrites.record import Kubelet, Record, table
from experiments.kubelet_rewrites.trial import Lengths, Trial
from experiments.kubelet_rewrites.writers import writers_below

PLAIN_NODES = NODES.typed(dict[str, Any])
_REFUSED = 2
_IMAGE = "registry.k8s.io/pause:3.10"
_LENGTHS = Lengths()


@dataclass(frozen=True, slots=True)
class Options:
    """What the test is told."""

    node: str
    namespace: str = "default"
    image: str = _IMAGE
    cgroup_root: str = "/"
    root: Path = Path("/")
    lengths: Lengths = _LENGTHS
    restart: str = ""


async def node_here(client: Client, name: str, root: Path) -> dict[str, Any]:
    """Return the Node that is this machine.

    Raises:
        KubeletTestError: if there is no such node, or it is another machine.
    """
    try:
        node = await client.get(PLAIN_NODES, name)
    except NotFound:
        names = sorted(each["metadata"]["name"] for each in await client.list(PLAIN_NODES))
        listed = ", ".join(names[:10]) or "none"
        raise KubeletTestError(
            f"the cluster has no node {name}; it has: {listed}. Name the one that is this machine: NODE=..."
        ) from None
    here, there = read_boot_id(root), node["status"].get("nodeInfo", {}).get("bootID", "")
    if not here or here != there:
        raise KubeletTestError(
            f"this machine is not node {name}: its boot ID is {here or 'unknown'}, and the node's is "
            f"{there or 'unknown'}. Run the test as root on the node itself"
        )
    return node


async def examine(
    client: Client, options: Options, *, clock: Clock = SYSTEM_CLOCK, say: Callable[[str], None] = print
) -> Record:
    """Test the kubelet of this machine.

    Raises:
        KubeletTestError: if this is not the node, or the test cannot go on.
        KubeError: if the API server refuses.
        KernelError: if kubelet's cgroups are not found.
    """
    node = await node_here(client, options.node, options.root)
    layout = find_layout(options.root)
    online = (options.root / "sys/devices/system/cpu/online").read_text().strip()
    machine = Machine(layout.version, CPUSet.parse(online))
    mounts = [layout.mounts[each] for each in ("cpu", "cpuset") if each in layout.mounts]
    with CgroupFiles(layout) as files, writers_below(mounts) as writers:
        names = find_pod_cgroups(files, options.cgroup_root)
        observer = Observer(layout, files, machine, writers, clock)
        pods = TestPods(client, clock, options.node, options.namespace, options.image)

        async def restart() -> None:
            process = await asyncio.create_subprocess_shell(options.restart)
            if code := await process.wait():
                raise KubeletTestError(
                    f"the command that restarts kubelet ended with {code}: {options.restart}"
                )

        trial = Trial(
            pods,
            observer,
            names,
            clock,
            procs=lambda cgroup: read_procs(Path(f"{layout.cpu}{cgroup}")),
            lengths=options.lengths,
            restart_kubelet=restart if options.restart else None,
            say=say,
        )
        await trial.run()
    info = node["status"]["nodeInfo"]
    kubelet = Kubelet(
        version=info.get("kubeletVersion", ""),
        runtime=info.get("containerRuntimeVersion", ""),
        kernel=info.get("kernelVersion", ""),
        system=info.get("osImage", ""),
        cgroups=layout.version.value,
        driver=names.driver.value,
        cpus=len(machine.cpus),
    )
    unmarked = {" ".join(key): why for key, why in observer.unmarked.items()}
    return Record(kubelet, writers.known, trial.steps, sorted(trial.marked), unmarked)


async def _run(kubeconfig: str, options: Options) -> Record:
    task = asyncio.current_task()
    if task is not None:
        on_stop_signals(task.cancel)  # SIGINT, too: a shell's background job ignores it
    async with Client(load_config(kubeconfig)) as client:
        return await examine(client, options, say=lambda text: print(text, file=sys.stderr))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command.

    Raises:
        SystemExit: with what is missing, if the test cannot be run here.
    """
    usage = "make test-kubelet KUBECONFIG=FILE [NODE=NAME]"
    parser = argparse.ArgumentParser(prog="python -m experiments.kubelet_rewrites", description=__doc__)
    parser.add_argument("--kubeconfig", default="", metavar="FILE", help="of an administrator of the cluster")
    parser.add_argument(
        "--node", default=platform.node(), help="this machine's Node (default: the host name)"
    )
    parser.add_argument(
        "--namespace",
        default="default",
        help="where the pods are created; the host's network is allowed there",
    )
    parser.add_argument("--image", default=_IMAGE, help="an image whose process keeps running")
    parser.add_argument("--cgroup-root", default="/", help="kubelet's own --cgroup-root")
    parser.add_argument(
        "--restart", default="", metavar="COMMAND", help="restart kubelet by it as the last step"
    )
    parser.add_argument(
        "--quiet",
        type=float,
        default=_LENGTHS.quiet,
        metavar="SECONDS",
        help="how long to watch while nothing happens",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("kubelet-rewrites.json"), metavar="FILE", help="the record"
    )
    given = parser.parse_args(arguments)
    if not given.kubeconfig:
        sys.exit(refusal(f"no kubeconfig is named: {usage}"))
    if os.geteuid():
        sys.exit(refusal(f"only root can change cgroups: sudo {usage}"))
    options = Options(
        node=given.node,
        namespace=given.namespace,
        image=given.image,
        cgroup_root=given.cgroup_root,
        lengths=Lengths(quiet=given.quiet),
        restart=given.restart,
    )
    try:
        record = asyncio.run(_run(given.kubeconfig, options))
    except (KubeletTestError, OperationalError, OSError) as error:
        sys.exit(refusal(str(error)))
    except (KeyboardInterrupt, asyncio.CancelledError):
        sys.exit(refusal("stopped; the pods are deleted, and the files have what they had"))
    given.out.write_text(record_text(record))
    print(table(record), end="")
    print(f"record: {given.out}", file=sys.stderr)


def record_text(record: Record) -> str:
    """Write a record as JSON for files."""
    return msgspec.json.format(msgspec.json.encode(record)).decode() + "\n"


def refusal(text: str) -> int:
    """Print why there is no result; return the exit status."""
    print(f"test-kubelet: {text}", file=sys.stderr)
    return _REFUSED
