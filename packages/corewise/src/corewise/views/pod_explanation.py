"""The explanation of a pod: where it is, and why each node fits it or not, for ``corewise explain pod``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace

import numpy as np

from corewise.kube.client import Client
from corewise.kube.errors import NotFound
from corewise.kube.resources import PODS
from corewise.prometheus.client import PrometheusClient
from corewise.quantities import MILLI
from corewise.scheduler.configuration import DEFAULTS, SchedulerConfiguration
from corewise.scheduler.decisions import decision_record, node_records
from corewise.scheduler.listing import ListedPod, list_pod
from corewise.views.errors import no_pod
from corewise.views.explanation import Explanation, Line, Part
from corewise.views.new_pod import pod_remarks
from corewise.views.text import count, cpus

_SHOWN_NODES = 20


async def read_pod(
    client: Client, name: str, configuration: SchedulerConfiguration = DEFAULTS, url: str = ""
) -> ListedPod:
    """Return the decision about the pod NAMESPACE/NAME; ``url`` is that of a Prometheus."""
    namespace, _, pod = name.rpartition("/")
    async with client, AsyncExitStack() as stack:
        try:
            prometheus = await stack.enter_async_context(PrometheusClient(url)) if url else None
            listed = await list_pod(client, namespace or "default", pod, configuration, prometheus)
            raw = await client.get(PODS.typed(dict), pod, namespace or "default")
            missing = [*listed.missing]
            findings = (*listed.findings, *await pod_remarks(client, raw, missing))
            return replace(listed, findings=findings, missing=tuple(missing))
        except NotFound as error:
            raise await no_pod(client, namespace or "default", pod) from error


def explain_pod(listed: ListedPod, node: str) -> Explanation:
    """Explain a pod's placement; the text has one node only if ``node`` names it, the record has all."""
    where = listed.placement
    heading, bound_to = "not bound", where.node if where else None
    victims = {name: [each.pod.key for each in victims] for name, victims in listed.victims.items()}
    if listed.ended is not None:
        phase, last = listed.ended
        heading, bound_to = (
            f"finished ({phase}){f' on node {last}' if last else ''}, holds nothing",
            last or None,
        )
    elif listed.gates:
        heading = f"waits for gates: {', '.join(listed.gates)}"
    if where is not None:
        heading = f"on node {where.node}" + (f" with CPUs {where.cpus}" if where.cpus else "")
        requested = listed.facts.owned_by_class // MILLI
        if where.cpus and where.surplus and requested:
            heading += f" ({len(where.cpus)} for the {requested} that it requests, normalized)"
    record = {
        **decision_record(listed.decision),
        "node": bound_to,
        "cpus": str(where.cpus) if where else "",
        "requests": dict(listed.facts.requests),
        "findings": list(listed.findings),
        **_divided(listed),
        "nodes": list(node_records(listed.decision, node)),
        "victims": {} if _is_not_scheduled(listed) else victims,
        **({"ended": listed.ended[0]} if listed.ended else {}),
        **({"gates": list(listed.gates)} if listed.gates else {}),
        **({"ownedCPUs": dict(listed.owned)} if listed.owned else {}),
    }
    return Explanation(f"{listed.facts.key}: {heading}", [Part(record, list(_lines(listed, node)))])


def _is_not_scheduled(listed: ListedPod) -> bool:
    """Whether the scheduler does not look at the pod: it has ended, or waits for gates."""
    return listed.ended is not None or bool(listed.gates)


def _divided(listed: ListedPod) -> dict[str, str]:
    """Return the ratio of the pod's workload and its name for programs; nothing without one."""
    ratio = listed.divided_by
    if ratio is None or ratio.workload is None:
        return {}
    return {"workload": ratio.workload, "workloadRatio": str(ratio.ratio)}


def _lines(listed: ListedPod, node: str) -> Iterator[Line]:
    yield Line("requests", _requests(listed))
    if (ratio := listed.divided_by) is not None and ratio.workload is not None:
        where = listed.placement.node if listed.placement else "its node"
        text = f'divided by {ratio.ratio}, the ratio of workload "{ratio.workload}" on {where}'
        yield Line("quotas", f"{text}; the ratio of the node itself is {ratio.node}")
    if listed.ended is not None:
        return
    problem = listed.facts.problem
    for finding in listed.findings:
        yield Line(
            "problem", f"{problem.reason}: {finding}" if problem and finding == problem.message else finding
        )
    if problem is not None:
        yield from [Line("to fix", problem.reason.fix)] if problem.reason.fix else []
        yield Line("nodes", "no node suits it, not even an empty one")
        return
    decision = listed.decision
    if listed.ignores_interference:
        yield Line("interference", "left out: kube-scheduler asks about this pod only with --pods all")
    if listed.ignores_numa:
        yield Line("NUMA policy", "left out: kube-scheduler asks about this pod only with --pods all")
    if listed.gates:
        yield Line("without gates", "the result would be as follows")
    if listed.placement is not None:
        measured = "; measured latency, cache and CPU use include it" if decision.accounts else ""
        yield Line("if not bound", f"the result would be as follows, ignoring the pod's own usage{measured}")
    causes = "; ".join(f"{each.cause.summary} ({count(each.nodes, 'node')})" for each in decision.causes())
    suiting = f"{int(decision.feasible.sum())} of {int(decision.asked.sum())} suit it"
    yield Line("nodes", f"{suiting}; not the others: {causes}" if causes else suiting)
    yield from _node_lines(listed, node)


def _requests(listed: ListedPod) -> str:
    facts = listed.facts
    if facts.problem is not None:
        return _in_cpus(facts.cpu)
    if facts.owned_by_class:
        how = f"{facts.binding.policy}, {'required' if facts.binding.required else 'preferred'}"
        return f"{_in_cpus(facts.cpu, 'normalized ' if facts.normalizes else '')} of its own ({how})"
    if facts.owned_if_static:
        shared = f"{_in_cpus(facts.cpu)}; {cpus(facts.owned_if_static)} of its own"
        return f"{shared} on nodes with a static CPU manager"
    return f"{_in_cpus(facts.cpu)}, shared"


def _in_cpus(milli: int, kind: str = "") -> str:
    return f"{cpus(milli)} {kind}CPU{'' if milli == MILLI else 's'}"


def _node_lines(listed: ListedPod, wanted: str) -> Iterable[Line]:
    decision = listed.decision
    asked = np.flatnonzero(decision.asked).tolist()
    rows = sorted(asked, key=lambda row: (not decision.feasible[row], decision.names[row]))
    rows = [row for row in rows if wanted in {"", decision.names[row]}]
    for row in rows[:_SHOWN_NODES]:
        yield Line(decision.names[row], _verdict(listed, row))
        victims = listed.victims.get(decision.names[row])
        if victims and not _is_not_scheduled(listed):
            named = ", ".join(f"{each.pod.key} (priority {each.priority})" for each in victims)
            guarded = "; a PodDisruptionBudget forbids this" if any(each.guarded for each in victims) else ""
            yield Line(decision.names[row], f"would have room after evicting {named}{guarded}")
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
        owned = listed.owned.get(decision.names[row])
        gets = f"would own {owned} CPUs, " if owned else ""
        return f"suits it, {gets}score {int(decision.total[row])}"
    return "; ".join(f"{plugin}: {each.message} ({each.reason})" for plugin, each in decision.refusals(row))
