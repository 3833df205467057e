"""``corewise config suggest``: ratios from the scores in a dump, against its ConfigMap, and their effect."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from api_process import local_api_server
from corewise.amplification import Misfit
from corewise.cli import corewise
from corewise.cli.errors import ExitCode, Failure
from corewise.config.configuration import parse_normalization
from corewise.kube.client import Client
from corewise.kube.config import load_config
from corewise.kube.errors import api_error
from corewise.kube.resources import CONFIG_MAPS, NAMESPACES, NODE_RESOURCE_TOPOLOGIES, NODES, Resource
from corewise.normalization.decision import NormalizationVerdict
from corewise.ratios import decision
from corewise.ratios.cluster import ClusterContext
from corewise.ratios.nodes import NodeView
from corewise.views import ratio_suggestion
from corewise.vocabulary.names import (
    AMPLIFICATION_KEY,
    AMPLIFICATION_ORIGINAL,
    AMPLIFICATION_RATIO,
    CONFIG_NAME,
    CPU_BASIC_INFO,
    CPU_EVALUATION,
    NORMALIZATION_KEY,
    NORMALIZATION_RATIO,
    RAW_ALLOCATABLE,
    RAW_CAPACITY,
)
from manager.world import eventually
from normalization.fleets import FAST, SLOW, report
from shipped import definition

Suggest = Callable[..., Result]
MAKE_DUMP = "kubectl get nodes,pods,noderesourcetopologies,configmaps -A -o json > dump.json"
CRDS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
    type=dict,
)
FIELD = "hyperThreadTurboEnabledRatio"


def node(name: str, *, cpu: str = "8", ratio: str = "") -> dict[str, Any]:
    """Return a Node of 8 raw CPUs, amplified by its ratio if it has one."""
    annotations = {}
    if ratio:
        raw = '{"cpu":"8","memory":"16Gi"}'
        annotations = {
            NORMALIZATION_RATIO: ratio,
            AMPLIFICATION_ORIGINAL: "{}",
            AMPLIFICATION_RATIO: f'{{"cpu":{ratio}}}',
            RAW_CAPACITY: raw,
            RAW_ALLOCATABLE: raw,
        }
    amounts = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    return {
        "kind": "Node",
        "metadata": {"name": name, "annotations": annotations},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def topology(name: str, model: str, score: int | None, **changes: object) -> dict[str, Any]:
    """Return a node's NodeResourceTopology; without a score its agent has not measured."""
    info = {"cpuModel": model, "hyperThreadEnabled": True, "turboEnabled": True}
    annotations = {CPU_BASIC_INFO: json.dumps(info)}
    if score is not None:
        annotations[CPU_EVALUATION] = report(score, model, **changes).encode()
    return {"kind": "NodeResourceTopology", "metadata": {"name": name, "annotations": annotations}}


def pod(name: str, on: str, cpu: str) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "apps", "uid": name},
        "spec": {"nodeName": on, "containers": [container]},
        "status": {"phase": "Running"},
    }


def config_map(**models: float) -> dict[str, Any]:
    """Return the ConfigMap, normalization on, with ratios of the models FAST and SLOW."""
    names = {"fast": FAST, "slow": SLOW}
    ratios = {names[model]: {FIELD: ratio} for model, ratio in models.items()}
    key = {"enable": True, "ratioModel": ratios, "defaultRatio": 1.1}
    data = {NORMALIZATION_KEY: json.dumps(key), AMPLIFICATION_KEY: '{"enable": true}'}
    return {"kind": "ConfigMap", "metadata": {"name": CONFIG_NAME}, "data": data}


def fleet(fast: int = 8, slow: int = 8, *, score: int = 1500) -> list[dict[str, Any]]:
    """Return nodes of two models, of which FAST measured 1.50 times the score of SLOW, 1000."""
    items = []
    for model, own, size in ((FAST, score, fast), (SLOW, 1000, slow)):
        for at in range(size):
            name = f"{'fast' if model == FAST else 'slow'}-{at}"
            items += [node(name), topology(name, model, own)]
    return items


@pytest.fixture
def suggest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Suggest:
    """Return a function that writes objects as a dump and asks for ratios."""
    monkeypatch.chdir(tmp_path)

    def run(items: list[dict[str, Any]], *options: str) -> Result:
        (tmp_path / "dump.json").write_text(json.dumps({"kind": "List", "items": items}))
        return CliRunner().invoke(corewise, ["config", "suggest", "--nodes", "dump.json", *options])

    return run


def commands(result: Result) -> list[str]:
    """Return the commands that are printed to go on with."""
    return [line.strip() for line in result.stderr.splitlines() if line.startswith("  ")]


def commands_of_dump() -> list[str]:
    """Return the commands after the ConfigMap of a dump is saved."""
    return [
        "corewise config suggest --nodes dump.json -o configmap > new.yaml",
        "corewise config check new.yaml --nodes dump.json",
        "corewise plan --from dump.json --policy new.yaml --against before.yaml",
        "kubectl apply -f new.yaml",
    ]


def record(result: Result) -> Mapping[str, Any]:
    document: Mapping[str, Any] = json.loads(result.stdout)
    return document


def test_table_shows_ratio_interval_and_difference(suggest: Suggest) -> None:
    result = suggest([*fleet(), config_map(fast=1.6, slow=1)])
    table, _, key = result.stdout.partition("\n\n")
    lines = [line.split() for line in table.splitlines()]
    assert lines[1][:5] == ["8", "1.00", "baseline", "1.00-1.00", "1.00"]
    assert lines[2][:6] == ["8", "1.50", "1.50-1.50", "1.50-1.50", "1.60", "-6.2%"]
    assert lines[2][-9:] == ["on", "on", *FAST.split()]
    assert json.loads(key)["ratioModel"][FAST] == {FIELD: 1.5}
    assert f'{{"{FIELD}": 1.50}}' in key
    assert "corewise config check new.yaml --nodes dump.json" in result.stderr
    assert result.exit_code == ExitCode.VERDICT


def test_next_commands_save_check_plan_and_apply(suggest: Suggest) -> None:
    result = suggest([*fleet(), config_map(fast=1.6, slow=1)])
    save, *others = commands(result)
    assert save.startswith(f"kubectl -n corewise-system get configmap {CONFIG_NAME} -o yaml | grep -v ' uid:")
    assert save.endswith(" > before.yaml")
    assert others == commands_of_dump()


def test_dump_without_config_map_is_never_applied(suggest: Suggest) -> None:
    result = suggest(fleet())
    assert f"ConfigMap {CONFIG_NAME}: the dump has none, so all ratios count as new" in result.stderr
    assert "To keep its other keys, read it first, with --cluster or a complete dump:" in result.stderr
    assert commands(result) == [MAKE_DUMP, "corewise config suggest --nodes dump.json"]


def test_config_map_without_keys_is_saved(suggest: Suggest) -> None:
    result = suggest([*fleet(), {"kind": "ConfigMap", "metadata": {"name": CONFIG_NAME}}])
    assert commands(result)[0].endswith(" > before.yaml")
    assert commands(result)[-2].endswith(" --against none")


@pytest.mark.parametrize("others", [[], ["elsewhere", "corewise-system"]])
def test_namespace_is_that_of_config_map(suggest: Suggest, others: list[str]) -> None:
    namespaces = others or ["koordinator-system"]
    items = fleet()
    for namespace in namespaces:
        found = config_map(fast=1.6, slow=1)
        found["metadata"]["namespace"] = namespace
        found["data"]["of"] = namespace
        items.append(found)
    assert commands(suggest(items))[0].startswith(f"kubectl -n {namespaces[-1]} get configmap ")
    document = yaml.safe_load(suggest(items, "-o", "configmap").stdout)
    assert document["metadata"]["namespace"] == document["data"]["of"] == namespaces[-1]
    items[-1]["data"][NORMALIZATION_KEY] = "{"
    assert f"To see them: kubectl -n {namespaces[-1]} get configmap" in suggest(items).stderr


def test_next_commands_of_stdin_use_a_file() -> None:
    dump = json.dumps({"items": [*fleet(), config_map(fast=1.6, slow=1)]})
    result = CliRunner().invoke(corewise, ["config", "suggest", "--nodes", "-"], input=dump)
    make, save, *others = commands(result)
    assert make == MAKE_DUMP
    assert save.endswith(" > before.yaml")
    assert others == commands_of_dump()


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the kubeconfig of a cluster whose ConfigMap is in namespace "own"; its path has a space."""

    async def fill(file: Path) -> None:
        async with Client(load_config(str(file))) as client:
            await client.create(NAMESPACES.typed(dict), {"metadata": {"name": "own"}})
            crds, kind = CRDS.typed(dict), NODE_RESOURCE_TOPOLOGIES.typed(dict)
            await client.create(crds, definition("noderesourcetopologies.topology.node.k8s.io"))
            await eventually(partial(is_served, client))
            parts: dict[str, Any] = {"topologyPolicies": [], "zones": []}
            for each in fleet(3, 3):
                resource = NODES.typed(dict) if each["kind"] == "Node" else kind
                await client.create(resource, {**each, **parts, "apiVersion": resource.api_version})
            await client.create(CONFIG_MAPS.typed(dict), config_map(fast=1.6, slow=1), "own")

    with local_api_server(tmp_path_factory.mktemp("a cluster")) as path:
        asyncio.run(fill(path))
        yield path


async def is_served(client: Client) -> bool:
    await client.list(NODE_RESOURCE_TOPOLOGIES.typed(dict))
    return True


def of_cluster(file: Path, *options: str) -> list[str]:
    arguments = ["config", "suggest", "--cluster", "--kubeconfig", str(file), *options]
    return commands(CliRunner().invoke(corewise, arguments))


def test_next_commands_name_the_same_cluster(kubeconfig: Path) -> None:
    context = yaml.safe_load(kubeconfig.read_text())["current-context"]
    flags = f"--kubeconfig '{kubeconfig}' --context {context}"
    corewise_flags = f"--cluster {flags} --config-namespace own"
    save, *others = of_cluster(kubeconfig, "--context", context, "--config-namespace", "own")
    assert save.startswith(f"kubectl {flags} -n own get configmap {CONFIG_NAME} -o yaml | grep")
    assert others == [
        f"corewise config suggest {corewise_flags} -o configmap > new.yaml",
        f"corewise config check new.yaml {corewise_flags}",
        MAKE_DUMP.replace("kubectl", f"kubectl {flags}"),
        "corewise plan --from dump.json --policy new.yaml --against before.yaml",
        f"kubectl {flags} apply -f new.yaml",
    ]


def test_cluster_without_config_map_saves_nothing(kubeconfig: Path) -> None:
    found = of_cluster(kubeconfig)
    assert "before.yaml" not in " ".join(found)
    assert (
        found[0] == f"corewise config suggest --cluster --kubeconfig '{kubeconfig}' -o configmap > new.yaml"
    )
    assert found[-2].endswith(" --against none")
    assert found[-1] == f"kubectl --kubeconfig '{kubeconfig}' apply -f new.yaml"


def test_forbidden_config_map_is_never_applied(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    get = Client.get

    async def refused(client: Client, resource: Resource[Any], name: str, namespace: str = "") -> Any:
        if name == CONFIG_NAME:
            raise api_error(403, b"{}")
        return await get(client, resource, name, namespace)

    monkeypatch.setattr(Client, "get", refused)
    found = of_cluster(kubeconfig, "--config-namespace", "own")
    make = MAKE_DUMP.replace("kubectl", f"kubectl --kubeconfig '{kubeconfig}'")
    assert found == [make, "corewise config suggest --nodes dump.json"]


def test_ratios_within_five_percent_succeed(suggest: Suggest) -> None:
    result = suggest([*fleet(), config_map(fast=1.55, slow=1)], "-o", "json")
    assert result.exit_code == 0
    assert [each["isOff"] for each in record(result)["models"]] == [False, False]


def test_missing_ratio_is_a_difference(suggest: Suggest) -> None:
    result = suggest([*fleet(), config_map(slow=1)], "-o", "json")
    assert result.exit_code == ExitCode.VERDICT
    assert [each["configuredRatio"] for each in record(result)["models"]] == ["1.00", None]
    assert record(result)["ratioModel"] == {SLOW: {FIELD: "1.00"}, FAST: {FIELD: "1.50"}}


@pytest.mark.parametrize("fast", [None, 3.0, 5.0])
def test_a_ratio_above_the_largest_is_never_suggested(suggest: Suggest, fast: float | None) -> None:
    models = {"slow": 1.0} if fast is None else {"slow": 1.0, "fast": fast}
    items = [*fleet(score=6000), config_map(**models)]
    result = suggest(items, "-o", "json")
    is_below = fast == 3.0
    assert result.exit_code == (ExitCode.VERDICT if is_below else 0)
    assert record(result)["differs"] is is_below
    assert ("write 5.00 into the key, which is closer" in result.stderr) == is_below
    assert record(result)["ratioModel"].get(FAST) == (None if fast is None else {FIELD: f"{fast:.2f}"})
    assert "measured 6.00, above the largest ratio 5.00: it is not suggested" in result.stderr
    assert "above 5.00" in suggest(items).stdout


def test_key_keeps_everything_but_measured_ratios(suggest: Suggest) -> None:
    entry = {"name": "own", "nodeSelector": {"matchLabels": {"pool": "own"}}, "enable": False}
    stored = {
        "defaultRatio": 1.1,
        "ratioModel": {"Other": {"baseRatio": 1.3}, SLOW: {"baseRatio": 1.2}},
        "enable": True,
        "nodeConfigs": [entry],
    }
    items = [*fleet(), config_map()]
    items[-1]["data"][NORMALIZATION_KEY] = json.dumps(stored)
    result = suggest(items)
    key = result.stdout.partition("\n\n")[2]
    assert json.loads(key) == stored | {
        "ratioModel": {
            "Other": {"baseRatio": 1.3},
            SLOW: {"baseRatio": 1.2, FIELD: 1.0},
            FAST: {FIELD: 1.5},
        }
    }
    assert not parse_normalization(key).errors


def test_config_map_is_whole_and_can_be_checked(suggest: Suggest) -> None:
    result = suggest([*fleet(), config_map(fast=1.6, slow=1)], "-o", "configmap")
    document = yaml.safe_load(result.stdout)
    assert document["metadata"]["name"] == CONFIG_NAME
    assert document["data"].keys() == {NORMALIZATION_KEY, AMPLIFICATION_KEY}
    Path("new.yaml").write_text(result.stdout)
    checked = CliRunner().invoke(corewise, ["config", "check", "new.yaml", "--nodes", "dump.json"])
    assert checked.exit_code == 0
    again = suggest([*fleet(), document])
    assert again.exit_code == 0


def test_unsafe_decreases_are_named(suggest: Suggest) -> None:
    items = fleet()
    for at in (0, 2):
        items[at] = node(f"fast-{at // 2}", cpu="16", ratio="2.00")
    items += [config_map(fast=2, slow=1), pod("big", "fast-0", "14"), pod("small", "fast-1", "2")]
    result = suggest(items, "-o", "json")
    fast = record(result)["models"][1]
    assert (fast["nodesLowered"], fast["nodesRaised"]) == (2, 6)
    assert fast["nodesHeldBack"] == ["fast-0"]
    assert [each["node"] for each in record(result)["unsafeDecreases"]] == ["fast-0"]
    assert "unsafe decrease, which the manager would hold back: node fast-0: cpu:" in result.stderr
    assert "6 up, 2 down, 1 held back" in suggest(items).stdout


def test_without_pods_it_says_what_is_unchecked(suggest: Suggest) -> None:
    result = suggest([*fleet(), config_map(fast=1.6, slow=1)])
    assert "whether they fit after a decrease is not checked" in result.stderr


@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_few_nodes_have_no_interval(suggest: Suggest, size: int) -> None:
    result = suggest([*fleet(fast=size), config_map(fast=1.5, slow=1)], "-o", "json")
    assert record(result)["models"][1]["interval95"] is None
    assert "no interval" in result.stderr
    assert ("so a slow one would not be noticed" in result.stderr) == (size < 3)


def test_scores_left_out_are_counted_with_reasons(suggest: Suggest) -> None:
    items = [
        *fleet(),
        *[topology("fast-0", FAST, None), node("x"), topology("x", FAST, 1500, runs=2)],
        *[node("y"), topology("y", FAST, 1500, python="3.13.0")],
    ]
    del items[1]
    result = suggest(items)
    assert "1 node left out, without a score: their agents do not measure yet" in result.stderr
    assert "1 node left out, with fewer than 5 runs so far: x" in result.stderr
    assert "1 node left out, measured with another mix, Python or zlib than most: y" in result.stderr


def test_node_that_cannot_be_measured_names_the_command(suggest: Suggest) -> None:
    items = [*fleet(), node("x"), topology("x", FAST, 0, reason="EvaluationStealTime")]
    said = suggest(items).stderr
    assert "1 node left out, which cannot be measured: x\n" in said
    annotation = CPU_EVALUATION.replace(".", r"\.")
    command = f"kubectl get noderesourcetopology x -o jsonpath='{{.metadata.annotations.{annotation}}}'"
    assert f"to see the reason: {command}" in said


def test_slowest_model_with_another_ratio_is_remarked(suggest: Suggest) -> None:
    result = suggest([*fleet(), config_map(fast=1.8, slow=1.2)])
    assert (
        "by the key the slowest model has 1.20, and the suggestion gives it 1.00: "
        "divide by 1.20 what stays as it is, too: defaultRatio\n"
    ) in result.stderr
    assert result.exit_code == 0


UNMEASURED: Mapping[str, Mapping[str, Any]] = {
    "a model": {"ratioModel": {"Old": {FIELD: 1.0}}},
    "a setting": {"ratioModel": {SLOW: {"baseRatio": 1.0}}},
    "an entry": {"nodeConfigs": [{"name": "a", "nodeSelector": {}, "ratioModel": {"Old": {FIELD: 1.0}}}]},
}


@pytest.mark.parametrize("kind", UNMEASURED)
def test_right_ratios_beside_unmeasured_ones_stay(suggest: Suggest, kind: str) -> None:
    items = [*fleet(), config_map(slow=1.5, fast=2.25)]
    key = json.loads(items[-1]["data"][NORMALIZATION_KEY])
    for model, ratios in UNMEASURED[kind].get("ratioModel", {}).items():
        key["ratioModel"].setdefault(model, {}).update(ratios)
    key.update({name: each for name, each in UNMEASURED[kind].items() if name != "ratioModel"})
    items[-1]["data"][NORMALIZATION_KEY] = json.dumps(key)
    result = suggest(items)
    table, _, suggested = result.stdout.partition("\n\n")
    slow, fast = (line.split() for line in table.splitlines()[1:])
    assert slow[:7] == ["8", "1.50", "baseline", "1.50-1.50", "1.50", "8", "up"]
    assert fast[:7] == ["8", "2.25", "2.25-2.25", "2.25-2.25", "2.25", "8", "up"]
    assert json.loads(suggested) == key
    assert "the suggestion keeps the scale of the key, since ratios stay in it: " in result.stderr
    assert result.exit_code == 0


def both_sides() -> list[dict[str, Any]]:
    """Return nodes of FAST, half of them with hyper-threading, all with the same score."""
    items = []
    for at in range(16):
        on = at < 8
        found = topology(f"n{at}", FAST, 1500, hyper_thread_enabled=on)
        facts = {"cpuModel": FAST, "hyperThreadEnabled": on, "turboEnabled": True}
        found["metadata"]["annotations"][CPU_BASIC_INFO] = json.dumps(facts)
        items += [node(f"n{at}"), found]
    return items


def test_calibrated_hyper_threading_ratios_are_right(suggest: Suggest) -> None:
    items = [*both_sides(), config_map(fast=1.0)]
    key = json.loads(items[-1]["data"][NORMALIZATION_KEY])
    key["ratioModel"][FAST]["turboEnabledRatio"] = 1.67
    items[-1]["data"][NORMALIZATION_KEY] = json.dumps(key)
    result = suggest(items, "-o", "json")
    assert result.exit_code == 0
    assert record(result)["ratioModel"] == {FAST: {FIELD: "1.00", "turboEnabledRatio": "1.67"}}
    assert "nodes with hyper-threading and nodes without are not compared" in result.stderr


def test_unknown_scale_of_hyper_threading_is_remarked(suggest: Suggest) -> None:
    items = [*both_sides(), config_map(fast=1.0)]
    result = suggest(items, "-o", "json")
    assert result.exit_code == 0
    assert [each["measuredRatio"] for each in record(result)["models"]] == ["1.00", None]
    assert record(result)["ratioModel"] == {FAST: {FIELD: "1.00"}}
    assert f'no ratio for "{FAST}" with hyper-threading off, since the key has none' in result.stderr
    rows = suggest(items).stdout.splitlines()
    assert rows[2].split()[:7] == ["8", "-", "-", "-", "-", "not", "compared"]


def test_wrong_ratio_in_entry_is_a_difference(suggest: Suggest) -> None:
    own = {"ratioModel": {FAST: {FIELD: 3.0}}}
    items = [*fleet(), config_map(slow=1.0, fast=1.5)]
    key = json.loads(items[-1]["data"][NORMALIZATION_KEY])
    key["nodeConfigs"] = [{"name": "b", "nodeSelector": {"matchLabels": {"pool": "b"}}, **own}]
    items[-1]["data"][NORMALIZATION_KEY] = json.dumps(key)
    assert suggest(items).exit_code == 0
    for each in items[:6:2]:
        each["metadata"]["labels"] = {"pool": "b"}
    result = suggest(items)
    assert result.exit_code == ExitCode.VERDICT
    assert (
        f'{FIELD} of "{FAST}" in nodeConfigs[0] "b" is 3.00, and 3 nodes of it measured 1.50: '
        "the suggestion leaves nodeConfigs as it is, so correct the ratio there"
    ) in result.stderr


def test_scores_of_stopped_agents_are_left_out(suggest: Suggest) -> None:
    items = fleet(slow=7)
    stopped = topology("stopped", SLOW, 500, measured="2026-10-24T03:00:00Z")
    result = suggest([*items, config_map(fast=1.5, slow=1), node("stopped"), stopped], "-o", "json")
    assert "1 node left out, without a run in the last 7 days: stopped" in result.stderr
    assert [len(each["nodes"]) for each in record(result)["models"]] == [7, 8]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("{", "has nothing of it"),
        ('{"enable": true, "ratioModel": {"Other": {"baseRatio": 0.5}}}', "leaves out ratios of ratioModel"),
    ],
)
def test_configuration_with_errors_is_remarked(suggest: Suggest, text: str, kept: str) -> None:
    items = [*fleet(), config_map()]
    items[-1]["data"][NORMALIZATION_KEY] = text
    result = suggest(items)
    assert f"{NORMALIZATION_KEY} of the cluster has errors, and the suggestion {kept}" in result.stderr
    assert f"get configmap {CONFIG_NAME} -o yaml | corewise config check -" in result.stderr
    assert result.exit_code == ExitCode.VERDICT


def test_nodes_without_scores_are_not_found(suggest: Suggest) -> None:
    result = suggest([node("a"), topology("a", FAST, None)])
    assert isinstance(result.exception, Failure)
    assert result.exception.exit_code == ExitCode.NOT_FOUND
    assert "corewise agent --evaluate" in str(result.exception)


def test_result_of_calibrate_is_no_dump(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('{"format": "corewise.io/calibration/v1", "cpuModel": "X"}')
    result = CliRunner().invoke(corewise, ["config", "suggest", "--nodes", str(file)])
    assert isinstance(result.exception, Failure)
    assert result.exception.exit_code == ExitCode.BAD_INPUT


def test_nodes_must_be_named() -> None:
    result = CliRunner().invoke(corewise, ["config", "suggest"])
    assert result.exit_code == ExitCode.USAGE
    assert "--cluster, or --nodes DUMP" in result.output


@pytest.mark.parametrize("form", ["table", "json", "yaml", "configmap"])
def test_every_form_names_the_models(suggest: Suggest, form: str) -> None:
    result = suggest([*fleet(), config_map(fast=1.6, slow=1)], "-o", form)
    assert result.exit_code == ExitCode.VERDICT
    assert FAST in result.stdout


def test_only_nodes_that_fall_are_assessed(suggest: Suggest, monkeypatch: pytest.MonkeyPatch) -> None:
    assessed: list[str] = []

    def held_back(
        view: NodeView, verdict: NormalizationVerdict, context: ClusterContext
    ) -> tuple[Misfit, ...]:
        assessed.append(view.name)
        return decision.held_back(view, verdict, context)

    monkeypatch.setattr(ratio_suggestion, "held_back", held_back)
    items = fleet(2500, 2500)
    items[0] = node("fast-0", cpu="16", ratio="2.00")
    result = suggest([*items, config_map(fast=2, slow=1)])
    assert result.stdout.splitlines()[2].split()[0] == "2500"
    assert assessed == ["fast-0"]


@pytest.mark.parametrize("spec", [{"nodeName": 3}, {"nodeName": "fast-0", "containers": 3}])
def test_broken_pod_ends_with_its_fault(suggest: Suggest, spec: object) -> None:
    items = fleet()
    items[0] = node("fast-0", cpu="16", ratio="2.00")
    result = suggest([*items, config_map(fast=2, slow=1), pod("big", "fast-0", "1") | {"spec": spec}])
    assert isinstance(result.exception, Failure)
    assert result.exception.exit_code == ExitCode.BAD_INPUT
