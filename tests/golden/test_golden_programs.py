"""The programs do what they did: each goes through a fixed history as a process, compared with expected/.

What is compared: what they write to nodes and cgroups, Events, answers, refusals, and /metrics. Of /metrics,
all names, labels and texts count, and the values that the history decides; timings do not.
"""

from __future__ import annotations

import json
import shutil
import socket
import time
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar
from urllib.parse import parse_qs

import pytest

from golden import harness
from golden.cluster import MERGE, Cluster, Program, fetch, running_cluster, until
from golden.transcripts import ENVIRONMENT, INPUTS, WIDTHS, compare, compare_screens, masked, transcript

RATIO = "node.koordinator.sh/cpu-normalization-ratio"
WAITS = "node.corewise.io/interference"
AMPLIFICATION = "node.koordinator.sh/resource-amplification-ratio"
SERVE = ("--metrics-listen", "127.0.0.1:0")
ALONE = ("--no-leader-elect", "--manage-webhooks")


def shown(title: str, content: object) -> str:
    """Return a part of a golden file; texts and lists of them as lines, all else as JSON."""
    if isinstance(content, str):
        text = content
    elif isinstance(content, list) and all(isinstance(each, str) for each in content):
        text = "\n".join(content)
    else:
        text = json.dumps(content, indent=1, ensure_ascii=False, sort_keys=True)
    return f"=== {title}\n{text.rstrip()}\n"


MASKS = [
    (r"127\.0\.0\.1:\d+", "127.0.0.1:PORT"),
    (r"\b(?!0{8})[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "UID"),
    (r"\b20\d\d-\d\d-\d\dT[\d:.]+Z", "TIME"),
    (r'(?<="oldestSeconds": )[\d.e~-]+', "AGE"),
    (r"(?<=,0\.5,0\.5,0\.5,)[\d.e~-]+", "AGE"),
    (r"(?<=wrote,)\d+\.\d+", "TIME"),
    (r'"resourceVersion":"\d+"', '"resourceVersion":"N"'),
    (r'("(?:nodes|pods|noderesourcetopologies)"): \d+\.\d+', r"\1: AGE"),
]


def masked_of_programs(text: str, directory: Path) -> str:
    return masked(text.replace(str(directory), "DIR"), MASKS)


def node(cluster: Cluster, name: str) -> dict[str, Any]:
    """Return the ratios and amounts that a node states."""
    whole = cluster.get("Node", name)
    status = {key: whole.get("status", {}).get(key) for key in ("capacity", "allocatable")}
    return {"annotations": whole["metadata"].get("annotations", {}), **status}


def refusal(answer: tuple[int, Any]) -> str:
    status, document = answer
    return f"{status} {document.get('reason', '')}: {document.get('message', '')}"


MANAGED = ("fast", "turbo", "slow", "odd", "bare", "label", "excluded", "own", "garbage", "busy")
SCHEDULER_VALUES = (
    "corewise_(events|extender_requests|webhook_requests|bind_refusals)_total",
    "corewise_(leader|cache_objects|ledger_entries|cpu_claim_conflicts|interference_config_valid)",
    "corewise_owned_cpus_path",
)
AGENT_VALUES = (
    "corewise_(quota|setting|nri|pinning|suppression)_",
    "corewise_(cache_objects|config_valid|offline_pods|agent_cpu_normalization_ratio)",
)
MANAGER_VALUES = (
    "corewise_nodes",
    "corewise_node_(cpu|amplif|raw|problem)",
    "corewise_(config_valid|leader|cache_objects)",
)
LARGE = {
    "kind": "Pod",
    "metadata": {"name": "large", "namespace": "apps"},
    "spec": {
        "nodeName": "busy",
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "8"}}}],
    },
    "status": {"phase": "Running"},
}
"""With it, pods request more of the node than it has unamplified."""


def configure(cluster: Cluster, **keys: str) -> tuple[int, Any]:
    data = {key.replace("_", "-"): text for key, text in keys.items()}
    return cluster.patch("ConfigMap", "slo-controller-config", {"data": data}, "corewise-system")


def test_the_manager_says_what_it_would_write(tmp_path: Path) -> None:
    with running_cluster(tmp_path, INPUTS / "clusters" / "managed.json") as cluster:
        options = (*harness.identity(cluster, "manager"), "--no-leader-elect", "--dry-run")
        with Program(tmp_path, "manager", *options) as program:
            until(lambda: len(program.printed.splitlines()) >= 10, "few lines")
        lines = sorted(program.printed.splitlines())
    compare("manager-dry-run", masked_of_programs(shown("printed, sorted", lines), tmp_path))


def test_manager_brings_nodes_to_ratios_and_says_why(tmp_path: Path) -> None:
    parts = []
    with running_cluster(tmp_path, INPUTS / "clusters" / "managed.json") as cluster:
        options = (*harness.identity(cluster, "manager"), "--webhook-listen", "127.0.0.1:0", *ALONE, *SERVE)
        with Program(tmp_path, "manager", *options, "--amplify-by", "webhook") as program:
            program.is_ready()
            until(lambda: cluster.get("ValidatingWebhookConfiguration"), "no webhook")
            until(lambda: cluster.get("MutatingWebhookConfiguration"), "no webhook")

            def gets(name: str, cpu: str) -> None:
                until(
                    lambda: cluster.kubelet_writes(name, "8")[1]["status"]["allocatable"]["cpu"] == cpu, name
                )

            for name, cpu in (("fast", "16"), ("turbo", "20"), ("slow", "8"), ("own", "24"), ("busy", "16")):
                gets(name, cpu)
            for name in ("slow", "excluded"):
                until(lambda name=name: RATIO in node(cluster, name)["annotations"], name)  # type: ignore[misc]
            parts += [shown(f"node {name}", node(cluster, name)) for name in MANAGED]
            bad = configure(cluster, cpu_normalization_config='{"enable": true, "defaultRatio": 0.5}')
            parts.append(shown("a bad configuration is refused", refusal(bad)))
            ratio = {"metadata": {"annotations": {AMPLIFICATION: "x"}}}
            parts.append(shown("a bad ratio is refused", refusal(cluster.patch("Node", "fast", ratio))))
            mine = {"status": {"allocatable": {"cpu": "64"}}}
            touched = cluster.call("PATCH", "/api/v1/nodes/fast/status", mine, MERGE)[1]["status"]
            parts.append(shown("a status that somebody else writes is put right", touched["allocatable"]))
            cluster.create(LARGE)
            configure(cluster, cpu_normalization_config='{"enable": false}')
            for name, cpu in (("fast", "8"), ("turbo", "8"), ("own", "12"), ("busy", "16")):
                gets(name, cpu)
            for name in ("odd", "bare"):
                until(lambda name=name: RATIO in node(cluster, name)["annotations"], name)  # type: ignore[misc]
            until(lambda: len(cluster.events()) >= 6, "Events are missing")
            parts += [
                shown(f"node {name}, disabled", node(cluster, name)) for name in ("fast", "own", "busy")
            ]
            parts.append(shown("events", cluster.events()))
            parts.append(shown("metrics", program.metrics(*MANAGER_VALUES)))
    compare("manager", masked_of_programs("".join(parts), tmp_path))


def test_the_scheduler_answers_binds_and_explains(tmp_path: Path) -> None:
    parts: list[str] = []
    names = ["n1", "n2", "n3", "bare", "garbled", "unheard-of"]
    with running_cluster(tmp_path, INPUTS / "clusters" / "scheduled.json") as cluster:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            address = f"127.0.0.1:{probe.getsockname()[1]}"
        options = (*harness.identity(cluster, "scheduler"), "--listen", address, *ALONE, *SERVE)
        with Program(tmp_path, "scheduler", *options) as program:
            program.is_ready()
            headers = {"Authorization": f"Bearer {cluster.token('corewise-system', 'reader')}"}
            base = f"https://{address}"

            shown_to_it = harness.with_client_certificate(cluster)

            def call(verb: str, body: object = None) -> dict[str, Any]:
                method = "GET" if body is None else "POST"
                status, answer = fetch(f"{base}/{verb}", shown_to_it, method, body, headers)
                return {"status": status, "answer": answer}

            def bind(name: str, to: str) -> str:
                uid = cluster.get("Pod", name, "apps")["metadata"]["uid"]
                pod = {"PodName": name, "PodNamespace": "apps", "PodUID": uid}
                answer = call("bind", {**pod, "Node": to})
                bound = cluster.get("Pod", name, "apps")
                annotations = bound["metadata"].get("annotations", {})
                return f"{answer} node {bound['spec'].get('nodeName')}, annotations {annotations}"

            def asked(name: str, verb: str = "filter") -> str:
                pod = cluster.get("Pod", name, "apps")
                return shown(f"{verb} {name}", call(verb, {"Pod": pod, "Nodes": None, "NodeNames": names}))

            for name in ("owner", "share", "odd", "misspelled", "late", "exclusive"):
                parts += [asked(name), asked(name, "prioritize")]
            parts.append(shown("bind owner to n1", bind("owner", "n1")))
            parts.append(shown("bind late to n1: not enough CPUs are left", bind("late", "n1")))
            parts.append(shown("bind late to n2", bind("late", "n2")))
            parts.append(shown("bind share to n3: too small", bind("share", "n3")))
            parts.append(shown("bind share to n1", bind("share", "n1")))
            parts += [asked("odd"), asked("late")]
            for body in (b"{", b"", {"Pod": {}, "NodeNames": ["n1"]}, {"Pod": {"metadata": {"name": "p"}}}):
                parts.append(shown(f"filter {body!r}", call("filter", body)))
                parts.append(shown(f"prioritize {body!r}", call("prioritize", body)))
            for query in ("explain", "explain?pod=apps/late", "explain?pod=apps/late&nodes=n2"):
                parts.append(shown(query, call(query)))
            parts.append(shown("explain?pod=apps/share&nodes=all", call("explain?pod=apps/share&nodes=all")))
            until(lambda: any("NoNodeSuits" in each for each in cluster.events()), "no Event")
            parts.append(shown("events", cluster.events()))
            installed = 'corewise_owned_cpus_path{path="policy"} 1'
            until(lambda: installed in program.metrics("corewise_owned_cpus_path"), "no policy")
            parts.append(shown("metrics", program.metrics(*SCHEDULER_VALUES)))
    compare("scheduler", masked_of_programs("".join(parts), tmp_path))


def machine_of(cluster: Cluster, root: Path) -> Path:
    """Make the files of node n1, with the cgroups of its pod; return those of the pod's slice."""
    harness.make_machine("intel", root)
    uid = cluster.get("Pod", "web", "apps")["metadata"]["uid"].replace("-", "_")
    files = json.loads((INPUTS / "trees" / "fresh.json").read_text())
    for path, text in files.items():
        file = root / path.replace("uid_web", uid)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root / f"sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid}.slice"


def test_the_agent_divides_quotas_repairs_them_and_reports(tmp_path: Path) -> None:
    parts = []
    root = tmp_path / "machine"
    with running_cluster(tmp_path, INPUTS / "clusters" / "agent.json") as cluster:
        pod = machine_of(cluster, root)
        options = (*harness.identity(cluster, "agent"), "--node-name", "n1", "--root", str(root))
        quiet = ("--no-nri", "--no-latency-probe")
        environment = {**ENVIRONMENT, "KUBECONFIG": str(cluster.kubeconfig)}
        with Program(tmp_path, "agent", *options, *quiet, "--once", "--dry-run") as program:
            program.ends()
        parts.append(shown("printed by a dry run", program.printed))
        with Program(tmp_path, "agent", *options, *quiet, "--interval", "1s", *SERVE) as program:

            def quotas(text: str) -> None:
                file = pod / "cri-containerd-weba.scope" / "cpu.max"
                until(lambda: file.read_text().split()[0] == text, f"{file} is not {text}")

            program.is_ready()
            quotas("66667")
            for ratio, quota in (("2.00", "50000"), ("1.50", "66667")):
                cluster.patch("Node", "n1", {"metadata": {"annotations": {RATIO: ratio}}})
                quotas(quota)
            (pod / "cri-containerd-weba.scope" / "cpu.max").write_text("90000 100000\n")
            quotas("66667")
            cluster.patch("Node", "n1", {"metadata": {"annotations": {RATIO: "lots"}}})
            for once in (
                'loop="oversubscription"',
                'loop="topology"',
                'ratio_unreadable_total{node="n1"} 1',
                'result="ok"',
            ):
                until(lambda once=once: once in program.metrics("corewise_agent_ratio"), once)  # type: ignore[misc]

            def annotations() -> dict[str, str]:
                stated: dict[str, str] = cluster.get("NodeResourceTopology", "n1")["metadata"]["annotations"]
                return stated

            until(lambda: WAITS in annotations(), "no report of waits")
            reported = cluster.get("NodeResourceTopology", "n1")
            parts.append(shown("NodeResourceTopology", {**reported, "metadata": annotations()}))
            parts.append(shown("annotations of the Node", node(cluster, "n1")["annotations"]))
            parts.append(shown("events", cluster.events()))
            parts.append(shown("metrics", program.metrics(*AGENT_VALUES)))
        lines = ("audit --root machine -o csv", "agent restore --root machine")
        parts.append(transcript(lines, tmp_path, environment=environment))
    text = "".join(parts).replace(pod.name.partition("-pod")[2].removesuffix(".slice"), "UID")
    compare("agent", masked_of_programs(text, tmp_path))


def test_openstack_host_agent_and_placement_users_match_golden(tmp_path: Path) -> None:
    shutil.copytree(INPUTS / "compute", tmp_path, dirs_exist_ok=True)
    host = ("--topology", "topology.json", "--config", "nova.conf", "--host", "n1")
    with Program(
        tmp_path, "compute", "run", *host, "--state-dir", "hosts/n1", "--standalone", *SERVE
    ) as program:
        program.is_ready()
        placement = "--placement-url " + program.find(r"--placement-url (\S+)")
        lines = PLACEMENT.replace("PLACEMENT", placement).strip().splitlines()
        seen = transcript([line.strip() for line in lines], tmp_path)
        seen += shown("metrics", program.metrics("corewise_compute"))
    compare("compute-placement", masked_of_programs(seen, tmp_path))


G = "00000000-0000-0000-0000-00000000000"
N1 = "--topology topology.json --config nova.conf --host n1"
PLACEMENT = f"""
    compute inventory {N1} PLACEMENT
    compute inventory {N1} PLACEMENT -o json
    compute inventory --topology topology.json --config nova.conf --host n9 PLACEMENT
    compute request --flavor dedicated.json PLACEMENT
    compute request --flavor dedicated.json PLACEMENT -o json
    compute schedule --flavor dedicated.json --hosts hosts PLACEMENT --guest 1
    compute schedule --flavor dedicated.json --hosts hosts PLACEMENT --guest {G}1
    compute schedule --flavor small.json --hosts hosts PLACEMENT --guest {G}2 -o json
    compute schedule --flavor large.json --hosts hosts PLACEMENT --guest {G}3
    compute schedule --flavor large.json --hosts hosts PLACEMENT --guest {G}3 -o json
    compute status {N1} --ledger hosts/n1/ledger.json
    compute reshape {N1} --ledger hosts/n1/ledger.json PLACEMENT --dry-run
    compute run --once --dry-run {N1} PLACEMENT
    compute delete {G}1 --hosts hosts PLACEMENT
    compute delete {G}1 --hosts hosts PLACEMENT
    compute request --flavor dedicated.json --placement-url http://127.0.0.1:9
"""


def test_openstack_scenario_shows_hosts_guests_and_the_upgrade(tmp_path: Path) -> None:
    pytest.importorskip("libvirt", reason="one of its hosts needs the extra libvirt: make libvirt")
    with ExitStack() as both:
        programs = {}
        for form in ("table", "json"):
            (directory := tmp_path / form).mkdir()
            arguments = ("up", "--scenario", "openstack", "--for", "0.1s", "--state", "state", "-o", form)
            programs[form] = both.enter_context(Program(directory, *arguments))
        for form, program in programs.items():
            program.ends()
            compare(f"up-openstack-{form}", masked_of_programs(program.printed, tmp_path))


class FakePrometheus(BaseHTTPRequestHandler):
    """Answers every query with a value of n1, one of n2 and one of a node that the cluster does not have."""

    asked: ClassVar[set[str]] = set()

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.asked.add(form["query"][0])
        names = ("n1", "n2", "strange")
        value = str(time.time() + 3600) if "timestamp(" in form["query"][0] else "0.5"
        result = [{"metric": {"node": name}, "value": [time.time(), value]} for name in names]
        body = json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def test_prometheus_queries_and_reports_on_answers_are_unchanged(tmp_path: Path) -> None:
    (tmp_path / "nodes").write_text("n1\nn2\nn3\n")
    presets = ("corewise", "pcm", "intel_rdt", "cadvisor", "node_exporter")
    parts = []
    with ThreadingHTTPServer(("127.0.0.1", 0), FakePrometheus) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        check = f"check metrics --prometheus http://127.0.0.1:{server.server_port} --nodes nodes --preset"
        for preset in presets:
            FakePrometheus.asked.clear()
            forms = ("table", "wide", "json", "csv", "name") if preset == "corewise" else ("table",)
            parts.append(transcript([f"{check} {preset} -o {form}" for form in forms], tmp_path))
            parts.append(shown(f"asked for the preset {preset}", sorted(FakePrometheus.asked)))
        screens = {width: transcript([f"{check} corewise"], tmp_path, columns=width) for width in WIDTHS}
        server.shutdown()
    compare("check-metrics", masked_of_programs("".join(parts), tmp_path))
    compare_screens("check-metrics", screens)
