"""``corewise up`` as a user runs it: the whole cluster in its processes, its report, and how it ends."""

from __future__ import annotations

import asyncio
import csv
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from corewise import __version__
from corewise.cli import main
from corewise.kube.client import Client
from corewise.kube.config import load_config
from corewise.kube.resources import NODES, PODS
from corewise.vocabulary.cpu_annotations import stated_cpus
from corewise.vocabulary.names import CPU_BASIC_INFO, RESOURCE_STATUS
from corewise.vocabulary.owned_cpus import read_owned_cpus
from corewise_lab.cli.folders import REPLACED
from corewise_lab.control_plane import ClusterError, Folder, api_server, copy_private
from corewise_lab.openb import read_machines
from corewise_lab.pods import manifest

WITHIN = 300.0
SHORT = ("--for", "3s")
DATA = os.environ.get("COREWISE_TEST_DATA", "")
PLAIN_NODES = NODES.typed(dict[str, Any])
PLAIN_PODS = PODS.typed(dict[str, Any])


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "corewise", "up", *arguments]


def up(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=WITHIN, check=False)


def report_of(*arguments: str) -> dict[str, Any]:
    done = up(*arguments, "-o", "json")
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def wait_for(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + WITHIN
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


@contextmanager
def running(state: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A cluster that runs until it is told; the block begins when it is at rest."""
    with (state.parent / "stderr").open("w+") as talk:
        process = subprocess.Popen(
            command("--state", str(state), *arguments), stdout=subprocess.PIPE, stderr=talk, text=True
        )
        try:
            wait_for(
                lambda: "Ctrl-C" in (state.parent / "stderr").read_text() or process.poll() is not None,
                "the cluster does not come up",
            )
            assert process.poll() is None, (state.parent / "stderr").read_text()
            yield process
            logs = [*state.glob("*.log")]
            assert logs
            assert not [each for each in logs if "is forbidden: User" in each.read_text()]
        finally:
            process.kill()
            process.communicate()


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.fixture(scope="module")
def builtin() -> dict[str, Any]:
    return report_of(*SHORT, "--nodes", "4")


def test_spread_per_requested_cpu_falls_below_1_05(
    builtin: dict[str, Any],
) -> None:
    assert builtin["spread"]["off"] > 2
    assert builtin["spread"]["on"] < 1.05


def test_each_node_reports_facts_and_compute_off_on(builtin: dict[str, Any]) -> None:
    assert len(builtin["nodes"]) == 4
    for node in builtin["nodes"]:
        assert node["cpuFacts"]["cpuModel"]
        ratio = round(float(node["normalizationRatio"]) * 100)
        assert node["amplifiedCPUMilli"] == node["rawCPUMilli"] * ratio // 100
        assert node["schedulableCPUMilli"]["on"] == node["rawAllocatableCPUMilli"] * ratio // 100
        assert node["computePerRequestedCPU"]["off"] * 0.98 < float(node["normalizationRatio"])
        assert 0.95 < node["computePerRequestedCPU"]["on"] < 1.05
        assert node["verdict"] is None


def test_without_cel_the_webhook_amplifies(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['cel_expr_python'] = None\n")
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        command(*SHORT, "--nodes", "2", "-o", "json"),
        capture_output=True, text=True, timeout=WITHIN, check=False, env=os.environ | {"PYTHONPATH": path},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "cel-expr-python is not installed" in done.stderr
    assert "the manager's webhook amplifies, as on Kubernetes before 1.36" in done.stderr
    assert json.loads(done.stdout)["spread"]["on"] < 1.05


def test_amplified_nodes_take_more_pods_without_refusals(builtin: dict[str, Any]) -> None:
    assert builtin["schedulableCPUMilli"]["on"] > builtin["schedulableCPUMilli"]["off"]
    assert builtin["requestedCPUMilli"]["on"] > builtin["requestedCPUMilli"]["off"]
    assert builtin["pods"]["rejected"] == {"off": 0, "on": 0}


def test_offers_limit_offline_pods_and_protect_online_pods(
    builtin: dict[str, Any],
) -> None:
    off, on = builtin["colocation"]["off"], builtin["colocation"]["on"]
    assert builtin["colocation"]["nodes"] == 4
    assert off["offeredCPUs"] is None, "offline pods are bounded by nothing but weights"
    assert off["utilization"] > 0.99
    assert on["utilization"] < 0.95
    assert on["onlineSlowdown"]["mean"] < off["onlineSlowdown"]["mean"]
    assert on["onlineSlowdown"]["worst"] < off["onlineSlowdown"]["worst"]
    assert on["offlineCPUs"] <= on["offeredCPUs"] * 1.02
    assert on["offlineCPUs"] > 0.9 * on["offeredCPUs"]
    assert all(node["colocation"]["on"]["offlineCPUs"] > 0 for node in builtin["nodes"])


def test_table_shows_nodes_with_offline_pods_off_on() -> None:
    done = up(*SHORT, "--scenario", "colocation")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    off, on = (line for line in lines if "offline pods use" in line and line.startswith("corewise"))
    lost = r"online pods [0-9.]+% slower beside offline pods, at worst [0-9]+%"
    got = r"offline pods use [0-9.]+ of [0-9.]+ idle CPUs; nodes [0-9]+% busy"
    assert re.fullmatch(f"corewise off  {lost}; {got}", off)
    assert re.fullmatch(f"corewise on   {lost}; {got}", on)
    assert lines[-1].startswith("Offline pods use "), "nothing is normalized"
    (header,) = (line for line in lines if "ONLINE SLOWDOWN OFF" in line)
    assert header.startswith("NODE")
    (noht,) = (line for line in lines if line.startswith("colo-noht-0") and "Xeon" not in line)
    assert noht.split()[-4:] == ["0.0%", "(0%)", "0.0%", "(0%)"], "no thread has a sibling that slows it"


def test_the_report_names_time_and_memory(builtin: dict[str, Any]) -> None:
    assert builtin["seconds"].keys() >= {"load", "settle", "total"}
    assert all(
        builtin["residentMemoryBytes"][name] for name in ("apiServer", "manager", "scheduler", "simulation")
    )
    assert builtin["failedRequests"] == 0, builtin["lastFailure"]


def test_ratioless_model_gets_a_verdict_while_others_continue() -> None:
    done = up(*SHORT, "--scenario", "unknown-model")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "scenario unknown-model: 3 nodes, 3 CPU models"
    assert [line for line in lines if line.startswith("turin-0") and "UnknownCPUModel" in line]
    assert [line for line in lines if line.startswith("genoa-0") and "2.53" in line]
    assert [line for line in lines if "2 of 3 nodes at their ratios" in line]


def test_real_dump_runs_and_nodes_report_missing_facts(tmp_path: Path) -> None:
    amounts = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    nodes = [
        {"kind": "Node", "metadata": {"name": name}, "status": {"capacity": amounts, "allocatable": amounts}}
        for name in ("known", "unknown")
    ]
    topology = {
        "kind": "NodeResourceTopology",
        "metadata": {"name": "known", "annotations": {CPU_BASIC_INFO: '{"cpuModel":"Neoverse-N1"}'}},
    }
    half = {"cpu": "8", "memory": "8Gi"}
    pods = [
        {
            "kind": "Pod",
            "metadata": {"name": f"api-{number}", "namespace": "shop"},
            "spec": {
                "nodeName": "known",
                "containers": [{"name": "api", "resources": {"requests": half, "limits": half}}],
            },
            "status": {"phase": "Running"},
        }
        for number in range(4)
    ]
    dump = tmp_path / "dump.json"
    dump.write_text(json.dumps({"kind": "List", "items": [*nodes, topology, *pods]}))
    report = report_of(*SHORT, "--from", str(dump))
    known, unknown = report["nodes"]
    assert known["normalizationRatio"] == "2.05"
    assert (unknown["normalizationRatio"], unknown["verdict"]["reason"]) == (None, "CPUFactsMissing")
    assert known["pods"] == {"off": 2, "on": 4}, "a dump of amplified nodes: raw ones have no room for two"
    assert report["pods"]["rejected"] == {"off": 2, "on": 0}


def test_trace_run_prints_its_time_and_memory(tmp_path: Path) -> None:
    with (tmp_path / "nodes.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["sn", "cpu_milli", "memory_mib", "gpu", "model"])
        rows.writerows([f"node-{index}", (32_000, 96_000)[index % 2], 262_144, 0, ""] for index in range(12))
    with (tmp_path / "pods.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(
            "name cpu_milli memory_mib num_gpu gpu_milli qos pod_phase scheduled_time".split()  # noqa: SIM905
        )
        rows.writerows([f"pod-{index}", 8000, 4096, 0, 0, "LS", "Running", index] for index in range(30))
    done = up(*SHORT, "--from-openb", str(tmp_path / "nodes.csv"), str(tmp_path / "pods.csv"))
    assert done.returncode == 0, done.stderr
    assert "12 nodes, 5 CPU models" in done.stdout
    assert "loaded, 30 pods in place after" in done.stdout
    assert "at their ratios" in done.stdout
    assert "resident memory: apiServer" in done.stdout
    assert "30 running pods placed" in done.stdout


@pytest.mark.skipif(not DATA, reason="COREWISE_TEST_DATA does not name the folder of the openb trace")
def test_tenth_of_the_trace_reaches_its_ratios(tmp_path: Path) -> None:
    """It has all models of the whole trace."""
    files = []
    for name in ("openb_node_list_all_node.csv", "openb_pod_list_default.csv"):
        head, *rows = Path(DATA, name).read_text().splitlines(keepends=True)
        files.append(tmp_path / name)
        files[-1].write_text("".join([head, *rows[::10]]))
    machines, whole = (read_machines(path)[0] for path in (files[0], Path(DATA, files[0].name)))
    assert {each.model for each in machines} == {each.model for each in whole}
    report = report_of("--for", "20s", "--from-openb", *map(str, files))
    assert len(report["nodes"]) == len(machines) == 153
    assert all(node["normalizationRatio"] for node in report["nodes"])
    assert report["spread"]["on"] < 1.05
    assert report["spread"]["off"] > 2


def test_ctrl_c_reports_and_next_run_resumes_state(
    tmp_path: Path,
) -> None:
    state, kubeconfig = tmp_path / "state", tmp_path / "kubeconfig"
    with running(state, "--nodes", "2", "--kubeconfig-out", str(kubeconfig), "-o", "json") as process:
        told = (tmp_path / "stderr").read_text()
        assert f"export KUBECONFIG={kubeconfig}" in told
        page = told.partition("To look at it: ")[2].split()[0]
        with urlopen(f"{page}/api/session") as answer:  # noqa: S310 - it is on loopback
            session = json.load(answer)
        assert session["cluster"] == "corewise", "the name of the kubeconfig's context"
        assert session["version"].startswith(__version__)
        assert kubeconfig.stat().st_mode & 0o077 == 0
        process.send_signal(signal.SIGINT)
        first = json.loads(process.communicate(timeout=WITHIN)[0])
        assert process.returncode == 0
    assert {file.name for file in state.iterdir()} <= {*REPLACED, "lock", "objects"}
    second = report_of(*SHORT, "--nodes", "2", "--state", str(state))
    assert second["spread"]["off"] is None, "corewise was on already"
    assert second["pods"]["on"] == first["pods"]["on"]
    assert second["spread"]["on"] < 1.05


def test_early_ctrl_c_ends_immediately_and_says_so() -> None:
    with subprocess.Popen(
        command("--for", "60s"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stdout.readline().startswith("scenario builtin: 8 nodes")
        process.send_signal(signal.SIGINT)
        _, talk = process.communicate(timeout=WITHIN)
    assert process.returncode == 130
    assert talk == "corewise: stopped before there was anything to report\n"


def test_terminal_shows_what_a_start_waits_for() -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm"}
    run = command("--nodes", "2", *SHORT)
    said = b""
    with subprocess.Popen(run, stdout=subprocess.DEVNULL, stderr=theirs, env=environment) as process:
        os.close(theirs)
        with suppress(OSError):  # Linux' way to say that the other end is closed
            while part := os.read(ours, 4096):
                said += part
    os.close(ours)
    assert process.returncode == 0
    lines = re.findall(r"\r\x1b\[K([a-z][^\r]*) …", said.decode())
    steps = [
        "starting the API server",
        "creating 2 nodes and their pods",
        "measuring what pods get, corewise off",
        "simulating nodes with offline pods",
        "starting the manager and the scheduler",
        "measuring what pods get, corewise on",
        "all nodes have their ratios: counting writes of nodes while nothing changes",
    ]
    assert [*dict.fromkeys(each for each in lines if each in steps)] == steps
    assert said.endswith(b"\r\x1b[K"), "the line goes away"


def test_vanished_reader_ends_the_run_without_a_traceback() -> None:
    with subprocess.Popen(
        command("--nodes", "1", *SHORT), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(WITHIN) == 1


def test_processes_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    with running(tmp_path / "state", "--nodes", "1") as process:
        pids = children(process.pid)
        assert len(pids) == 4, "the API server, the manager, the scheduler and the web page"
        process.kill()
        process.wait()
        wait_for(lambda: all(map(is_gone, pids)), "a child outlived its parent")


@pytest.mark.parametrize(("index", "name"), [(0, "the API server"), (1, "the manager"), (2, "the scheduler")])
def test_dead_process_ends_the_run_and_is_named(tmp_path: Path, index: int, name: str) -> None:
    with running(tmp_path / "state", "--nodes", "1") as process:
        os.kill(sorted(children(process.pid))[index], signal.SIGKILL)
        process.wait(timeout=WITHIN)
        assert process.returncode == 3
        assert f"corewise: {name} was killed by SIGKILL" in (tmp_path / "stderr").read_text()


async def test_real_scheduler_gives_owned_cpus_after_state_resumes(
    tmp_path: Path,
) -> None:
    state, kubeconfig = tmp_path / "state", tmp_path / "kubeconfig"
    for name in ("first", "second"):
        with running(state, "--nodes", "1", "--kubeconfig-out", str(kubeconfig)):
            async with Client(load_config(str(kubeconfig))) as client:
                owner = manifest(name, cpu_milli=2000, memory=1 << 30, qos_class="LSE")
                await client.create(PLAIN_PODS, owner, "default")
                async with asyncio.timeout(WITHIN):
                    pod: dict[str, Any] = {"spec": {}}
                    while not pod["spec"].get("nodeName"):
                        await asyncio.sleep(0.02)
                        pod = await client.get(PLAIN_PODS, name, "default")
                pods = [await client.get(PLAIN_PODS, each, "default") for each in {"first", name}]
                (node,) = await client.list(PLAIN_NODES)
    (container,) = pods[0]["spec"]["containers"]
    assert container["resources"]["requests"]["corewise.io/owned-cpus"] == "2"
    owned = [stated_cpus(pod["metadata"]["annotations"][RESOURCE_STATUS]).cpus for pod in pods]
    assert list(map(len, owned)) == [2, 2]
    assert not set(owned[0]) & set(owned[1])
    ledger = read_owned_cpus(node["metadata"]["annotations"]).owners.values()
    assert {each.name for each in ledger} == {"first", "second"}


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--for", "soon"), 2, "'soon' is not a duration: write 60s, 5m, 1h or 7d"),
        (("--for", "0s"), 2, "not a duration"),
        (("--nodes", "0"), 2, "0 is not in the range"),
        (("--from", "x", "--from-openb", "x", "y"), 2, "exclude each other"),
        (("--from", "x", "--nodes", "3"), 2, "--nodes goes with a scenario"),
        (("--from", "none.json"), 5, "none.json: No such file"),
        (("--from-openb", "none.csv", "none.csv"), 5, "none.csv: No such file"),
        (("--scenario", "none.yaml"), 5, "  unknown-model  three machines"),
        (("--kubeconfig-out", "none/kubeconfig"), 5, "cannot write none/kubeconfig: there is no directory"),
        (("--kubeconfig-out", "/proc/kubeconfig"), 5, "cannot write /proc/kubeconfig: "),
    ],
)
def test_a_wrong_call_is_told_in_a_line(
    arguments: tuple[str, ...], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["up", *arguments])
    said = capsys.readouterr()
    assert (ended.value.code, said.out) == (code, "")
    assert message in said.err
    assert "Traceback" not in said.err


@pytest.mark.parametrize("largest", [1000, 3000, 100_000])
def test_full_disk_is_reported_in_an_actionable_line(tmp_path: Path, largest: int) -> None:
    """A limit on the size of every file is to a program what a full disk is."""
    limited = (
        "import resource, sys; from corewise.cli import main;"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({largest}, {largest})); main(sys.argv[1:])"
    )
    state = tmp_path / "state"
    done = subprocess.run(
        [sys.executable, "-c", limited, "up", "--nodes", "3", "--state", str(state)],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 3
    assert re.search(f"(could not write to|cannot write( to)?|Internal error occurred:) {state}", done.stderr)
    assert not re.search("Traceback|never awaited", done.stderr)


def test_kubeconfig_is_never_written_into_a_foreign_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target, theirs = (tmp_path / name for name in ("source", "target", "theirs"))
    source.write_text("a key")
    target.write_text("of a former run")
    copy_private(source, target)
    assert (target.read_text(), target.stat().st_mode & 0o777) == ("a key", 0o600)
    copy_private(target, target)
    assert target.read_text() == "a key"

    theirs.touch()
    unlink = Path.unlink

    def too_late(path: Path, *, missing_ok: bool = False) -> None:
        unlink(path, missing_ok=missing_ok)
        path.symlink_to(theirs)

    monkeypatch.setattr(Path, "unlink", too_late)
    with pytest.raises(ClusterError, match=r"cannot write .*target: File exists"):
        copy_private(source, target)
    assert theirs.read_text() == ""


async def test_children_import_nothing_from_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "queue.py").write_text("raise SystemExit('imported')")
    monkeypatch.chdir(tmp_path)
    async with api_server(Folder(tmp_path)) as child:
        assert child.alive


def test_page_of_a_run_has_measured_worths(tmp_path: Path) -> None:
    page = tmp_path / "report.md"
    done = up("--nodes", "3", *SHORT, "--report", str(page), "-o", "json")
    assert done.returncode == 0, done.stderr
    assert f"wrote {page}" in done.stderr
    text, document = page.read_text(), json.loads(done.stdout)
    off = [node["computePerRequestedCPU"]["off"] for node in document["nodes"]]
    assert (
        f"As measured, one CPU in a request is worth {min(off):.2f} to {max(off):.2f} baseline CPUs" in text
    )
    offered = document["schedulableCPUMilli"]["on"] / 1000
    assert f"Nodes offer {offered:g} schedulable CPUs" in text
    assert "Offline pods use" in text
