"""Children of a benchmark: the local API server and the manager, each its own process, ended by its pid."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from corewise.kube.client import Client
from corewise.kube.config import load_config
from corewise_lab import control_plane as bootstrap
from corewise_lab.control_plane import reserve_port

_PATIENCE = 30.0
_MANAGER_PATIENCE = 120.0


def cpu_seconds(process: Process) -> float:
    """The CPU time that the process has used, as the kernel accounts it (utime + stime)."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cpu_nanoseconds(process: Process) -> int:
    """The time that the threads of a process have run, as exactly as the scheduler of the kernel knows it."""
    threads = Path(f"/proc/{process.pid}/task").iterdir()
    return sum(int((each / "schedstat").read_text().split()[0]) for each in threads)


def peak_rss_mib(process: Process) -> float:
    """The largest resident set the process has had, in MiB."""
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


@asynccontextmanager
async def child(
    *arguments: str, log: Path, environment: Mapping[str, str] | None = None, cgroup: Path | None = None
) -> AsyncIterator[Process]:
    """``python -m`` something, in a cgroup; what it says goes to ``log``; it is ended on the way out."""
    entering = ("sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(cgroup)) if cgroup else ()
    with log.open("wb") as talk:
        process = await asyncio.create_subprocess_exec(
            *(*entering, sys.executable, "-m", *arguments),
            stdin=PIPE,
            stdout=talk,
            stderr=talk,
            env={**os.environ, **(environment or {})},
            start_new_session=True,  # Ctrl-C ends the caller, which ends its children in order
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.terminate()
            await asyncio.wait_for(process.wait(), _PATIENCE)


@asynccontextmanager
async def api_server(folder: Path) -> AsyncIterator[tuple[Process, Path]]:
    """The local API server with the shipped manifests applied, and the kubeconfig it wrote."""
    kubeconfig = folder / "kubeconfig"
    command = ("kubedouble", "--listen", "127.0.0.1:0", "--kubeconfig-out", str(kubeconfig))
    async with child(*command, log=folder / "apiserver.log") as process:
        async with asyncio.timeout(_PATIENCE):
            while not (kubeconfig.exists() and kubeconfig.stat().st_size):
                await asyncio.sleep(0.05)
        async with Client(load_config(str(kubeconfig), None)) as client:
            await bootstrap.install(client, bootstrap.shipped_manifests())
        yield process, kubeconfig


@asynccontextmanager
async def manager(folder: Path, kubeconfig: Path, *options: str) -> AsyncIterator[tuple[Process, int, int]]:
    """The manager, ready; with the ports of its webhooks and of its metrics."""
    webhook, metrics = reserve_port(), reserve_port()
    command = (
        *("corewise", "manager", "--kubeconfig", str(kubeconfig), "--no-leader-elect"),
        *("--webhook-listen", f"127.0.0.1:{webhook}", "--webhook-url", f"https://127.0.0.1:{webhook}"),
        *("--metrics-listen", f"127.0.0.1:{metrics}", "--manage-webhooks"),
        *options,
    )
    async with child(*command, log=folder / "manager.log") as process:
        await until_ready(process, metrics, folder / "manager.log")
        yield process, webhook, metrics


@asynccontextmanager
async def scheduler(folder: Path, kubeconfig: Path, *options: str) -> AsyncIterator[tuple[Process, str]]:
    """The scheduler, ready, and the address of its extender."""
    listen, metrics = f"127.0.0.1:{reserve_port()}", reserve_port()
    command = (
        *("corewise", "scheduler", "--kubeconfig", str(kubeconfig), "--no-leader-elect", "--manage-webhooks"),
        *("--listen", listen, "--webhook-url", f"https://{listen}"),
        *("--metrics-listen", f"127.0.0.1:{metrics}"),
        *options,
    )
    async with child(*command, log=folder / "scheduler.log") as process:
        await until_ready(process, metrics, folder / "scheduler.log")
        yield process, f"https://{listen}"


async def until_ready(process: Process, port: int, log: Path, within: float = _MANAGER_PATIENCE) -> None:
    """Wait until a program says on its port that it is ready."""
    async with asyncio.timeout(within):
        while not await _answers_ready(port):
            if process.returncode is not None:
                raise SystemExit(f"{log.stem} ended before it was ready:\n{log.read_text()[-2000:]}")
            await asyncio.sleep(0.1)


async def _answers_ready(port: int) -> bool:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.write(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    answer = await reader.readline()
    writer.close()
    return b" 200 " in answer
