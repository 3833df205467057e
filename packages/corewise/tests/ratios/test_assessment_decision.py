"""The assessment of a node, case by case.

A node of 8 raw CPUs. Columns: annotations on the node, what its pods request, what status shows; then
which annotations are patched, what follows, and which problems there are. `model` is what its agent
reports, `label` the enabling label.

| case                              | verdict                                             |
|-----------------------------------|-----------------------------------------------------|
| nothing configured                | ratio 1.00 written out, nothing else                 |
| model known                       | normalization and amplification in one write         |
| a workload has its own ratio      | written with the ratio; with a ratio held back, held |
| user's own ratio                  | moved to -original, multiplied once                  |
| ... on amounts not proven raw     | nothing yet                                          |
| the status needs repair           | repaired first                                       |
| ratio as it should be             | nothing                                              |
| model unknown, facts missing      | nothing, a problem with an Event                     |
| label malformed                   | nothing, a problem                                   |
| decrease that pods survive        | patched                                              |
| decrease that they do not         | held back: annotations stay, a problem               |
| decrease, raw amount damaged      | held back: no one knows what pods would be left      |
| raise of corewise's ratio by hand | taken back, though pods exceed what status shows     |
| the same, allowed by annotation   | patched, a problem says so                           |
| configuration unknown             | nothing                                              |
| errors hide what it says          | nothing, a problem                                   |
| Koordinator's webhook present     | nothing                                              |
| status not as recorded            | pending; after 30 s repaired with raw amounts        |
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
import pytest

from corewise.actions import EmitEvent, NodeAction, PatchNode, RepairNodeStatus, TouchNodeStatus
from corewise.amplification import NodeAmounts, NodeDemand, StatusState
from corewise.kube.objects import ConfigMap
from corewise.quantities import Quantity
from corewise.ratios.cluster import UNKNOWN, ClusterContext, read_configuration
from corewise.ratios.decision import NodeAssessment, StatusHistory, assess
from corewise.ratios.nodes import NodeView, quantities, view_of
from corewise.vocabulary.names import (
    ALLOW_UNSAFE_CHANGE,
    AMPLIFICATION_KEY,
    AMPLIFICATION_ORIGINAL,
    AMPLIFICATION_RATIO,
    AMPLIFY_CAPACITY,
    CPU_BASIC_INFO,
    MACHINE_RAW_ALLOCATABLE,
    MACHINE_RAW_CAPACITY,
    NORMALIZATION_ENABLED,
    NORMALIZATION_KEY,
    NORMALIZATION_RATIO,
    RAW_ALLOCATABLE,
    RECORD_GENERATION,
    WORKLOAD_RATIOS,
    recorded_applied,
    recorded_raw,
)
from corewise.vocabulary.reasons import Reason
from corewise.workload.nodes import Node
from node_records import recorded

RECORD = recorded({"cpu": ("8", "16")})
SETTLED = {
    NORMALIZATION_RATIO: "2.00",
    AMPLIFICATION_RATIO: '{"cpu":2.00}',
    AMPLIFICATION_ORIGINAL: "{}",
    **RECORD,
}


DAMAGED = SETTLED | {recorded_raw("allocatable", "cpu"): "{", RAW_ALLOCATABLE: "{"}


VECTOR = '[{"name":"vector","selector":{},"ratio":"1.20"}]'


def configured(ratio: float = 2.0, *, vector: float = 0, **amplification: float) -> ClusterContext:
    """``vector``: the ratio of all pods on the model, as a workload of their own."""
    normalization = {"enable": True, "ratioModel": {"Fast": {"baseRatio": ratio}}}
    entry = {"name": "vector", "podSelector": {}, "ratioModel": {"Fast": {"baseRatio": vector}}}
    data = {
        NORMALIZATION_KEY: json.dumps(normalization | ({"workloadRatios": [entry]} if vector else {})),
        AMPLIFICATION_KEY: json.dumps({"enable": True, "resourceAmplificationRatio": amplification}),
    }
    return ClusterContext(read_configuration(ConfigMap(data=data)).configuration)


NOTHING = ClusterContext(read_configuration(None).configuration)


def view(
    annotations: Mapping[str, str] | None = None,
    *,
    cpu: str = "8",
    requested: int = 0,
    memory: int = 0,
    model: str | None = "Fast",
    labels: Mapping[str, str] | None = None,
    machine: str = "",
    allocatable: str = "",
) -> NodeView:
    topology = {} if model is None else {CPU_BASIC_INFO: json.dumps({"cpuModel": model})}
    if machine:
        topology[MACHINE_RAW_CAPACITY] = machine
    if allocatable:
        topology[MACHINE_RAW_ALLOCATABLE] = allocatable
    amounts = quantities({"cpu": cpu, "memory": "16Gi"})
    return NodeView(
        name="n1",
        uid="u1",
        resource_version="7",
        labels=labels or {},
        annotations=annotations or {},
        amounts=NodeAmounts(amounts, amounts),
        boot_id="b1",
        topology=topology,
        demand=lambda: NodeDemand({"cpu": requested, "memory": memory}),
    )


@dataclass(frozen=True)
class Case:
    node: NodeView
    context: ClusterContext = field(default_factory=configured)
    patch: Mapping[str, str | None] = field(default_factory=dict)
    problems: tuple[Reason, ...] = ()
    observed: StatusHistory = field(default_factory=StatusHistory)
    repaired: bool = False


CASES = {
    "nothing configured": Case(view(), NOTHING, {NORMALIZATION_RATIO: "1.00"}),
    "model known": Case(
        view(),
        patch={
            NORMALIZATION_RATIO: "2.00",
            AMPLIFICATION_RATIO: '{"cpu":2.00}',
            AMPLIFICATION_ORIGINAL: "{}",
        },
    ),
    "user's own ratio": Case(
        view({AMPLIFICATION_RATIO: '{"cpu":1.50}'}),
        patch={
            NORMALIZATION_RATIO: "2.00",
            AMPLIFICATION_RATIO: '{"cpu":3.00}',
            AMPLIFICATION_ORIGINAL: '{"cpu":1.50}',
        },
        observed=StatusHistory(record=31),
    ),
    "user's own ratio, nothing proven raw": Case(view({AMPLIFICATION_RATIO: '{"cpu":1.50}'})),
    "user's own ratio, the agent reports": Case(
        view(
            {AMPLIFICATION_RATIO: '{"cpu":1.50}'},
            machine='{"cpu":"8","bootID":"b1"}',
            allocatable='{"cpu":"8"}',
        ),
        patch={
            NORMALIZATION_RATIO: "2.00",
            AMPLIFICATION_RATIO: '{"cpu":3.00}',
            AMPLIFICATION_ORIGINAL: '{"cpu":1.50}',
        },
    ),
    "normalization alone changes": Case(
        view(SETTLED | {NORMALIZATION_RATIO: "1.00"}, cpu="16"), patch={NORMALIZATION_RATIO: "2.00"}
    ),
    "lower ratio on a status to repair": Case(
        view(SETTLED | {recorded_applied("capacity", "cpu"): "{"}, cpu="16"),
        configured(1.5),
        problems=(Reason.RECORD_UNUSABLE,),
        repaired=True,
    ),
    "ratio as it should be": Case(view(SETTLED, cpu="16")),
    "model unknown": Case(view(model="Odd"), problems=(Reason.UNKNOWN_CPU_MODEL,)),
    "facts missing": Case(view(model=None), problems=(Reason.CPU_FACTS_MISSING,)),
    "label malformed": Case(
        view(labels={NORMALIZATION_ENABLED: "yes"}), problems=(Reason.ENABLE_LABEL_INVALID,)
    ),
    "decrease that pods survive": Case(
        view(SETTLED, cpu="16", requested=12000),
        configured(1.5),
        {NORMALIZATION_RATIO: "1.50", AMPLIFICATION_RATIO: '{"cpu":1.50}'},
    ),
    "decrease that pods do not survive": Case(
        view(SETTLED, cpu="16", requested=12001),
        configured(1.5),
        problems=(Reason.UNSAFE_DECREASE_HELD_BACK,),
    ),
    "the same, allowed": Case(
        view(SETTLED | {ALLOW_UNSAFE_CHANGE: "true"}, cpu="16", requested=12001),
        configured(1.5),
        {NORMALIZATION_RATIO: "1.50", AMPLIFICATION_RATIO: '{"cpu":1.50}'},
        problems=(Reason.UNSAFE_DECREASE_ALLOWED,),
    ),
    "memory goes on while cpu is held back": Case(
        view(SETTLED, cpu="16", requested=12001),
        configured(1.5, memory=1.25),
        {AMPLIFICATION_RATIO: '{"cpu":2.00,"memory":1.25}'},
        problems=(Reason.UNSAFE_DECREASE_HELD_BACK,),
    ),
    "decrease on a damaged raw amount": Case(
        view(DAMAGED, cpu="16", requested=1),
        configured(1.5),
        problems=(Reason.UNSAFE_DECREASE_HELD_BACK, Reason.RAW_UNKNOWN),
    ),
    "a user's raise of corewise's ratio, pods beyond it": Case(
        view(SETTLED | {AMPLIFICATION_RATIO: '{"cpu":3.00}'}, cpu="16", requested=16001),
        patch={AMPLIFICATION_RATIO: '{"cpu":2.00}'},
    ),
    "the same of memory, pods beyond it": Case(
        view(SETTLED | {AMPLIFICATION_RATIO: '{"cpu":2.00,"memory":1.50}'}, cpu="16", memory=(16 << 30) + 1),
        patch={AMPLIFICATION_RATIO: '{"cpu":2.00}'},
        observed=StatusHistory(record=31),
    ),
    "a workload has a ratio of its own": Case(
        view(SETTLED, cpu="16"), configured(vector=1.2), patch={WORKLOAD_RATIOS: VECTOR}
    ),
    "it has none any more": Case(
        view(SETTLED | {WORKLOAD_RATIOS: VECTOR}, cpu="16"), patch={WORKLOAD_RATIOS: None}
    ),
    "it has none, and the node's ratio is held back": Case(
        view(SETTLED | {WORKLOAD_RATIOS: VECTOR}, cpu="16", requested=12001),
        configured(1.5),
        problems=(Reason.UNSAFE_DECREASE_HELD_BACK,),
    ),
    "normalization is off": Case(
        view(SETTLED | {WORKLOAD_RATIOS: VECTOR}, cpu="16"),
        NOTHING,
        {
            NORMALIZATION_RATIO: "1.00",
            WORKLOAD_RATIOS: None,
            AMPLIFICATION_RATIO: None,
            AMPLIFICATION_ORIGINAL: None,
        },
    ),
    "a workload's ratio is wrong": Case(
        view(SETTLED | {WORKLOAD_RATIOS: VECTOR}, cpu="16"),
        configured(1.5, vector=0.5),
        problems=(Reason.CONFIG_INVALID,),
    ),
    "configuration unknown": Case(
        view(), ClusterContext(UNKNOWN), problems=(Reason.CONFIG_INVALID, Reason.CONFIG_INVALID)
    ),
    "Koordinator's webhook present": Case(
        view(),
        ClusterContext(configured().configuration, koordinator="k/mnode-status.koordinator.sh"),
        problems=(Reason.KOORDINATOR_WEBHOOK_PRESENT,),
    ),
}


def only(assessment: NodeAssessment, kind: type[NodeAction]) -> list[NodeAction]:
    return [action for action in assessment.actions if isinstance(action, kind)]


@pytest.mark.parametrize("name", CASES)
def test_each_case_has_its_verdict(name: str) -> None:
    case = CASES[name]
    assessment = assess(case.node, case.context, case.observed)
    patches = only(assessment, PatchNode)
    assert [patch.annotations for patch in patches if isinstance(patch, PatchNode)] == [case.patch] * bool(
        case.patch
    )
    assert not only(assessment, TouchNodeStatus), "one write a node"
    assert tuple(problem.reason for problem in assessment.problems) == case.problems
    assert bool(only(assessment, RepairNodeStatus)) == case.repaired


def test_patch_names_the_version_it_relied_on() -> None:
    (patch,) = only(assess(view(), configured()), PatchNode)
    assert isinstance(patch, PatchNode)
    assert (patch.name, patch.resource_version) == ("n1", "7")


def test_problem_becomes_one_warning_event_with_its_fix() -> None:
    (event,) = only(assess(view(model="Odd"), configured()), EmitEvent)
    assert isinstance(event, EmitEvent)
    assert event.warning
    assert (event.regarding_kind, event.name, event.uid) == ("Node", "n1", "u1")
    assert "Add the model" in event.message


def test_configuration_problem_is_not_repeated_on_every_node() -> None:
    assert not only(assess(view(), ClusterContext(UNKNOWN)), EmitEvent)


def in_parts(amplification: str, normalization: str = "{}") -> ClusterContext:
    data = {NORMALIZATION_KEY: normalization, AMPLIFICATION_KEY: amplification}
    return ClusterContext(read_configuration(ConfigMap(data=data)).configuration)


UNDECIDED = {
    "enable of the cluster": '{"enable":"true","resourceAmplificationRatio":{"cpu":1.5}}',
    "enable of the node's entry": '{"enable":true,"nodeConfigs":[{"nodeSelector":{},"enable":"false",'
    '"resourceAmplificationRatio":{"cpu":3}}]}',
    "amplifyCapacity": '{"enable":true,"amplifyCapacity":"true","resourceAmplificationRatio":{"cpu":1.5}}',
    "a selector": '{"enable":true,"nodeConfigs":[{"nodeSelector":{"matchLabels":3}}]}',
    "a misspelled resource": '{"enable":true,"amplifyCapacity":false,'
    '"resourceAmplificationRatio":{"cpus":3}}',
    "no object": "[]",
}


@pytest.mark.parametrize("text", UNDECIDED.values(), ids=UNDECIDED)
def test_nodes_keep_ratios_that_errors_concern(text: str) -> None:
    before = {NORMALIZATION_RATIO: "1.00", AMPLIFY_CAPACITY: "false"}
    assessment = assess(view(SETTLED | before, cpu="16"), in_parts(text))
    assert not only(assessment, PatchNode)
    assert Reason.CONFIG_INVALID in {each.reason for each in assessment.problems}


def test_bad_entry_holds_its_amounts_while_others_count() -> None:
    text = '{"enable": true, "resourceAmplificationRatio": {"cpu": "x", "memory": 1.2}}'
    assessment = assess(view(SETTLED | {NORMALIZATION_RATIO: "1.00"}, cpu="16"), in_parts(text))
    (patch,) = only(assessment, PatchNode)
    assert isinstance(patch, PatchNode)
    assert patch.annotations == {AMPLIFICATION_RATIO: '{"cpu":2.00,"memory":1.20}'}
    assert Reason.CONFIG_INVALID in {each.reason for each in assessment.problems}


def test_bad_nodeconfigs_entry_holds_nodes_without_good_entries() -> None:
    text = """{"enable": true, "resourceAmplificationRatio": {"cpu": 3}, "nodeConfigs": [
        {"nodeSelector": {"matchLabels": {"a": 1}}, "resourceAmplificationRatio": {"cpu": 4}},
        {"nodeSelector": {"matchLabels": {"b": "1"}}, "resourceAmplificationRatio": {"cpu": 5}}]}"""
    node = SETTLED | {NORMALIZATION_RATIO: "1.00"}
    assert not only(assess(view(node, cpu="16"), in_parts(text)), PatchNode)
    assert only(assess(view(node, cpu="16", labels={"b": "1"}), in_parts(text)), PatchNode)


def test_bad_cpu_model_ratio_holds_that_models_nodes() -> None:
    models = '{"Fast": {"baseRatio": 99}, "Slow": {"baseRatio": 1}}'
    text = f'{{"enable": true, "ratioModel": {models}, "defaultRatio": 3}}'
    held = assess(view(SETTLED, cpu="16"), in_parts("{}", text))
    assert not only(held, PatchNode)
    assert held.normalization.reason is Reason.CONFIG_INVALID
    assert only(assess(view(SETTLED, cpu="16", model="Slow"), in_parts("{}", text)), PatchNode)


def test_replaced_user_ratio_event_names_the_other_annotation() -> None:
    changed = view(SETTLED | {AMPLIFICATION_RATIO: '{"cpu":3.00}'}, cpu="16")
    assessment = assess(changed, configured(), StatusHistory(settled_ratio='{"cpu":2.00}'))
    assert only(assessment, PatchNode)
    (event,) = only(assessment, EmitEvent)
    assert isinstance(event, EmitEvent)
    assert event.reason is Reason.RATIO_OVERRULED
    assert AMPLIFICATION_ORIGINAL in event.message
    for other in ('{"cpu":2.50}', None):
        assert not only(assess(changed, configured(), StatusHistory(settled_ratio=other)), EmitEvent)


UNRECORDED = {AMPLIFICATION_RATIO: '{"cpu":2.00}', AMPLIFICATION_ORIGINAL: "{}", NORMALIZATION_RATIO: "2.00"}


@pytest.mark.parametrize(
    ("record_seconds", "machine", "held"),
    [(10, "", True), (31, "", False), (10, '{"cpu":"7","bootID":"b1"}', False)],
)
def test_decrease_waits_until_raw_amounts_are_proven(record_seconds: int, machine: str, held: bool) -> None:
    """4 CPUs at 2.00 show 8 (7); by the 7 in status pods of 6500m would fit without the ratio."""
    allocatable = '{"cpu":"7"}' if machine else ""
    node = view(UNRECORDED, cpu="7", requested=6500, machine=machine, allocatable=allocatable)
    assessment = assess(node, configured(1.0), StatusHistory(record=record_seconds))
    assert bool(assessment.held_back) is held
    assert bool(only(assessment, PatchNode)) is not held


def test_wrong_status_is_repaired_raw_after_thirty_seconds() -> None:
    node = view(SETTLED, cpu="8")
    early = assess(node, configured(), StatusHistory(mismatch=29))
    assert early.pending
    assert early.status.state is StatusState.PENDING
    assert early.recheck
    almost = assess(node, configured(), StatusHistory(mismatch=30))
    assert almost.recheck == 1, "30 s are not over yet, but will be in a second"
    late = assess(node, configured(), StatusHistory(mismatch=31))
    (repair,) = only(late, RepairNodeStatus)
    assert isinstance(repair, RepairNodeStatus)
    assert str(repair.capacity["cpu"]) == "8"
    assert set(repair.drop_annotations) == RECORD.keys() - {RECORD_GENERATION}
    again = assess(node, configured(), StatusHistory(mismatch=45, since_repair=14))
    assert not only(again, RepairNodeStatus)
    assert again.recheck == 46


def test_a_pending_status_is_touched_at_growing_intervals() -> None:
    node = view(SETTLED | {AMPLIFICATION_RATIO: '{"cpu":3.00}', NORMALIZATION_RATIO: "3.00"}, cpu="16")
    context = configured(3.0)
    touched = []
    for touches, since in ((0, None), (1, 4), (1, 5), (2, 9), (2, 10), (9, 59), (9, 60)):
        assessment = assess(node, context, StatusHistory(touches=touches, since_touch=since))
        touched.append(bool(only(assessment, TouchNodeStatus)))
    assert touched == [True, False, True, False, True, False, True]


def test_just_written_ratio_takes_effect_without_a_record() -> None:
    fresh = {
        name: SETTLED[name] for name in (NORMALIZATION_RATIO, AMPLIFICATION_RATIO, AMPLIFICATION_ORIGINAL)
    }
    node = view(fresh, cpu="8")
    assert not only(assess(node, configured()), TouchNodeStatus)
    assert only(assess(node, configured(), StatusHistory(ratio_written=True)), TouchNodeStatus)


def test_node_boot_is_read_in_the_apis_spelling() -> None:
    node = msgspec.convert({"status": {"nodeInfo": {"bootID": "b1"}}}, Node)
    assert view_of(node, None, tuple).boot_id == "b1"


def test_the_agents_report_is_read_with_its_boot() -> None:
    node = view(
        machine='{"cpu":"8","memory":"16Gi","bootID":"b1","generation":"7"}',
        allocatable='{"cpu":"7500m"}',
    )
    machine = node.machine
    assert machine
    assert (machine.same_boot, machine.generation) == (True, "7")
    assert machine.allocatable == {"cpu": Quantity.parse("7500m")}
    other = view(machine='{"cpu":"8","bootID":"b0"}').machine
    assert other
    assert (other.same_boot, other.generation, other.allocatable) == (False, "", {})


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"cpu":8}', '{"cpu":"eight"}', "{"])
def test_an_unreadable_report_is_none(text: str) -> None:
    assert view(machine=text).machine is None
