"""``corewise config check --cluster``: the names of Koordinator and Volcano on a cluster's objects."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from api_process import local_api_server
from corewise.cli import corewise
from corewise.cli.errors import ExitCode
from corewise.cli.foreign_names import SHOWN
from corewise.kube.client import Client
from corewise.kube.config import load_config
from corewise.kube.errors import api_error
from corewise.kube.resources import CONFIG_MAPS, NAMESPACES, NODES, PODS, Resource
from scheduler.program_world import pod_document

STRATEGY = "node.koordinator.sh/numa-allocate-strategy"
KINDS: dict[str, Resource[Any]] = {
    "Namespace": NAMESPACES,
    "Node": NODES,
    "Pod": PODS,
    "ConfigMap": CONFIG_MAPS,
}


def named(kind: str, name: str, namespace: str = "", **rest: Any) -> dict[str, Any]:
    meta = {"name": name, **({"namespace": namespace} if namespace else {})}
    meta |= {key: rest.pop(key) for key in ("labels", "annotations") if key in rest}
    return {"kind": kind, "apiVersion": "v1", "metadata": meta, **rest}


def objects() -> Iterator[dict[str, Any]]:
    for number in range(SHOWN + 2):
        yield named("Node", f"n{number}", labels={STRATEGY: "MostAllocated"})
    yield named(
        "Node",
        "other",
        labels={
            "volcano.sh/oversubscription": "true",
            "node.koordinator.sh/cpu-bind-policy": "FullPCPUsOnly",
        },
        annotations={"volcano.sh/oversubscription-types": "cpu", "koordinator.sh/unheard-of": "1"},
    )
    for namespace in ("koordinator-system", "volcano-system"):
        yield named("Namespace", namespace)
    yield named(
        "ConfigMap",
        "slo-controller-config",
        "koordinator-system",
        data={"cpu-normalization-config": "{}"},
    )
    yield named(
        "ConfigMap", "volcano-agent-configuration", "volcano-system", data={"colocation-config": "{}"}
    )
    yield named("ConfigMap", "somebody-elses", "volcano-system", data={"colocation-config": "{}"})
    pod = pod_document(
        "p", cpu="1", annotations={"volcano.sh/preemptable": "true", "volcano.sh/qos-level": "0"}
    )
    yield {"kind": "Pod", "apiVersion": "v1", **pod}


async def fill(kubeconfig: Path) -> None:
    async with Client(load_config(str(kubeconfig))) as client:
        for each in objects():
            namespace = each["metadata"].get("namespace") or ("default" if each["kind"] == "Pod" else "")
            await client.create(KINDS[each["kind"]], each, namespace)


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with local_api_server(tmp_path_factory.mktemp("cluster")) as path:
        asyncio.run(fill(path))
        yield path


def check(kubeconfig: Path, *options: str) -> Result:
    arguments = ["config", "check", *options, "--cluster", "--kubeconfig", str(kubeconfig)]
    return CliRunner().invoke(corewise, arguments)


def test_each_name_is_listed_with_its_objects(kubeconfig: Path) -> None:
    result = check(kubeconfig)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert [line.partition(": ")[0].partition(" (")[0] for line in lines] == [
        "Koordinator's koordinator.sh/unheard-of",
        f"Koordinator's {STRATEGY}",
        "Koordinator's cpu-normalization-config",
        "Volcano's volcano.sh/oversubscription-types",
        "Volcano's volcano.sh/preemptable",
        "Volcano's colocation-config",
    ]
    shown = ", ".join(f"n{number}" for number in range(SHOWN))
    assert f"({SHOWN + 2} Nodes: {shown}, ...): not read: CPUs come from the fullest NUMA node" in lines[1]
    assert "(1 Pod: default/p): not read: kube-scheduler preempts by priority" in lines[4]
    assert "volcano-system/volcano-agent-configuration" in lines[5]
    assert result.stderr.startswith("6 names of Koordinator and Volcano")


def test_programs_get_all_of_it(kubeconfig: Path) -> None:
    names = json.loads(check(kubeconfig, "-o", "json").stdout)["foreignNames"]
    assert names["unread"] == []
    row = next(each for each in names["found"] if each["name"] == STRATEGY)
    assert (row["project"], row["kind"], row["honoured"]) == ("Koordinator", "Node", "not read")
    assert (row["count"], len(row["objects"])) == (SHOWN + 2, SHOWN)


def test_what_may_not_be_listed_is_named(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = Client.list

    async def forbidden(self: Client, resource: Resource[Any], *args: Any, **options: Any) -> Any:
        if resource.plural in {"pods", "configmaps"}:
            raise api_error(403, b"{}")
        return await listed(self, resource, *args, **options)

    monkeypatch.setattr(Client, "list", forbidden)
    result = check(kubeconfig)
    assert result.exit_code == 0
    assert f"Koordinator's {STRATEGY}" in result.stdout
    for kind in ("Pods", "ConfigMaps"):
        assert f"{kind} were not checked: this account may not list {kind}" in result.stderr


def test_without_a_cluster_a_file_is_needed() -> None:
    result = CliRunner().invoke(corewise, ["config", "check"])
    assert result.exit_code == ExitCode.USAGE
    assert "--cluster" in result.stderr
