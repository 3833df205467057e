"""What the web page shows is what the commands print with ``-o json``, on the same local API server.

Reports are from the future, so that no age differs between the two.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from api_process import local_api_server
from cli.offline_world import NOW, REPORT, aged, changed, labeled
from corewise.cli import corewise
from corewise.config.key_texts import KEYS
from corewise.kube.client import Client
from corewise.kube.config import load_config
from corewise.kube.objects import Event, ObjectMeta, ObjectReference
from corewise.kube.resources import (
    CONFIG_MAPS,
    EVENTS,
    MUTATING_POLICY_BINDINGS,
    NAMESPACES,
    NODE_RESOURCE_TOPOLOGIES,
    NODES,
    PODS,
)
from corewise.planner.inputs import arrangement
from corewise.ratios.cluster import NOTHING_CONFIGURED, ClusterContext
from corewise.scheduler.policy import policy_binding
from corewise.views import offline_table
from corewise.views.offline_reports import node_report
from corewise.views.page.documents import PageDocuments
from corewise.views.page.followed import FollowedCluster, UnknownObject
from corewise.views.page.history import AMOUNTS, EVERY, KEPT, POINTS, OfflineHistory
from corewise.views.page.problems import KnownProblem, ProblemHistory, by_node, counts
from corewise.views.page.tables import PageTables
from corewise.views.page.trial import ChangeNotTried
from corewise.views.page.trial import tried as tried_apart
from corewise.views.page.what_if import ChangeRefused, LiveObjects, try_change
from corewise.vocabulary import names
from corewise.vocabulary.cpu_annotations import print_cpu_topology
from corewise.vocabulary.offline_report import OfferState
from corewise.vocabulary.qos import QoSRules
from corewise.vocabulary.reasons import Reason
from corewise.workload.nodes import Node
from corewise_lab.control_plane import account_identity, acting_as, apply
from manager.world import CRD, FAST, SLOW, normalization
from node_records import recorded
from tools import chart

FRESH = aged(REPORT, -3600, datetime.now(UTC))
FROZEN = changed(FRESH, state=OfferState.FROZEN, missing=4)
AMPLIFIED = {
    names.NORMALIZATION_RATIO: "2.00",
    names.AMPLIFICATION_RATIO: '{"cpu":2.00}',
    names.AMPLIFICATION_ORIGINAL: "{}",
    **recorded({"cpu": ("8", "16")}),
}
NODES_SHOWN: Mapping[str, tuple[str, str, dict[str, Any]]] = {
    "fast": (FAST, "16", {"annotations": {**AMPLIFIED, names.OFFLINE_REPORT: FRESH.encode()}}),
    "slow": (SLOW, "8", {"annotations": {names.NORMALIZATION_RATIO: "1.00"}}),
    "odd": ("Odd CPU", "8", labeled(FROZEN)),
}
"""Name -> CPU model, CPUs, metadata. The fast one is amplified, the odd one has no ratio and no samples."""
OWNING = {
    "labels": {names.QOS_CLASS: "LSE"},
    "annotations": {names.RESOURCE_STATUS: '{"cpuset":"0-1"}'},
}
RULES = QoSRules(frozenset({"default"}))
"""The scheduler's, as what it has installed says: so that its pods are judged as it does."""


def pod(name: str, node: str, requests: Mapping[str, str], **meta: Any) -> dict[str, Any]:
    resources = {"requests": requests, "limits": requests}
    container = {"name": "main", "image": "i", "resources": resources}
    spec = {"containers": [container], **({"nodeName": node} if node else {})}
    return {"metadata": {"name": name, **meta}, "spec": spec}


PODS_SHOWN = (
    pod("owner", "fast", {"cpu": "2", "memory": "1Gi"}, **OWNING),
    pod("shared", "fast", {"cpu": "3", "memory": "1Gi"}),
    pod("big", "fast", {"cpu": "8", "memory": "1Gi"}),
    pod("offline", "odd", {names.BATCH_CPU: "1000", names.BATCH_MEMORY: "1Gi"}),
    pod("native", "odd", {}),
    pod("nowhere", "", {"cpu": "64", "memory": "1Gi"}),
)


UNREAD = {"metadata": {"name": "jobs", "labels": {names.NORMALIZE_CPUSET: "True"}}}
"""A namespace whose label is neither true nor false."""


async def fill(kubeconfig: Path) -> None:
    async with Client(load_config(str(kubeconfig))) as client:
        await client.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body=CRD)
        await client.create(NAMESPACES, {"metadata": {"name": names.CONFIG_NAMESPACE}})
        await client.create(NAMESPACES, UNREAD)
        data = {names.NORMALIZATION_KEY: normalization(), names.SUPPRESSION_KEY: "{"}
        config = {"metadata": {"name": names.CONFIG_NAME}, "data": data}
        await client.create(CONFIG_MAPS, config, names.CONFIG_NAMESPACE)
        for name, (model, cpu, meta) in NODES_SHOWN.items():
            amounts = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
            await client.create(NODES, {"metadata": {"name": name, **meta}})
            status = {"capacity": amounts, "allocatable": amounts}
            await client.patch(NODES, name, {"status": status}, subresource="status")
            stated = {
                names.CPU_BASIC_INFO: json.dumps({"cpuModel": model, "hyperThreadEnabled": False}),
                names.CPU_TOPOLOGY: print_cpu_topology(arrangement(8, 2, 2, 1)),
            }
            await client.create(NODE_RESOURCE_TOPOLOGIES, {"metadata": {"name": name, "annotations": stated}})
        await client.create(MUTATING_POLICY_BINDINGS, policy_binding(RULES))
        for each in PODS_SHOWN:
            await client.create(PODS, each, "default")
        for component in ("corewise-manager", "corewise-agent", "kubelet"):
            event = {
                "metadata": {"name": f"odd.{component}"},
                "involvedObject": {"kind": "Node", "name": "odd"},
                "reason": "UnknownCPUModel",
                "type": "Warning",
                "message": f"of {component}",
                "count": 3,
                "firstTimestamp": "2026-11-21T02:00:00Z",
                "lastTimestamp": "2026-11-21T03:00:00Z",
                "source": {"component": component},
            }
            await client.create(EVENTS, event, "default")


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with local_api_server(tmp_path_factory.mktemp("cluster")) as path:
        asyncio.run(fill(path))
        yield path


@asynccontextmanager
async def followed(kubeconfig: Path) -> AsyncIterator[tuple[PageTables, PageDocuments]]:
    config = load_config(str(kubeconfig))
    async with asyncio.TaskGroup() as group, Client(config) as client:
        cluster = FollowedCluster(config, client, config_namespace=names.CONFIG_NAMESPACE)
        await cluster.list_nodes()
        cluster.follow(group)
        tables = PageTables(cluster)
        try:
            await tables.made()
            yield tables, PageDocuments(cluster)
        finally:
            cluster.stop()


@pytest.fixture(scope="module")
def page(kubeconfig: Path) -> dict[str, Any]:
    """Everything that the page can show, by its path below /api/."""

    async def read() -> dict[str, Any]:
        async with followed(kubeconfig) as (tables, documents):
            shown: dict[str, Any] = {f"tables/{name}": tables.table(name) for name in tables.names}
            for name in NODES_SHOWN:
                shown[f"nodes/{name}"] = await documents.document("nodes", name)
            for each in PODS_SHOWN:
                name = f"default/{each['metadata']['name']}"
                shown[f"pods/{name}"] = await documents.document("pods", name)
            return shown

    return asyncio.run(read())


def test_with_the_charts_role_the_page_lacks_nothing(
    kubeconfig: Path, page: dict[str, Any], tmp_path: Path
) -> None:
    role = chart.render({"web": {"enabled": True, "tlsSecret": "certificate"}})["web/rbac.yaml"]
    acting_as(kubeconfig, *account_identity(chart.NAMESPACE, "corewise-web"), tmp_path / "as-web")

    async def read() -> None:
        async with Client(load_config(str(kubeconfig))) as client:
            for manifest in yaml.safe_load_all(role):
                await apply(client, manifest)
        async with followed(tmp_path / "as-web") as (tables, documents):
            for name in tables.names:
                seen, known = tables.table(name), page[f"tables/{name}"]
                assert seen["remarks"] == known["remarks"]
                assert [row["name"] for row in seen["rows"]] == [row["name"] for row in known["rows"]]
            with pytest.raises(UnknownObject):
                tables.table("nodes", "default")
            assert tables.table("pods", "default") == tables.table("pods")
            assert tables.table("pods")["rows"] is tables.table("pods")["rows"]
            assert tables.table("pods", "defaul")["rows"] == []
            for kind, name in (("nodes", "fast"), ("pods", "default/nowhere"), ("pods", "default/offline")):
                shown = await documents.document(kind, name)
                assert shown["explanation"] == page[f"{kind}/{name}"]["explanation"]
            texts = (await documents.document("what-if", ""))["config"]
            given = {names.NORMALIZATION_KEY: normalization(), names.SUPPRESSION_KEY: "{"}
            assert texts == {**dict.fromkeys(KEYS, ""), **given}
            change = {"change": "label", "node": "fast", "label": "pool", "value": "a"}
            assert "plan" in plain(await documents.what_if(change))

    asyncio.run(read())


def as_reader(kubeconfig: Path, tmp_path: Path, *verbs: str) -> Path:
    """Return the kubeconfig of an account that may list nodes and pods, or more, and nothing else."""
    acting_as(kubeconfig, *account_identity("default", "reader"), tmp_path / "as-reader")
    rules = [{"apiGroups": ["*"], "resources": ["nodes", "pods"], "verbs": ["list", "watch", *verbs]}]
    group = "rbac.authorization.k8s.io"
    meta = {"metadata": {"name": "reader"}, "apiVersion": f"{group}/v1"}
    binding = {
        **meta,
        "kind": "ClusterRoleBinding",
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": "default"}],
    }

    async def grant() -> None:
        async with Client(load_config(str(kubeconfig))) as client:
            for manifest in ({**meta, "kind": "ClusterRole", "rules": rules}, binding):
                await apply(client, manifest)

    asyncio.run(grant())
    return tmp_path / "as-reader"


def test_forbidden_config_map_is_not_taken_for_empty(kubeconfig: Path, tmp_path: Path) -> None:
    async def read() -> None:
        async with followed(as_user) as (tables, documents):
            (row,) = (each for each in tables.table("nodes")["rows"] if each["name"] == "slow")
            assert row["problem"] == Reason.CONFIG_INVALID
            with pytest.raises(ChangeRefused, match=r"is not read yet: .*cannot list"):
                await documents.what_if({"change": "model", "model": FAST, "ratio": "1"})

    as_user = as_reader(kubeconfig, tmp_path)
    asyncio.run(read())


def test_pod_is_explained_without_what_is_forbidden(kubeconfig: Path, tmp_path: Path) -> None:
    command = ["explain", "pod", "default/shared", "-o", "json"]
    as_user = as_reader(kubeconfig, tmp_path, "get")
    result = CliRunner().invoke(corewise, [*command, "--kubeconfig", str(as_user)])
    assert json.loads(result.stdout)["node"] == "fast"
    assert "say of the pod: " in result.stderr
    assert "cannot get resource" in result.stderr

    async def read() -> None:
        async with followed(as_user) as (_, documents):
            shown = await documents.document("pods", "default/shared")
            assert any("say of the pod: " in each for each in shown["explanation"]["missing"])

    asyncio.run(read())


def test_problems_remark_on_namespaces_that_are_forbidden(kubeconfig: Path, tmp_path: Path) -> None:
    async def read() -> None:
        async with followed(as_user) as (tables, _):
            (remark,) = tables.table("problems")["remarks"]
            assert "the account of corewise web may not list and watch namespaces" in remark
            assert remark.endswith("with your own account: corewise report")

    as_user = as_reader(kubeconfig, tmp_path)
    asyncio.run(read())


def printed(kubeconfig: Path, command: str) -> Any:
    """Return the JSON that a command prints with -o json."""
    arguments = [*command.split(), "-o", "json", "--kubeconfig", str(kubeconfig)]
    result = CliRunner().invoke(corewise, arguments)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def plain(value: Any) -> Any:
    """Return a value as it arrives in a browser."""
    return json.loads(msgspec.json.encode(value))


@pytest.mark.parametrize(
    ("path", "command"),
    [
        ("tables/nodes", "nodes --all"),
        ("tables/pods", "top pods"),
        ("tables/offline", "top offline"),
        *((f"nodes/{name}:explanation", f"explain node {name}") for name in NODES_SHOWN),
        *((f"nodes/{name}:suppression", f"explain suppression {name}") for name in NODES_SHOWN),
        *(
            (f"pods/default/{each['metadata']['name']}", f"explain pod default/{each['metadata']['name']}")
            for each in PODS_SHOWN
        ),
    ],
)
def test_each_view_has_what_the_command_prints(
    kubeconfig: Path, page: dict[str, Any], path: str, command: str
) -> None:
    wanted = printed(kubeconfig, command)
    where, _, part = path.partition(":")
    shown = plain(page[where])
    if where.startswith("tables/"):
        for row in shown["rows"] if where == "tables/nodes" else ():
            for more in ("shortModel", "labels", "problems", "onlineCPUMilli", "worthCPU"):
                del row[more]
        assert {"items": shown["rows"], "total": shown["total"]} == wanted
    else:
        assert shown[part or "explanation"]["record"] == wanted


def test_node_shows_who_holds_cpus_and_corewise_events(page: dict[str, Any]) -> None:
    shown = plain(page["nodes/fast"])["topology"]
    assert [(each["cpu"], each["numaNode"]) for each in shown["threads"]][:2] == [(0, 0), (1, 0)]
    assert shown["owners"] == [{"pod": "default/owner", "cpus": "0-1"}]
    assert (shown["sharedCPUs"], shown["freeCPUs"], shown["conflicts"]) == ("2-7", "2-7", [])
    events = plain(page["nodes/odd"])["events"]
    assert sorted(each["component"] for each in events) == ["corewise-agent", "corewise-manager"]


@pytest.mark.parametrize(
    ("name", "sharing", "limit", "quota"),
    [
        ("shared", "CPUShare pod", 3000, 150_000),
        ("owner", "owns CPUs", 2000, None),
        ("nowhere", "CPUShare pod", 64_000, 6_400_000),
        ("offline", "CPUShare pod", None, None),
    ],
)
def test_quota_is_what_agent_derives_from_the_limit(
    page: dict[str, Any], name: str, sharing: str, limit: int | None, quota: int | None
) -> None:
    shown = page[f"pods/default/{name}"]["quota"]
    assert shown["sharing"] == sharing
    assert shown["periodMicroseconds"] == 100_000
    assert shown["containers"] == [{"name": "main", "limitCPUMilli": limit, "quotaMicroseconds": quota}]


def test_showing_a_decision_keeps_counts_and_row_records(kubeconfig: Path) -> None:
    async def look() -> None:
        async with followed(kubeconfig) as (tables, documents):
            first, second = tables.table("nodes"), tables.table("nodes")
            assert all(a is b for a, b in zip(first["rows"], second["rows"], strict=True))
            once = await documents.document("pods", "default/shared")
            again = await documents.document("pods", "default/shared")
            assert plain(once) == plain(again)
            topology = (await documents.document("nodes", "fast"))["topology"]
            await documents.document("pods", "default/owner")
            assert (await documents.document("nodes", "fast"))["topology"] == topology
            for kind, name in (("nodes", "none"), ("pods", "default/none"), ("hosts", "h")):
                with pytest.raises(UnknownObject):
                    await documents.document(kind, name)
            with pytest.raises(UnknownObject):
                tables.table("none")

    asyncio.run(look())


def test_showing_a_pod_keeps_the_order_of_claims(kubeconfig: Path) -> None:
    owners = ("first", "second", "third")

    async def look() -> None:
        async with followed(kubeconfig) as (_, documents):
            before = (await documents.document("nodes", "slow"))["topology"]
            assert len(before["conflicts"]) == len(owners) - 1
            for name in owners:
                await documents.document("pods", f"default/{name}")
                assert (await documents.document("nodes", "slow"))["topology"] == before

    async def claim_and_look() -> None:
        async with Client(load_config(str(kubeconfig))) as client:
            for name in owners:
                await client.create(
                    PODS, pod(name, "slow", {"cpu": "2", "memory": "1Gi"}, **OWNING), "default"
                )
            try:
                await look()
            finally:
                for name in owners:
                    await client.delete(PODS, name, "default")

    asyncio.run(claim_and_look())


def test_every_problem_row_has_reason_object_and_fix(page: dict[str, Any]) -> None:
    rows = {row["name"]: row for row in plain(page["tables/problems"])["rows"]}
    assert set(rows) == {
        f"ConfigInvalid ConfigMap/{names.CONFIG_NAMESPACE}/{names.CONFIG_NAME}",
        "UnknownCPUModel Node/odd",
        "OfferFrozen Node/odd",
        "NormalizeLabelInvalid Namespace/jobs",
    }
    label = rows["NormalizeLabelInvalid Namespace/jobs"]
    assert label["command"] == f"kubectl label --overwrite namespace jobs {names.NORMALIZE_CPUSET}=true"
    model = rows["UnknownCPUModel Node/odd"]
    assert model == {
        "name": "UnknownCPUModel Node/odd",
        "reason": "UnknownCPUModel",
        "kind": "Node",
        "object": "odd",
        "message": model["message"],
        "node": "odd",
        "severity": "error",
        "meaning": Reason.UNKNOWN_CPU_MODEL.meaning,
        "atLeast": False,
        "fix": Reason.UNKNOWN_CPU_MODEL.fix,
        "command": "corewise explain node odd",
        "since": "2026-11-21T02:00:00Z",
        "lastEvent": "2026-11-21T03:00:00Z",
        "current": True,
    }
    explained = page["nodes/odd"]["explanation"]["record"]["problems"]
    assert model["message"] in {each["message"] for each in explained}


def test_unread_label_is_a_problem_until_corrected(kubeconfig: Path) -> None:
    """Until then somebody has to act on it; then it is over, as the Event about it says."""
    reason = Reason.NORMALIZE_LABEL_INVALID
    event = {
        "metadata": {"name": "jobs.label"},
        "involvedObject": {"kind": "Namespace", "name": "jobs"},
        "reason": reason,
        "type": "Warning",
        "message": "as it was reported",
        "firstTimestamp": "2026-11-21T02:00:00Z",
        "lastTimestamp": "2026-11-21T02:00:00Z",
        "source": {"component": names.MANAGER_COMPONENT},
    }

    async def look() -> None:
        async with Client(load_config(str(kubeconfig))) as client, followed(kubeconfig) as (tables, _):

            async def shows(severity: str, since: str | None = None) -> None:
                for _ in range(1500):
                    rows = [row for row in tables.table("problems")["rows"] if row["reason"] == reason]
                    found = [row["severity"] for row in rows]
                    if found == [severity] and since in {None, *(r["since"] for r in rows)}:
                        return
                    await asyncio.sleep(0.02)
                pytest.fail(f"{found} is not {severity}")

            async def label(value: str) -> None:
                await client.patch(
                    NAMESPACES, "jobs", {"metadata": {"labels": {names.NORMALIZE_CPUSET: value}}}
                )

            await shows("error")
            await client.create(EVENTS, event, "default")
            try:
                await shows("error", "2026-11-21T02:00:00Z")
                await label("true")
                await shows("over")
                await label("True")
                await shows("error")
            finally:
                await client.delete(EVENTS, "jobs.label", namespace="default")
                await label("True")
            await shows("error")

    asyncio.run(look())


def test_conflict_of_entries_follows_the_labels_of_nodes(kubeconfig: Path) -> None:
    entries = [{"name": each, "nodeSelector": {"matchLabels": {each: "1"}}} for each in ("pool", "tier")]
    conflicting = {"enable": True, "nodeConfigs": entries}

    async def look() -> None:
        async with Client(load_config(str(kubeconfig))) as client, followed(kubeconfig) as (tables, _):

            async def shows(conflict: bool) -> None:
                for _ in range(1500):
                    rows = tables.table("problems")["rows"]
                    found = {row["reason"] for row in rows if row["current"]}
                    if (Reason.CONFLICTING_NODE_CONFIGS in found) == conflict:
                        return
                    await asyncio.sleep(0.02)
                pytest.fail(f"a conflict is {'missing' if conflict else 'left'}")

            async def label(value: str | None) -> None:
                await client.patch(NODES, "slow", {"metadata": {"labels": {"pool": value, "tier": value}}})

            async def configure(text: str | None) -> None:
                patch = {"data": {names.OVERSUBSCRIPTION_KEY: text}}
                await client.patch(CONFIG_MAPS, names.CONFIG_NAME, patch, namespace=names.CONFIG_NAMESPACE)

            try:
                await configure(json.dumps(conflicting))
                await label("1")
                await shows(True)
                await label(None)
                await shows(False)
                await label("1")
                await shows(True)
            finally:
                await configure(None)
                await label(None)
            await shows(False)

    asyncio.run(look())


def problem(reason: Reason, name: str = "n1") -> KnownProblem:
    return KnownProblem("Node", name, reason, "so", name)


def test_problem_age_comes_from_event_or_first_sighting() -> None:
    history = ProblemHistory()
    event = Event(
        ObjectReference("Pod", "p", "default"),
        reason="CPUsTaken",
        type="Warning",
        message="then",
        first_timestamp="2026-11-21T01:00:00Z",
        last_timestamp="2026-11-21T02:00:00Z",
    )
    first = history.rows([problem(Reason.OFFER_FROZEN)], [event], NOW)
    later = history.rows([problem(Reason.OFFER_FROZEN)], [], NOW + timedelta(minutes=5))
    again = history.rows([], [], NOW + timedelta(minutes=6)) + history.rows(
        [problem(Reason.OFFER_FROZEN)], [], NOW + timedelta(minutes=7)
    )
    assert [(row["object"], row["since"][11:16], row["current"]) for row in first] == [
        ("n1", "03:00", True),
        ("default/p", "01:00", False),
    ]
    assert [row["since"][11:16] for row in (*later, *again)] == ["03:00", "03:07"]


def test_problem_seen_at_the_first_look_is_older() -> None:
    history = ProblemHistory()
    first = history.rows([problem(Reason.OFFER_FROZEN)], [], NOW)
    both = history.rows(
        [problem(Reason.OFFER_FROZEN), problem(Reason.SLICE_MISSING)], [], NOW + timedelta(minutes=5)
    )
    assert [row["atLeast"] for row in first] == [True]
    assert {row["reason"]: (row["atLeast"], row["severity"]) for row in both} == {
        "OfferFrozen": (True, "error"),
        "SliceMissing": (False, "warning"),
    }
    assert counts(both) == {"error": 1, "warning": 1, "over": 0, "nodes": 1}
    assert by_node(both) == {"n1": (("OfferFrozen", "error"), ("SliceMissing", "warning"))}


@pytest.mark.parametrize(
    ("last", "is_so", "shown"),
    [("02:01", False, []), ("02:03", False, ["over"]), ("02:01", True, ["error"])],
)
def test_race_of_start_up_leaves_no_problem(last: str, is_so: bool, shown: list[str]) -> None:
    event = Event(
        ObjectReference("Node", "n1"),
        reason="CPUFactsMissing",
        type="Warning",
        message="none yet",
        first_timestamp="2026-11-21T02:00:30Z",
        last_timestamp=f"2026-11-21T{last}:00Z",
    )
    known = [problem(Reason.CPU_FACTS_MISSING)] if is_so else []
    rows = ProblemHistory().rows(known, [event], NOW, lambda _: "2026-11-21T02:00:00Z")
    assert [row["severity"] for row in rows] == shown


def test_node_history_keeps_an_hour_below_8_kib() -> None:
    history, report = OfflineHistory(NOW), node_report("n1", {}, labeled(REPORT)["annotations"], NOW)
    row = offline_table.row_of(report)
    assert row is not None
    assert history.record("n1")["times"] == history.record()["times"] == []
    for step in range(POINTS + 3):
        at = NOW + timedelta(seconds=EVERY * step)
        history.take([row], offline_table.total_of([row]), {"n1": 4000, "": 9}, at)
    shown = history.record("n1")
    assert len(shown["times"]) == POINTS
    assert shown["times"][-1] - shown["times"][0] == KEPT - EVERY
    assert {name: shown[name][-1] for name in AMOUNTS} == {
        "onlineCPUMilli": 10_000,
        "offlineCPUMilli": 3_000,
        "offeredCPUMilli": 2_500,
        "quotaCPUMilli": 4_000,
        "batchCPUNormalizedMilli": 4_000,
        "nodesSuppressing": 1,
    }
    assert history.record()["batchCPUNormalizedMilli"][-1] == 4009
    series = history._nodes["n1"]
    assert sum(map(sys.getsizeof, (series.times, *series.columns, series.columns, series.__dict__))) < 8192
    history.take([], offline_table.total_of([]), {}, NOW)
    assert history.record("n1")["times"] == []


MODELS = {FAST: {"baseRatio": 2, "turboEnabledRatio": 2.5}, SLOW: {"baseRatio": 1, "turboEnabledRatio": 1.2}}
"""As :func:`manager.world.normalization` has them."""


def tried(kubeconfig: Path, **change: Any) -> Any:
    async def send() -> Any:
        async with followed(kubeconfig) as (_, documents):
            return plain(await documents.what_if(change))

    return asyncio.run(send())


def dump_of(kubeconfig: Path, file: Path) -> str:
    """Write and return what kubectl get -o json would print."""

    async def listed() -> list[Any]:
        async with Client(load_config(str(kubeconfig))) as client:
            return [
                {**each, "kind": resource.kind, "apiVersion": resource.api_version}
                for resource in (NODES, PODS, NODE_RESOURCE_TOPOLOGIES, CONFIG_MAPS, MUTATING_POLICY_BINDINGS)
                for each in await client.list(resource.typed(dict))
            ]

    text = json.dumps({"kind": "List", "items": asyncio.run(listed())})
    file.write_text(text)
    return text


CHANGES: list[tuple[str, dict[str, Any]]] = [
    (
        normalization(models={**MODELS, FAST: {**MODELS[FAST], "baseRatio": 1}}),
        {"change": "model", "model": FAST, "ratio": "1"},
    ),
    (
        normalization(models={**MODELS, "Odd CPU": {"baseRatio": 3}}),
        {"change": "model", "model": "Odd CPU", "ratio": "3.00"},
    ),
    (normalization(enable=False), {"change": "config", "key": names.NORMALIZATION_KEY}),
]


def key_of_patch(command: str) -> str:
    """Return the text that a command's patch gives the one key of the ConfigMap that it sets."""
    _, *patch, _ = command.split("\n")
    ((_, text),) = yaml.safe_load("\n".join([*patch, ""]))["data"].items()
    return str(text)


@pytest.mark.parametrize(("text", "change"), CHANGES)
def test_change_is_planned_like_the_command_without_writing(
    kubeconfig: Path, tmp_path: Path, text: str, change: dict[str, Any]
) -> None:
    before = dump_of(kubeconfig, tmp_path / "dump.json")
    for name, config in (("old", normalization()), ("new", text)):
        data = {names.NORMALIZATION_KEY: config}
        policy = {"kind": "ConfigMap", "metadata": {"name": names.CONFIG_NAME}, "data": data}
        (tmp_path / f"{name}.json").write_text(json.dumps(policy))
    if change["change"] == "config":
        change = {**change, "text": text}
    shown = tried(kubeconfig, **change)
    files = ["--from", str(tmp_path / "dump.json"), "--policy", str(tmp_path / "new.json")]
    result = CliRunner().invoke(
        corewise, ["plan", *files, "--against", str(tmp_path / "old.json"), "-o", "json"]
    )
    wanted = json.loads(result.stdout)
    for each in (*wanted["plans"], *shown["plan"]["plans"]):
        del each["podsPerSecond"], each["configuration"]
    for each in wanted["plans"]:
        del each["placements"]
    held_back, notes = shown["difference"]["heldBack"], wanted.pop("notes")
    assert all(any(f"({each['node']})" in note for note in notes) for each in held_back)
    assert (len(notes), shown["plan"].pop("notes")) == (len(held_back), [])
    assert {**shown["plan"], "source": ""} == {**wanted, "source": ""}
    assert wanted["difference"].items() <= shown["difference"].items()
    assert shown["difference"]["ratios"]
    assert shown["command"].startswith(f"kubectl -n {names.CONFIG_NAMESPACE} patch configmap")
    assert json.loads(key_of_patch(shown["command"])) == json.loads(text)
    assert dump_of(kubeconfig, tmp_path / "dump.json") == before


def test_bad_key_gets_config_check_answer_without_planning(kubeconfig: Path, tmp_path: Path) -> None:
    text = '{"enable": true,\n "ratioModel": {"Fast CPU": {"baseRatio": 0.5}}}'
    (tmp_path / "key.json").write_text(text)
    shown = tried(kubeconfig, change="config", key=names.NORMALIZATION_KEY, text=text)
    arguments = ["config", "check", str(tmp_path / "key.json"), "--key", names.NORMALIZATION_KEY]
    arguments += ["--cluster", "--kubeconfig", str(kubeconfig), "-o", "json"]
    wanted = json.loads(CliRunner().invoke(corewise, arguments).stdout)
    del wanted["foreignNames"]
    assert {**shown["check"], "file": wanted["file"]} == wanted
    assert shown["problems"] == wanted["problems"]
    assert wanted["errors"] == 1
    assert "plan" not in shown


UNDONE: list[tuple[dict[str, Any], str]] = [
    (
        {"change": "label", "node": "slow", "label": "pool", "value": "a"},
        "kubectl label node slow pool- --overwrite",
    ),
    (
        {"change": "label", "node": "odd", "label": names.OVERSUBSCRIPTION, "value": None},
        f"kubectl label node odd {names.OVERSUBSCRIPTION}=true --overwrite",
    ),
    (
        {"change": "ratio", "node": "slow", "ratio": "1.5"},
        (
            f"kubectl annotate node slow {names.AMPLIFICATION_RATIO}- {names.AMPLIFICATION_ORIGINAL}- "
            "--overwrite"
        ),
    ),
    (
        {"change": "ratio", "node": "fast", "ratio": "1.5"},
        f"kubectl annotate node fast '{names.AMPLIFICATION_ORIGINAL}={{}}' --overwrite",
    ),
    (
        {"change": "ratio", "ratio": "1.5"},
        (
            f"kubectl -n {names.CONFIG_NAMESPACE} patch configmap {names.CONFIG_NAME} --type merge "
            f"--patch-file /dev/stdin <<'EOF'\ndata:\n  {names.AMPLIFICATION_KEY}: null\nEOF"
        ),
    ),
]


@pytest.mark.parametrize(("change", "undo"), UNDONE)
def test_undo_restores_what_was_there(kubeconfig: Path, change: dict[str, Any], undo: str) -> None:
    assert tried(kubeconfig, **change)["undo"] == undo


def test_change_creates_the_config_map_where_absent() -> None:
    live = LiveObjects({}, {}, (), {}, {}, ClusterContext(NOTHING_CONFIGURED), "here", no_config_map=True)
    shown = try_change({"change": "ratio", "ratio": "1.5"}, live)
    first, *manifest, _ = shown["command"].split("\n")
    assert first == "kubectl -n here create -f - <<'EOF'"
    created = yaml.safe_load("\n".join(manifest))
    assert (created["kind"], created["metadata"]) == ("ConfigMap", {"name": names.CONFIG_NAME})
    assert [*created["data"]] == [names.AMPLIFICATION_KEY]
    assert shown["undo"] == f"kubectl -n here delete configmap {names.CONFIG_NAME}"


@pytest.mark.parametrize(
    ("normalization", "original"),
    [({}, "={cpu:1.10}"), ({names.NORMALIZATION_RATIO: "1.50"}, "-")],
    ids=["of the user", "of Koordinator"],
)
def test_undo_keeps_whose_a_ratio_is(normalization: dict[str, str], original: str) -> None:
    annotations = {names.AMPLIFICATION_RATIO: '{"cpu":1.10}', **normalization}
    nodes = {"n1": Node(ObjectMeta(name="n1", annotations=annotations))}
    live = LiveObjects(nodes, {}, (), {}, {}, ClusterContext(NOTHING_CONFIGURED), "here")
    undo = try_change({"change": "ratio", "node": "n1", "ratio": "1.5"}, live)["undo"]
    stated = undo.replace("'", "").replace('"', "").split()[4:-1]
    assert stated == [
        f"{names.AMPLIFICATION_RATIO}={{cpu:1.10}}",
        f"{names.AMPLIFICATION_ORIGINAL}{original}",
    ]


def test_undo_of_a_key_restores_its_whole_text(kubeconfig: Path) -> None:
    shown = tried(kubeconfig, change="model", model=FAST, ratio="1")
    assert key_of_patch(shown["undo"]) == normalization()


def test_held_back_decrease_is_named_with_its_command(
    kubeconfig: Path,
) -> None:
    label = tried(kubeconfig, change="label", node="fast", label=names.NORMALIZATION_ENABLED, value="false")
    assert label["command"] == f"kubectl label node fast {names.NORMALIZATION_ENABLED}=false --overwrite"
    assert label["difference"]["ratios"] == [{"node": "fast", "before": "2.00", "after": "1.00"}]
    (held,) = label["difference"]["heldBack"]
    assert (held["node"], held["already"]) == ("fast", False)
    assert "cpu" in held["messages"][0]
    ratio = tried(kubeconfig, change="ratio", node="slow", ratio="1.5")
    assert ratio["command"] == (
        f"kubectl annotate node slow '{names.AMPLIFICATION_RATIO}={{\"cpu\":1.50}}' --overwrite"
    )
    assert ratio["difference"]["heldBack"] == []
    assert ratio["difference"]["ratios"] == [{"node": "slow", "before": "1.00", "after": "1.50"}]
    memory = tried(kubeconfig, change="ratio", node="slow", resource="memory", ratio="1.5")
    assert memory["difference"]["ratios"] == [
        {"node": "slow", "before": "1.00", "after": "1.00, memory 1.50"}
    ]
    kept = tried(kubeconfig, change="ratio", node="fast", ratio="1.5")
    assert names.AMPLIFICATION_ORIGINAL in kept["command"]
    assert kept["difference"]["ratios"] == [{"node": "fast", "before": "2.00", "after": "3.00"}]


async def test_slow_or_killed_change_process_leaves_nothing_running(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started, told = list[asyncio.subprocess.Process](), asyncio.Event()
    start = asyncio.create_subprocess_exec

    async def noted(*command: Any, **options: Any) -> asyncio.subprocess.Process:
        started.append(await start(*command, **options))
        told.set()
        return started[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", noted)
    live = LiveObjects({}, {}, (), {}, {}, ClusterContext(NOTHING_CONFIGURED), "here")
    with pytest.raises(ChangeNotTried, match="takes longer than 0 s"):
        await tried_apart({}, live, limit=0.05)
    told.clear()
    left = asyncio.create_task(tried_apart({}, live))
    await told.wait()
    left.cancel()
    with pytest.raises(asyncio.CancelledError):
        await left
    told.clear()
    killed = asyncio.create_task(tried_apart({}, live))
    await told.wait()
    started[-1].kill()
    with pytest.raises(ChangeNotTried, match="ended with code -9"):
        await killed
    assert [each.returncode for each in started] == [-9, -9, -9]
    with pytest.raises(ChangeRefused, match="this is not a change"):
        await tried_apart({}, live)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, "this is not a change"),
        ({"change": "label", "node": "none", "label": "a"}, "there is no node none"),
        ({"change": "label", "node": "fast", "label": "a b"}, "label a b"),
        ({"change": "ratio", "node": "fast", "ratio": "much"}, "ratio 'much'"),
        ({"change": "config", "key": "other"}, "'other' is not a key of corewise"),
        ({"change": "model", "ratio": "1"}, "name the CPU model"),
    ],
)
def test_what_is_no_change_is_refused_in_words(change: dict[str, Any], said: str) -> None:
    fast = Node(metadata=ObjectMeta(name="fast"))
    live = LiveObjects({"fast": fast}, {}, (), {}, {}, ClusterContext(NOTHING_CONFIGURED), "here")
    with pytest.raises(ChangeRefused) as refused:
        try_change(change, live)
    assert said in str(refused.value)


def test_change_process_ends_with_the_server_awaiting_it() -> None:
    command = [sys.executable, "-P", "-m", "corewise.views.page.trial"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdout.close()  # as the kernel does when the server is killed
            assert process.wait(timeout=120) == 1
        finally:
            process.kill()
