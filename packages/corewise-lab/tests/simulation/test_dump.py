"""A dump of a real cluster: what is taken over, what is set aside until corewise is on, what is refused."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corewise.cli.errors import Failure
from corewise.vocabulary.names import (
    ALLOW_UNSAFE_CHANGE,
    AMPLIFICATION_ORIGINAL,
    AMPLIFICATION_RATIO,
    AMPLIFIED,
    CPU_BASIC_INFO,
    MEMORY_BANDWIDTH,
    NORMALIZATION_ENABLED,
    NORMALIZATION_RATIO,
    RAW_ALLOCATABLE,
    RAW_CAPACITY,
)
from corewise_lab.cli import up
from corewise_lab.cli.up import make_plan
from corewise_lab.dump import load_dump
from corewise_lab.plan import InputError, NodeMetadata, Plan
from corewise_lab.scenario import load_scenario

Object = dict[str, Any]
BUILTIN = load_scenario("builtin")


def node(name: str = "n1", *, cpu: str = "8", allocatable: str = "7910m", **metadata: Any) -> Object:
    amounts = {"memory": "32Gi", "pods": "58", "nvidia.com/gpu": "2"}
    return {
        "kind": "Node",
        "metadata": {"name": name, **metadata},
        "status": {"capacity": {"cpu": cpu, **amounts}, "allocatable": {"cpu": allocatable, **amounts}},
    }


def pod(name: str = "p1", *, on: str = "n1", phase: str = "Running") -> Object:
    resources = {"requests": {"cpu": "500m"}, "limits": {"cpu": "1"}}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "ownerReferences": [{"kind": "ReplicaSet"}]},
        "spec": {
            "nodeName": on,
            "containers": [{"name": "main", "image": "shop:1", "resources": resources, "command": ["x"]}],
            "serviceAccountName": "shop",
        },
        "status": {"phase": phase},
    }


def facts(name: str = "n1", model: str = "Neoverse-N1") -> Object:
    text = json.dumps({"cpuModel": model})
    return {"kind": "NodeResourceTopology", "metadata": {"name": name, "annotations": {CPU_BASIC_INFO: text}}}


def load(folder: Path, *items: Object) -> Plan:
    file = folder / "dump.json"
    file.write_text(json.dumps({"kind": "List", "items": list(items)}))
    return load_dump(file, config=BUILTIN.config, table=BUILTIN.cpu_facts, models=BUILTIN.models)


def test_a_node_becomes_a_machine_of_its_size(tmp_path: Path) -> None:
    (machine,) = load(tmp_path, node(labels={"zone": "a"})).machines
    assert (machine.cpus, machine.allocatable["cpu"], machine.max_pods) == (8, "7910m", 58)
    assert machine.capacity["nvidia.com/gpu"] == "2"
    assert machine.labels == {"zone": "a"}


def test_cpu_facts_come_from_the_nodes_topology(tmp_path: Path) -> None:
    (machine,) = load(tmp_path, node(), facts()).machines
    assert machine.cpu_facts() == {
        "cpuModel": "Neoverse-N1", "hyperThreadEnabled": False, "turboEnabled": False, "vendorID": "ARM",
    }  # fmt: skip
    assert machine.speed == BUILTIN.models["Neoverse-N1"].core_speed


def test_unknown_model_keeps_its_facts_without_a_speed(tmp_path: Path) -> None:
    plan = load(tmp_path, node(), facts(model="RISC-V X100"))
    (machine,) = plan.machines
    assert (machine.cpu_facts() or {})["cpuModel"] == "RISC-V X100"
    assert machine.speed is None
    assert any("no speed is known for RISC-V X100" in note for note in plan.notes)


def test_the_table_gives_facts_by_label(tmp_path: Path) -> None:
    (machine,) = load(tmp_path, node(labels={"node.kubernetes.io/instance-type": "m7g.4xlarge"})).machines
    assert machine.model is BUILTIN.models["Neoverse-V1"]


@pytest.mark.parametrize(
    ("instance_type", "model"),
    [
        ("c6i.large", "Intel(R) Xeon(R) Platinum 8375C CPU @ 2.90GHz"),
        ("r7i.48xlarge", "Intel(R) Xeon(R) Platinum 8488C"),
        ("m6a.xlarge", "AMD EPYC 7R13 Processor"),
        ("m6g.medium", "Neoverse-N1"),
        ("m6gd.medium", None),
    ],
)
def test_builtin_table_knows_instance_families_in_every_size(
    tmp_path: Path, instance_type: str, model: str | None
) -> None:
    (machine,) = load(tmp_path, node(labels={"node.kubernetes.io/instance-type": instance_type})).machines
    assert (machine.model.name if machine.model else None) == model


def test_facts_by_label_are_noted_as_an_assumption(tmp_path: Path) -> None:
    labels = {"node.kubernetes.io/instance-type": "m7g.4xlarge"}
    plan = load(tmp_path, node(labels=labels), node("n2", labels=labels), facts("n2"))
    assert "CPU facts by label, from cpuFacts: 1 (n1)" in plan.notes
    assert plan.advice == ()


def test_a_topology_takes_precedence_over_every_label(tmp_path: Path) -> None:
    nfd = "feature.node.kubernetes.io/cpu-"
    labels = {
        "node.kubernetes.io/instance-type": "m6i.large",
        f"{nfd}hardware_multithreading": "true",
        f"{nfd}pstate.turbo": "true",
    }
    (machine,) = load(tmp_path, node(labels=labels), facts()).machines
    assert machine.cpu_facts() == {
        "cpuModel": "Neoverse-N1", "hyperThreadEnabled": False, "turboEnabled": False, "vendorID": "ARM",
    }  # fmt: skip


def test_unknown_node_stays_without_facts_and_is_noted(tmp_path: Path) -> None:
    plan = load(tmp_path, node())
    assert plan.machines[0].cpu_facts() is None
    assert any("nodes without CPU facts: 1 (n1)" in note for note in plan.notes)


def test_missing_facts_prompt_a_template_file_and_command(
    tmp_path: Path,
) -> None:
    plan = load(
        tmp_path, node(labels={"node.kubernetes.io/instance-type": "m5.large"}), node("n2"), facts("n2")
    )
    assert plan.advice == (
        "# No CPU facts of 1 of 2 nodes: they keep their raw CPUs. Save these lines as facts.yaml,",
        "# write each model as lscpu prints it (Model name) on such a node, check the settings, and run:",
        f"# corewise up --from {tmp_path / 'dump.json'} --scenario facts.yaml",
        "cpuFacts:",
        '  - {instanceType: "m5.*", model: "", hyperThreading: true, turbo: true}  # n1',
    )


def test_unedited_template_file_gives_nodes_their_facts(tmp_path: Path) -> None:
    nodes = (node(labels={"node.kubernetes.io/instance-type": "m5.large"}), node("n2"))
    text = "\n".join(load(tmp_path, *nodes).advice).replace('model: ""', "model: My CPU 1")
    (tmp_path / "facts.yaml").write_text(text)
    plan = make_plan(None, str(tmp_path / "facts.yaml"), tmp_path / "dump.json", None)
    assert plan.advice == ()
    assert [(each.model.name, each.turbo) for each in plan.machines if each.model] == [("My CPU 1", True)] * 2
    assert plan.config == BUILTIN.config, "a file without a configuration has the builtin one"


def test_dump_file_precedes_and_extends_the_builtin_table(tmp_path: Path) -> None:
    (tmp_path / "facts.yaml").write_text(
        "cpuFacts:\n"
        "  - {nfd: {vendor: AMD, family: 25, id: 17}, model: AMD EPYC 9654 96-Core Processor, turbo: true}\n"
        '  - {instanceType: "m7g.*", model: Neoverse-N2}\n'
    )
    nfd = "feature.node.kubernetes.io/cpu-"
    genoa = {f"{nfd}model.vendor_id": "AMD", f"{nfd}model.family": "25", f"{nfd}model.id": "17"}
    load(
        tmp_path,
        node("metal", labels={**genoa, f"{nfd}hardware_multithreading": "true"}),
        node("own", labels={"node.kubernetes.io/instance-type": "m7g.large"}),
        node("builtin", labels={"node.kubernetes.io/instance-type": "m6i.large"}),
    )
    plan = make_plan(None, str(tmp_path / "facts.yaml"), tmp_path / "dump.json", None)
    found = {each.name: (each.model.name, each.hyper_threading) for each in plan.machines if each.model}
    assert found == {
        "metal": ("AMD EPYC 9654 96-Core Processor", True),
        "own": ("Neoverse-N2", False),
        "builtin": ("Intel(R) Xeon(R) Platinum 8375C CPU @ 2.90GHz", True),
    }


def test_missing_facts_are_reported_on_stderr_before_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object) -> NoReturn:
        raise Failure("not run in this test")

    monkeypatch.setattr(up, "_run", stopped)
    advice = load(tmp_path, node()).advice
    result = CliRunner().invoke(up.command, ["--from", str(tmp_path / "dump.json"), "--for", "1s"])
    assert (result.stdout, result.stderr.splitlines()) == ("", list(advice))


def test_an_amplified_node_starts_from_its_raw_amounts(tmp_path: Path) -> None:
    annotations = {
        RAW_CAPACITY: '{"cpu":"8"}', RAW_ALLOCATABLE: '{"cpu":"7500m"}', AMPLIFIED: "{}",
        NORMALIZATION_RATIO: "1.50", AMPLIFICATION_RATIO: '{"cpu":1.50}', AMPLIFICATION_ORIGINAL: "{}",
    }  # fmt: skip
    plan = load(tmp_path, node(cpu="12", allocatable="11250m", annotations=annotations))
    assert (plan.machines[0].cpus, plan.machines[0].allocatable["cpu"]) == (8, "7500m")
    assert not plan.when_on


@pytest.mark.parametrize(
    "annotations",
    [
        {AMPLIFICATION_RATIO: '{"cpu":1.20}'},
        {
            AMPLIFICATION_RATIO: '{"cpu":1.80}',
            AMPLIFICATION_ORIGINAL: '{"cpu":1.20}',
            NORMALIZATION_RATIO: "1.5",
        },
    ],
)
def test_user_written_values_return_when_corewise_is_on(tmp_path: Path, annotations: Object) -> None:
    plan = load(tmp_path, node(labels={NORMALIZATION_ENABLED: "false"}, annotations=annotations))
    assert NORMALIZATION_ENABLED not in plan.machines[0].labels
    own = NodeMetadata({NORMALIZATION_ENABLED: "false"}, {AMPLIFICATION_RATIO: '{"cpu":1.20}'})
    assert plan.when_on == {"n1": own}


@pytest.mark.parametrize("name", [MEMORY_BANDWIDTH, ALLOW_UNSAFE_CHANGE])
def test_annotation_only_users_write_returns_with_corewise_on(tmp_path: Path, name: str) -> None:
    plan = load(tmp_path, node(annotations={name: "107GB/s", AMPLIFIED: "{}"}))
    assert plan.when_on == {"n1": NodeMetadata({}, {name: "107GB/s"})}


def test_running_pods_are_read_with_all_cpu_settings(tmp_path: Path) -> None:
    plan = load(tmp_path, node(), pod(), pod("done", phase="Succeeded"), pod("elsewhere", on="n9"))
    (taken,) = plan.pods
    assert taken["metadata"] == {"name": "p1", "namespace": "shop", "labels": {}, "annotations": {}}
    assert taken["spec"]["nodeName"] == "n1"
    assert taken["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "1"}
    assert "serviceAccountName" not in taken["spec"]
    assert any(note.endswith("run on none of the nodes: 1") for note in plan.notes)


def test_the_dumps_own_configuration_is_used(tmp_path: Path) -> None:
    config = {"kind": "ConfigMap", "metadata": {"name": "slo-controller-config"}, "data": {"a": "b"}}
    assert load(tmp_path, node(), config).config == {"a": "b"}
    assert load(tmp_path, node()).config == BUILTIN.config


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (node(""), "items[0] (Node ): Expected `str` of length >= 1 - at `$.metadata.name`"),
        (node(cpu="12 Ei"), "items[0] (Node n1): status.capacity.cpu: '12 Ei' is not a quantity"),
        (node(allocatable="1,2"), "status.allocatable.cpu: '1,2' is not a quantity"),
        ({"kind": "Node", "metadata": {"name": "n1"}}, "(Node n1): status.capacity.cpu is missing"),
        ({"kind": "Node", "metadata": [1]}, "Expected `object`, got `array` - at `$.metadata`"),
        (node(annotations={RAW_CAPACITY: "{"}), "not a JSON resource list"),
        (node(annotations={RAW_CAPACITY: "[]"}), "not a JSON resource list"),
        (node(cpu="-1"), "is negative"),
        (node(cpu="0"), "out of range"),
        (node(annotations=7), "`$.metadata.annotations`"),
    ],
)
def test_a_malformed_object_is_told_with_its_place(tmp_path: Path, item: Object, message: str) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path, item)
    assert "dump.json" in str(caught.value)
    assert message in str(caught.value)


@pytest.mark.parametrize("containers", [None, [], "x", [{}], [1]])
def test_a_pod_without_proper_containers_is_refused(tmp_path: Path, containers: object) -> None:
    broken = pod()
    broken["spec"]["containers"] = containers
    with pytest.raises(InputError, match=r"items\[1\] \(Pod p1\): .*(`containers`|spec\.containers)"):
        load(tmp_path, node(), broken)


def test_a_name_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"items\[1\] \(Node n1\): metadata.name is there twice"):
        load(tmp_path, node(), node())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is empty or breaks off"),
        ("{", "it is empty or breaks off"),
        ("[]", "not a list of objects"),
        ('{"items": [1]}', "no nodes in it"),
        ('{"items": []}', "no nodes in it"),
    ],
)
def test_a_file_that_is_no_dump_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "dump.json"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        load_dump(file, config={}, table=(), models={})


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none.json: No such file"):
        load_dump(tmp_path / "none.json", config={}, table=(), models={})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)


def places(value: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, each in inner for place in places(each, (*path, key)))]


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_arbitrary_values_are_read_or_refused_without_crashing(tmp_path: Path, data: st.DataObject) -> None:
    annotated = node(annotations={RAW_CAPACITY: '{"cpu":"8"}'}, labels={"zone": "a"})
    items = [annotated, pod(), facts(), {"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {}}]
    path = data.draw(st.sampled_from(places(items)))
    target: Any = items
    for key in path[:-1]:
        target = target[key]
    if path:
        target[path[-1]] = data.draw(JSON)
    file = tmp_path / "dump.json"
    file.write_text(json.dumps({"items": items}))
    with suppress(InputError):
        load_dump(file, config={}, table=(), models=BUILTIN.models)
