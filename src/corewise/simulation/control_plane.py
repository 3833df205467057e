"""The children of a local cluster and the files between them: API server, manager, kubeconfigs, logs.

The manager is ``corewise manager`` itself, in a process of its own, reached by the API server over HTTPS as
any webhook is. It acts as the ServiceAccount of the shipped manifests (impersonated from the
administrator's certificate), so RBAC judges it as in production.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from corewise.simulation import bootstrap
from corewise.simulation.processes import Child, ClusterError, child_process
from corewise.vocabulary.names import CONFIG_NAMESPACE

_START_SECONDS = 20.0
_POLL = 0.02


@dataclass(frozen=True, slots=True)
class Folder:
    """Where a run keeps its kubeconfigs and logs, and, if it is to be kept, the API server's state."""

    path: Path
    state: Path | None = None

    @property
    def kubeconfig(self) -> Path:
        return self.path / "kubeconfig"

    @property
    def manager_kubeconfig(self) -> Path:
        return self.path / "manager.kubeconfig"

    def log(self, name: str) -> Path:
        return self.path / f"{name}.log"


@asynccontextmanager
async def api_server(folder: Folder) -> AsyncIterator[Child]:
    """Run the API server; inside the block its kubeconfig is there and it answers.

    Raises:
        ClusterError: if it does not come up.
    """
    folder.kubeconfig.unlink(missing_ok=True)
    arguments = ["--listen", "127.0.0.1:0", "--kubeconfig-out", str(folder.kubeconfig)]
    if folder.state is not None:
        arguments += ["--state", str(folder.state)]
    log = folder.log("apiserver")
    full = f"it could not write to {folder.state}; see that there is room, and start it again"
    meanings = {os.EX_IOERR: full}
    async with child_process("the API server", "kubedouble", arguments, log, meanings=meanings) as child:
        await _appears(child, folder.kubeconfig)
        yield child


async def _appears(child: Child, file: Path) -> None:
    """Wait for a file that a child writes when it is ready."""
    for _ in range(round(_START_SECONDS / _POLL)):
        if await asyncio.to_thread(file.exists):
            return
        await asyncio.sleep(_POLL)
    raise ClusterError(f"{child.name} is not ready after {_START_SECONDS:g} s\n{child.last_words()}")


@dataclass(frozen=True, slots=True)
class Manager:
    """The manager's process, and the address by which the API server calls its webhooks."""

    child: Child
    webhook_url: str


@asynccontextmanager
async def manager(folder: Folder, manifests: list[bootstrap.Manifest]) -> AsyncIterator[Manager]:
    """Run the manager as the ServiceAccount that the manifests have for it."""
    user, groups = bootstrap.account_identity(*bootstrap.manager_account(manifests))
    bootstrap.acting_as(folder.kubeconfig, user, groups, folder.manager_kubeconfig)
    webhooks, metrics = free_port(), free_port()
    url = f"https://127.0.0.1:{webhooks}"
    arguments = [
        "manager",
        *("--kubeconfig", str(folder.manager_kubeconfig)),
        *("--config-namespace", CONFIG_NAMESPACE),
        "--manage-webhooks",
        *("--webhook-listen", f"127.0.0.1:{webhooks}"),
        *("--webhook-url", url),
        *("--metrics-listen", f"127.0.0.1:{metrics}"),
    ]
    log = folder.log("manager")
    async with child_process("the manager", "corewise.cli.tether", arguments, log) as child:
        yield Manager(child, url)


def copy_private(source: Path, target: Path) -> None:
    """Copy a file that only its owner may read, in place of what is there.

    The copy is a new file (O_EXCL): in a folder that others can write to, one of theirs that takes the name
    meanwhile, or a link, gets nothing.

    Raises:
        ClusterError: if the copy cannot be written.
    """
    try:
        target.unlink(missing_ok=True)
        with open(target, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as copy:
            copy.write(source.read_bytes())
    except OSError as error:
        raise ClusterError(f"cannot write {target}: {error.strerror or error}") from error


def free_port() -> int:
    """Return a port of the loopback interface that is free now.

    The manager must be told by which address the API server reaches it before it listens, so it cannot let
    the system choose.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
