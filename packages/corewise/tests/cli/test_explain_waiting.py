"""``corewise explain interference NAMESPACE/POD``: the verdict on a running pod, or why there is none."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner, Result

from api_process import local_api_server
from cli.offline_world import heartbeat
from corewise.cli import corewise
from corewise.cli.errors import ExitCode, Failure
from corewise.kube.client import Client
from corewise.kube.config import load_config
from corewise.kube.resources import NODE_RESOURCE_TOPOLOGIES, PODS
from corewise.vocabulary.interference_report import InterferenceReport, SuspectReport, WaitingReport
from corewise.vocabulary.names import INTERFERENCE_REPORT
from corewise.vocabulary.reasons import Reason
from manager.world import CRD, eventually

BATCH = SuspectReport(
    name="batch/etl-0",
    share=0.71,
    slowdown=0.33,
    used=0.62,
    wanted=0.95,
    request=0.2,
    correlation=0.93,
)
NEXT = SuspectReport(name="default/cache", share=0.09, slowdown=0.06, used=0.05, wanted=0.06, request=0.1)


def now() -> datetime:
    return datetime.now(UTC)


def rfc(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def waiting(reason: Reason, *suspects: SuspectReport, **more: Any) -> WaitingReport:
    return WaitingReport(
        **{
            "pod": "default/web",
            "uid": "u1",
            "reason": reason,
            "used": 0.31,
            "waited": 0.21,
            "samples": 24,
            "seconds": 29.0,
            "since": rfc(now() - timedelta(seconds=185)),
            "suspects": list(suspects),
            **more,
        }
    )


def report(*pods: WaitingReport, age: int = 4, **more: Any) -> InterferenceReport:
    time = rfc(now() - timedelta(seconds=age))
    return InterferenceReport(
        **{"time": time, "watched": 12, "sources": ["cpu.pressure"], "pods": list(pods), **more}
    )


def objects(
    shown: InterferenceReport | str | None,
    *,
    node: str = "n1",
    phase: str = "Running",
    bound: int | None = None,
) -> list[Any]:
    """A pod, bound so many seconds ago, and its node's topology."""
    at = rfc(now() - timedelta(seconds=bound or 0))
    conditions = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": at}]
    pod = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": "web", "namespace": "default", "uid": "u1"},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "x"}]} if node else {},
        "status": {"phase": phase, **({} if bound is None else {"conditions": conditions})},
    }
    text = shown.encode() if isinstance(shown, InterferenceReport) else shown
    topology = {
        "kind": "NodeResourceTopology",
        "apiVersion": "topology.node.k8s.io/v1alpha1",
        "metadata": {"name": "n1", "annotations": {INTERFERENCE_REPORT: text} if text else {}},
        "topologyPolicies": ["None"],
        "zones": [],
    }
    return [pod, topology]


def call(*arguments: str) -> Result:
    return CliRunner().invoke(corewise, ["explain", "interference", *arguments])


def explain(tmp_path: Path, items: list[Any], *arguments: str) -> str:
    dump = tmp_path / "dump.json"
    node = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"conditions": [heartbeat()]}}
    dump.write_text(json.dumps({"items": [*items, node]}))
    result = call("default/web", "--from", str(dump), *arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_an_antagonist_is_named_with_its_figures(tmp_path: Path) -> None:
    text = explain(tmp_path, objects(report(waiting(Reason.ANTAGONIST_NAMED, BATCH, NEXT))))
    assert text.startswith("default/web: waits for CPUs on node n1\n")
    for line in (
        "waits          0.21 s a second while others run: 40% of the time it wants to run",
        "verdict        AntagonistNamed for 3m",
        "antagonist     batch/etl-0",
        "  for          it explains 71% of the wait, 33% of the wanted time",
        "it uses 0.62 CPUs and wants 0.95; it requests 0.20",
        "correlation of what it wants with the wait: +0.93",
        "  against      it does not explain 29% of the wait",
        "suspect        default/cache",
        "  against      it uses 0.05 CPUs, no more than the 0.10 that it requests",
        "kubectl -n batch describe pod etl-0",
        "12 pods watched, by cpu.pressure",
    ):
        assert line in text, text


def test_verdict_without_suspects_is_shown(tmp_path: Path) -> None:
    items = objects(report(waiting(Reason.ANTAGONIST_NAMED)))
    assert "verdict        AntagonistNamed for 3m" in explain(tmp_path, items)
    assert json.loads(explain(tmp_path, items, "-o", "json"))["antagonist"] is None


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_documents_name_the_antagonist(tmp_path: Path, form: str) -> None:
    text = explain(tmp_path, objects(report(waiting(Reason.ANTAGONIST_NAMED, BATCH))), "-o", form)
    record = json.loads(text) if form == "json" else yaml.safe_load(text)
    assert (record["pod"], record["node"], record["antagonist"]) == ("default/web", "n1", "batch/etl-0")
    assert record["suspects"] == [msgspec.to_builtins(BATCH)]
    assert record["reportAge"] >= 4


@pytest.mark.parametrize(
    ("reason", "more", "said"),
    [
        (Reason.NO_SINGLE_ANTAGONIST, {}, "suspect        default/cache"),
        (Reason.OWN_QUOTA_THROTTLES, {"throttled": 0.5}, "is throttled on node n1"),
        (Reason.OWN_THREADS_WAIT, {"among_itself": 1.5}, "1.50 s a second for its own threads"),
    ],
)
def test_without_an_antagonist_the_reason_is_shown(
    tmp_path: Path, reason: Reason, more: dict[str, Any], said: str
) -> None:
    text = explain(tmp_path, objects(report(waiting(reason, NEXT, **more))))
    assert said in text
    assert f"verdict        {reason} for 3m" in text
    assert "antagonist     " not in text
    record = json.loads(explain(tmp_path, objects(report(waiting(reason, NEXT))), "-o", "json"))
    assert (record["reason"], record["antagonist"]) == (reason, None)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: objects(report()), "waits little for CPUs on node n1"),
        (lambda: objects(report(unknown=12)), "CPUWaitUnknown"),
        (lambda: objects(report(unknown=2)), "the wait of 2 pods there: it may be one of them"),
        (lambda: objects(report(left_out=3)), "left out of the report: 3 more pods that wait: it may be"),
        (lambda: objects(report(waiting(Reason.ANTAGONIST_NAMED, BATCH, uid="older"))), "waits little"),
        (lambda: objects(report(waiting(Reason.ANTAGONIST_NAMED, BATCH), age=200)), "agent does not run"),
        (lambda: objects(report(age=1900)), "agent does not run"),
        (lambda: objects(report(age=900)), "waits little"),
        (lambda: objects("not JSON"), "cannot be read"),
        (lambda: objects(None), "no agent has reported on pods of node n1"),
        (lambda: objects(None)[:1], "its NodeResourceTopology cannot be read"),
        (lambda: objects(report(), node=""), "corewise explain pod default/web"),
        (lambda: objects(report(), phase="Succeeded"), "its phase is Succeeded"),
    ],
)
def test_what_is_not_known_says_why(tmp_path: Path, made: Callable[[], list[Any]], said: str) -> None:
    text = " ".join(explain(tmp_path, made()).split())
    assert " ".join(said.split()) in text
    assert "antagonist" not in text


@pytest.mark.parametrize(
    ("made", "bound", "reason"),
    [
        ({"age": 540}, 3600, "WaitsLittle"),
        ({"age": 540}, 605, "WaitsLittle"),
        ({"age": 540}, 595, "TooFewSamples"),
        ({"age": 540}, 15, "TooFewSamples"),
        ({"age": 4, "unknown": 2}, 3600, None),
        ({"age": 4, "left_out": 1}, 3600, None),
        ({"age": 4, "unknown": 12}, 15, "CPUWaitUnknown"),
    ],
)
def test_a_pod_not_judged_is_not_acquitted(
    tmp_path: Path, made: dict[str, int], bound: int, reason: str | None
) -> None:
    items = objects(report(**made), bound=bound)
    assert json.loads(explain(tmp_path, items, "-o", "json"))["reason"] == reason
    assert ("waits little" in explain(tmp_path, items)) == (reason == "WaitsLittle")


@pytest.mark.parametrize("arguments", [(), ("--config", __file__), ("default/web", "--config", __file__)])
def test_a_call_names_a_pod_or_three_files(arguments: tuple[str, ...]) -> None:
    result = call(*arguments)
    assert result.exit_code == ExitCode.USAGE


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    async def fill(path: Path) -> None:
        async with Client(load_config(str(path))) as client:
            pod, topology = objects(report())
            created = await client.create(PODS.typed(dict), pod, "default")
            await client.patch(
                PODS.typed(dict),
                "web",
                {"status": {"phase": "Running"}},
                namespace="default",
                subresource="status",
            )
            named = waiting(Reason.ANTAGONIST_NAMED, BATCH, uid=created["metadata"]["uid"])
            topology["metadata"]["annotations"] = {INTERFERENCE_REPORT: report(named).encode()}
            definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            await client.request("POST", definitions, body=CRD)

            async def served() -> bool:
                return bool(await client.create(NODE_RESOURCE_TOPOLOGIES.typed(dict), topology))

            await eventually(served)

    with local_api_server(tmp_path_factory.mktemp("cluster")) as path:
        asyncio.run(fill(path))
        yield path


def test_a_cluster_is_read_by_ordinary_requests(kubeconfig: Path) -> None:
    result = call("default/web", "--kubeconfig", str(kubeconfig), "-o", "json")
    assert json.loads(result.stdout)["antagonist"] == "batch/etl-0"


def test_a_pod_that_is_missing_is_an_error(kubeconfig: Path) -> None:
    error = call("default/gone", "--kubeconfig", str(kubeconfig)).exception
    assert isinstance(error, Failure)
    assert error.exit_code == ExitCode.NOT_FOUND
    assert "there is no pod default/gone" in str(error)
