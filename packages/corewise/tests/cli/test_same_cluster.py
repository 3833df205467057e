"""The commands that commands print name the cluster that was read: in messages, results and hints."""

from __future__ import annotations

import shlex

import click
import pytest
from click.testing import CliRunner

from corewise.amplification.annotations import read_ratios
from corewise.cli import output
from corewise.cli.errors import Failure
from corewise.cli.options import cluster_options
from corewise.cli.output import Form
from corewise.cli.same_cluster import for_same_cluster
from corewise.views.explanation import Explanation, Line, Part
from corewise.vocabulary.names import AMPLIFICATION_RATIO

WHERE = ["--kubeconfig", "a file", "--context", "c"]
NAMED = "--kubeconfig 'a file' --context c"


@click.command()
@cluster_options
@click.argument("text")
@click.option("--fail", is_flag=True)
def command(text: str, *, fail: bool, **_options: str | None) -> None:
    """Say a text in every way: as a message, a result, an explanation, or the hint of a failure."""
    if fail:
        raise Failure("no", hint=text)
    output.say(text)
    output.tell(text)
    output.show_explanation(Explanation("heading", [Part({}, [Line("next", text)])]), Form.TABLE)


def said(text: str, *options: str) -> str:
    result = CliRunner().invoke(command, [*options, text], catch_exceptions=False)
    first, second, _, third = result.output.splitlines()
    assert first == second == third.partition("next")[2].strip()
    return first


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("kubectl get nodes", f"kubectl {NAMED} get nodes"),
        ("kubectl -n own describe pod p", f"kubectl {NAMED} -n own describe pod p"),
        ("kubectl logs -n own agent-1", f"kubectl {NAMED} logs -n own agent-1"),
        ("try: kubectl cluster-info", f"try: kubectl {NAMED} cluster-info"),
        ("kubectl get nodes | kubectl apply -f -", f"kubectl {NAMED} get nodes | kubectl {NAMED} apply -f -"),
        ("what kubectl prints", "what kubectl prints"),
        ("see corewise explain pod a/p.", f"see corewise explain pod {NAMED} a/p."),
        ("corewise explain reason ConfigInvalid", "corewise explain reason ConfigInvalid"),
        ("corewise config check -", "corewise config check -"),
        (
            "corewise config starter --cluster | corewise config check - --cluster",
            f"corewise config starter --cluster {NAMED} | corewise config check - --cluster {NAMED}",
        ),
        ("helm uninstall x -n y", "helm --kubeconfig 'a file' --kube-context c uninstall x -n y"),
        ("corewise agent runs on the node", "corewise agent runs on the node"),
        ("kubectl -n kubectl get pods", f"kubectl {NAMED} -n kubectl get pods"),
        ("kubectl delete pod kubectl -n own", f"kubectl {NAMED} delete pod kubectl -n own"),
        ("pod a/kubectl get CPUs", "pod a/kubectl get CPUs"),
        ("/opt/corewise nodes", "/opt/corewise nodes"),
        (
            "corewise config check 'my kubectl get/x' --cluster",
            f"corewise config check 'my kubectl get/x' --cluster {NAMED}",
        ),
        ("the pods' kubectl get nodes' CPUs", f"the pods' kubectl {NAMED} get nodes' CPUs"),
    ],
)
def test_commands_get_the_options_of_the_call(text: str, shown: str) -> None:
    assert said(text, *WHERE) == shown
    assert said(shown, *WHERE) == shown
    assert said(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("'a\nkubectl get x'\nkubectl get y", f"'a\nkubectl get x'\nkubectl {NAMED} get y"),
        ('"a\n\nkubectl get x": kubectl get y', f'"a\n\nkubectl get x": kubectl {NAMED} get y'),
        ("the 'x\nkubectl get y", f"the 'x\nkubectl {NAMED} get y"),
        (" 'x" * 5_000 + " kubectl get y", " 'x" * 5_000 + f" kubectl {NAMED} get y"),
    ],
    ids=["single", "double", "open", "many open"],
)
def test_quoted_lines_are_no_commands(text: str, shown: str) -> None:
    @click.command()
    @cluster_options
    def rewrite(**_options: str | None) -> None:
        click.echo(for_same_cluster(text), nl=False)

    assert CliRunner().invoke(rewrite, WHERE, catch_exceptions=False).output == shown


@pytest.mark.parametrize("option", ["--kubeconfig", "--context", "--config-namespace"])
@pytest.mark.parametrize(
    "value",
    [
        "/srv/my kubectl get/x",
        "/srv/corewise nodes/x",
        "/srv/corewise config check --cluster",
        "/srv/helm uninstall x",
        "/srv/it's kubectl get/x",
        'a "kubectl get" x',
        r"\kubectl get\1",
    ],
)
def test_option_values_stay_as_given(option: str, value: str) -> None:
    text = "kubectl get nodes; helm uninstall x -n y; corewise nodes; corewise config check - --cluster"
    shown = said(text, option, value)
    assert shown == said(text, option, "SAFE").replace("SAFE", shlex.quote(value))
    assert said(shown, option, value) == shown


@pytest.mark.parametrize(
    "annotation",
    [
        "kubectl get pods",
        '{"kubectl get pods": 2}',
        '{"cpu": "kubectl get pods"}',
        '{"cpu": "it\'s kubectl get pods' + " and more" * 9 + '"}',
        '{"cpu": {"corewise nodes": "helm uninstall x"}}',
    ],
)
def test_values_of_annotations_are_no_commands(annotation: str) -> None:
    (finding,) = read_ratios(annotation, annotation=AMPLIFICATION_RATIO).findings
    assert said(finding.message, *WHERE) == finding.message


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("corewise nodes", "corewise nodes --config-namespace own"),
        ("corewise explain node n", "corewise explain node --config-namespace own n"),
        ("corewise explain pod a/p", "corewise explain pod a/p"),
        ("corewise config suggest --cluster", "corewise config suggest --cluster --config-namespace own"),
        ("corewise config starter --cluster", "corewise config starter --cluster"),
        ("kubectl get nodes", "kubectl get nodes"),
    ],
)
def test_config_namespace_goes_where_it_is_taken(text: str, shown: str) -> None:
    assert said(text, "--config-namespace", "own") == shown


def test_hints_of_failures_name_the_same_cluster() -> None:
    result = CliRunner().invoke(command, [*WHERE, "--fail", "corewise nodes"])
    assert isinstance(result.exception, Failure)
    assert result.exception.hint == f"corewise nodes {NAMED}"
