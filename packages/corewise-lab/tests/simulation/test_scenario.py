"""Scenarios: what the packaged ones hold, how they scale, and how a bad one is reported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from corewise.config.colocation import parse_oversubscription, parse_suppression
from corewise.config.configuration import parse_amplification, parse_normalization
from corewise.config.decoding import Problem
from corewise.quantities import Bytes
from corewise.vocabulary.names import (
    AMPLIFICATION_KEY,
    BATCH_CPU,
    BATCH_MEMORY,
    NORMALIZATION_KEY,
    OVERSUBSCRIPTION,
    OVERSUBSCRIPTION_KEY,
    SIMULATED_LOAD,
    SUPPRESSION_KEY,
)
from corewise_lab.load import Load, Shape
from corewise_lab.machines import CATALOG
from corewise_lab.measurement import spread
from corewise_lab.plan import InputError, PodGroup, check_config
from corewise_lab.pods import copies_to_fill, load_of, of_group, parse_load, print_load
from corewise_lab.scenario import load_scenario, packaged_scenarios, read_scenario

SMALL = """\
name: small
nodes:
  - {name: a, model: Neoverse-N1, coresPerSocket: 4, memory: 8Gi}
"""


def problems_of(text: str) -> list[Problem]:
    return list(read_scenario(text).problems)


@pytest.mark.parametrize("name", packaged_scenarios())
def test_packaged_scenario_and_configuration_have_no_problems(name: str) -> None:
    config = load_scenario(name).config
    assert not parse_normalization(config[NORMALIZATION_KEY]).problems
    assert not parse_amplification(config.get(AMPLIFICATION_KEY, "{}")).problems
    assert not parse_oversubscription(config.get(OVERSUBSCRIPTION_KEY, "{}")).problems
    assert not parse_suppression(config.get(SUPPRESSION_KEY, "{}")).problems


def test_the_builtin_scenario_is_a_heterogeneous_cluster() -> None:
    machines = load_scenario("builtin").plan().machines
    models = {machine.model.name for machine in machines if machine.model}
    speeds = [machine.speed for machine in machines if machine.speed]
    assert len(machines) >= 6
    assert len(models) >= 4
    assert {"Intel", "AMD", "Neoverse"} <= {name.split("-")[0].split("(")[0].split(" ")[0] for name in models}
    assert any(not machine.hyper_threading for machine in machines if machine.architecture == "amd64")
    assert any(not machine.turbo for machine in machines if machine.architecture == "amd64")
    assert (spread(speeds) or 0) > 2


def test_builtin_ratios_are_measured_near_speeds_not_copied() -> None:
    ratios = json.loads(load_scenario("builtin").config[NORMALIZATION_KEY])["ratioModel"]
    fields = {
        "baseRatio": (False, False),
        "hyperThreadEnabledRatio": (True, False),
        "turboEnabledRatio": (False, True),
        "hyperThreadTurboEnabledRatio": (True, True),
    }
    errors = []
    for name, model in CATALOG.items():
        for field, ratio in ratios[name].items():
            hyper_threading, turbo = fields[field]
            speed = model.speed(hyper_threading=hyper_threading, turbo=turbo)
            assert speed
            errors.append(abs(ratio / speed - 1))
    assert max(errors) < 0.02
    assert sum(error > 0.002 for error in errors) > len(errors) / 2


def test_switching_labels_come_with_the_configuration() -> None:
    plan = load_scenario("colocation").plan()
    assert len(plan.machines) == 5
    assert all(OVERSUBSCRIPTION not in machine.labels for machine in plan.machines)
    assert {dict(own.labels)[OVERSUBSCRIPTION] for own in plan.when_on.values()} == {"true"}
    assert plan.when_on.keys() == {machine.name for machine in plan.machines}


def test_colocation_scenario_has_varying_loads_and_offline_pods() -> None:
    groups = load_scenario("colocation").pods
    assert {group.load.shape for group in groups if group.load} >= {Shape.WAVE, Shape.SQUARE}
    (batch,) = (group for group in groups if group.offline)
    assert batch.qos_class == "BE"
    requests = of_group(batch, 0, "n1")["spec"]["containers"][0]["resources"]["requests"]
    assert requests == {BATCH_CPU: "4000", BATCH_MEMORY: "4096Mi"}


def test_offline_pods_fill_raw_cpus_regardless_of_ratio() -> None:
    batch = PodGroup("batch", 4000, Bytes(1 << 30), fill=0.5, offline=True)
    web = PodGroup("web", 4000, Bytes(1 << 30), fill=0.5)
    assert [copies_to_fill(group, 64_000, 32_000) for group in (batch, web)] == [4, 8]


def test_node_count_takes_the_groups_in_turn() -> None:
    names = [machine.name for machine in load_scenario("builtin").plan(10).machines]
    assert names[:2] == ["broadwell-0", "icelake-noht-0"]
    assert names[8:] == ["broadwell-1", "icelake-noht-1"]
    assert len(set(names)) == 10


def test_a_scenario_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "small.yaml"
    file.write_text(SMALL)
    (machine,) = load_scenario(str(file)).plan().machines
    assert (machine.name, machine.cpus, machine.capacity["memory"]) == ("a-0", 4, f"{8 << 20}Ki")


def test_missing_file_is_reported_with_the_packaged_ones() -> None:
    with pytest.raises(InputError, match=r"(?s)nowhere.*  builtin  "):
        load_scenario("nowhere")


def test_a_file_that_is_no_text_is_told(tmp_path: Path) -> None:
    file = tmp_path / "binary.yaml"
    file.write_bytes(b"name: \xff")
    with pytest.raises(InputError, match=r"binary\.yaml: not UTF-8: byte 6 is wrong"):
        load_scenario(str(file))


def test_all_problems_are_reported_together_with_places(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(
        "name: bad\nnodez: []\nnodes:\n"
        "  - {name: a, model: Neoverse-N3, coresPerSocket: 0, memory: 12Xi}\n"
        "pods:\n  - {name: p, cpu: 0, fil: 1, load: {low: 3, high: 1}}\n"
    )
    with pytest.raises(InputError) as caught:
        load_scenario(str(file))
    text = str(caught.value)
    assert 'line 2, column 1: nodez: unknown key: did you mean "nodes"?' in text
    assert 'nodes[0].model: "Neoverse-N3" is not a known value: did you mean "Neoverse-N2"?' in text
    assert "nodes[0].coresPerSocket: 0 is outside 1..1024" in text
    assert "nodes[0].memory: '12Xi' is not a quantity" in text
    assert 'pods[0].fil: unknown key: did you mean "fill"?' in text
    assert "pods[0]: needs either 'replicas'" in text
    assert "pods[0].load.high: 1 is below low (3)" in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must be an object"),
        ("- a", "must be an object"),
        ("a: [", "not YAML"),
        ("a: *b", "not YAML"),
        ("\x00", "not YAML"),
        ("name: x", "nodes: is missing"),
        ("name: x\nnodes: []", "at least one is needed"),
        ("name: x\nnodes: {}", "must be a list"),
        ("name: x\nnodes: [1]", "nodes[0]: must be an object"),
        (SMALL + "config: {a: 1}", "config.a: must be a string in double quotes, not 1"),
        (SMALL + "config: {a: }", "config.a: is missing"),
        (SMALL + "name: again", "given twice"),
        (SMALL.replace("name: a", "name: true"), "must be a string in double quotes, not true"),
        (SMALL.replace("name: a", "name: A_1"), "'A_1' is not a name"),
        (SMALL + "pods: [{name: p., cpu: 1, replicas: 1}]", "'p.' is not a name"),
        (
            SMALL.replace("coresPerSocket: 4", "coresPerSocket: yes"),
            "coresPerSocket: must be a number, not true",
        ),
        (SMALL + SMALL.splitlines()[2] + "\n", "the name 'a' is used twice"),
        (SMALL + "pods: [{name: p, cpu: 1, replicas: 1, load: {low: .nan}}]", "'.nan' is not a plain number"),
        (
            SMALL + "pods: [{name: p, cpu: 1, replicas: 1, load: {low: 1e999999999}}]",
            "is out of range",
        ),
        (SMALL.replace("coresPerSocket: 4", "coresPerSocket: 1e999999999"), "is out of range"),
        (SMALL.replace("coresPerSocket: 4", "coresPerSocket: 1e400"), "is outside 1..1024"),
        (SMALL.replace("coresPerSocket: 4", "coresPerSocket: 4.5"), "4.5 is not a whole number"),
        (SMALL.replace("memory: 8Gi", "memory: 1e99"), "exponent beyond 63"),
        (SMALL.replace("memory: 8Gi", "memory: [8]"), "must be a quantity such as 500m"),
        (
            SMALL.replace("coresPerSocket: 4", "coresPerSocket: &a [*a]"),
            "is inside the value that it names",
        ),
        (SMALL + "pods: [{name: p, cpu: -1, replicas: 1}]", "must not be negative"),
        (
            SMALL + "pods: [{name: p, cpu: 1, replicas: 1, load: {low: 1, shape: sqare}}]",
            'did you mean "square"',
        ),
        (SMALL + "pods: [{name: p, cpu: 1, replicas: 1, offline: maybe}]", "must be true or false"),
        (SMALL + "cpuFacts: [{model: X}]", "needs instanceType, nfd or matchLabels"),
        (SMALL + "cpuFacts: [{instanceType: m5.*}]", "cpuFacts[0].model: is missing"),
        (SMALL + "cpuFacts: [{nfd: {vendor: AMD, id: 17}, model: X}]", "cpuFacts[0].nfd.family: is missing"),
        (SMALL + "cpuFacts: [{nfd: {family: '25'}, model: X}]", 'family: "25" is text: write the number'),
        (SMALL + "cpuFacts: [{instancetype: m5.*, model: X}]", 'did you mean "instanceType"'),
    ],
)
def test_each_kind_of_problem_has_a_message(text: str, message: str) -> None:
    assert any(message in str(problem) for problem in problems_of(text)), problems_of(text)


def test_dump_file_needs_neither_name_nor_nodes() -> None:
    text = "cpuFacts: [{instanceType: m5.*, model: Some CPU}]"
    assert [(problem.path, problem.message) for problem in problems_of(text)] == [
        ("name", "is missing"),
        ("nodes", "is missing; a file without nodes goes with --from"),
    ]
    parsed = read_scenario(text, has_nodes=False)
    assert parsed.value
    assert not parsed.problems
    assert parsed.value.cpu_facts[0].model.core_speed is None, "no speed is known for a model of a table"


def test_a_load_is_printed_as_it_is_read() -> None:
    assert parse_load(print_load(Load(0.5, 4.0, 20.0))) == Load(0.5, 4.0, 20.0)
    assert parse_load("2") == Load(2.0, 2.0)
    for shape in Shape:
        load = Load(0.2, 0.7, 90.0, shape)
        assert parse_load(print_load(load)) == load
    assert parse_load("step:0.2-0.7/90s") == Load(0.2, 0.7, 90.0, Shape.STEP)


@pytest.mark.parametrize("text", ["", "x", "4-1/60", "1-2/0", "-1", "1-2/", "nan", "step", "leap:1-2/3"])
def test_a_bad_load_annotation_counts_as_none(text: str) -> None:
    assert load_of({SIMULATED_LOAD: text}, limited=False) == Load(1.0, 1.0)


def test_configuration_errors_are_reported_before_a_cluster_starts(tmp_path: Path) -> None:
    file = tmp_path / "bad-config.yaml"
    file.write_text(
        SMALL + f'config:\n  {NORMALIZATION_KEY}: \'{{"ratioModel": {{"x": {{"baseRatio": 5.01}}}}}}\'\n'
    )
    plan = load_scenario(str(file)).plan()
    with pytest.raises(
        InputError, match=r"1 error\(s\) in its configuration\n.*cpu-normalization-config, line 1"
    ):
        check_config(plan)
