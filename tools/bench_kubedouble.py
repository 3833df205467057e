"""Time kubedouble, and what a Python project may use in its place, from start to the first LIST.

    python tools/bench_kubedouble.py --binaries DIRECTORY --kmock PYTHON

Each run is a new process, and its time includes imports. The LIST is of namespaces (kmock: pods). The
memory is that of the server's processes after the LIST (VmRSS): a test's own, where the server is in it.

| line | what runs |
|---|---|
| kubedouble | the context manager behind the fixture, in the process of a test |
| kubedouble, again | the same in a process that has had one: what each further test pays |
| kube-apiserver, etcd | the binaries, as envtest starts them: /readyz, then the LIST |
| kmock | its KubernetesEmulator, in the process of a test, by the Python that has it |
"""

from __future__ import annotations

import argparse
import shutil
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from corewise_lab.control_plane import reserve_port

RUNS = 10
TOKEN = "bench"  # noqa: S105 - of a server that lives for seconds
KUBEDOUBLE = """
import sys, time
begun = time.perf_counter()
import http.client, json, ssl
from base64 import b64decode
from pathlib import Path
from kubedouble.testing import run_server

def listed(server):
    document = json.loads(server.kubeconfig.read_text())
    context = ssl.create_default_context(cadata=server._server.ca_pem)
    user = document["users"][0]["user"]
    pair = server.kubeconfig.with_name("pair")
    pair.write_bytes(b64decode(user["client-certificate-data"]) + b64decode(user["client-key-data"]))
    context.load_cert_chain(pair)
    connection = http.client.HTTPSConnection(server.url.removeprefix("https://"), context=context)
    connection.request("GET", "/api/v1/namespaces")
    assert len(json.load(connection.getresponse())["items"]) == 4

for _ in range(int(sys.argv[1])):
    with run_server() as server:
        listed(server)
        took = time.perf_counter() - begun
        status = Path("/proc/self/status").read_text()
    begun = time.perf_counter()
print(took, status.partition("VmRSS:")[2].split()[0])
"""
KMOCK = """
import time
begun = time.perf_counter()
import asyncio
from pathlib import Path
import aiohttp, kmock

async def main():
    handler = kmock.KubernetesEmulator()
    handler.resources["v1/pods"] = {"namespaced": True, "kind": "Pod", "verbs": ["list"]}
    async with kmock.Server(handler) as server, aiohttp.ClientSession() as session:
        async with session.get(f"{server.url}/api/v1/pods") as answer:
            assert (await answer.json())["items"] == [], await answer.text()
        took = time.perf_counter() - begun
    print(took, Path("/proc/self/status").read_text().partition("VmRSS:")[2].split()[0])

asyncio.run(main())
"""


def of_script(python: str, script: str, *arguments: str) -> tuple[float, float]:
    """Return the seconds and the MiB that a script prints (it prints KiB)."""
    done = subprocess.run([python, "-c", script, *arguments], stdout=subprocess.PIPE, text=True, check=True)
    seconds, kibibytes = done.stdout.split()
    return float(seconds), float(kibibytes) / 1024


def of_binaries(binaries: Path) -> tuple[float, float]:
    """Return seconds and MiB of etcd and kube-apiserver."""
    folder = Path(tempfile.mkdtemp())
    store, peers, port = (reserve_port() for _ in range(3))
    (folder / "tokens").write_text(f"{TOKEN},admin,admin,system:masters\n")
    key = folder / "key"
    subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
    etcd = [
        *(binaries / "etcd", "--data-dir", folder / "etcd", "--unsafe-no-fsync"),
        *("--listen-client-urls", f"http://127.0.0.1:{store}"),
        *("--advertise-client-urls", f"http://127.0.0.1:{store}"),
        *("--listen-peer-urls", f"http://127.0.0.1:{peers}"),
    ]
    server = [
        *(
            binaries / "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{store}",
            "--bind-address=127.0.0.1",
        ),
        *(f"--secure-port={port}", f"--cert-dir={folder}", "--service-cluster-ip-range=10.0.0.0/24"),
        *("--disable-admission-plugins=ServiceAccount", "--authorization-mode=RBAC"),
        *(f"--token-auth-file={folder / 'tokens'}", "--service-account-issuer=https://localhost"),
        *(f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}"),
    ]
    begun = time.perf_counter()
    children = [
        subprocess.Popen(list(map(str, each)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for each in (etcd, server)
    ]
    try:
        for path in ("/readyz", "/api/v1/namespaces"):
            while not answers(f"https://127.0.0.1:{port}{path}"):
                time.sleep(0.01)
        took = time.perf_counter() - begun
        return took, sum(resident(each.pid) for each in children)
    finally:
        for each in reversed(children):
            each.kill()
            each.wait()
        shutil.rmtree(folder)


def answers(url: str) -> bool:
    """Whether a GET succeeds."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {TOKEN}"})  # noqa: S310
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with urllib.request.urlopen(request, context=context, timeout=5) as answer:  # noqa: S310
            return bool(answer.status == 200)
    except OSError:  # urllib's errors are OSErrors
        return False


def resident(pid: int) -> float:
    """Return the MiB of a process."""
    text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return float(text.partition("VmRSS:")[2].split()[0]) / 1024


def main() -> None:
    """Print a row for each, by the median of the runs, and its ratio to kubedouble."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--binaries", type=Path, help="directory of etcd and kube-apiserver")
    parser.add_argument("--kmock", help="Python that has kmock")
    options = parser.parse_args()
    ways: dict[str, Callable[[], tuple[float, float]]] = {
        "kubedouble": lambda: of_script(sys.executable, KUBEDOUBLE, "1"),
        "kubedouble, again": lambda: of_script(sys.executable, KUBEDOUBLE, "3"),
    }
    if options.binaries:
        ways["kube-apiserver, etcd"] = lambda: of_binaries(options.binaries)
    if options.kmock:
        ways["kmock"] = lambda: of_script(options.kmock, KMOCK)
    figures: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(RUNS):  # in turn, so that a busy machine is as busy for each
        for name, way in ways.items():
            figures[name].append(way())
    base = [statistics.median(column) for column in zip(*figures["kubedouble"], strict=True)]
    print("| | seconds | ratio | MiB | ratio |\n|---|---|---|---|---|")
    for name, runs in figures.items():
        seconds, size = (statistics.median(column) for column in zip(*runs, strict=True))
        print(f"| {name} | {seconds:.3f} | {seconds / base[0]:.2g} | {size:.0f} | {size / base[1]:.2g} |")


if __name__ == "__main__":
    main()
