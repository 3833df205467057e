"""``make test-kubelet``: a kubelet that rewrites is found, one that does not is not, and nothing is left.

=================  ==========================================================================================
cgroups            files below a directory, as v1 and v2 show them; and v1 of this machine, with processes
kubelet            a stand-in, which rewrites nothing, its classes' weights each second, or quotas at a sync
=================  ==========================================================================================
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from corewise.kernel.cgroups.files import CgroupFiles
from corewise.kernel.cgroups.layout import QOSClass, Version
from corewise.kernel.host_files import read_boot_id
from corewise.kube.client import Client
from corewise.kube.config import load_config
from corewise.kube.resources import NODES
from corewise.topology import CPUSet
from experiments.kubelet_rewrites import command
from experiments.kubelet_rewrites.command import Options, examine
from experiments.kubelet_rewrites.marks import Kind, Machine, Watched, WatchedCgroup, mark_of
from experiments.kubelet_rewrites.observing import Rewrite
from experiments.kubelet_rewrites.pods import PLAIN_PODS, KubeletTestError, TestPods
from experiments.kubelet_rewrites.record import Kubelet, Record, Step, table
from experiments.kubelet_rewrites.trial import Lengths
from experiments.kubelet_rewrites.writers import writers_below
from kernel.cgroup_writes import layout_here
from kubedouble import LocalAPIServer
from measurements.kubelet_stand_in import (
    BOOT,
    CPUS,
    NAMESPACE,
    NODE,
    StandInKubelet,
    TickingClock,
    machine_tree,
)

ROOT = Path(__file__).parents[2]
DATA = ROOT / "experiments/kubelet_rewrites/data"
PAGE = ROOT / "docs/operate/kubelet-rewrites.md"
LENGTHS = Lengths(quiet=3.5, step=0.5)
IN_BACKGROUND = ("sh", "-c", 'trap "" INT; exec "$@"', "sh")
"""Starts a program as a shell without job control does in the background: it ignores SIGINT."""
REAL = layout_here(Version.V1, needs=("cpu", "cpuset"))
KINDS = [
    "v1",
    "v2",
    pytest.param(
        "real v1", marks=pytest.mark.skipif(REAL is None, reason="needs root and a writable cgroup v1")
    ),
]


class World:
    """A cluster with one node, which is this machine, and its kubelet."""

    def __init__(self, client: Client, kubelet: StandInKubelet, root: Path) -> None:
        self.client = client
        self.kubelet = kubelet
        self.clock = TickingClock()
        self.clock.tick = kubelet.tick
        self.options = Options(NODE, cgroup_root=kubelet.cgroup_root, root=root, lengths=LENGTHS)
        self.said: list[str] = []

    async def examine(self) -> Record:
        return await examine(self.client, self.options, clock=self.clock, say=self.said.append)


@asynccontextmanager
async def world(
    kind: str, api_server: LocalAPIServer, tmp_path: Path, **behavior: Any
) -> AsyncIterator[World]:
    root = Path("/") if kind == "real v1" else tmp_path / "machine"
    version = Version.V2 if kind == "v2" else Version.V1
    layout = REAL if kind == "real v1" else machine_tree(root, version)
    assert layout
    kubeconfig = tmp_path / "kubeconfig"
    api_server.write_kubeconfig(kubeconfig)
    async with Client(load_config(str(kubeconfig))) as client:
        await client.create(NODES.typed(dict), {"metadata": {"name": NODE}})
        info = {"bootID": read_boot_id(root), "kubeletVersion": "v1.36.2"}
        await client.patch(NODES.typed(dict), NODE, {"status": {"nodeInfo": info}}, subresource="status")
        top = f"/corewise-test-{os.getpid()}" if kind == "real v1" else "/"
        kubelet = StandInKubelet(client, layout, top, is_tree=kind != "real v1", **behavior)
        try:
            yield World(client, kubelet, root)
        finally:
            kubelet.close()


def rewrites(record: Record, *, new: bool = False) -> dict[str, list[Rewrite]]:
    """The rewrites of each step; ``new``: of new cgroups, too."""
    return {step.name: [each for each in step.rewrites if new or not each.new] for step in record.steps}


@pytest.mark.parametrize("kind", KINDS)
async def test_a_rewriting_kubelet_is_found(kind: str, api_server: LocalAPIServer, tmp_path: Path) -> None:
    async with world(kind, api_server, tmp_path, weights_every=1.0, syncs=True) as made:
        record = await made.examine()
        found = rewrites(record)
        weights = found["nothing happens"]
        assert {(each.cgroup, each.file) for each in weights} == {
            ("class Burstable", "cpu.weight" if kind == "v2" else "cpu.shares")
        }
        assert {each.value for each in weights} == {"10" if kind == "v2" else "102"}
        times = [each.after for each in weights]
        assert len(times) >= 3
        assert all(0.9 < later - sooner < 1.2 for sooner, later in pairwise(times))
        quota = "cpu.max" if kind == "v2" else "cpu.cfs_quota_us"
        synced = {each.cgroup for each in found["pods get an annotation"] if each.file == quota}
        assert synced == {f"{qos} pod" for qos in QOSClass}
        assert not [each for each in found["another pod starts"] if each.file == quota]


@pytest.mark.parametrize("kind", KINDS)
async def test_kubelet_without_rewrites_shows_none(
    kind: str, api_server: LocalAPIServer, tmp_path: Path
) -> None:
    async with world(kind, api_server, tmp_path) as made:
        before = made.kubelet.everything()
        record = await made.examine()
        assert [step.name for step in record.steps] == [
            "nothing happens",
            "another pod starts",
            "another pod ends",
            "pods get an annotation",
            "pods are resized in place",
            "containers restart",
        ]
        assert not any(rewrites(record).values())
        restarted = {each.cgroup for each in rewrites(record, new=True)["containers restart"]}
        assert restarted == {f"{qos} container" for qos in QOSClass}
        assert {f"{qos} pod" for qos in QOSClass} < {cgroup for cgroup, _ in record.marked}
        assert record.kept() == record.marked
        assert made.kubelet.everything() == before
        assert not await made.client.list(PLAIN_PODS, namespace=NAMESPACE)


@pytest.mark.parametrize("step", ["nothing happens", "another pod starts", "containers restart"])
async def test_stopped_test_leaves_nothing_behind(
    step: str, api_server: LocalAPIServer, tmp_path: Path
) -> None:
    async with world("v1", api_server, tmp_path) as made:
        before = made.kubelet.everything()

        def stop(said: str) -> None:
            if said.startswith(step):
                asyncio.get_running_loop().call_soon(testing.cancel)

        testing = asyncio.ensure_future(examine(made.client, made.options, clock=made.clock, say=stop))
        with pytest.raises(asyncio.CancelledError):
            await testing
        assert made.kubelet.everything() == before
        assert not await made.client.list(PLAIN_PODS, namespace=NAMESPACE)


@pytest.mark.skipif(REAL is None, reason="needs root and a writable cgroup v1")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_signalled_program_leaves_nothing_behind(
    number: signal.Signals, api_server: LocalAPIServer, tmp_path: Path
) -> None:
    async with world("real v1", api_server, tmp_path) as made:
        before = made.kubelet.everything()
        named = ("--kubeconfig", str(tmp_path / "kubeconfig"), "--node", NODE)
        placed = ("--cgroup-root", made.kubelet.cgroup_root, "--out", str(tmp_path / "record"))
        program = await asyncio.create_subprocess_exec(
            *IN_BACKGROUND,
            *(sys.executable, "-m", "experiments.kubelet_rewrites", *named, *placed),
            stderr=asyncio.subprocess.PIPE,
            cwd=ROOT,
        )
        assert program.stderr
        kubelet = asyncio.create_task(keep_ticking(made.kubelet))
        try:
            assert b"nothing happens" in await program.stderr.readline()
            program.send_signal(number)
            said = await program.stderr.read()
            assert await program.wait() == 2
        finally:
            if program.returncode is None:
                program.kill()
            kubelet.cancel()
        assert b"stopped; the pods are deleted" in said
        assert made.kubelet.everything() == before
        assert not await made.client.list(PLAIN_PODS, namespace=NAMESPACE)


async def keep_ticking(kubelet: StandInKubelet) -> None:
    """Let the kubelet act in real time."""
    while True:
        await kubelet.tick(0.0)
        await asyncio.sleep(0.1)


async def test_pods_that_never_run_are_removed(api_server: LocalAPIServer, tmp_path: Path) -> None:
    async with world("v1", api_server, tmp_path, starts=False) as made:
        with pytest.raises(KubeletTestError, match="waited 120 s until its containers run"):
            await made.examine()
        assert not await made.client.list(PLAIN_PODS, namespace=NAMESPACE)


async def test_pods_of_a_killed_test_are_removed(
    api_server: LocalAPIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world("v1", api_server, tmp_path) as made:

        async def killed(_: TestPods) -> None:
            pass

        with monkeypatch.context() as patch:
            patch.setattr(TestPods, "remove_all", killed)
            await made.examine()
        assert len(await made.client.list(PLAIN_PODS, namespace=NAMESPACE)) == 3
        await made.examine()
        assert not await made.client.list(PLAIN_PODS, namespace=NAMESPACE)


async def test_unknown_and_other_nodes_are_refused(api_server: LocalAPIServer, tmp_path: Path) -> None:
    async with world("v1", api_server, tmp_path) as made:
        made.options = replace(made.options, node="n2")
        with pytest.raises(KubeletTestError, match="the cluster has no node n2; it has: n1"):
            await made.examine()
        made.options = replace(made.options, node=NODE)
        elsewhere = {"status": {"nodeInfo": {"bootID": "another"}}}
        await made.client.patch(NODES.typed(dict), NODE, elsewhere, subresource="status")
        with pytest.raises(
            KubeletTestError, match=f"not node n1: its boot ID is {BOOT}, and the node's is another"
        ):
            await made.examine()
        assert not await made.client.list(PLAIN_PODS, namespace=NAMESPACE)


@pytest.mark.parametrize(
    ("arguments", "user", "told"),
    [
        ([], 0, "no kubeconfig is named: make test-kubelet KUBECONFIG=FILE"),
        (["--kubeconfig", "f"], 1000, "only root can change cgroups: sudo make test-kubelet"),
        (["--kubeconfig", "no-such-file"], 0, "no-such-file"),
    ],
)
def test_what_is_missing_is_named(
    arguments: list[str],
    user: int,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    with pytest.raises(SystemExit) as ended:
        command.main(arguments)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("test-kubelet: ")
    assert told in said


def test_the_writer_of_a_file_is_named(tmp_path: Path) -> None:
    with writers_below([tmp_path]) as writers:
        if not writers.known:
            pytest.skip("the kernel refuses fanotify")
        file = tmp_path / "cpu.shares"
        file.write_text("2")
        subprocess.run(["sh", "-c", f"echo 3 >{file}; sleep 0.2"], check=True)
        until = time.monotonic() + 30
        while (write := writers.last(str(file))) is None and time.monotonic() < until:
            time.sleep(0.01)
        assert write is not None
        assert write.process == "sh"
    assert writers_below([tmp_path / "missing"]).known is False


NODE_WIDE = WatchedCgroup("kubepods", "/kubepods")
OURS = WatchedCgroup("Burstable container", "/kubepods/burstable/pod1/c", Kind.CONTAINER)
OUR_POD = WatchedCgroup("Burstable pod", "/kubepods/burstable/pod1", Kind.POD)


@pytest.mark.parametrize(
    ("version", "cgroup", "file", "original", "mark"),
    [
        (Version.V1, NODE_WIDE, "cpu.cfs_quota_us", "-1", "1600000"),
        (Version.V1, OURS, "cpu.cfs_quota_us", "-1", "50000"),
        (Version.V1, OURS, "cpu.cfs_quota_us", "20000", "15000"),
        (Version.V1, OUR_POD, "cpu.cfs_quota_us", "20000", "25000"),
        (Version.V2, OUR_POD, "cpu.max", "20000 100000", "15000 100000"),
        (Version.V1, OURS, "cpu.shares", "262144", "262143"),
        (Version.V1, OURS, "cpu.idle", "0", "1"),
        (Version.V1, OURS, "cpuset.cpus", "0-3", "0-2"),
        (Version.V2, OURS, "cpuset.cpus", "", "0-2"),
        (Version.V1, OURS, "cpuset.cpus", "3", None),
        (Version.V2, NODE_WIDE, "cpu.max", "max 100000", "1600000 100000"),
        (Version.V2, OURS, "cpu.max", "max 50000", "25000 50000"),
        (Version.V2, OURS, "cpu.max", "20000 100000", "15000 100000"),
        (Version.V2, NODE_WIDE, "cpu.weight", "100", "101"),
    ],
)
def test_marks_differ_and_harm_nobody(
    version: Version, cgroup: WatchedCgroup, file: str, original: str, mark: str | None, tmp_path: Path
) -> None:
    layout = machine_tree(tmp_path, version)
    directory = layout.cpu / cgroup.path[1:]
    directory.mkdir(parents=True)
    (directory / "cpu.cfs_period_us").write_text("100000\n")
    machine = Machine(version, CPUSet.parse(CPUS))
    assert mark_of(Watched(cgroup, file), original, CgroupFiles(layout), machine) == mark


def test_the_table_names_writer_time_and_value() -> None:
    found = [
        Rewrite("class Burstable", "cpu.shares", "103", "102", after, "kubelet") for after in (12.3, 72.31)
    ]
    restarted = Rewrite("Burstable container", "cpu.shares", "", "51", 0.0, new=True)
    kubelet = Kubelet("v1.36.2", "containerd://1.7.24", "6.1.0", "Debian 12", "v1", "cgroupfs", 4)
    steps = [
        Step("nothing happens", 150.0, found),
        Step("another pod starts", 20.0, []),
        Step("pods are resized in place", 0.1, [], "the API server has no resize"),
        Step("containers restart", 20.0, [restarted]),
    ]
    marked = [("class Burstable", "cpu.shares"), ("kubepods", "cpu.shares")]
    record = Record(kubelet, True, steps, marked, {"kubepods cpu.idle": "the kernel has no such file"})
    text = table(record)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "nothing happens class Burstable cpu.shares kubelet 12.3, 72.3 s 102" in lines
    assert "another pod starts nothing is rewritten 20 s" in lines
    assert "containers restart Burstable container cpu.shares new cgroup 0.0 s 51" in lines
    assert "pods are resized in place: the API server has no resize" in lines
    assert lines[lines.index("Not rewritten in any step:") + 1] == "kubepods cpu.shares"
    assert lines[lines.index("Not marked:") + 1] == "kubepods cpu.idle: the kernel has no such file"
    assert json.loads(command.record_text(record))["kubelet"]["version"] == "v1.36.2"


@pytest.mark.parametrize("file", sorted(DATA.glob("*.json")), ids=lambda file: file.name)
def test_kept_records_are_read_and_on_the_page(file: Path) -> None:
    record = msgspec.json.decode(file.read_bytes(), type=Record)
    page = PAGE.read_text()
    runtime = record.kubelet.runtime.rpartition("/")[2]
    assert file.name in page
    seen = f"Kubelet {record.kubelet.version[1:]}, containerd {runtime}, {record.kubelet.driver} driver"
    assert seen in page
    assert {step.name for step in record.steps} == {row.split("  ")[0] for row in step_rows(record)}


def step_rows(record: Record) -> list[str]:
    """The table's rows of steps."""
    lines = table(record).splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("WHEN"))
    return lines[start + 1 : lines.index("", start)]
