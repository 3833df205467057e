"""``corewise profile``: what types of workload use and what slows them down, from a history."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from corewise.cli.durations import seconds
from corewise.cli.errors import ExitCode, Failure
from corewise.cli.interference_file import read_interference
from corewise.cli.output import Form, option, say
from corewise.cli.profile_file import read_history, write_history
from corewise.cli.profile_queries import Asked, ask
from corewise.cli.profile_report import profile_text, remarks
from corewise.config.interference import InterferenceConfiguration
from corewise.interference.analysis import Finding, analyse
from corewise.interference.history import History, Slicing
from corewise.prometheus.errors import PrometheusError

_FILE = click.Path(path_type=Path, dir_okay=False)
_SLICING = Slicing()


@click.command()
@click.option("--prometheus", "url", metavar="URL", help="Ask this Prometheus server.")
@click.option("--history", type=_FILE, help="Read a history from this file instead.")
@click.option(
    "--config", type=_FILE, help="The scheduler's configuration: type label, metrics, default profile."
)
@click.option(
    "--range",
    "span",
    metavar="TIME",
    default="7d",
    show_default=True,
    callback=seconds,
    help="How far to look back.",
)
@click.option(
    "--step",
    metavar="TIME",
    default="5m",
    show_default=True,
    callback=seconds,
    help="Time between two values.",
)
@click.option(
    "--warm-up",
    metavar="TIME",
    default=f"{_SLICING.warm_up / 60:g}m",
    show_default=True,
    callback=seconds,
    help="Time at the beginning of a pod that is not looked at.",
)
@click.option(
    "--episode",
    metavar="TIME",
    default=f"{_SLICING.episode / 60:g}m",
    show_default=True,
    callback=seconds,
    help="How long a sample is, of a pod whose cycles per instruction are counted.",
)
@click.option("--p95", is_flag=True, help="Write 95th percentiles of what pods used instead of means.")
@click.option("--save-history", type=_FILE, help="Keep what Prometheus said in this file, for --history.")
@option((Form.TABLE, Form.YAML, Form.JSON))
def command(
    url: str | None,
    history: Path | None,
    config: Path | None,
    span: float,
    step: float,
    warm_up: float,
    episode: float,
    p95: bool,
    save_history: Path | None,
    form: Form,
) -> None:
    """Say what each type of workload uses, and how much longer its work takes under pressure.

    -o yaml prints the profiles and affinities as the scheduler's configuration has them. A type of which too
    little was seen is refused with the reason, and falls under the default profile.

    Exit codes: 0 at least one type has a profile, 1 every type was refused, 2 wrong call, 3 no answer from
    Prometheus, 5 a bad file.
    """
    if (url is None) == (history is None):
        raise click.UsageError("it needs either --prometheus URL or --history FILE")
    settings = read_interference(config) if config else InterferenceConfiguration()
    seen = read_history(history) if history else _asked(url or "", settings, Asked(span, step))
    if save_history:
        write_history(save_history, seen)
    findings = analyse(seen, _default(settings), Slicing(warm_up, episode, settings.window))
    _print(findings, form, str(history or url), p95=p95)


def _default(settings: InterferenceConfiguration) -> dict[str, int]:
    return {str(metric): value for metric, value in settings.default.affinity.items()}


def _asked(url: str, settings: InterferenceConfiguration, asked: Asked) -> History:
    try:
        return asyncio.run(ask(url, settings, asked))
    except PrometheusError as error:
        raise Failure(error.message, hint=error.hint, exit_code=ExitCode.CONNECTION) from error


def _print(findings: tuple[Finding, ...], form: Form, source: str, *, p95: bool) -> None:
    if not findings:
        hint = "are the pods labelled, and does kube-state-metrics export the label? docs/profile.md"
        raise Failure("the history has no pods of any type", hint=hint, exit_code=ExitCode.VERDICT)
    click.echo(profile_text(findings, form, source=source, p95=p95), nl=False)
    for remark in remarks(findings):
        say(remark)
    if all(each.refusal for each in findings):
        raise click.exceptions.Exit(ExitCode.VERDICT)
