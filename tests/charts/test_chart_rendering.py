"""The Helm chart: what it renders, what it refuses, and that kustomize installs the same.

| values | rendered |
|---|---|
| the defaults | deploy/, file by file (tools/generate.py --check), and the test pod |
| all changed | expected/full.yaml; COREWISE_GOLDEN=write writes it |
| one program off | nothing that names this program |
| one replica | no PodDisruptionBudget of this program |
| a budget that keeps all replicas | a failure that names the value and what to set |
| unknown, or of the wrong type | refused by the schema, in a sentence that names the value |
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import helm_python
import pytest
import yaml

import corewise
from corewise.config.interference.reading import INTERFERENCE, SCHEDULER_KEYS
from corewise.scheduler.configuration import read_configuration
from tools import chart

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
GOLDEN = HERE / "expected" / "full.yaml"
FULL = yaml.safe_load((HERE / "full-values.yaml").read_text())
BULKY = {"monitoring/dashboards.yaml", "monitoring/rules.yaml"}
"""What they hold comes from deploy/monitoring, which has tests of its own."""


def objects(rendered: dict[str, str]) -> list[dict[str, Any]]:
    """All objects of what was rendered."""
    texts = (text for path, text in rendered.items() if path.endswith(".yaml"))
    return [each for text in texts for each in yaml.safe_load_all(text) if each]


def key(manifest: dict[str, Any]) -> tuple[str, str, str]:
    return manifest["kind"], manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"]


def by_key(manifests: Iterable[dict[str, Any]]) -> dict[tuple[str, str, str], dict[str, Any]]:
    return {key(each): each for each in manifests}


def is_test(manifest: dict[str, Any]) -> bool:
    return bool(manifest["metadata"].get("annotations", {}).get("helm.sh/hook") == "test")


@pytest.mark.parametrize("values", [{}, FULL], ids=["default", "full"])
def test_helms_lint_finds_nothing(values: dict[str, Any]) -> None:
    with chart.staged() as folder:
        report = helm_python.lint(folder, values, strict=True)
    assert [each for each in report["messages"] if each["severity"] > 1] == []


def test_the_full_values_differ_from_every_default() -> None:
    def leaves(value: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
        if isinstance(value, dict) and value and path[-1:] not in {("data",), ("configuration",)}:
            return {
                where: leaf
                for name, each in value.items()
                for where, leaf in leaves(each, (*path, name)).items()
            }
        return {path: value}

    full = leaves(FULL)
    same = {
        ".".join(path)
        for path, value in leaves(yaml.safe_load(chart.values())).items()
        if full.get(path) == value
    }
    switched_on = {f"{each}.enabled" for each in ("manager", "scheduler", "agent", "networkPolicy")}
    switched_on |= {f"policies.{each}.enabled" for each in ("resourceStatus", "qosClass", "agentNode")}
    switched_on |= {f"{each}.podDisruptionBudget.enabled" for each in ("manager", "scheduler")}
    switched_on |= {
        f"{each}.nodeSelector.kubernetes.io/os" for each in ("manager", "scheduler", "agent", "web")
    }
    assert same == switched_on | {"certificates.caBundle"}


def test_the_full_values_render_what_is_expected() -> None:
    rendered = chart.render(FULL)
    text = "".join(f"# {path}\n{rendered[path].strip()}\n---\n" for path in sorted(set(rendered) - BULKY))
    text = text.replace(f"corewise {corewise.__version__}", "corewise VERSION")
    if os.environ.get("COREWISE_GOLDEN") == "write":
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text(), (
        "COREWISE_GOLDEN=write pytest tests/charts keeps this as what is expected"
    )


@pytest.mark.parametrize(
    ("config", "commands"),
    [
        (
            {},
            [
                "corewise config starter > slo-controller-config.yaml",
                "corewise config check slo-controller-config.yaml --cluster",
                "kubectl apply -f slo-controller-config.yaml",
            ],
        ),
        (
            {"namespace": "koordinator-system"},
            [
                "export COREWISE_CONFIG_NAMESPACE=koordinator-system",
                "corewise config starter > slo-controller-config.yaml",
                "corewise config check slo-controller-config.yaml --cluster",
                "kubectl apply -f slo-controller-config.yaml",
            ],
        ),
        ({"data": {"oversubscription-config": {}}}, []),
    ],
    ids=["default", "other namespace", "from the chart"],
)
def test_the_notes_name_the_commands_to_start(config: dict[str, Any], commands: list[str]) -> None:
    notes = chart.render({"config": config})["NOTES.txt"]
    indented = [line.partition("#")[0].strip() for line in notes.splitlines() if line.startswith("    ")]
    assert indented == commands
    assert notes.startswith("corewise ")
    assert ("The chart created this ConfigMap from config.data." in notes) == ("data" in config)


@pytest.mark.parametrize("size", ["small", "medium", "large"])
def test_program_gets_the_sizes_resources_unless_overridden(size: str) -> None:
    sizes = yaml.safe_load((ROOT / "charts/corewise/files/sizes.yaml").read_text())
    own = {"requests": {"memory": "1Gi"}}
    values = {"size": size, "web": {"enabled": True, "tlsSecret": "web"}, "agent": {"resources": own}}
    resources = {
        each["metadata"]["name"].removeprefix("corewise-"): each["spec"]["template"]["spec"]["containers"][0][
            "resources"
        ]
        for each in objects(chart.render(values))
        if each["kind"] in {"Deployment", "DaemonSet"}
    }
    expected = {name: sizes[size][name] for name in ("manager", "scheduler", "web")}
    assert resources == expected | {"agent": own}


@pytest.mark.parametrize("size", ["small", "medium", "large"])
def test_an_agent_that_measures_gets_more_memory(size: str) -> None:
    def agent(values: dict[str, Any]) -> dict[str, Any]:
        rendered = objects(chart.render({"size": size, "agent": values}))
        (daemon_set,) = [each for each in rendered if each["kind"] == "DaemonSet"]
        (container,) = daemon_set["spec"]["template"]["spec"]["containers"]
        return dict(container)

    sizes = yaml.safe_load((ROOT / "charts/corewise/files/sizes.yaml").read_text())[size]["agent"]
    measuring, resting = agent({"evaluate": {"enabled": True, "minutesPerDay": 0.5}}), agent({})
    assert measuring["resources"] == {"requests": sizes["requests"], "limits": sizes["evaluating"]}
    assert resting["resources"] == {"requests": sizes["requests"], "limits": sizes["limits"]}
    assert set(measuring["args"]) - set(resting["args"]) == {"--evaluate", "--evaluate-minutes=0.5"}


@pytest.mark.parametrize("interference", [False, True])
def test_scheduler_reads_the_file_of_the_values(*, interference: bool) -> None:
    own = {"scoring": "MostAllocated", "rememberedDecisions": 0, "normalizeCPUSet": True}
    values = {"scheduler": {"configuration": own}, "interference": {"enabled": interference}}
    rendered = by_key(objects(chart.render(values)))
    data = rendered["ConfigMap", chart.NAMESPACE, "corewise-scheduler"]["data"]
    parsed = read_configuration(data["scheduler.yaml"])
    assert not parsed.problems
    assert parsed.value is not None
    assert (parsed.value.normalize_cpuset, parsed.value.interference is not None) == (True, interference)
    deployment = rendered["Deployment", chart.NAMESPACE, "corewise-scheduler"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert "--config=/etc/corewise/scheduler.yaml" in container["args"]
    assert any(each.startswith("--prometheus=") for each in container["args"]) == interference


def test_other_keys_of_schedulers_file_are_values() -> None:
    schema = json.loads((chart.CHART / "values.schema.json").read_text())["properties"]
    keys = {
        name: set(schema[name]["properties"]["configuration"]["properties"])
        for name in ("scheduler", "interference")
    }
    assert keys["scheduler"] | {INTERFERENCE} == keys["interference"] == set(SCHEDULER_KEYS)


def test_key_of_schedulers_file_given_twice_is_refused() -> None:
    one = {"configuration": {"scoring": "MostAllocated"}}
    with pytest.raises(helm_python.HelmRenderError) as refused:
        chart.render({"scheduler": one, "interference": {**one, "enabled": True}})
    assert "scoring is set in scheduler.configuration and in interference.config" in str(refused.value)


@pytest.mark.parametrize(
    "interference",
    [
        {"enabled": False, "configuration": {"scoring": "LeastAllocated"}},
        {"enabled": False, "configuration": None},
        {"enabled": True, "configuration": None},
    ],
)
def test_unused_interference_configuration_refuses_nothing(interference: dict[str, Any]) -> None:
    values = {"scheduler": {"configuration": {"scoring": "MostAllocated"}}, "interference": interference}
    rendered = by_key(objects(chart.render(values)))
    data = rendered["ConfigMap", chart.NAMESPACE, "corewise-scheduler"]["data"]
    stated = yaml.safe_load(data["scheduler.yaml"])
    assert stated["scoring"] == "MostAllocated"
    assert ("interference" in stated) == interference["enabled"]


def test_rules_and_dashboards_are_those_of_deploy() -> None:
    rendered = by_key(objects(chart.render(FULL)))
    folder = ROOT / "deploy"
    files = [*(folder / "monitoring").glob("*.yaml")]
    rules = {name: each["spec"] for (kind, _, name), each in rendered.items() if kind == "PrometheusRule"}
    assert rules == {f"corewise-{path.stem}": yaml.safe_load(path.read_text()) for path in files}
    for name, spec in rules.items():
        groups = [group["name"] for group in spec["groups"]]
        assert len(set(groups)) == len(groups), f"{name}: Prometheus Operator takes each group's name once"
    boards = [each["data"] for (kind, _, _), each in rendered.items() if kind == "ConfigMap"]
    shown = {
        name: json.loads(text) for data in boards for name, text in data.items() if name.endswith(".json")
    }
    assert shown == {
        path.name: json.loads(path.read_text()) for path in (folder / "monitoring").glob("*.json")
    }


def test_default_chart_installs_what_kustomize_does_plus_test() -> None:
    installed = [each for each in objects(chart.render({"image": {"tag": "latest"}})) if not is_test(each)]
    paths = [
        ROOT / "deploy" / each
        for each in (yaml.safe_load((ROOT / "deploy/kustomization.yaml").read_text())["resources"])
    ]
    files = [
        path / name
        for path in paths
        for name in yaml.safe_load((path / "kustomization.yaml").read_text())["resources"]
    ]
    shipped = [each for path in files for each in yaml.safe_load_all(path.read_text())]
    assert by_key(installed) == by_key(shipped)


NO_POLICIES = {name: {"enabled": False} for name in ("resourceStatus", "qosClass", "agentNode")}


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl, which renders kustomizations")
@pytest.mark.parametrize(
    ("overlay", "values"),
    [
        ("cert-manager", {"certificates": {"from": "certManager"}, "scheduler": {"enabled": False}}),
        (
            "interference",
            {
                "interference": {"enabled": True},
                "manager": {"enabled": False},
                "agent": {"enabled": False},
                "policies": NO_POLICIES,
            },
        ),
        (
            "client-ca",
            {
                "certificates": {"clientCA": "corewise-webhook-client-ca"},
                "scheduler": {"enabled": False},
                "agent": {"enabled": False},
                "policies": NO_POLICIES,
            },
        ),
    ],
)
def test_kustomize_overlay_installs_what_the_chart_does(overlay: str, values: dict[str, Any]) -> None:
    rendered = chart.render({"image": {"tag": "latest"}, **values})
    made = subprocess.run(
        ["kubectl", "kustomize", str(ROOT / "deploy" / overlay)], capture_output=True, text=True, check=True
    )
    kustomized = list(yaml.safe_load_all(made.stdout))
    for manifest in kustomized:  # a text with comments on one side
        if manifest["kind"] == "ConfigMap":
            manifest["data"] = {name: text.strip() for name, text in manifest["data"].items()}
    expected = [each for each in objects(rendered) if not is_test(each)]
    for manifest in expected:
        if manifest["kind"] == "ConfigMap":
            manifest["data"] = {name: text.strip() for name, text in manifest["data"].items()}
    assert by_key(kustomized) == by_key(expected)


def test_cert_managers_renewals_keep_the_authority() -> None:
    """The CA bundle changes at once and the mounted Secret a minute later: they may not change together."""
    made = by_key(objects(chart.render(chart.CERT_MANAGER)))
    specs = {(kind, name): each["spec"] for (kind, _, name), each in made.items() if "spec" in each}
    leaf = specs["Certificate", "corewise-webhook"]
    issuer = specs["Issuer", leaf["issuerRef"]["name"]]
    (authority,) = (
        each
        for (kind, _), each in specs.items()
        if kind == "Certificate" and each["secretName"] == issuer["ca"]["secretName"]
    )
    assert (authority["isCA"], authority["privateKey"]["rotationPolicy"]) == (True, "Never")
    assert specs["Issuer", authority["issuerRef"]["name"]] == {"selfSigned": {}}
    assert (leaf.get("isCA", False), leaf["privateKey"]["rotationPolicy"]) == (False, "Always")


def test_quota_of_the_page_allows_the_priorities() -> None:
    page = (ROOT / "docs/operate/install.md").read_text()
    (quota,) = (
        each
        for text in re.findall(r"^```yaml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
        if (each := yaml.safe_load(text))["kind"] == "ResourceQuota"
    )
    pods = [
        each["spec"]["template"]["spec"]
        for each in objects(chart.render())
        if "template" in each.get("spec", {})
    ]
    (scope,) = quota["spec"]["scopeSelector"]["matchExpressions"]
    assert (quota["metadata"]["namespace"], scope["scopeName"]) == (chart.NAMESPACE, "PriorityClass")
    assert set(scope["values"]) == {each["priorityClassName"] for each in pods}


def test_all_pods_run_on_linux_by_default() -> None:
    made = objects(chart.render({"web": {"enabled": True, "tlsSecret": "web"}}))
    pods = {
        key(each)[::2]: each["spec"]["template"]["spec"] if "template" in each["spec"] else each["spec"]
        for each in made
        if each["kind"] in {"Deployment", "DaemonSet", "Pod"}
    }
    assert len(pods) == 5
    linux = {"kubernetes.io/os": "linux"}
    assert [name for name, pod in pods.items() if pod.get("nodeSelector") != linux] == []


def test_config_maps_are_granted_by_name_only() -> None:
    made = objects(chart.render({"web": {"enabled": True, "tlsSecret": "web"}}))
    granted = [rule for each in made for rule in each.get("rules", ()) if "configmaps" in rule["resources"]]
    assert len(granted) == 4
    assert [rule for rule in granted if rule.get("resourceNames") != ["slo-controller-config"]] == []


@pytest.mark.parametrize("program", ["manager", "scheduler", "agent", "web"])
def test_a_program_that_is_off_leaves_nothing(program: str) -> None:
    made = objects(chart.render({**FULL, program: {"enabled": False}}))
    named = [key(each) for each in made if re.search(rf"{program}\b", each["metadata"]["name"])]
    agents_policy = ("ValidatingAdmissionPolicy", "", "corewise-agent-node")
    assert [each for each in named if each[0] != "PrometheusRule"] == []
    assert (agents_policy in map(key, made)) == (program != "agent")


@pytest.mark.parametrize("program", ["manager", "scheduler", "agent", "web"])
def test_extra_arguments_reach_the_program_as_written(program: str) -> None:
    extra = ["--kubelet-user=system:node:", "--title=a: b #1"]
    made = objects(chart.render({**FULL, program: {**FULL[program], "extraArgs": extra}}))
    (pods,) = (
        each["spec"]["template"]["spec"]
        for each in made
        if key(each)[2] == f"corewise-{program}" and "template" in each.get("spec", {})
    )
    assert [each for each in pods["containers"][0]["args"] if each in extra] == extra


def budgets(values: dict[str, Any]) -> dict[str, Any]:
    """Return minAvailable of each program that has a PodDisruptionBudget."""
    return {
        each["metadata"]["name"].removeprefix("corewise-"): each["spec"]["minAvailable"]
        for each in objects(chart.render(values))
        if each["kind"] == "PodDisruptionBudget"
    }


@pytest.mark.parametrize(("program", "other"), [("manager", "scheduler"), ("scheduler", "manager")])
@pytest.mark.parametrize("kept", [1, "50%", "100%"])
def test_one_replica_has_no_disruption_budget(program: str, other: str, kept: int | str) -> None:
    one = {"replicas": 1, "podDisruptionBudget": {"minAvailable": kept}}
    assert budgets({program: one}) == {other: 1}


@pytest.mark.parametrize("program", ["manager", "scheduler"])
@pytest.mark.parametrize(("replicas", "kept"), [(2, 0), (2, 1), (2, "50%"), (3, 2), (3, "66%"), (101, "99%")])
def test_budget_that_allows_an_eviction_is_rendered(program: str, replicas: int, kept: int | str) -> None:
    values = {program: {"replicas": replicas, "podDisruptionBudget": {"minAvailable": kept}}}
    assert budgets(values)[program] == kept


@pytest.mark.parametrize("program", ["manager", "scheduler"])
@pytest.mark.parametrize(
    ("replicas", "kept", "number"),
    [(2, 2, 2), (2, 3, 3), (2, "51%", 2), (2, "100%", 2), (3, "67%", 3), (101, "100%", 101)],
)
def test_a_budget_that_keeps_all_replicas_is_refused(
    program: str, replicas: int, kept: int | str, number: int
) -> None:
    budget = {"minAvailable": kept}
    values = {program: {"replicas": replicas, "podDisruptionBudget": budget}}
    with pytest.raises(helm_python.HelmRenderError) as refused:
        chart.render(values)
    assert (
        f"{program}.podDisruptionBudget.minAvailable is {kept}, which keeps {number} of {replicas} replicas, "
        f"so no node that runs one can be drained: set it to {replicas - 1} or less, or set "
        f"{program}.podDisruptionBudget.enabled=false"
    ) in str(refused.value)
    off = {program: {"replicas": replicas, "podDisruptionBudget": {**budget, "enabled": False}}}
    assert program not in budgets(off)


def test_the_budgets_of_deploy_let_a_pod_go() -> None:
    for program in ("manager", "scheduler"):
        folder = ROOT / "deploy" / program
        budget = yaml.safe_load((folder / "disruption-budget.yaml").read_text())
        deployment = yaml.safe_load((folder / "deployment.yaml").read_text())
        assert budget["spec"]["minAvailable"] < deployment["spec"]["replicas"]
        assert budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


def test_host_network_programs_share_and_update_one_node() -> None:
    on = {"hostNetwork": {"enabled": True}}
    rendered = by_key(objects(chart.render({"manager": on, "scheduler": on})))
    ports: list[int] = []
    for (kind, _, name), each in rendered.items():
        if kind == "Deployment":
            assert each["spec"]["strategy"]["rollingUpdate"] == {"maxUnavailable": 1, "maxSurge": 0}
            pod = each["spec"]["template"]["spec"]
            assert (pod["hostNetwork"], pod["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
            (container,) = pod["containers"]
            listening = {port for text in container["args"] for port in re.findall(r"-?listen=:(\d+)$", text)}
            own = [port["containerPort"] for port in container["ports"]]
            assert listening == set(map(str, own)), name
            ports += own
        elif kind == "DaemonSet":
            assert "hostNetwork" not in each["spec"]["template"]["spec"]
    assert len(ports) == len(set(ports)) == 4


def test_the_readme_has_every_value_of_values_yaml() -> None:
    def names(values: dict[str, Any], schema: dict[str, Any], path: str = "") -> Iterator[str]:
        for name, value in values.items():
            inner = schema[name]
            if "properties" in inner and "default" not in inner:
                yield from names(value, inner["properties"], f"{path}{name}.")
            else:
                yield f"| `{path}{name}` | `{json.dumps(value)}` |"

    schema = json.loads((chart.CHART / "values.schema.json").read_text())["properties"]
    page = (chart.CHART / "README.md").read_text()
    rows = list(names(yaml.safe_load(chart.values()), schema))
    assert len(rows) > 40
    assert [row for row in rows if row not in page] == []


@pytest.mark.parametrize("program", ["corewise-manager", "corewise-scheduler", "corewise-test"])
def test_only_agents_need_more_than_the_restricted_standard(program: str) -> None:
    (found,) = (
        each
        for each in objects(chart.render())
        if each["kind"] in {"Deployment", "Pod"} and key(each)[2] == program
    )
    pod = found["spec"]["template"]["spec"] if found["kind"] == "Deployment" else found["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert {name for volume in pod.get("volumes", ()) for name in volume} <= {
        "name",
        "emptyDir",
        "configMap",
        "secret",
    }


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"managr": {}}, "'managr' not allowed"),
    ({"manager": {"replica": 1}}, "'replica' not allowed"),
    ({"manager": {"replicas": 0}}, "minimum: got 0, want 1"),
    ({"manager": {"hostNetwork": {"webhookPort": 443}}}, "minimum: got 443, want 1,024"),
    ({"scheduler": {"hostNetwork": True}}, "got boolean, want object"),
    ({"manager": {"replicas": "two"}}, "got string, want integer"),
    ({"manager": {"resources": {"requests": {"cpu": "much"}}}}, "'much' does not match pattern"),
    ({"manager": {"resources": {"limits": {"memory": "9ki"}}}}, "'9ki' does not match pattern"),
    ({"size": "huge"}, "value must be one of 'small', 'medium', 'large'"),
    ({"agent": {"tolerations": [{"effect": "Never"}]}}, "tolerations/0/effect"),
    ({"agent": {"extraArgs": ["once"]}}, "'once' does not match pattern"),
    ({"agent": {"seLinuxOptions": {"typ": "spc_t"}}}, "'typ' not allowed"),
    ({"agent": {"maxUnavailable": "half"}}, "'half' does not match pattern"),
    ({"agent": {"maxUnavailable": 0}}, "minimum: got 0, want 1"),
    ({"agent": {"maxUnavailable": "0%"}}, "'0%' does not match pattern"),
    ({"manager": {"podDisruptionBudget": {"minAvailable": "101%"}}}, "'101%' does not match pattern"),
    ({"scheduler": {"podDisruptionBudget": {"maxUnavailable": 0}}}, "'maxUnavailable' not allowed"),
    ({"image": {"digest": "latest"}}, "image/digest"),
    ({"certificates": {"from": "vault"}}, "must be one of 'corewise', 'certManager', 'secret'"),
    ({"certificates": {"from": "secret"}}, "certificates/caBundle"),
    ({"config": {"data": {"cpu-normalization-config": 5}}}, "got number, want string or object"),
    ({"policies": {"qosClass": {"namespaces": []}}}, "minItems: got 0, want 1"),
    ({"policies": {"resourceStatus": {"extraWriters": ["a'b"]}}}, "extraWriters/0"),
    ({"networkPolicy": {"callers": ["example.com"]}}, "'example.com' does not match pattern"),
    ({"interference": {"prometheusURL": "prometheus:9090"}}, "interference/prometheusURL"),
    ({"interference": {"configuration": {"profiles": {}}}}, "'profiles' not allowed"),
    ({"interference": {"configuration": {"interference": []}}}, "got array, want object"),
    ({"interference": {"configuration": {"scoring": "Most"}}}, "must be one of 'LeastAllocated'"),
    ({"scheduler": {"configuration": {"normalizeCPUSet": "yes"}}}, "got string, want boolean"),
    ({"scheduler": {"configuration": {"normalizeCpuset": True}}}, "'normalizeCpuset' not allowed"),
]


@pytest.mark.parametrize(
    ("values", "sentence"), REFUSED, ids=lambda each: each if isinstance(each, str) else ""
)
def test_value_that_cannot_work_is_refused_by_name(values: dict[str, Any], sentence: str) -> None:
    with (
        chart.staged() as folder,
        helm_python.Chart.load(folder) as loaded,
        pytest.raises(helm_python.HelmValuesError) as refused,
    ):
        loaded.validate_schema(loaded.merge_values(values))
    assert sentence in str(refused.value)


def test_certificate_may_not_replace_its_authority() -> None:
    with pytest.raises(helm_python.HelmRenderError, match="the Secret of the authority: choose another name"):
        chart.render({"certificates": {"from": "certManager", "secretName": "corewise-webhook-ca"}})


def test_schema_describes_every_value_and_refuses_unknown_keys() -> None:
    def check(path: str, schema: dict[str, Any]) -> None:
        assert schema["description"], path
        if "properties" in schema and "default" not in schema:
            assert schema["additionalProperties"] is False, path
            for name, inner in schema["properties"].items():
                check(f"{path}.{name}", inner)

    schema = json.loads((chart.CHART / "values.schema.json").read_text())
    assert schema["additionalProperties"] is False
    for name, inner in schema["properties"].items():
        check(name, inner)


@pytest.mark.parametrize(
    ("python", "helm"),
    [
        ("0.1.0", "0.1.0"),
        ("1.2.3rc1", "1.2.3-rc1"),
        ("0.2.dev5+gabc", "0.2.0-dev5+gabc"),
        ("1.0.0.post1", "1.0.0+post1"),
    ],
)
def test_a_version_of_python_becomes_a_semantic_version(python: str, helm: str) -> None:
    assert chart.chart_version(python) == helm


def test_package_has_the_corewise_version_and_follows_links(tmp_path: Path) -> None:
    with helm_python.Chart.load(chart.package(tmp_path)) as packaged:
        assert packaged.metadata["appVersion"] == corewise.__version__
        assert [each["name"] for each in packaged.crds] == [
            "crds/clustercolocationprofile.yaml",
            "crds/noderesourcetopology.yaml",
        ]
        assert "monitoring/programs-alerts.yaml" in {each["name"] for each in packaged.files}
