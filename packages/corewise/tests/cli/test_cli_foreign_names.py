"""``corewise config check --cluster``: the names of Koordinator and Volcano on a cluster's objects."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from api_process import local_api_server
from corewise.cli import corewise
from corewise.cli.errors import ExitCode
from corewise.kube.client import Client
from corewise.kube.config import load_config
from corewise.kube.errors import api_error
from corewise.kube.resources import (
    COLOCATION_PROFILES,
    CONFIG_MAPS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    Resource,
)
from corewise.views.foreign_names import SHOWN, TEMPLATED, TemplatedObject
from corewise.vocabulary.names import AMPLIFICATION_KEY, LARGEST_RATIO
from manager.world import eventually
from scheduler.program_world import pod_document
from shipped import definition

CRDS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
    type=dict,
)
STRATEGY = "node.koordinator.sh/numa-allocate-strategy"
KINDS: dict[str, Resource[Any]] = {
    "Namespace": NAMESPACES,
    "Node": NODES,
    "Pod": PODS,
    "ConfigMap": CONFIG_MAPS,
    "MutatingWebhookConfiguration": MUTATING_WEBHOOKS,
    "PriorityClass": PRIORITY_CLASSES,
    "ClusterColocationProfile": COLOCATION_PROFILES,
    "CustomResourceDefinition": CRDS,
    **{each.kind: each for each in TEMPLATED},
}
GANG = "gang.scheduling.koordinator.sh/name"
POD_SPEC = {"containers": [{"name": "c", "image": "i"}]}
KEPT = "config.koordinator.sh/skip-update-resources"


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
    yield definition("clustercolocationprofiles.config.koordinator.sh")
    yield named("Namespace", "jobs", annotations={"scheduling.volcano.sh/queue-name": "q"})
    yield named("PriorityClass", "high", labels={"koordinator.sh/unheard-of": "1"}, value=1)
    template = {"metadata": {"labels": {"app": "a"}, "annotations": {GANG: "g"}}, "spec": POD_SPEC}
    selector = {"matchLabels": {"app": "a"}}
    for name in ("web", "web-2"):
        spec = {"replicas": 0, "selector": selector, "template": template}
        yield named("Deployment", name, "jobs", spec=spec)
    spec = {"labels": {"koordinator.sh/priority": "1", "koordinator.sh/qosClass": "BE"}}
    yield named("ClusterColocationProfile", "profile", annotations={KEPT: "true"}, spec=spec)
    yield named("MutatingWebhookConfiguration", "corewise-mutating", annotations={LARGEST_RATIO: "20.00"})
    pod = pod_document(
        "p", cpu="1", annotations={"volcano.sh/preemptable": "true", "volcano.sh/qos-level": "0"}
    )
    yield {"kind": "Pod", "apiVersion": "v1", **pod}


async def is_served(client: Client, resource: Resource[Any]) -> bool:
    await client.list(resource)
    return True


async def fill(kubeconfig: Path) -> None:
    async with Client(load_config(str(kubeconfig))) as client:
        for each in objects():
            namespace = each["metadata"].get("namespace") or ("default" if each["kind"] == "Pod" else "")
            resource = KINDS[each["kind"]].typed(dict)
            await eventually(partial(is_served, client, resource))
            await client.create(resource, {**each, "apiVersion": resource.api_version}, namespace)


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
        f"Koordinator's {GANG}",
        "Koordinator's koordinator.sh/priority",
        "Koordinator's koordinator.sh/unheard-of",
        "Koordinator's cpu-normalization-config",
        f"Koordinator's {KEPT}",
        "Volcano's volcano.sh/oversubscription-types",
        "Volcano's volcano.sh/preemptable",
        "Volcano's scheduling.volcano.sh/queue-name",
        "Volcano's colocation-config",
    ]
    shown = ", ".join(f"n{number}" for number in range(SHOWN))
    assert f"({SHOWN + 2} Nodes: {shown}, ...): not read: CPUs come from the fullest NUMA node" in lines[1]
    where = [line.partition(" (")[2].partition(")")[0] for line in lines]
    assert where[2:7] == [
        "2 Deployments: jobs/web, jobs/web-2",
        "1 ClusterColocationProfile: profile",
        "1 PriorityClass: high",
        "1 ConfigMap: koordinator-system/slo-controller-config",
        "1 ClusterColocationProfile: profile",
    ]
    assert "(1 Pod: default/p): not read: kube-scheduler preempts by priority" in lines[8]
    assert where[9] == "1 Namespace: jobs"
    assert "volcano-system/volcano-agent-configuration" in lines[10]
    assert result.stderr.startswith("11 names of Koordinator and Volcano")


@pytest.mark.parametrize(("by", "at"), [("option", 0), ("variable", 0), ("chart's default", 1)])
def test_the_config_map_may_be_elsewhere(
    kubeconfig: Path, monkeypatch: pytest.MonkeyPatch, by: str, at: int
) -> None:
    namespace = "koordinator-system"
    if by == "variable":
        monkeypatch.setenv("COREWISE_CONFIG_NAMESPACE", namespace)
    result = check(kubeconfig, *["--config-namespace", namespace] * (by == "option"))
    assert result.stdout.count("cpu-normalization-config") == at
    assert "volcano-agent-configuration" in result.stdout


@pytest.mark.parametrize(
    "spec",
    [
        {"template": {"metadata": {"labels": {GANG: "g"}}}},
        {"jobTemplate": {"spec": {"template": {"metadata": {"labels": {GANG: "g"}}}}}},
        {"labels": {GANG: "g"}},
    ],
)
def test_names_that_workloads_give_to_pods(spec: dict[str, Any]) -> None:
    document = {"metadata": {"name": "w", "namespace": "n"}, "spec": spec}
    found = [each for each in msgspec.convert(document, TemplatedObject).templates if GANG in each.labels]
    assert [(each.namespace, each.name) for each in found] == [("n", "w")]


def test_ratios_are_judged_by_the_managers_largest(kubeconfig: Path, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text('{"resourceAmplificationRatio": {"cpu": 12}}')
    options = (str(file), "--key", AMPLIFICATION_KEY)
    assert check(kubeconfig, *options).exit_code == 0
    told = check(kubeconfig, *options, "--largest-amplification", "11")
    assert told.exit_code == ExitCode.VERDICT
    assert "12 is outside 1.00..11.00: the largest is the manager's --largest-amplification" in told.stdout


def test_programs_get_all_of_it(kubeconfig: Path) -> None:
    names = json.loads(check(kubeconfig, "-o", "json").stdout)["foreignNames"]
    assert names["unread"] == []
    row = next(each for each in names["found"] if each["name"] == STRATEGY)
    assert (row["project"], row["kind"], row["honored"]) == ("Koordinator", "Node", "not read")
    assert (row["count"], len(row["objects"])) == (SHOWN + 2, SHOWN)


def test_what_may_not_be_listed_is_named(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = Client.list

    async def forbidden(self: Client, resource: Resource[Any], *args: Any, **options: Any) -> Any:
        if resource.plural in {"pods", "priorityclasses", "configmaps", "cronjobs"}:
            raise api_error(403, b"{}")
        return await listed(self, resource, *args, **options)

    monkeypatch.setattr(Client, "list", forbidden)
    result = check(kubeconfig)
    assert result.exit_code == 0
    assert f"Koordinator's {STRATEGY}" in result.stdout
    for kind in ("Pods", "PriorityClasses", "ConfigMaps", "CronJobs"):
        assert f"{kind} were not checked: this account may not list {kind}" in result.stderr


def test_without_a_cluster_a_file_is_needed() -> None:
    result = CliRunner().invoke(corewise, ["config", "check"])
    assert result.exit_code == ExitCode.USAGE
    assert "--cluster" in result.stderr
