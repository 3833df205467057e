"""What there is to say about a node's ratios, in lines for people and as a record for programs (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from corewise.amplification import Ratios, ResourceList, State
from corewise.assessment.decision import NodeAssessment
from corewise.cli.explanation import Line
from corewise.cli.node_listing import state_of
from corewise.cli.output import cpus, gibibytes
from corewise.config.facts import CPUFacts, FactsProblem
from corewise.vocabulary.names import NORMALIZATION_RATIO


def lines_about(assessment: NodeAssessment, *, pods_known: bool = True) -> tuple[str, list[Line]]:
    """Return the heading and the lines."""
    lines = [
        Line("CPU facts", _facts(assessment)),
        Line("strategy", assessment.normalization.strategy_source),
        Line("enabled by", assessment.normalization.enabled_by or "-"),
        Line("ratio", assessment.normalization.message),
        *_amplification(assessment),
        *_amounts(assessment, pods_known=pods_known),
        Line("status", _status(assessment)),
        *_problems(assessment),
    ]
    return _heading(assessment), lines


def _heading(assessment: NodeAssessment) -> str:
    annotated = assessment.node.annotations.get(NORMALIZATION_RATIO)
    wanted = assessment.normalization.ratio
    if wanted is None:
        told = f"ratio unchanged, {annotated or 'none'} in force"
    elif annotated == str(wanted):
        told = f"normalization ratio {wanted}"
    else:
        told = f"normalization ratio {wanted} due, {annotated or 'none'} in force"
    head = f"{assessment.node.name}: {told}; amplification {_ratios(assessment.effective)}"
    return f"{head}    {state_of(assessment).text}".rstrip()


def _facts(assessment: NodeAssessment) -> str:
    facts = assessment.node.facts
    if isinstance(facts, CPUFacts):
        flags = f"HT {_on(facts.hyper_threading)}, turbo {_on(facts.turbo)}"
        return f'"{facts.model}" {flags}    NodeResourceTopology {assessment.node.name}'
    if isinstance(facts, FactsProblem):
        return facts.message
    return "none: " + ("no NodeResourceTopology" if assessment.node.topology is None else "not annotated")


def _amplification(assessment: NodeAssessment) -> Iterable[Line]:
    for resource, source in sorted(assessment.amplification.sources.items()):
        original = "unreadable" if source.original is None else str(source.original)
        factor = f" x normalization {source.normalization or 'undecided'}" if resource == "cpu" else ""
        result = "stays as it is" if source.ratio is None else str(source.ratio)
        yield Line(
            "amplification", f"{resource}: original {original} ({source.stated_by}){factor} = {result}"
        )
    waiting = "; a lower one is held back until the pods fit" if assessment.held_back else ""
    yield Line("in force", _ratios(assessment.effective) + waiting)


def _amounts(assessment: NodeAssessment, *, pods_known: bool) -> Iterable[Line]:
    raw, shown = assessment.status.raw, assessment.node.amounts
    yield Line("raw", f"capacity {_amount(raw.capacity)}; allocatable {_amount(raw.allocatable)}")
    yield Line("in status", f"capacity {_amount(shown.capacity)}; allocatable {_amount(shown.allocatable)}")
    if pods_known:
        demand = assessment.node.demand()
        requested = (
            f"{cpus(demand.requests.get('cpu', 0))} CPU, {gibibytes(demand.requests.get('memory', 0))} GiB"
        )
        owned = f", {cpus(demand.cpuset_milli)} CPU owned by CPUSet pods" if demand.cpuset_milli else ""
        yield Line("requested", requested + owned)


def _status(assessment: NodeAssessment) -> str:
    state = assessment.status.state
    if state is State.SETTLED and assessment.pending:
        return "will change: a new ratio is due"
    words = {
        State.SETTLED: "shows the ratio",
        State.PENDING: "does not show the ratio yet; kubelet's next write, or the manager, mends it",
        State.REPAIR: "is not what ratio and record say; the manager repairs it",
        State.RAW_UNKNOWN: "cannot be repaired until kubelet states raw amounts",
    }
    return words[state]


def _problems(assessment: NodeAssessment) -> Iterable[Line]:
    for problem in assessment.problems:
        yield Line("problem", f"{problem.reason}: {problem.message}")
        if problem.reason.text.fix:
            yield Line("to fix", problem.reason.text.fix)


def record_of(assessment: NodeAssessment, *, pods_known: bool = True) -> dict[str, Any]:
    """Return the machine form: ratios as decimal texts, amounts in milli-CPU and bytes."""
    node, verdict = assessment.node, assessment.normalization
    facts = node.facts
    return {
        "name": node.name,
        "state": state_of(assessment).text,
        "cpuFacts": {
            "model": facts.model,
            "hyperThreading": facts.hyper_threading,
            "turbo": facts.turbo,
        }
        if isinstance(facts, CPUFacts)
        else None,
        "normalization": {
            "annotated": node.annotations.get(NORMALIZATION_RATIO),
            "ratio": None if verdict.ratio is None else str(verdict.ratio),
            "reason": verdict.reason,
            "message": verdict.message,
            "enabledBy": verdict.enabled_by,
            "strategy": verdict.strategy_source,
            "ratioField": verdict.ratio_field or None,
            "nearestModel": verdict.nearest_model,
        },
        "amplification": _amplification_record(assessment),
        "status": {
            "state": assessment.status.state.value,
            "rawCapacity": _plain(assessment.status.raw.capacity),
            "rawAllocatable": _plain(assessment.status.raw.allocatable),
            "capacity": _plain(node.amounts.capacity),
            "allocatable": _plain(node.amounts.allocatable),
        },
        "requested": _requested(assessment) if pods_known else None,
        "problems": [
            {"reason": each.reason, "message": each.message, "fix": each.reason.text.fix}
            for each in assessment.problems
        ],
    }


def _amplification_record(assessment: NodeAssessment) -> dict[str, Any]:
    return {
        "inForce": _texts(assessment.effective),
        "wanted": _texts(assessment.wanted),
        "originals": {
            resource: {
                "ratio": None if source.original is None else str(source.original),
                "statedBy": source.stated_by,
            }
            for resource, source in assessment.amplification.sources.items()
        },
        "heldBack": [each.message for each in assessment.held_back],
    }


def _on(flag: bool) -> str:
    return "on" if flag else "off"


def _ratios(ratios: Ratios) -> str:
    return ", ".join(f"{resource} {ratio}" for resource, ratio in sorted(ratios.items())) or "none"


def _texts(ratios: Ratios) -> dict[str, str]:
    return {resource: str(ratio) for resource, ratio in ratios.items()}


def _amount(amounts: ResourceList) -> str:
    cpu, memory = amounts.get("cpu"), amounts.get("memory")
    return f"{cpus(cpu.milli if cpu else None)} CPU, {gibibytes(memory.units if memory else None)} GiB"


def _requested(assessment: NodeAssessment) -> dict[str, int]:
    demand = assessment.node.demand()
    return {
        "cpuMilli": demand.requests.get("cpu", 0),
        "memoryBytes": demand.requests.get("memory", 0),
        "ownedCPUMilli": demand.cpuset_milli,
    }


def _plain(amounts: ResourceList) -> Mapping[str, int]:
    units = {"cpu": "cpuMilli", "memory": "memoryBytes"}
    return {
        units[resource]: amount.milli if resource == "cpu" else amount.units
        for resource, amount in amounts.items()
        if resource in units
    }
