"""The ways between versions that docs/operate names, by Helm's own engine and the real kubectl.

| way | promise |
|---|---|
| rollback | the objects are those of the revision before |
| upgrade --reset-then-reuse-values | the user's values stay, and values that are new have their defaults |
| install --take-ownership | a release takes what kustomize installed: the same objects, with the same UIDs |
| from koordinator-system | the configuration is copied, the old programs go, Koordinator's stay |
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import helm_python
import pytest
import yaml

from corewise.kube.client import Client
from corewise.kube.config import load_config
from corewise.kube.resources import CONFIG_MAPS
from corewise.vocabulary.names import CONFIG_NAME
from kubectl import KUBECTLS, Kubectl
from kubedouble import LocalAPIServer
from tools import chart
from tools.chart import NAMESPACE
from tools.install_demo import every_object

PROJECT = Path(__file__).parents[2]
PAGE = (PROJECT / "docs" / "operate" / "release.md").read_text()
OLD = "koordinator-system"
APPS = f"/apis/apps/v1/namespaces/{NAMESPACE}"

needs_kubectl = pytest.mark.skipif(not KUBECTLS, reason="kubectl is not on PATH")


@pytest.fixture
def folder() -> Iterator[Path]:
    with chart.staged() as folder:
        yield folder


@pytest.fixture
def kubeconfig(api_server: LocalAPIServer, tmp_path: Path) -> Path:
    api_server.write_kubeconfig(tmp_path / "admin")
    return tmp_path / "admin"


@pytest.fixture
def helm(kubeconfig: Path) -> Iterator[helm_python.Config]:
    with helm_python.Config(kubeconfig_path=kubeconfig, namespace=NAMESPACE) as helm:
        yield helm


@pytest.fixture
async def client(kubeconfig: Path) -> AsyncIterator[Client]:
    async with Client(load_config(str(kubeconfig))) as client:
        yield client


@pytest.fixture
def kubectl(kubeconfig: Path, tmp_path: Path) -> Kubectl:
    return Kubectl(KUBECTLS[0], kubeconfig, tmp_path)


@contextmanager
def engine_option(*names: str) -> Iterator[None]:
    """Set options of the next calls that Helm's engine has and its Python functions do not name."""
    options = helm_python.config._opts

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            helm_python.config, "_opts", lambda **pairs: options(**pairs, **dict.fromkeys(names, True))
        )
        yield


async def specs(client: Client) -> dict[str, Any]:
    """Return the specs of the programs, by name."""
    found: dict[str, Any] = {}
    for plural in ("deployments", "daemonsets"):
        listed = json.loads(await client.request("GET", f"{APPS}/{plural}"))
        found |= {each["metadata"]["name"]: each["spec"] for each in listed["items"]}
    return found


async def stated(client: Client) -> set[Any]:
    """Return the objects of the chart, without those that Helm and the workloads' controllers make."""
    made = {"Secret", "Pod", "ReplicaSet", "ControllerRevision"}
    return {each for each in await every_object(client) if each[0] not in made}


async def test_a_rollback_brings_back_the_revision_before(
    helm: helm_python.Config, client: Client, folder: Path
) -> None:
    first = {"image": {"tag": "v1"}, "scheduler": {"enabled": False}}
    await asyncio.to_thread(helm.install, folder, "corewise", first, create_namespace=True)
    before, objects = await specs(client), await stated(client)
    second = {"image": {"tag": "v2"}, "manager": {"replicas": 3}}
    await asyncio.to_thread(helm.upgrade, folder, "corewise", second)
    changed = await specs(client)
    assert changed.keys() - before.keys() == {"corewise-scheduler"}
    assert changed["corewise-manager"]["replicas"] == 3
    await asyncio.to_thread(helm.rollback, "corewise")
    assert await specs(client) == before
    assert await stated(client) == objects


async def test_user_values_stay_and_new_values_get_defaults(
    helm: helm_python.Config, client: Client, folder: Path
) -> None:
    page = folder / "values.yaml"
    present = page.read_text()
    earlier = yaml.safe_load(present)
    del earlier["agent"]["maxUnavailable"]
    earlier["agent"]["priorityClassName"] = "the-default-of-before"
    page.write_text(yaml.safe_dump(earlier))
    mine = {"image": {"tag": "mine"}}
    await asyncio.to_thread(helm.install, folder, "corewise", mine, create_namespace=True)
    page.write_text(present)
    with engine_option("reset_then_reuse_values"):
        await asyncio.to_thread(helm.upgrade, folder, "corewise")
    agent = (await specs(client))["corewise-agent"]
    pod = agent["template"]["spec"]
    assert pod["containers"][0]["image"] == "corewise:mine"
    assert agent["updateStrategy"]["rollingUpdate"]["maxUnavailable"] == "10%"
    assert pod["priorityClassName"] == "system-node-critical"


@needs_kubectl
async def test_helm_takes_what_kustomize_installed(
    helm: helm_python.Config, client: Client, kubectl: Kubectl, folder: Path
) -> None:
    def uids() -> dict[str, str]:
        kinds = "deployments,daemonsets,services,serviceaccounts"
        found = kubectl.json("get", kinds, "-n", NAMESPACE)["items"]
        return {f"{each['kind']}/{each['metadata']['name']}": each["metadata"]["uid"] for each in found}

    await asyncio.to_thread(kubectl, "create", "namespace", NAMESPACE)
    await asyncio.to_thread(kubectl, "apply", "-k", str(PROJECT / "deploy"))
    before = await asyncio.to_thread(uids)
    with pytest.raises(helm_python.HelmError, match="managed-by"):
        await asyncio.to_thread(helm.install, folder, "corewise")
    with engine_option("take_ownership", "force_conflicts"):
        await asyncio.to_thread(helm.install, folder, "corewise")
    assert await asyncio.to_thread(uids) == before
    assert {"Deployment/corewise-manager", "DaemonSet/corewise-agent"} <= before.keys()
    await asyncio.to_thread(helm.uninstall, "corewise")
    assert await specs(client) == {}


@needs_kubectl
async def test_namespace_commands_move_configuration_and_end_old_programs(
    client: Client, kubectl: Kubectl, tmp_path: Path
) -> None:
    match = re.search(
        r"^```\n(kubectl get configmap slo-controller-config .*?)^```", PAGE, re.MULTILINE | re.DOTALL
    )
    assert match
    for namespace in (OLD, NAMESPACE):
        await asyncio.to_thread(kubectl, "create", "namespace", namespace)
    data = {"cpu-normalization-config": '{"enable": false}'}
    await client.create(CONFIG_MAPS, {"metadata": {"name": CONFIG_NAME}, "data": data}, OLD)
    for name in ("corewise-manager", "corewise-scheduler", "koord-manager"):
        await asyncio.to_thread(kubectl, "create", "deployment", name, "--image=i", "-n", OLD)
        await asyncio.to_thread(kubectl, "create", "serviceaccount", name, "-n", OLD)
    for name in ("corewise-webhook", "corewise-scheduler", "koord-manager"):
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name, "namespace": OLD},
            "spec": {"ports": [{"port": 443}]},
        }
        await asyncio.to_thread(kubectl, "apply", "-f", "-", stdin=service)

    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "kubectl").symlink_to(kubectl.binary)
    environment = {**kubectl.environment, "PATH": f"{programs}:{kubectl.environment['PATH']}"}
    run = ["bash", "-euo", "pipefail", "-c", match[1]]
    await asyncio.to_thread(subprocess.run, run, env=environment, check=True)

    assert (await client.get(CONFIG_MAPS, CONFIG_NAME, NAMESPACE)).data == data
    assert (await client.get(CONFIG_MAPS, CONFIG_NAME, OLD)).data == data
    kinds = "deployments,services,serviceaccounts"
    left = await asyncio.to_thread(kubectl, "get", kinds, "-n", OLD, "-o", "name")
    assert "corewise" not in left
    assert left.count("koord-manager") == 3
