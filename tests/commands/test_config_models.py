"""``config check`` against nodes, ``config starter``, and the example of docs/guides/normalization.md."""

from __future__ import annotations

import asyncio
import json
import re
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from api_process import local_api_server
from corewise.cli import corewise
from corewise.cli.errors import ExitCode, Failure
from corewise.config.configuration import LARGEST_NORMALIZATION_RATIO, RatioField, parse_normalization
from corewise.kube.client import Client
from corewise.kube.config import load_config
from corewise.kube.errors import api_error
from corewise.kube.resources import CONFIG_MAPS, NAMESPACES, NODE_RESOURCE_TOPOLOGIES, NODES, Resource
from corewise.manager import busy_nodes
from corewise.normalization.starter import STARTER_FIELD, PublishedScore, published_scores, starter_ratios
from corewise.quantities import ONE, Ratio
from corewise.vocabulary.names import (
    AMPLIFICATION_KEY,
    CONFIG_NAME,
    CONFIG_NAMESPACE,
    CPU_BASIC_INFO,
    NORMALIZATION_KEY,
)
from corewise.vocabulary.reasons import Reason
from manager.world import CRD

ROOT = Path(__file__).parents[2]
INPUTS = ROOT / "tests" / "golden" / "inputs" / "config"
PAGE = (ROOT / "docs" / "guides" / "normalization.md").read_text()
SCORES = published_scores((ROOT / "packages/corewise/src/corewise/config/starter-ratios.yaml").read_text())
NEW = "Intel(R) Xeon(R) Platinum 8369B CPU @ 2.70GHz"
OLD = "Intel(R) Xeon(R) CPU E5-2682 v4 @ 2.50GHz"
EPYC = "AMD EPYC 7763 64-Core Processor"
KERNEL_NAMES = (
    r"Intel\(R\) Xeon\(R\) (CPU E5-\d{4} v\d|(Silver|Gold|Platinum) \d{4}[A-Z]?( CPU)?) @ \d\.\d\dGHz",
    r"Intel\(R\) Xeon\(R\) ((Gold|Platinum) \d{4}\+?|\d{4}P)",
    r"INTEL\(R\) XEON\(R\) (GOLD|PLATINUM) \d{4}Y?\+?",
    r"AMD EPYC [0-9A-Z]{4} \d{2,3}-Core Processor",
)


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(corewise, ["config", *arguments], input=stdin)


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for file in ("cluster.json", "mixed-cluster.json", "names.yaml", "nodes.json"):
        (tmp_path / file).write_text((INPUTS / file).read_text())
    return tmp_path


def block(start: str) -> str:
    """Return the indented block of the page whose first line starts so."""
    found = re.search(rf"^( +){re.escape(start)}.*\n(?:(?:\1.*)?\n)*", PAGE, re.MULTILINE)
    assert found
    return textwrap.dedent(found[0]).strip() + "\n"


def test_first_page_example_gives_real_nodes_their_ratios(directory: Path) -> None:
    (directory / "slo-controller-config.yaml").write_text(block("apiVersion: v1"))
    _, command, *printed = block("$ kubectl get nodes,noderesourcetopologies").splitlines()
    assert command == "$ corewise config check slo-controller-config.yaml --nodes cluster.json"
    result = run(*command.split()[3:])
    assert result.exit_code == 0
    assert (result.stdout + result.stderr).splitlines() == printed


@pytest.mark.parametrize("chosen", ["own", ""])
def test_starter_is_for_the_chosen_namespace(monkeypatch: pytest.MonkeyPatch, chosen: str) -> None:
    if chosen:
        monkeypatch.setenv("COREWISE_CONFIG_NAMESPACE", chosen)
    printed = run("starter").stdout
    assert yaml.safe_load(printed)["metadata"]["namespace"] == (chosen or CONFIG_NAMESPACE)
    assert "no problems" in run("check", "-", stdin=printed).stderr


def test_page_spells_every_model_as_a_kernel_does() -> None:
    config_map = yaml.safe_load(block("apiVersion: v1"))
    models = json.loads(config_map["data"][NORMALIZATION_KEY])["ratioModel"]
    assert [name for name in models if not any(re.fullmatch(form, name) for form in KERNEL_NAMES)] == []


def test_calibrating_is_the_first_step_of_the_page() -> None:
    steps = re.findall(r"^\d\. (?:\*\*)?([A-Z]\w+)", PAGE.partition("## Setting it up")[2], re.MULTILINE)
    assert steps[:4] == ["Calibrate", "Write", "Check", "Apply"]


def test_models_without_ratio_warn_and_exit_0() -> None:
    result = run("check", "names.yaml", "--nodes", "mixed-cluster.json")
    assert result.exit_code == 0
    meant = 'did you mean this CPU with "Intel(R) Xeon(R) E5-2682 v4"? Only the exact name matches'
    warnings = [line for line in result.stdout.splitlines() if "warning" in line]
    assert [line.removeprefix("names.yaml:6:5: warning: ratioModel") for line in warnings] == [
        f': no entry for "{EPYC}" (2 nodes: amd-1, amd-2)',
        f': no entry for "{OLD}" (1 node: old-1): {meant}',
        f'["{NEW}"]: no hyperThreadEnabledRatio (1 node: new-2)',
    ]
    assert result.stderr.splitlines() == [
        "names.yaml: cpu-normalization-config: 0 errors, 3 warnings",
        "0 of 3 CPU models in use have ratios of their own",
        "2 nodes have no usable CPU facts: mute, torn",
        "normalization is off on 1 node: off",
    ]


def test_workload_ratio_of_other_settings_warns(directory: Path) -> None:
    turbo, every = {"turboEnabledRatio": 1.2}, {"hyperThreadTurboEnabledRatio": 1.5}
    workload = {"name": "vector", "podSelector": {}, "ratioModel": {NEW: turbo}}
    key = {"enable": True, "ratioModel": {NEW: every, OLD: every}, "workloadRatios": [workload]}
    options = ("--key", NORMALIZATION_KEY, "--nodes", "cluster.json")
    warned = run("check", "-", *options, stdin=json.dumps(key)).stdout
    assert (
        f'<stdin>:1:1: warning: workloadRatios "vector": no hyperThreadTurboEnabledRatio of "{NEW}" '
        "(3 nodes: new-1, new-2, new-3), so their own ratio applies"
    ) in warned.splitlines()
    workload["ratioModel"] = {NEW: turbo | every}
    assert "workloadRatios" not in run("check", "-", *options, stdin=json.dumps(key)).stdout


def test_workload_ratio_of_another_spelling_warns(directory: Path) -> None:
    every = {"hyperThreadTurboEnabledRatio": 1.5}
    workload = {"name": "vector", "podSelector": {}, "ratioModel": {"Xeon Platinum 8369B": every}}
    key = {"enable": True, "ratioModel": {NEW: every, OLD: every}, "workloadRatios": [workload]}
    options = ("--key", NORMALIZATION_KEY, "--nodes", "cluster.json")
    assert (
        f'<stdin>:1:1: warning: workloadRatios "vector": no entry for "{NEW}" '
        '(3 nodes: new-1, new-2, new-3): did you mean this CPU with "Xeon Platinum 8369B"? '
        "Only the exact name matches"
    ) in run("check", "-", *options, stdin=json.dumps(key)).stdout.splitlines()


def test_json_has_all_models_nodes_and_meant_name() -> None:
    document = json.loads(run("check", "names.yaml", "--nodes", "mixed-cluster.json", "-o", "json").stdout)
    assert (document["errors"], document["warnings"], len(document["problems"])) == (0, 3, 3)
    models = document["cpuModels"]
    assert (models["inUse"], models["matched"]) == (3, 0)
    assert (models["nodesWithoutFacts"], models["nodesOff"]) == (["mute", "torn"], ["off"])
    assert models["models"][1] == {
        "model": OLD,
        "hyperThreading": True,
        "turbo": True,
        "nodes": ["old-1"],
        "normalizationRatio": None,
        "ratioField": "hyperThreadTurboEnabledRatio",
        "matched": False,
        "reason": "UnknownCPUModel",
        "didYouMean": "Intel(R) Xeon(R) E5-2682 v4",
    }
    assert models["models"][3]["normalizationRatio"] == "1.50"


def test_default_ratio_is_named_where_it_applies() -> None:
    text = Path("names.yaml").read_text().replace('"enable": true', '"enable": true, "defaultRatio": 1.1')
    result = run("check", "-", "--nodes", "mixed-cluster.json", stdin=text)
    assert f'no entry for "{EPYC}" (2 nodes: amd-1, amd-2), so defaultRatio 1.10 applies\n' in result.stdout
    assert "no hyperThreadEnabledRatio (1 node: new-2), so defaultRatio 1.10 applies\n" in result.stdout
    assert f"    2  1.10  on  on     {EPYC}\n" in result.stdout


def test_the_dump_can_be_stdin_but_only_once() -> None:
    dump = Path("cluster.json").read_text()
    assert "1 of 3 CPU models" in run("check", "names.yaml", "--nodes", "-", stdin=dump).stderr
    assert run("check", "-", "--nodes", "-", stdin=dump).exit_code == ExitCode.USAGE


def test_models_of_nodes_without_topologies_are_reported_unchecked() -> None:
    result = run("check", "names.yaml", "--nodes", "nodes.json")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "CPU models are not checked: no NodeResourceTopology came with the nodes" in result.stderr
    assert "cpuModels" not in json.loads(
        run("check", "names.yaml", "--nodes", "nodes.json", "-o", "json").stdout
    )


@pytest.mark.parametrize(
    "options", [("--nodes", "cluster.json", "--cluster"), ("--context", "here"), ("--kubeconfig", "f")]
)
def test_contradicting_options_are_a_wrong_call(options: tuple[str, ...]) -> None:
    assert run("check", "names.yaml", *options).exit_code == ExitCode.USAGE
    assert run("starter", *options).exit_code == ExitCode.USAGE


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with local_api_server(tmp_path_factory.mktemp("cluster")) as path:
        yield path


async def fill(kubeconfig: Path, items: list[dict[str, Any]]) -> None:
    async with Client(load_config(str(kubeconfig))) as client:
        await client.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body=CRD)
        for each in items:
            resource: Resource[Any] = NODES if each["kind"] == "Node" else NODE_RESOURCE_TOPOLOGIES
            await client.create(resource, each)


def test_live_nodes_are_read_like_a_dump(kubeconfig: Path) -> None:
    options = ("--cluster", "--kubeconfig", str(kubeconfig))
    without_agents = run("check", "names.yaml", *options)
    assert "CPU models are not checked" in without_agents.stderr
    asyncio.run(fill(kubeconfig, json.loads(Path("mixed-cluster.json").read_text())["items"]))
    for arguments in (("check", "names.yaml"), ("starter",)):
        live, dumped = run(*arguments, *options), run(*arguments, "--nodes", "mixed-cluster.json")
        told = live.stderr
        assert (live.exit_code, live.stdout, told) == (0, dumped.stdout, dumped.stderr)
    as_json = ("check", "names.yaml", "-o", "json")
    live, dumped = run(*as_json, *options), run(*as_json, "--nodes", "mixed-cluster.json")
    record = json.loads(live.stdout)
    assert record.pop("foreignNames") == {"found": [], "unread": []}
    assert record == json.loads(dumped.stdout)


RAISED = '{"enable": true, "resourceAmplificationRatio": {"cpu": 1.7}}'


def test_forbidden_topologies_are_not_checked(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = Client.list

    async def refused(client: Client, resource: Resource[Any], *arguments: Any, **options: Any) -> Any:
        if resource.plural == NODE_RESOURCE_TOPOLOGIES.plural:
            raise api_error(403, b"{}")
        return await read(client, resource, *arguments, **options)

    monkeypatch.setattr(Client, "list", refused)
    result = run("check", "names.yaml", "--cluster", "--kubeconfig", str(kubeconfig))
    assert "CPU models are not checked: no NodeResourceTopology came with the nodes" in result.stderr


def busy_cluster() -> list[dict[str, Any]]:
    """Return a node that uses 70 % of its CPU, one that uses 10 %, and one of which nothing is known."""
    amounts = {key: {"cpu": "10", "memory": "32Gi"} for key in ("capacity", "allocatable")}
    used = {"busy": "7", "idle": "1000000000n"}
    return [
        *({"kind": "Node", "metadata": {"name": name}, "status": amounts} for name in (*used, "unknown")),
        *(
            {"kind": "NodeMetrics", "metadata": {"name": name}, "usage": {"cpu": cpu, "memory": "1Gi"}}
            for name, cpu in used.items()
        ),
    ]


def test_rising_ratio_on_busy_dumped_node_warns(directory: Path) -> None:
    (directory / "busy.json").write_text(json.dumps({"items": busy_cluster()}))
    options = ("--key", AMPLIFICATION_KEY, "--nodes", "busy.json")
    checked = run("check", "-", *options, stdin=RAISED)
    (warning,) = checked.stdout.splitlines()
    assert warning.startswith(
        "<stdin>:1:1: warning: node busy: the cpu ratio rises from 1.00 to 1.70 while 70 % of the node's CPU"
    )
    assert (checked.exit_code, Reason.RAISE_ON_BUSY_NODE in warning) == (0, True)
    assert run("check", "-", *options, stdin=RAISED.replace("true", "false")).stdout == ""


def test_keys_absent_from_the_file_keep_cluster_values(directory: Path) -> None:
    stored = {"kind": "ConfigMap", "metadata": {"name": CONFIG_NAME}, "data": {AMPLIFICATION_KEY: RAISED}}
    (directory / "stored.json").write_text(json.dumps({"items": [*busy_cluster(), stored]}))
    normalization = '{"enable": false, "ratioModel": {}}'
    options = ("--key", NORMALIZATION_KEY, "--nodes", "stored.json")
    assert "from 1.00 to 1.70" in run("check", "-", *options, stdin=normalization).stdout


def applied(**data: str) -> dict[str, Any]:
    """Return a ConfigMap that kubectl apply wrote."""
    metadata: dict[str, Any] = {"name": CONFIG_NAME, "namespace": CONFIG_NAMESPACE}
    last = json.dumps({"kind": "ConfigMap", "metadata": metadata, "data": data})
    metadata["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": last}
    return {"kind": "ConfigMap", "metadata": metadata, "data": data}


NORMALIZED = '{"enable": true, "ratioModel": {}}'


@contextmanager
def stored_in(kubeconfig: Path, config_map: dict[str, Any]) -> Iterator[None]:
    """Have a ConfigMap in the cluster beside the block."""

    async def change(*, there: bool) -> None:
        async with Client(load_config(str(kubeconfig))) as client:
            if there:
                await client.create(NAMESPACES.typed(dict), {"metadata": {"name": CONFIG_NAMESPACE}})
                await client.create(CONFIG_MAPS.typed(dict), config_map, CONFIG_NAMESPACE)
            else:
                await client.delete(CONFIG_MAPS, CONFIG_NAME, CONFIG_NAMESPACE)

    asyncio.run(change(there=True))
    try:
        yield
    finally:
        asyncio.run(change(there=False))


@pytest.mark.parametrize("how", ["dump", "cluster"])
def test_keys_that_apply_removes_are_named(directory: Path, kubeconfig: Path, how: str) -> None:
    stored = applied(**{AMPLIFICATION_KEY: RAISED, NORMALIZATION_KEY: NORMALIZED})
    (directory / "stored.json").write_text(json.dumps({"items": [*busy_cluster(), stored]}))
    one, both = (
        json.dumps({"kind": "ConfigMap", "metadata": {"name": CONFIG_NAME}, "data": data})
        for data in (
            {NORMALIZATION_KEY: NORMALIZED},
            {NORMALIZATION_KEY: NORMALIZED, AMPLIFICATION_KEY: RAISED},
        )
    )
    dumped = ["--nodes", "stored.json"]
    options = dumped if how == "dump" else ["--cluster", "--kubeconfig", str(kubeconfig)]
    with nullcontext() if how == "dump" else stored_in(kubeconfig, stored):
        said = run("check", "-", *options, stdin=one).stdout
        whole = run("check", "-", *options, stdin=both).stdout
        of_one_key = run("check", "-", "--key", NORMALIZATION_KEY, *options, stdin=NORMALIZED).stdout
    assert f"warning: applying this file removes {AMPLIFICATION_KEY} from the cluster" in said
    assert "from 1.00 to 1.70" not in said
    assert "applying" not in whole + of_one_key


def test_live_use_is_read_from_resource_metrics_api(
    kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def used(_client: Client) -> dict[str, int]:
        return {"busy": 7000}

    monkeypatch.setattr(busy_nodes, "cpu_usages", used)

    async def create() -> None:
        async with Client(load_config(str(kubeconfig))) as client:
            for each in busy_cluster():
                if each["kind"] == "Node":
                    await client.create(NODES.typed(dict), each)

    asyncio.run(create())
    options = ("--key", AMPLIFICATION_KEY, "--cluster", "--kubeconfig", str(kubeconfig))
    checked = run("check", "-", *options, stdin=RAISED)
    assert "node busy: the cpu ratio rises from 1.00 to 1.70" in checked.stdout


def test_starter_config_map_passes_check_and_is_off() -> None:
    printed = run("starter")
    checked = run("check", "-", stdin=printed.stdout)
    assert (checked.exit_code, checked.stdout) == (0, "")
    assert checked.stderr == f"<stdin>: {NORMALIZATION_KEY}: no problems\n"
    strategy = parse_normalization(yaml.safe_load(printed.stdout)["data"][NORMALIZATION_KEY]).value
    assert strategy
    assert strategy.cluster.enable is False
    assert strategy.cluster.ratio_model == starter_ratios(SCORES)
    assert "A starting point" in printed.stderr


def test_every_starter_ratio_is_printed_with_its_source() -> None:
    printed = run("starter").stdout
    for each in SCORES:
        of = f"{each.score} / {each.cpus}, median of {each.of}, {each.published}"
        assert f"#   {each.ratio}  {each.model}: {of}\n#         {each.url}\n" in printed


GOLD = "Intel(R) Xeon(R) Gold 6148 CPU @ 2.40GHz"
GENOA = "AMD EPYC 9654 96-Core Processor"


def starter_of(*cpus: tuple[str, bool, bool] | None) -> tuple[Result, dict[str, Any]]:
    """Run it for nodes with these CPUs (model, hyper-threading, turbo); return the ratioModel too."""
    items: list[dict[str, Any]] = []
    for index, cpu in enumerate(cpus):
        items.append({"kind": "Node", "metadata": {"name": f"n{index}"}})
        if cpu:
            info = dict(zip(("cpuModel", "hyperThreadEnabled", "turboEnabled"), cpu, strict=True))
            metadata = {"name": f"n{index}", "annotations": {CPU_BASIC_INFO: json.dumps(info)}}
            items.append({"kind": "NodeResourceTopology", "metadata": metadata})
    result = run("starter", "--nodes", "-", stdin=json.dumps({"items": items}))
    if result.exit_code:
        return result, {}
    value = json.loads(yaml.safe_load(result.stdout)["data"][NORMALIZATION_KEY])
    assert value["enable"] is False
    return result, value["ratioModel"]


def test_starter_ratios_use_slowest_cluster_model_as_baseline() -> None:
    result, ratios = starter_of((GOLD, True, True), (EPYC, True, True), (EPYC, True, True))
    # 814 / 256 over 203 / 80 is 1.2530...
    assert ratios == {GOLD: {STARTER_FIELD: 1.00}, EPYC: {STARTER_FIELD: 1.25}}
    assert result.stderr.splitlines() == [
        'A starting point: measure with corewise calibrate, correct the ratios, then set "enable" to true.'
    ]


def test_model_without_result_is_named_beside_other_ratios() -> None:
    result, ratios = starter_of((GOLD, True, True), (EPYC, True, True), (NEW, True, True))
    assert ratios == {GOLD: {STARTER_FIELD: 1.00}, EPYC: {STARTER_FIELD: 1.25}}
    assert result.stderr.startswith(f"no published ratio for {NEW}: measure it with corewise calibrate\n")
    remark = "If one of these is slower than the CPU at 1.00, all ratios change:"
    assert f"# No published result. {remark}\n#   {NEW}\napiVersion" in result.stdout


@pytest.mark.parametrize(
    "other",
    [(OLD, True, False), (GENOA, False, True), None],
    ids=["no row", "hyper-threading off", "no facts"],
)
def test_only_cpu_with_a_result_gets_no_ratio(other: tuple[str, bool, bool] | None) -> None:
    result, ratios = starter_of((GENOA, True, True), other)
    assert (result.exit_code, ratios) == (0, {})
    assert f"#   {GENOA}: 1660 / 384, median of 37, Nov-2022\n" in result.stdout
    *_, either, last = result.stderr.splitlines()
    assert either == f"no ratio for {GENOA} either: there is no second result to compare with"
    assert last.startswith("No ratios to start with: measure with corewise calibrate, write them into")
    assert "warning" not in run("check", "-", stdin=result.stdout).stdout


def test_single_cpu_model_is_its_own_baseline() -> None:
    _, ratios = starter_of((GENOA, True, True), (GENOA, True, True))
    assert ratios == {GENOA: {STARTER_FIELD: 1.00}}


def test_result_does_not_count_under_other_node_settings() -> None:
    result, ratios = starter_of(
        (GOLD, True, True), (GENOA, True, True), (EPYC, True, False), (EPYC, False, False)
    )
    assert ratios.keys() == {GOLD, GENOA}
    settings = [line.split(": ")[0] for line in result.stderr.splitlines()]
    assert settings[:2] == [
        f"no published ratio for {EPYC} with hyper-threading off and turbo off",
        f"no published ratio for {EPYC} with turbo off",
    ]
    only, _ = starter_of((EPYC, True, False))
    assert isinstance(only.exception, Failure)
    assert f"of these nodes: {EPYC} with turbo off\n" in str(only.exception)


def test_nodes_without_facts_are_named_beside_starter_ratios() -> None:
    result, ratios = starter_of((GOLD, True, True), (EPYC, True, True), None)
    assert (len(ratios), result.stderr.splitlines()[0]) == (2, "no CPU facts of 1 node: n2")


def test_cluster_of_unknown_models_has_no_starter_ratios() -> None:
    result = run("starter", "--nodes", "nodes.json")
    assert isinstance(result.exception, Failure)
    assert result.exception.exit_code == ExitCode.NOT_FOUND
    assert "calibrate" in result.exception.hint


@pytest.mark.parametrize("row", SCORES, ids=lambda row: row.model)
def test_table_row_is_complete_and_ratio_follows_score(row: PublishedScore) -> None:
    assert any(re.fullmatch(form, row.model) for form in KERNEL_NAMES)
    slowest = min(Fraction(each.score) / each.cpus for each in SCORES)
    ratio = Ratio.parse(row.ratio)
    assert ratio == Ratio(round(Fraction(row.score) / row.cpus / slowest * 100))
    assert ONE <= ratio <= LARGEST_NORMALIZATION_RATIO
    assert row.of >= 3
    year = re.fullmatch(r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)-(20\d\d)", row.published)
    place = re.fullmatch(r"res(20\d\d)q[1-4]/cpu2017-\d{8}-\d{5}", row.result)
    assert year
    assert place
    assert year[1] == place[1]
    cores = re.search(r"(\d+)-Core", row.model)
    assert cores is None or row.cpus == int(cores[1]) * 2 * 2  # sockets, threads


def test_no_model_is_in_the_table_twice() -> None:
    assert len({each.model.lower() for each in SCORES}) == len(SCORES)
    assert STARTER_FIELD is RatioField.HYPER_THREADING_TURBO
