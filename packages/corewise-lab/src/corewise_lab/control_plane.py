"""The child processes of a local cluster and the files between them: kubeconfigs and logs.

A child runs in a session of its own, so that Ctrl-C reaches the parent alone and the report can still be
made. Its standard input is a pipe whose end it takes as the sign to go (see :mod:`corewise_lab.child`).
What it prints goes to a log file; if it dies, its last lines are in the error, and what its exit code means
(a full disk takes no log).

The shipped manifests are installed before anything runs, except Deployments and DaemonSets. RBAC is
enforced, and manager, scheduler and agents run as the ServiceAccounts of ``deploy/`` (impersonated from the
administrator's certificate), so that a permission missing there shows here. Manager and scheduler are
``corewise manager`` and ``corewise scheduler`` themselves, in processes of their own, reached over HTTPS by
the API server, which calls their webhooks, and by the stand-in of kube-scheduler.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, urlsplit

import msgspec

import corewise
from corewise.config.yaml_text import load_documents
from corewise.kube.client import Client, PatchType
from corewise.kube.errors import AlreadyExists
from corewise.kube.resources import NAMESPACES, NODE_RESOURCE_TOPOLOGIES
from corewise.quantities import Bytes

_PATIENCE = 8.0
_LAST_LINES = 12


class ClusterError(Exception):
    """The local cluster cannot go on; the message names the part, and quotes its last words."""


@dataclass
class Child:
    """A running child process."""

    name: str
    process: asyncio.subprocess.Process
    log: Path
    meanings: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    async def start(cls, name: str, module: str, arguments: Sequence[str], log: Path) -> Self:
        """Start ``python -m module arguments``.

        It imports nothing from the current directory (-P) unless this process does: an experiment is there.
        """
        safely = [] if str(Path.cwd()) in sys.path else ["-P"]
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *safely,
                "-m",
                module,
                *arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        return cls(name, process, log)

    @property
    def alive(self) -> bool:
        return self.process.returncode is None

    async def died(self) -> ClusterError:
        """Wait until the child ends, and return what to say about it."""
        code = await self.process.wait()
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        meaning = f": {self.meanings[code]}" if code in self.meanings else ""
        said = f"{self.last_words()}\n  (in {self.log})".lstrip("\n")
        return ClusterError(f"{self.name} {how}{meaning}\n{said}")

    async def fail_on_death(self) -> None:
        """Raise a ClusterError as soon as the child ends."""
        raise await self.died()

    def last_words(self) -> str:
        """Return the last lines of the child's log, indented."""
        try:
            lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return ""
        return "\n".join(f"  {line}" for line in lines[-_LAST_LINES:])

    def memory(self) -> Bytes | None:
        return resident_memory(self.process.pid) if self.alive else None

    async def stop(self) -> None:
        """Close the pipe and wait; a child that stays gets SIGTERM, then SIGKILL."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        for end in (self.process.terminate, self.process.kill):
            with suppress(TimeoutError):
                await asyncio.wait_for(self.process.wait(), _PATIENCE)
                return
            with suppress(ProcessLookupError):
                end()
        await self.process.wait()


def resident_memory(pid: int) -> Bytes | None:
    """Return a process's resident memory, or None where the system does not tell."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return Bytes(pages * os.sysconf("SC_PAGE_SIZE"))


@asynccontextmanager
async def running(*loops: Callable[[], Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    """Run loops beside the block. One that fails ends the block; all end with it."""
    async with asyncio.TaskGroup() as tasks:
        started = [tasks.create_task(loop()) for loop in loops]
        yield
        for task in started:
            task.cancel()


@asynccontextmanager
async def child_process(
    name: str, module: str, arguments: Sequence[str], log: Path, *, meanings: Mapping[int, str] | None = None
) -> AsyncIterator[Child]:
    """Run a child beside the block. Its death ends the block with a ClusterError; it ends with the block.

    ``meanings`` says what some of its exit codes mean.
    """
    child = await Child.start(name, module, arguments, log)
    child.meanings = meanings or {}

    try:
        async with running(child.fail_on_death):
            yield child
    finally:
        await child.stop()


FIELD_MANAGER = "corewise-local"
MANAGER, SCHEDULER = "manager", "scheduler"
AGENT_NAMESPACE, AGENT_NAME = "corewise-system", "corewise-agent"
_PLURALS: Mapping[str, tuple[str, bool]] = {
    "Namespace": ("namespaces", False),
    "CustomResourceDefinition": ("customresourcedefinitions", False),
    "ServiceAccount": ("serviceaccounts", True),
    "ClusterRole": ("clusterroles", False),
    "ClusterRoleBinding": ("clusterrolebindings", False),
    "Role": ("roles", True),
    "RoleBinding": ("rolebindings", True),
}
Manifest = dict[str, Any]


NO_POLICIES = "cel-expr-python is not installed, so the local API server evaluates no admission policies"


def has_policies() -> bool:
    """Return whether the API server of a local cluster serves mutating admission policies."""
    return find_spec("cel_expr_python") is not None


def shipped_manifests() -> list[Manifest]:
    """Return the manifests of ``deploy/`` that the local cluster applies, namespaces and CRDs first.

    Raises:
        ClusterError: if this installation of corewise has none.
    """
    found = [document for path in sorted(_folder().rglob("*.yaml")) for document in _documents(path)]
    kinds = list(_PLURALS)
    known = [document for document in found if document.get("kind") in _PLURALS]
    return sorted(known, key=lambda document: kinds.index(document["kind"]))


def _folder() -> Path:
    """Return the folder of the manifests: in the package once installed, at the top of a clone."""
    package = Path(str(files("corewise_lab")))
    for folder in (package / "deploy", package.parents[3] / "deploy"):
        if folder.is_dir():
            return folder
    raise ClusterError(f"corewise-lab {corewise.__version__} has no manifests (deploy/): install it again")


def _documents(path: Path) -> list[Manifest]:
    documents = load_documents(path.read_text(encoding="utf-8"))
    return [document for document in documents if isinstance(document, dict)]


def service_account(manifests: list[Manifest], kind: str) -> tuple[str, str]:
    """Return namespace and name of the ServiceAccount of a program: manager or scheduler.

    Raises:
        ClusterError: if the manifests have none.
    """
    for manifest in manifests:
        name = manifest["metadata"]["name"]
        if manifest["kind"] == "ServiceAccount" and name.endswith(kind):
            return manifest["metadata"].get("namespace", "default"), name
    raise ClusterError(f"deploy/ has no ServiceAccount for the {kind}")


def account_identity(namespace: str, name: str) -> tuple[str, list[str]]:
    """Return the user name and groups of a ServiceAccount, as its token would have them."""
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
    return f"system:serviceaccount:{namespace}:{name}", groups


async def install(client: Client, manifests: list[Manifest]) -> None:
    """Apply the manifests.

    Raises:
        KubeError: if the API server refuses one.
    """
    for manifest in manifests:
        await apply(client, manifest)
    await client.list(NODE_RESOURCE_TOPOLOGIES)


async def apply(client: Client, manifest: Manifest) -> None:
    """Apply one manifest by server-side apply."""
    plural, namespaced = _PLURALS[manifest["kind"]]
    version, metadata = manifest["apiVersion"], manifest["metadata"]
    prefix = f"/apis/{version}" if "/" in version else f"/api/{version}"
    place = f"/namespaces/{quote(metadata.get('namespace', 'default'))}" if namespaced else ""
    await client.request(
        "PATCH",
        f"{prefix}{place}/{plural}/{quote(metadata['name'], safe=':')}",
        params={"fieldManager": FIELD_MANAGER, "force": "true"},
        body=manifest,
        content_type=PatchType.APPLY.value,
    )


async def ensure_namespace(client: Client, name: str) -> None:
    """Create a namespace unless it is there."""
    try:
        await client.create(NAMESPACES, {"metadata": {"name": name}})
    except AlreadyExists:
        return


def acting_as(kubeconfig: Path, user: str, groups: list[str], target: Path) -> None:
    """Write a copy of a kubeconfig that acts as another user (``kubectl --as``)."""
    document = msgspec.json.decode(kubeconfig.read_bytes())
    for entry in document["users"]:
        entry["user"] |= {"as": user, "as-groups": groups}
    target.touch(mode=0o600)
    target.write_text(json.dumps(document, indent=2), encoding="utf-8")


_START_SECONDS = 20.0
_POLL = 0.02


@dataclass(frozen=True, slots=True)
class Folder:
    """The folder of a run's kubeconfigs and logs, and, if it is to be kept, of the API server's state."""

    path: Path
    state: Path | None = None

    @property
    def kubeconfig(self) -> Path:
        return self.path / "kubeconfig"

    def log(self, name: str) -> Path:
        return self.path / f"{name}.log"


@asynccontextmanager
async def api_server(folder: Folder) -> AsyncIterator[Child]:
    """Run the API server; inside the block its kubeconfig is there and it answers.

    Raises:
        ClusterError: if it does not come up.
    """
    folder.kubeconfig.unlink(missing_ok=True)
    arguments = ["--listen", "127.0.0.1:0", "--name", "corewise", "--kubeconfig-out", str(folder.kubeconfig)]
    if folder.state is not None:
        arguments += ["--state", str(folder.state)]
    log = folder.log("apiserver")
    full = f"it could not write to {folder.state}; make sure there is space, and start it again"
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


async def answers(child: Child, url: str) -> None:
    """Wait until a child listens at its address."""
    where = urlsplit(url)
    for _ in range(round(_START_SECONDS / _POLL)):
        with suppress(OSError):
            _, writer = await asyncio.open_connection(where.hostname, where.port)
            writer.close()
            return
        await asyncio.sleep(_POLL)
    raise ClusterError(f"{child.name} is not ready after {_START_SECONDS:g} s\n{child.last_words()}")


@dataclass(frozen=True, slots=True)
class LocalProgram:
    """A corewise program as a child: its arguments, its log, and the address at which it answers."""

    name: str
    arguments: tuple[str, ...]
    log: Path
    url: str

    async def start(self) -> Child:
        """Start it; it ends with this process."""
        return await Child.start(self.name, TETHERED, self.arguments, self.log)


TETHERED = "corewise_lab.child"


def program(
    folder: Folder, manifests: list[Manifest], kind: str, name: str = "", more: Sequence[str] = ()
) -> LocalProgram:
    """Return ``corewise manager`` or ``corewise scheduler``, as the ServiceAccount of the manifests.

    ``more``: further arguments.

    Raises:
        ClusterError: if the manifests have no such ServiceAccount.
    """
    name = name or kind
    kubeconfig = folder.path / f"{name}.kubeconfig"
    acting_as(folder.kubeconfig, *account_identity(*service_account(manifests, kind)), kubeconfig)
    port, metrics = reserve_port(), reserve_port()
    url = f"https://127.0.0.1:{port}"
    listen = "--webhook-listen" if kind == MANAGER else "--listen"
    arguments = (
        kind,
        *("--kubeconfig", str(kubeconfig)),
        "--manage-webhooks",
        *(listen, f"127.0.0.1:{port}"),
        *("--webhook-url", url),
        *("--metrics-listen", f"127.0.0.1:{metrics}"),
        *more,
    )
    return LocalProgram(name, arguments, folder.log(name), url)


@asynccontextmanager
async def running_program(made: LocalProgram) -> AsyncIterator[Child]:
    """Run the manager or the scheduler beside the block."""
    async with child_process(f"the {made.name}", TETHERED, made.arguments, made.log) as child:
        yield child


def copy_private(source: Path, target: Path) -> None:
    """Copy a file that only its owner may read, over any existing one.

    The copy is a new file (O_EXCL): in a folder that others can write to, one of theirs that takes the name
    meanwhile, or a link, gets nothing.

    Raises:
        ClusterError: if the copy cannot be written.
    """
    try:
        content = source.read_bytes()  # before the target is removed, which may be the same file
        target.unlink(missing_ok=True)
        with open(target, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as copy:
            copy.write(content)
    except OSError as error:
        raise ClusterError(f"cannot write {target}: {error.strerror or error}") from error


def reserve_port() -> int:
    """Return a port of the loopback interface that stays this process's until it ends, for a child of it.

    The API server must know where the programs listen before they do, so they cannot let the system choose;
    and one that is started again must find its port. A bound socket that does not listen keeps the port:
    the kernel does not give it to those who ask for any port; a listener that names it, with SO_REUSEADDR,
    gets it (``inet_csk_get_port`` in Linux).
    """
    with socket.socket() as keeper:
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        keeper.bind(("127.0.0.1", 0))
        port = int(keeper.getsockname()[1])
        keeper.detach()
        return port
