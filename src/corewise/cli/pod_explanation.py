"""What ``corewise explain pod`` says: where a pod is, or why it is nowhere, node by node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from corewise.cli.explanation import Explanation, Line, Part
from corewise.cli.output import cpus
from corewise.scheduler.decisions import decision_record, node_records
from corewise.scheduler.listing import ListedPod

_SHOWN_NODES = 20


def explain_pod(listed: ListedPod, node: str) -> Explanation:
    """Explain where a pod is and why; the text names one node alone if ``node`` does, the record all."""
    where = listed.placement
    heading = "not bound"
    if where is not None:
        heading = f"on node {where.node}" + (f" with CPUs {where.cpus}" if where.cpus else "")
    record = {
        **decision_record(listed.decision),
        "node": where.node if where else None,
        "cpus": str(where.cpus) if where else "",
        "requests": dict(listed.facts.requests),
        "findings": list(listed.findings),
        "nodes": list(node_records(listed.decision, node)),
    }
    return Explanation(f"{listed.facts.key}: {heading}", [Part(record, list(_lines(listed, node)))])


def _lines(listed: ListedPod, node: str) -> Iterator[Line]:
    yield Line("requests", _requests(listed))
    for finding in listed.findings:
        yield Line("problem", finding)
    if listed.facts.problem is not None:
        yield Line("nodes", "no node suits it as it is, however much is free")
        return
    if listed.placement is not None:
        yield Line("if not bound", "the nodes would be as follows, without what the pod takes itself")
    decision = listed.decision
    causes = ", ".join(f"{each.nodes} {each.cause.summary}" for each in decision.causes())
    suiting = f"{int(decision.feasible.sum())} of {int(decision.asked.sum())} suit it"
    yield Line("nodes", f"{suiting}; not the others: {causes}" if causes else suiting)
    yield from _node_lines(listed, node)


def _requests(listed: ListedPod) -> str:
    facts = listed.facts
    if facts.problem is not None:
        return f"{cpus(facts.cpu)} CPUs"
    if facts.owned_by_class:
        how = f"{facts.binding.policy}, {'required' if facts.binding.required else 'preferred'}"
        return f"{cpus(facts.cpu)} CPUs of its own ({how})"
    if facts.owned_if_static:
        shared = f"{cpus(facts.cpu)} CPUs; {cpus(facts.owned_if_static)} of its own"
        return f"{shared} on nodes with a static CPU manager"
    return f"{cpus(facts.cpu)} CPUs, shared"


def _node_lines(listed: ListedPod, wanted: str) -> Iterable[Line]:
    decision = listed.decision
    rows = sorted(np.flatnonzero(decision.asked).tolist(), key=lambda row: decision.names[row])
    rows = [row for row in rows if wanted in {"", decision.names[row]}]
    for row in rows[:_SHOWN_NODES]:
        yield Line(decision.names[row], _verdict(listed, row))
        if wanted:
            for account in decision.accounts.values():
                yield from (Line(heading, text) for heading, text in account.lines(row))
    if len(rows) > _SHOWN_NODES:
        yield Line(
            "", f"{len(rows) - _SHOWN_NODES} more nodes: name one with --node, or see all with -o json"
        )


def _verdict(listed: ListedPod, row: int) -> str:
    decision = listed.decision
    if decision.feasible[row]:
        return f"suits it, score {int(decision.total[row])}"
    return "; ".join(f"{each.plugin}: {each.message} ({each.reason})" for each in decision.refusals(row))
