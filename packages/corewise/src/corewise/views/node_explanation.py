"""The explanation of a node's ratios, for ``corewise explain node``.

In the record ratios are decimal texts, amounts milli-CPU and bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from corewise.amplification import Ratios, ResourceList, StatusState
from corewise.config.facts import CPUFacts
from corewise.kube.client import Client
from corewise.kube.errors import Forbidden, NotFound
from corewise.kube.objects import Event
from corewise.kube.resources import EVENTS
from corewise.ratios.decision import NodeAssessment
from corewise.service.installation import Path
from corewise.views.errors import no_node
from corewise.views.explanation import Explanation, Line, Part
from corewise.views.node_listing import amplified_by, list_cluster, state_of
from corewise.views.node_score import NodeScore, node_score, score_part
from corewise.views.offline_reports import eviction_lines, isolation_lines, resctrl_lines
from corewise.views.stored_config import errors_for_agents, fix_of
from corewise.views.text import cpus, gibibytes
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.names import (
    CONFIG_NAMESPACE,
    MANAGER_COMPONENT,
    NORMALIZATION_RATIO,
    OFFLINE_REPORT,
)
from corewise.vocabulary.offline_report import decode

_SHOWN_EVENTS = 5


def explain_node(
    assessment: NodeAssessment,
    events: Iterable[Event] = (),
    *,
    pods_known: bool = True,
    paths: frozenset[Path] | None = None,
    config_namespace: str = CONFIG_NAMESPACE,
    score: NodeScore | None = None,
    of_agents: Iterable[Finding] = (),
) -> Explanation:
    """Explain a node from its assessment; ``events`` are the manager's about the node, the latest first.

    ``paths``: what is installed to amplify nodes; None if that is unknown. ``score``: that of its agent.
    ``of_agents``: what is wrong with the settings that agents follow.
    """
    parts = [
        Part({"name": assessment.node.name, "state": state_of(assessment).text}),
        _facts(assessment),
        score_part(score, is_slow=bool(assessment.node.slow)),
        _normalization(assessment),
        _amplification(assessment),
        _path(paths),
        *_amounts(assessment, pods_known=pods_known),
        _offline_pods(assessment),
        _problems((*assessment.problems, *of_agents), config_namespace),
        _events(events, [each.message for each in assessment.problems]),
    ]
    return Explanation(_heading(assessment), parts)


def _heading(assessment: NodeAssessment) -> str:
    annotated = assessment.node.annotations.get(NORMALIZATION_RATIO)
    wanted = assessment.normalization.ratio
    if wanted is None:
        ratio = f"ratio unchanged, {annotated or 'none'} applied"
    elif annotated == str(wanted):
        ratio = f"normalization ratio {wanted}"
    else:
        ratio = f"normalization ratio {wanted} due, {annotated or 'none'} applied"
    head = f"{assessment.node.name}: {ratio}; amplification {_ratios(assessment.effective)}"
    return f"{head}    {state_of(assessment).text}".rstrip()


def _facts(assessment: NodeAssessment) -> Part:
    facts = assessment.node.facts
    if isinstance(facts, CPUFacts):
        hyper_threading, turbo = ("on" if flag else "off" for flag in (facts.hyper_threading, facts.turbo))
        flags = f"HT {hyper_threading}, turbo {turbo}"
        text = f'"{facts.model}" {flags}    NodeResourceTopology {assessment.node.name}'
        record = {"model": facts.model, "hyperThreading": facts.hyper_threading, "turbo": facts.turbo}
        return Part({"cpuFacts": record}, [Line("CPU facts", text)])
    if isinstance(facts, Finding):
        text = facts.message
    else:
        cause = "no NodeResourceTopology" if assessment.node.topology is None else "not annotated"
        text = f"none: {cause}"
    return Part({"cpuFacts": None}, [Line("CPU facts", text)])


def _normalization(assessment: NodeAssessment) -> Part:
    verdict = assessment.normalization
    record = {
        "annotated": assessment.node.annotations.get(NORMALIZATION_RATIO),
        "ratio": None if verdict.ratio is None else str(verdict.ratio),
        "reason": verdict.reason,
        "message": verdict.message,
        "enabledBy": verdict.enabled_by,
        "strategy": verdict.strategy_source,
        "ratioField": verdict.ratio_field or None,
        "nearestModel": verdict.nearest_model,
        "workloadRatios": [{"name": each.name, "ratio": str(each.ratio)} for each in verdict.workloads],
    }
    lines = [
        Line("strategy", verdict.strategy_source),
        Line("enabled by", verdict.enabled_by or "-"),
        Line("ratio", verdict.message),
        *(
            Line("workload", f'quotas of "{each.name}" are divided by {each.ratio}')
            for each in verdict.workloads
        ),
    ]
    return Part({"normalization": record}, lines)


def _amplification(assessment: NodeAssessment) -> Part:
    lines, originals = [], {}
    for resource, source in assessment.amplification.sources.items():
        original = None if source.original is None else str(source.original)
        originals[resource] = {"ratio": original, "statedBy": source.stated_by}
        factor = f" x normalization {source.normalization or 'undecided'}" if resource == "cpu" else ""
        result = "stays as it is" if source.ratio is None else str(source.ratio)
        text = f"{resource}: original {original or 'unreadable'} ({source.stated_by}){factor} = {result}"
        lines.append(Line("amplification", text))
    waiting = "; a lower one is held back until the pods fit" if assessment.held_back else ""
    lines.append(Line("applied", _ratios(assessment.effective) + waiting))
    record = {
        "inForce": {resource: str(ratio) for resource, ratio in assessment.effective.items()},
        "wanted": {resource: str(ratio) for resource, ratio in assessment.wanted.items()},
        "originals": originals,
        "heldBack": [each.message for each in assessment.held_back],
    }
    return Part({"amplification": record}, lines)


def _path(paths: frozenset[Path] | None) -> Part:
    if paths is None:
        return Part({"amplifiedBy": None})
    return Part({"amplifiedBy": sorted(paths)}, [Line("amplified by", amplified_by(paths))])


def _amounts(assessment: NodeAssessment, *, pods_known: bool) -> Iterable[Part]:
    raw, shown = assessment.status.raw, assessment.node.amounts
    record = {
        "state": assessment.status.state.value,
        "rawCapacity": _plain(raw.capacity),
        "rawAllocatable": _plain(raw.allocatable),
        "capacity": _plain(shown.capacity),
        "allocatable": _plain(shown.allocatable),
    }
    lines = [
        Line("raw", f"capacity {_amount(raw.capacity)}; allocatable {_amount(raw.allocatable)}"),
        Line("in status", f"capacity {_amount(shown.capacity)}; allocatable {_amount(shown.allocatable)}"),
    ]
    yield Part({"status": record}, lines)
    yield _requested(assessment) if pods_known else Part({"requested": None})
    yield Part({}, [Line("status", _status(assessment))])


def _offline_pods(assessment: NodeAssessment) -> Part:
    report = decode(assessment.node.annotations.get(OFFLINE_REPORT, ""))
    record = {
        "isolation": report.isolation if report else None,
        "resctrl": report.resctrl if report else None,
        "eviction": report.eviction if report else None,
    }
    return Part(record, [*isolation_lines(report), *resctrl_lines(report), *eviction_lines(report)])


def _requested(assessment: NodeAssessment) -> Part:
    demand = assessment.node.demand()
    cpu, memory, owned = demand.requests.get("cpu", 0), demand.requests.get("memory", 0), demand.cpuset_milli
    by_cpuset = f", {cpus(owned)} CPU owned by CPUSet pods" if owned else ""
    free = assessment.node.free_cpu()
    return Part(
        {"requested": {"cpuMilli": cpu, "memoryBytes": memory, "ownedCPUMilli": owned}, "freeCPUMilli": free},
        [
            Line("requested", f"{cpus(cpu)} CPU, {gibibytes(memory)} GiB{by_cpuset}"),
            Line("free", f"{cpus(free)} CPU" + (", with owned CPUs amplified" if owned else "")),
        ],
    )


def _status(assessment: NodeAssessment) -> str:
    state = assessment.status.state
    if state is StatusState.SETTLED and assessment.pending:
        return "will change: a new ratio is due"
    return {
        StatusState.SETTLED: "shows the ratio",
        StatusState.PENDING: "does not show the ratio yet; kubelet's next write, or the manager, corrects it",
        StatusState.REPAIR: "is not what ratio and record say; the manager repairs it",
        StatusState.RAW_UNKNOWN: "cannot be repaired until kubelet states raw amounts",
    }[state]


def _problems(problems: Iterable[Finding], config_namespace: str) -> Part:
    records, lines = [], []
    for problem in problems:
        fix = fix_of(problem.reason, config_namespace)
        records.append({"reason": problem.reason, "message": problem.message, "fix": fix})
        lines.append(Line("problem", f"{problem.reason}: {problem.message}"))
        lines += [Line("to fix", fix)] if fix else []
    return Part({"problems": records}, lines)


def _events(events: Iterable[Event], explained: Iterable[str]) -> Part:
    """Events do not repeat the messages of problems that are ``explained`` above them."""
    explained, records, lines = tuple(explained), [], []
    for event in events:
        records.append(event_record(event))
        message = ", as above" if event.message.startswith(explained) else f": {event.message}"
        lines.append(Line("events", f"{event.last_timestamp} {event.reason} x{event.count}{message}"))
    return Part({"events": records}, lines)


def event_record(event: Event) -> Mapping[str, Any]:
    """Return an Event for programs."""
    return {
        "reason": event.reason,
        "type": event.type,
        "message": event.message,
        "count": event.count,
        "last": event.last_timestamp,
    }


def _ratios(ratios: Ratios) -> str:
    return ", ".join(f"{resource} {ratio}" for resource, ratio in sorted(ratios.items())) or "none"


def _amount(amounts: ResourceList) -> str:
    cpu, memory = amounts.get("cpu"), amounts.get("memory")
    return f"{cpus(cpu.milli if cpu else None)} CPU, {gibibytes(memory.units if memory else None)} GiB"


def _plain(amounts: ResourceList) -> Mapping[str, int]:
    units = {"cpu": "cpuMilli", "memory": "memoryBytes"}
    return {
        units[resource]: amount.milli if resource == "cpu" else amount.units
        for resource, amount in amounts.items()
        if resource in units
    }


async def read_node(
    client: Client, name: str, config_namespace: str, now: datetime
) -> tuple[Explanation, Sequence[str]]:
    """Return the explanation of a node as it is in the cluster, and the names of unreadable objects."""
    async with client:
        try:
            listed, events = await asyncio.gather(
                list_cluster(client, config_namespace, name=name), _read_events(client, name)
            )
        except NotFound as error:
            raise await no_node(client, name) from error
    assessment = listed.nodes[0].assessment
    explained = explain_node(
        assessment,
        events,
        pods_known=listed.pods_known,
        paths=listed.amplified_by,
        config_namespace=config_namespace,
        score=node_score(name, listed.topologies, now),
        of_agents=errors_for_agents(listed.reading),
    )
    return explained, listed.missing


async def _read_events(client: Client, name: str) -> tuple[Event, ...]:
    """Return the manager's Events about the node, the latest first; none if the user may not read them."""
    try:
        listed = await client.list(
            EVENTS, "default", field_selector=f"involvedObject.kind=Node,involvedObject.name={name}"
        )
    except Forbidden:
        return ()
    return shown_events(listed)


def shown_events(events: Iterable[Event]) -> tuple[Event, ...]:
    """Return those Events of the manager that an explanation shows, the latest first."""
    own = [event for event in events if event.source.component == MANAGER_COMPONENT]
    return tuple(sorted(own, key=lambda event: event.last_timestamp or "", reverse=True)[:_SHOWN_EVENTS])
