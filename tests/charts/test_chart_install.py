"""The chart on the local API server, by Helm's own engine: install, test, upgrade, uninstall.

| step | promise |
|---|---|
| install | the real manager and scheduler create all they need, as the chart's ServiceAccounts |
| test | passes when its pod does, fails when its pod does; what the pod runs needs no more than its role |
| upgrade | changes what the values change, and loses nothing that programs created |
| uninstall | leaves the namespace, the CRD and the user's ConfigMap; the chart's own ConfigMap goes |
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import helm_python
import pytest
import yaml
from click.testing import CliRunner

from corewise.cli import corewise
from corewise.kube.client import Client
from corewise.kube.config import load_config
from corewise.kube.errors import NotFound
from corewise.kube.resources import CONFIG_MAPS, PODS
from corewise.vocabulary.names import CONFIG_NAME
from corewise_lab.control_plane import account_identity
from deploy.test_deploy import apply
from kubedouble import LocalAPIServer
from tools import chart
from tools.chart import NAMESPACE
from tools.install_demo import CREATED, KEPT, every_object, story

TEST_POD = "corewise-test"


async def test_uninstall_removes_everything_install_upgrade_or_programs_created(tmp_path: Path) -> None:
    told = await story(tmp_path, chart.package(tmp_path), lambda _line: None)
    assert told.running > told.installed | CREATED
    assert told.upgraded >= told.running
    assert told.hindering == ()
    assert told.left == KEPT


class Release:
    """Helm against one API server; its calls block, so they run in threads."""

    def __init__(self, helm: helm_python.Config, folder: Path, client: Client) -> None:
        self.helm, self.folder, self.client = helm, folder, client

    async def install(self, values: dict[str, Any]) -> None:
        await asyncio.to_thread(self.helm.install, self.folder, "corewise", values, create_namespace=True)

    async def upgrade(self, values: dict[str, Any]) -> None:
        await asyncio.to_thread(self.helm.upgrade, self.folder, "corewise", values)

    async def uninstall(self) -> None:
        await asyncio.to_thread(self.helm.uninstall, "corewise")

    async def deployment(self) -> Any:
        path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/corewise-manager"
        return json.loads(await self.client.request("GET", path))["spec"]

    @asynccontextmanager
    async def test_pod_ends(self, phase: str) -> AsyncIterator[None]:
        """Play the kubelet of the test pod."""

        async def play() -> None:
            while True:
                with suppress(NotFound):
                    body = {"status": {"phase": phase}}
                    await self.client.patch(
                        PODS.typed(dict), TEST_POD, body, namespace=NAMESPACE, subresource="status"
                    )
                await asyncio.sleep(0.05)

        playing = asyncio.create_task(play())
        try:
            yield
        finally:
            playing.cancel()


@pytest.fixture
def chart_folder() -> Iterator[Path]:
    with chart.staged() as folder:
        yield folder


@pytest.fixture
async def release(api_server: LocalAPIServer, tmp_path: Path, chart_folder: Path) -> AsyncIterator[Release]:
    api_server.write_kubeconfig(tmp_path / "admin")
    with helm_python.Config(kubeconfig_path=tmp_path / "admin", namespace=NAMESPACE) as helm:
        async with Client(load_config(str(tmp_path / "admin"))) as client:
            yield Release(helm, chart_folder, client)


async def test_an_upgrade_changes_what_the_values_change(release: Release) -> None:
    await release.install({"image": {"tag": "v1"}})
    before = await release.deployment()
    await release.upgrade({"image": {"tag": "v2"}, "manager": {"replicas": 3, "extraArgs": ["--verbose"]}})
    after = await release.deployment()
    (old,), (new,) = (each["template"]["spec"]["containers"] for each in (before, after))
    assert (before["replicas"], old["image"]) == (2, "corewise:v1")
    assert (after["replicas"], new["image"]) == (3, "corewise:v2")
    assert new["args"] == [*old["args"], "--verbose"]


async def test_helm_test_passes_or_fails_with_its_pod(release: Release) -> None:
    await release.install({})
    before = await every_object(release.client)
    async with release.test_pod_ends("Succeeded"):
        await asyncio.to_thread(release.helm.test, "corewise", timeout=60)
    assert await every_object(release.client) == before
    async with release.test_pod_ends("Failed"):
        with pytest.raises(helm_python.HelmReleaseError):
            await asyncio.to_thread(release.helm.test, "corewise", timeout=60)


async def test_test_pod_needs_no_more_than_its_role(
    release: Release, api_server: LocalAPIServer, tmp_path: Path
) -> None:
    await release.install({"config": {"data": {"cpu-normalization-config": {"enable": False}}}})
    hooks = list(yaml.safe_load_all(chart.render()["tests/nodes.yaml"]))
    for hook in hooks:
        await apply(release.client, hook)
    (pod,) = (each for each in hooks if each["kind"] == "Pod")
    name, groups = account_identity(NAMESPACE, pod["spec"]["serviceAccountName"])
    api_server.write_kubeconfig(tmp_path / "test", name, groups[:2])
    arguments = [*pod["spec"]["containers"][0]["args"], "--kubeconfig", str(tmp_path / "test")]
    done = await asyncio.to_thread(CliRunner().invoke, corewise, arguments)
    assert (done.exit_code, done.stderr) == (0, "No nodes found.\n")


async def test_chart_configuration_uninstalls_and_never_replaces_the_users(
    release: Release,
) -> None:
    values = {"config": {"data": {"cpu-normalization-config": {"enable": False}}}}
    await release.install(values)
    made = await release.client.get(CONFIG_MAPS, CONFIG_NAME, NAMESPACE)
    assert made.data == {"cpu-normalization-config": '{"enable":false}'}
    await release.uninstall()
    body = {"metadata": {"name": CONFIG_NAME}, "data": {"mine": "1"}}
    await release.client.create(CONFIG_MAPS, body, NAMESPACE)
    with pytest.raises(helm_python.HelmError, match=CONFIG_NAME):
        await release.install(values)
    assert (await release.client.get(CONFIG_MAPS, CONFIG_NAME, NAMESPACE)).data == {"mine": "1"}
