"""``corewise explain``: why something is as it is, and what to do about it.

Of a node, its ratios; of a pod, where it is, or why it is nowhere, node by node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import click
import numpy as np

from corewise.cli import output
from corewise.cli.choice import Choice
from corewise.cli.completers import node_names, pod_names
from corewise.cli.dump_client import client_of, from_option, no_node
from corewise.cli.errors import ExitCode, Failure
from corewise.cli.explain_interference import interference_command
from corewise.cli.explain_suppression import suppression_command
from corewise.cli.explanation import Explanation, Line, Part
from corewise.cli.files import FILE
from corewise.cli.interference_inputs import read_interference
from corewise.cli.new_pod import explain_new_pod, online_in_spite_of, read_new_pod
from corewise.cli.node_explanation import explain_node
from corewise.cli.node_listing import list_cluster
from corewise.cli.options import cluster_options, connection_options, examples, named
from corewise.cli.output import Form, cpus
from corewise.config.interference.model import InterferenceConfiguration
from corewise.kube.client import Client
from corewise.kube.errors import Forbidden, NotFound
from corewise.kube.objects import Event
from corewise.kube.resources import EVENTS, PODS
from corewise.manager.options import OfflinePods
from corewise.prometheus.client import PrometheusClient
from corewise.scheduler.decisions import decision_record, node_records
from corewise.scheduler.listing import ListedPod, list_pod
from corewise.vocabulary.names import MANAGER_COMPONENT
from corewise.vocabulary.reasons import Reason

_SHOWN_EVENTS = 5
_SHOWN_NODES = 20


@click.group(epilog=examples("corewise explain node n1", "corewise explain pod default/web"))
def command() -> None:
    """Explain a state or a decision, and what to do about it."""


command.add_command(suppression_command)
command.add_command(interference_command)


@command.command(
    "node",
    short_help="Explain where a node's ratios come from, and what to fix.",
    epilog=examples("corewise explain node n1", "corewise explain node n1 --from dump.json"),
)
@cluster_options
@from_option
@click.argument("name", callback=named, shell_complete=node_names)
@output.option((Form.TABLE, Form.JSON, Form.YAML))
def node_command(
    kubeconfig: str | None,
    context: str | None,
    config_namespace: str,
    dump: Path | None,
    name: str,
    form: Form,
) -> None:
    """Explain the ratios of node NAME: the rule, the CPU facts, what is missing, and what to fix."""
    client = client_of(dump, kubeconfig, context)
    explained, missing = asyncio.run(read_node(client, name, config_namespace))
    explained.show(form, missing)


@command.command("reason", epilog=examples("corewise explain reason UnknownCPUModel"))
@click.argument(
    "code", type=Choice([each.value for each in Reason], listed_at="docs/reference/index.md"), metavar="CODE"
)
@output.option((Form.TABLE, Form.JSON, Form.YAML))
def reason_command(code: str, form: Form) -> None:
    """Explain a reason code, and how to fix what it warns of.

    Reason codes are in Events, logs, metrics and in what commands print.
    """
    reason = Reason(code)
    record = {"reason": code, "warning": reason.warning, "meaning": reason.meaning, "fix": reason.fix}
    lines = [Line("meaning", reason.meaning), *([Line("to fix", reason.fix)] if reason.fix else [])]
    Explanation(f"{code} (warning)" if reason.warning else code, [Part(record, lines)]).show(form)


async def read_node(client: Client, name: str, config_namespace: str) -> tuple[Explanation, Sequence[str]]:
    """Return the explanation of a node as it is in the cluster, and the names of unreadable objects."""
    async with client:
        try:
            listed, events = await asyncio.gather(
                list_cluster(client, config_namespace, name=name), _events(client, name)
            )
        except NotFound as error:
            raise await no_node(client, name) from error
    assessment = listed.nodes[0].assessment
    explained = explain_node(assessment, events, pods_known=listed.pods_known, paths=listed.amplified_by)
    return explained, listed.missing


async def _events(client: Client, name: str) -> tuple[Event, ...]:
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


@command.command(
    "pod",
    short_help="Explain where a pod is, and which nodes fit it.",
    epilog=examples("corewise explain pod default/web --node n1", "corewise explain pod --file job.yaml"),
)
@connection_options
@from_option
@click.argument("name", metavar="[NAMESPACE/NAME]", required=False, callback=named, shell_complete=pod_names)
@click.option("--file", type=FILE, help="A manifest: show how the webhooks would change this pod.")
@click.option(
    "--offline-pods",
    type=Choice([each.value for each in OfflinePods]),
    default=OfflinePods.TRANSLATE.value,
    show_default=True,
    help="With --file: the manager's option of this name.",
)
@click.option(
    "--node", default="", shell_complete=node_names, help="Show this node alone, with every detail."
)
@click.option(
    "--config", "config_file", type=FILE, help="The scheduler's file, if it configures interference."
)
@click.option(
    "--prometheus", default="", metavar="URL", help="Prometheus that has the nodes' memory bandwidth."
)
@output.option((Form.TABLE, Form.JSON, Form.YAML))
def pod_command(
    kubeconfig: str | None,
    context: str | None,
    dump: Path | None,
    name: str | None,
    file: Path | None,
    offline_pods: str,
    node: str,
    config_file: Path | None,
    prometheus: str,
    form: Form,
) -> None:
    """Explain where a pod is, which CPUs it has, and why each node fits it or not.

    Decides as the scheduler would now, from nodes and pods as they are in the cluster. With --config and
    --prometheus also by the effect of the pod's type on memory and cache: both sides of the filter, every
    metric's value, age, position and points (--node shows them).

    The namespaces that allow LSE pods are read from the scheduler's MutatingAdmissionPolicyBinding or
    MutatingWebhookConfiguration: the account must be able to list both kinds, or the dump must have them.

    With --file, for a pod that does not exist yet: which ClusterColocationProfiles of the cluster select it,
    what each changes, whether it is offline and why, and what becomes of its cpu and memory. A dump for
    --from: kubectl get namespaces,priorityclasses,clustercolocationprofiles -o json.
    """
    if file is not None and name is None:
        pod, selected = read_new_pod(file)
        client = client_of(dump, kubeconfig, context)
        asyncio.run(explain_new_pod(client, pod, OfflinePods(offline_pods), selected)).show(form)
        return
    if file is not None or name is None:
        raise click.UsageError("name one pod, NAMESPACE/NAME, or one manifest, --file")
    if prometheus and config_file is None:
        raise click.UsageError("--prometheus needs --config: the file says what is read there")
    interference = None if config_file is None else read_interference(config_file)
    client = client_of(dump, kubeconfig, context)
    listed = asyncio.run(read_pod(client, name, interference, prometheus))
    if node and node not in listed.decision.names:
        raise Failure.no_node(node)
    explain_pod(listed, node).show(form, listed.missing)


async def read_pod(
    client: Client, name: str, interference: InterferenceConfiguration | None = None, url: str = ""
) -> ListedPod:
    """Return the decision about the pod NAMESPACE/NAME; ``url`` is that of a Prometheus."""
    namespace, _, pod = name.rpartition("/")
    async with client, AsyncExitStack() as stack:
        try:
            prometheus = await stack.enter_async_context(PrometheusClient(url)) if url else None
            listed = await list_pod(client, namespace or "default", pod, interference, prometheus)
            late = await online_in_spite_of(
                client, await client.get(PODS.typed(dict), pod, namespace or "default")
            )
            return replace(listed, findings=(*listed.findings, *([late] if late else [])))
        except NotFound as error:
            where = f"{namespace or 'default'}/{pod}"
            hint = "list the pods with: kubectl get pods -A"
            raise Failure(f"there is no pod {where}", hint=hint, exit_code=ExitCode.NOT_FOUND) from error


def explain_pod(listed: ListedPod, node: str) -> Explanation:
    """Explain a pod's placement; the text has one node only if ``node`` names it, the record has all."""
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
        "victims": {name: [each.pod.key for each in victims] for name, victims in listed.victims.items()},
    }
    return Explanation(f"{listed.facts.key}: {heading}", [Part(record, list(_lines(listed, node)))])


def _lines(listed: ListedPod, node: str) -> Iterator[Line]:
    yield Line("requests", _requests(listed))
    for finding in listed.findings:
        yield Line("problem", finding)
    if listed.facts.problem is not None:
        yield Line("nodes", "no node suits it, not even an empty one")
        return
    if listed.placement is not None:
        yield Line("if not bound", "the result would be as follows, ignoring the pod's own usage")
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
        if victims := listed.victims.get(decision.names[row]):
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
        return f"suits it, score {int(decision.total[row])}"
    return "; ".join(f"{plugin}: {each.message} ({each.reason})" for plugin, each in decision.refusals(row))
