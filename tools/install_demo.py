"""``make install-demo``: the chart's life on a local cluster, timed, and what it leaves behind.

``python -m tools.install_demo ARCHIVE`` takes the archive of the chart. It imports nothing of ``tools``, so
that ``make dist-check`` can run it where only the wheels of a release are installed.

The chart is installed under an older version, the real manager and scheduler run as its ServiceAccounts until
all that they create is there, the chart is upgraded, and uninstalled. The namespace, the CRD and the user's
ConfigMap stay. Whatever else is there that was not before is an error.

The API server is the local one, so no pods run: manager and scheduler are processes beside it.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tarfile
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import helm_python
import msgspec

from corewise.kube.client import Client
from corewise.kube.config import load_config
from corewise.kube.resources import CONFIG_MAPS
from corewise.views.uninstall_check import removal
from corewise.vocabulary.names import CONFIG_NAME
from corewise_lab import control_plane
from corewise_lab.control_plane import Folder

NAMESPACE = "corewise-system"
Key = tuple[str, str, str]
KEPT: frozenset[Key] = frozenset(
    {
        ("Namespace", "", NAMESPACE),
        ("CustomResourceDefinition", "", "noderesourcetopologies.topology.node.k8s.io"),
        ("CustomResourceDefinition", "", "clustercolocationprofiles.config.koordinator.sh"),
        ("ConfigMap", NAMESPACE, CONFIG_NAME),
    }
)
"""What an uninstall leaves, and should: others may use the CRDs, and the configuration is the user's."""
OF_THE_CLUSTER = {"Event", "APIService"}
"""Events end after an hour by themselves; APIServices say which groups of CRDs are served."""
OF_A_NAMESPACE = {("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")}
CREATED: frozenset[Key] = frozenset(
    {
        ("Lease", NAMESPACE, "corewise-manager"),
        ("Lease", NAMESPACE, "corewise-scheduler"),
        ("Secret", NAMESPACE, "corewise-webhook-certificates"),
        ("Secret", NAMESPACE, "corewise-scheduler-certificates"),
        ("Secret", NAMESPACE, "corewise-scheduler-client"),
        ("ValidatingWebhookConfiguration", "", "corewise-validating"),
    }
)
"""What manager and scheduler create everywhere; beside it policies, or webhooks before Kubernetes 1.36."""
PREVIOUS = "0.0.0-previous"
_PATIENCE = 120.0


@dataclass(frozen=True, slots=True)
class Story:
    """The objects added to those before: after the install, while programs ran, and in the end.

    ``hindering`` are the objects that `corewise uninstall --check` named before the uninstall.
    """

    installed: frozenset[Key]
    running: frozenset[Key]
    upgraded: frozenset[Key]
    hindering: tuple[str, ...]
    left: frozenset[Key]


async def every_object(client: Client) -> frozenset[Key]:
    """Return kind, namespace and name of every object that can be listed."""
    groups = msgspec.json.decode(await client.request("GET", "/apis"))["groups"]
    paths = ["/api/v1", *(f"/apis/{each['preferredVersion']['groupVersion']}" for each in groups)]
    found: set[Key] = set()
    for path in paths:
        for resource in msgspec.json.decode(await client.request("GET", path))["resources"]:
            if "list" in resource["verbs"] and "/" not in resource["name"]:
                listed = msgspec.json.decode(await client.request("GET", f"{path}/{resource['name']}"))
                found |= {_key(resource["kind"], each["metadata"]) for each in listed["items"]}
    return frozenset(
        each for each in found if each[0] not in OF_THE_CLUSTER and (each[0], each[2]) not in OF_A_NAMESPACE
    )


def _key(kind: str, metadata: dict[str, Any]) -> Key:
    return kind, metadata.get("namespace", ""), metadata["name"]


@contextlib.contextmanager
def timed(say: Callable[[str], None], what: str) -> Iterator[list[str]]:
    """Print the time that the block took, and the results it put into the list."""
    results: list[str] = []
    started = time.monotonic()
    yield results
    say(f"{what:<52} {time.monotonic() - started:5.1f} s   {', '.join(results)}".rstrip())


@contextlib.asynccontextmanager
async def programs(folder: Folder) -> AsyncIterator[None]:
    """Run manager and scheduler, as the ServiceAccounts of the chart."""
    manifests = control_plane.shipped_manifests()
    async with contextlib.AsyncExitStack() as stack:
        for kind in ("manager", "scheduler"):
            made = control_plane.program(folder, manifests, kind)
            await stack.enter_async_context(
                control_plane.child_process(kind, control_plane.TETHERED, made.arguments, made.log)
            )
        yield


async def until(client: Client, holds: Callable[[frozenset[Key]], bool]) -> frozenset[Key]:
    """Return all objects once that holds, or as they are when patience ends."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        found = await every_object(client)
        if holds(found) or time.monotonic() > deadline:
            return found
        await asyncio.sleep(0.2)


async def story(directory: Path, newer: Path, say: Callable[[str], None]) -> Story:
    """Install, upgrade and uninstall an archive of the chart; ``directory`` is for files."""
    folder = Folder(directory)
    async with (
        control_plane.api_server(folder),
        Client(load_config(str(folder.kubeconfig))) as client,
        contextlib.AsyncExitStack() as stack,
    ):
        helm = helm_python.Config(kubeconfig_path=folder.kubeconfig, namespace=NAMESPACE)
        stack.callback(helm.close)
        with tarfile.open(newer) as files:
            if hasattr(tarfile, "data_filter"):  # Debian 12's Python has none
                files.extraction_filter = tarfile.data_filter
            files.extractall(directory / "chart")  # noqa: S202 - our own archive
        (source,) = (directory / "chart").iterdir()
        older = helm_python.package(source, destination=directory, version=PREVIOUS, app_version=PREVIOUS)
        before = await every_object(client)
        await _prepare(client)
        with timed(say, f"helm install ({PREVIOUS})") as results:
            await asyncio.to_thread(helm.install, older, "corewise", {})
            installed = await every_object(client) - before
            results.append(f"{len(installed)} objects")
        async with programs(folder):
            with timed(say, "manager and scheduler create what they need") as results:
                running = await until(client, lambda found: found >= CREATED | installed) - before
                results.append(f"{len(running - installed)} objects more")
            with timed(say, f"helm upgrade ({newer.stem.removeprefix('corewise-')})") as results:
                values = {"manager": {"replicas": 3}}
                await asyncio.to_thread(helm.upgrade, newer, "corewise", values)
                upgraded = await every_object(client) - before
                results.append(f"{len(running - upgraded)} objects lost")
            with timed(say, "corewise uninstall --check") as results:
                found = await removal(load_config(str(folder.kubeconfig)), NAMESPACE)
                hindering = found.hindrances
                results.append(", ".join(each.object for each in hindering) or "safe")
        with timed(say, "helm uninstall") as results:
            await asyncio.to_thread(helm.uninstall, "corewise")
            left = await until(client, lambda found: found - before <= KEPT) - before
            results.append(f"{len(upgraded - left)} objects gone")
    return Story(installed, running, upgraded, tuple(each.object for each in hindering), left)


async def _prepare(client: Client) -> None:
    """Create the namespace, and a configuration in it."""
    for manifest in control_plane.shipped_manifests():
        if _key(manifest["kind"], manifest["metadata"]) == ("Namespace", "", NAMESPACE):
            await control_plane.apply(client, manifest)
    body = {"metadata": {"name": CONFIG_NAME}, "data": {}}
    await client.create(CONFIG_MAPS, body, NAMESPACE)


def main() -> int:
    """Tell the story; 1 if anything is missing, was lost, or was left behind that should not."""
    say = partial(print, flush=True)
    with tempfile.TemporaryDirectory() as directory:
        told = asyncio.run(story(Path(directory), Path(sys.argv[1]), say))
    say("\nkept, on purpose: " + ", ".join(" ".join(filter(None, each)) for each in sorted(told.left & KEPT)))
    left = [" ".join(filter(None, each)) for each in sorted(told.left - KEPT)]
    say("left beside that: " + (", ".join(left) or "nothing"))
    return 1 if left or told.running - told.upgraded or CREATED - told.running else 0


if __name__ == "__main__":
    sys.exit(main())
