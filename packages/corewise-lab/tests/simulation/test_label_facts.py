"""CPU facts from labels: which row a node gets, whose settings count, and the table for nodes without a row.

labels of the node                      facts
a NodeResourceTopology in the dump      its facts, whatever rows say (test_dump.py)
the instance type of a row              that row's model and settings
NFD's vendor, family and id of a row    that row's model; settings of the row, else of NFD, else off
two rows fit                            the first
none fits                               none; a row to fill in
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import yaml

from corewise.quantities import Bytes
from corewise_lab.label_facts import (
    CPURow,
    NFDModel,
    choice_of,
    instance_type_of,
    nfd_model_of,
    table_to_fill_in,
)
from corewise_lab.machines import CATALOG, Machine
from corewise_lab.scenario import read_scenario

GENOA = CATALOG["AMD EPYC 9654 96-Core Processor"]
ICE_LAKE = CATALOG["Intel(R) Xeon(R) Platinum 8375C CPU @ 2.90GHz"]
NFD = "feature.node.kubernetes.io/cpu-"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
ARM = {"kubernetes.io/arch": "arm64"}
AMD64 = {"kubernetes.io/arch": "amd64"}
GENOA_LABELS = {f"{NFD}model.vendor_id": "AMD", f"{NFD}model.family": "25", f"{NFD}model.id": "17"}
CASCADE_LAKE_LABELS = {
    f"{NFD}model.vendor_id": "Intel",
    f"{NFD}model.family": "6",
    f"{NFD}model.id": "85",
    f"{NFD}hardware_multithreading": "true",
    f"{NFD}pstate.turbo": "false",
    f"{NFD}cpuid.AVX512F": "true",
}


def unknown(name: str, **labels: str) -> Machine:
    return Machine(name, None, 8, Bytes(32 << 30), labels=AMD64 | labels)


def machine(name: str, labels: dict[str, str]) -> Machine:
    return replace(unknown(name), labels=labels)


@pytest.mark.parametrize(
    ("pattern", "fits"),
    [
        ("m5.2xlarge", True),
        ("m5.*", True),
        ("[cm]5.*", True),
        ("m5", False),
        ("m5a.*", False),
        ("M5.*", False),
    ],
)
def test_row_may_name_all_sizes_of_a_family(pattern: str, fits: bool) -> None:
    row = CPURow(ICE_LAKE, instance_type=pattern)
    assert row.fits({INSTANCE_TYPE: "m5.2xlarge"}) is fits
    assert not row.fits({})
    assert not CPURow(ICE_LAKE, instance_type="").fits({INSTANCE_TYPE: "m5.2xlarge"})
    assert CPURow(ICE_LAKE, instance_type="").fits({})


def test_old_instance_type_label_counts_without_new_one() -> None:
    old = {"beta.kubernetes.io/instance-type": "m5.large"}
    assert instance_type_of(old) == "m5.large"
    assert instance_type_of(old | {INSTANCE_TYPE: "m6i.large"}) == "m6i.large"


def test_nfd_names_vendor_family_and_id() -> None:
    assert nfd_model_of(GENOA_LABELS) == NFDModel("AMD", 25, 17)
    assert nfd_model_of(CASCADE_LAKE_LABELS) == NFDModel("Intel", 6, 85)


@pytest.mark.parametrize(
    "change", [{f"{NFD}model.id": "x"}, {f"{NFD}model.id": "²"}, {f"{NFD}model.family": ""}]
)
def test_labels_that_are_not_numbers_name_no_model(change: dict[str, str]) -> None:
    assert nfd_model_of(GENOA_LABELS | change) is None


def test_nfd_row_fits_nodes_of_that_generation_only() -> None:
    row = CPURow(GENOA, nfd=NFDModel("AMD", 25, 17))
    assert row.fits(GENOA_LABELS)
    assert not row.fits(CASCADE_LAKE_LABELS)
    assert not row.fits({})


def test_all_selectors_of_a_row_must_fit() -> None:
    row = CPURow(GENOA, labels={"pool": "a"}, instance_type="k3s", nfd=NFDModel("AMD", 25, 17))
    labels = GENOA_LABELS | {INSTANCE_TYPE: "k3s", "pool": "a"}
    assert row.fits(labels)
    assert not any(row.fits({k: v for k, v in labels.items() if k != absent}) for absent in labels)


def test_the_first_row_that_fits_counts() -> None:
    rows = [CPURow(GENOA, instance_type="m5.metal"), CPURow(ICE_LAKE, instance_type="m5.*")]
    for size, model in (("metal", GENOA), ("large", ICE_LAKE)):
        choice = choice_of({INSTANCE_TYPE: f"m5.{size}"}, rows)
        assert choice
        assert choice.model is model
    assert choice_of({INSTANCE_TYPE: "c5.large"}, rows) is None


@pytest.mark.parametrize(
    ("labels", "row", "expected"),
    [
        ({}, CPURow(GENOA), (False, False)),
        ({}, CPURow(GENOA, hyper_threading=True, turbo=True), (True, True)),
        (CASCADE_LAKE_LABELS, CPURow(GENOA), (True, False)),
        (CASCADE_LAKE_LABELS | {f"{NFD}pstate.turbo": "true"}, CPURow(GENOA), (True, True)),
        (CASCADE_LAKE_LABELS, CPURow(GENOA, hyper_threading=False, turbo=True), (False, True)),
        (GENOA_LABELS, CPURow(GENOA, turbo=True), (False, True)),
        (GENOA_LABELS | {f"{NFD}hardware_multithreading": "false"}, CPURow(GENOA), (False, False)),
    ],
    ids=["nothing", "row", "NFD", "NFD with turbo", "row over NFD", "NFD without label", "NFD says false"],
)
def test_settings_come_from_row_then_nfd_then_off(
    labels: dict[str, str], row: CPURow, expected: tuple[bool, bool]
) -> None:
    choice = choice_of(labels, [row])
    assert choice
    assert (choice.hyper_threading, choice.turbo) == expected


def test_template_lists_each_node_kind_most_specific_first() -> None:
    rows = table_to_fill_in(
        [
            unknown("bare"),
            machine("arm-metal", ARM),
            machine("metal-1", AMD64 | GENOA_LABELS | {f"{NFD}hardware_multithreading": "true"}),
            machine("metal-2", AMD64 | CASCADE_LAKE_LABELS),
            machine("eks-1", AMD64 | {INSTANCE_TYPE: "m5.large"}),
            machine("eks-2", AMD64 | {INSTANCE_TYPE: "m5.4xlarge"}),
            machine("gke-1", AMD64 | {INSTANCE_TYPE: "e2-standard-4"}),
            machine("arm-1", ARM | {INSTANCE_TYPE: "m8g.large"}),
            replace(unknown("known"), model=GENOA),
        ]
    )
    both = "hyperThreading: true, turbo: true"
    metal = 'instanceType: ""'
    genoa, lake = "vendor: AMD, family: 25, id: 17", "vendor: Intel, family: 6, id: 85"
    assert rows == [
        "cpuFacts:",
        f'  - {{instanceType: "m5.*", model: "", {both}}}  # eks-1, eks-2',
        '  - {instanceType: "m8g.*", model: ""}  # arm-1',
        f'  - {{instanceType: "e2-standard-4", model: "", {both}}}  # gke-1',
        f'  - {{{metal}, nfd: {{{genoa}}}, model: "", turbo: true}}  # metal-1; Genoa, EPYC 9004',
        f'  - {{{metal}, nfd: {{{lake}}}, model: ""}}  # metal-2; Skylake, Cascade Lake or Cooper Lake',
        f'  - {{{metal}, matchLabels: {{kubernetes.io/arch: arm64}}, model: ""}}  # arm-metal',
        f'  - {{{metal}, model: "", {both}}}  # bare',
    ]


def test_rows_omit_instance_types_that_no_node_has() -> None:
    assert table_to_fill_in([machine("metal", AMD64 | CASCADE_LAKE_LABELS)])[1].startswith(
        "  - {nfd: {vendor"
    )


def test_no_template_row_changes_nodes_with_a_model() -> None:
    known = AMD64 | CASCADE_LAKE_LABELS | {INSTANCE_TYPE: "m6i.large"}
    machines = [
        unknown("bare"),
        machine("metal", AMD64 | CASCADE_LAKE_LABELS),
        replace(machine("known", known), model=ICE_LAKE),
    ]
    text = "\n".join(table_to_fill_in(machines)).replace('model: ""', "model: Some CPU")
    table = read_scenario(text, has_nodes=False).value
    assert table
    assert [bool(choice_of(each.labels, table.cpu_facts)) for each in machines] == [True, True, False]


def test_filled_in_models_give_every_node_its_facts() -> None:
    machines = [
        unknown("bare"),
        machine("unlabeled", {}),
        machine("metal", AMD64 | CASCADE_LAKE_LABELS),
        machine("k3s", AMD64 | GENOA_LABELS | {INSTANCE_TYPE: "k3s"}),
        machine("eks", ARM | {INSTANCE_TYPE: "m8g.large"}),
    ]
    text = "\n".join(table_to_fill_in(machines))
    empty = read_scenario(text, has_nodes=False)
    assert [problem.message for problem in empty.problems] == [
        "is empty: write what lscpu prints as Model name on such a node"
    ] * 5
    filled = read_scenario(text.replace('model: ""', "model: Some CPU"), has_nodes=False)
    assert not filled.problems
    assert filled.value
    for each in machines:
        choice = choice_of(each.labels, filled.value.cpu_facts)
        assert choice
        assert choice.model.name == "Some CPU"


def test_template_of_many_node_kinds_is_visibly_cut() -> None:
    rows = table_to_fill_in([unknown(f"n{i:02}", **{INSTANCE_TYPE: f"type-{i:02}"}) for i in range(25)])
    assert len(rows) == 22
    assert rows[-1] == "  # and rows for 5 more nodes: n20, n21, n22 …"
    assert len(yaml.safe_load("\n".join(rows))["cpuFacts"]) == 20


def test_machines_that_all_have_models_need_no_table() -> None:
    assert table_to_fill_in([replace(unknown("known"), model=GENOA)]) == []
