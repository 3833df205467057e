"""``corewise explain``: why something is as it is, and what to do about it.

Of a node, its ratios; of a pod, where it is, or why it is nowhere, node by node.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from corewise.cli import output
from corewise.cli.choice import Choice, one_of
from corewise.cli.completers import node_names, pod_names
from corewise.cli.dump_client import client_and_time, client_of, from_option
from corewise.cli.explain_interference import interference_command
from corewise.cli.explain_suppression import suppression_command
from corewise.cli.files import FILE
from corewise.cli.interference_inputs import read_scheduler_file
from corewise.cli.new_pod import read_new_pod
from corewise.cli.options import cluster_options, connection_options, examples, named
from corewise.cli.output import Form, show_explanation
from corewise.manager.options import OfflinePods
from corewise.scheduler.configuration import DEFAULTS
from corewise.views.errors import ObjectNotFoundError
from corewise.views.explanation import Explanation, Line, Part
from corewise.views.new_pod import explain_new_pod
from corewise.views.node_explanation import read_node
from corewise.views.pod_explanation import explain_pod, read_pod
from corewise.vocabulary.reasons import Reason


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
    client, now = client_and_time(dump, kubeconfig, context)
    explained, missing = asyncio.run(read_node(client, name, config_namespace, now))
    show_explanation(explained, form, missing)


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
    explained = Explanation(f"{code} (warning)" if reason.warning else code, [Part(record, lines)])
    show_explanation(explained, form)


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
    **one_of(OfflinePods.TRANSLATE),
    help="With --file: the manager's option of this name.",
)
@click.option(
    "--node", default="", shell_complete=node_names, help="Show this node alone, with every detail."
)
@click.option(
    "--config", "config_file", type=FILE, help="The scheduler's file: how it scores, and interference."
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
    --prometheus also by the effect of the pod's type on memory and cache, if kube-scheduler asks about that:
    both sides of the filter, every metric's value, age, position and points (--node shows them).

    The namespaces that allow LSE pods are read from the scheduler's MutatingAdmissionPolicyBinding or
    MutatingWebhookConfiguration: the account must be able to list both kinds, or the dump must have them.

    With --file, for a pod that does not exist yet: which ClusterColocationProfiles of the cluster select it,
    what each changes, whether it is offline and why, what becomes of its cpu and memory, and whether CPUs
    that it owns are normalized. A Namespace in the file counts before the cluster's. A dump for --from:
    kubectl get namespaces,priorityclasses,clustercolocationprofiles -o json.
    """
    if file is not None and name is None:
        given = read_new_pod(file)
        client = client_of(dump, kubeconfig, context)
        explained = asyncio.run(
            explain_new_pod(client, given.pod, OfflinePods(offline_pods), given.selected, given.namespaces)
        )
        show_explanation(explained, form)
        return
    if file is not None or name is None:
        raise click.UsageError("name one pod, NAMESPACE/NAME, or one manifest, --file")
    if prometheus and config_file is None:
        raise click.UsageError("--prometheus needs --config: the file says what is read there")
    configuration = DEFAULTS if config_file is None else read_scheduler_file(config_file)
    client = client_of(dump, kubeconfig, context)
    listed = asyncio.run(read_pod(client, name, configuration, prometheus))
    if node and node not in listed.decision.names:
        raise ObjectNotFoundError.node(node)
    show_explanation(explain_pod(listed, node), form, listed.missing)
