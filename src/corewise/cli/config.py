"""``corewise config``: look at configuration before the cluster does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec

from corewise.cli import output
from corewise.cli.config_file import KEYS, Contents, KeyText, UndecidedKeyError, read_contents
from corewise.cli.errors import ExitCode, Failure
from corewise.cli.files import decoded, text_of
from corewise.cli.options import read
from corewise.cli.output import Form
from corewise.config.colocation import parse_oversubscription, parse_suppression
from corewise.config.configuration import (
    LARGEST_AMPLIFICATION_RATIO,
    node_config_conflicts,
    parse_amplification,
    parse_normalization,
)
from corewise.config.decoding import Parsed, Problem, Severity
from corewise.config.node_configs import Configuration
from corewise.quantities import Ratio
from corewise.vocabulary import names

NodeLabels = list[tuple[str, Mapping[str, str]]]


class _Metadata(msgspec.Struct):
    name: str
    labels: dict[str, str] | None = None


class _Object(msgspec.Struct):
    metadata: _Metadata
    kind: str = "Node"


class _Dump(msgspec.Struct):
    items: list[_Object]


@dataclass(frozen=True, slots=True)
class ConfigFinding:
    """One problem at its place in the file; ``key`` is empty for problems of the file itself."""

    key: str
    problem: Problem


@click.group()
def command() -> None:
    """Check configuration before the cluster uses it."""


@command.command()
@click.argument("file")
@click.option("--key", type=click.Choice(KEYS), help="The only key to check, or the key whose JSON FILE is.")
@click.option("--nodes", metavar="DUMP", help="Also check selectors against: kubectl get nodes -o json.")
@click.option(
    "--largest-amplification",
    metavar="RATIO",
    callback=read(Ratio.parse),
    default=str(LARGEST_AMPLIFICATION_RATIO),
    show_default=True,
    help="The largest amplification ratio, as the manager has it.",
)
@output.option((Form.TABLE, Form.JSON))
def check(file: str, key: str | None, nodes: str | None, largest_amplification: Ratio, form: Form) -> None:
    """Check a configuration and name every error with its place.

    FILE is a ConfigMap in YAML or JSON (several documents or a List will do), or the JSON of one of its
    keys; - is stdin. Unknown keys are warnings.

    Exit codes: 0 no errors, 1 errors, 2 wrong call, 5 a file cannot be read or holds no configuration.
    """
    contents = _contents(file, key)
    labels = _nodes(nodes) if nodes else []
    findings = [ConfigFinding("", problem) for problem in contents.problems]
    for text in contents.keys:
        problems = _problems(text, labels, largest_amplification)
        findings += [ConfigFinding(text.key, text.in_file(each, contents.positions)) for each in problems]
    findings.sort(key=lambda each: (each.problem.line, each.problem.column))
    _print(file, contents, findings, form)
    if any(each.problem.severity is Severity.ERROR for each in findings):
        raise click.exceptions.Exit(ExitCode.VERDICT)


def _contents(file: str, key: str | None) -> Contents:
    try:
        contents = read_contents(text_of(file), key)
    except UndecidedKeyError:
        raise Failure(
            f"{file} is the JSON of one key, and nothing in it says of which",
            hint="name it: " + " or ".join(f"--key {each}" for each in KEYS),
            exit_code=ExitCode.USAGE,
        ) from None
    if not contents.keys and not contents.problems:
        keys = " or ".join(KEYS if key is None else (key,))
        raise Failure(
            f"{file} holds no configuration of corewise",
            hint=f"a ConfigMap has it in data, under {keys}",
        )
    return contents


def _nodes(file: str) -> NodeLabels:
    hint = "make it with: kubectl get nodes -o json"
    dump = decoded(file, msgspec.json.Decoder(_Dump).decode, "a list of nodes", hint)
    return [(each.metadata.name, each.metadata.labels or {}) for each in dump.items if each.kind == "Node"]


def _problems(text: KeyText, nodes: NodeLabels, largest: Ratio) -> list[Problem]:
    parsers: Mapping[str, Callable[[str], Parsed[Configuration[Any]]]] = {
        names.NORMALIZATION_KEY: parse_normalization,
        names.AMPLIFICATION_KEY: partial(parse_amplification, largest=largest),
        names.OVERSUBSCRIPTION_KEY: parse_oversubscription,
        names.SUPPRESSION_KEY: parse_suppression,
    }
    parsed = parsers[text.key](text.text)
    conflicts = () if parsed.value is None else node_config_conflicts(parsed.value, nodes)
    return [*parsed.problems, *conflicts]


def _print(file: str, contents: Contents, findings: list[ConfigFinding], form: Form) -> None:
    name = "<stdin>" if file == "-" else file
    errors = sum(each.problem.severity is Severity.ERROR for each in findings)
    warnings = len(findings) - errors
    if form is Form.JSON:
        document = {
            "file": name,
            "keys": [each.key for each in contents.keys],
            "errors": errors,
            "warnings": warnings,
            "problems": [_record(each) for each in findings],
        }
        click.echo(output.document_text(document, form), nl=False)
        return
    for finding in findings:
        problem = finding.problem
        path = f"{problem.path}: " if problem.path else ""
        where = f"{name}:{problem.line}:{problem.column}"
        click.echo(f"{where}: {problem.severity}: {path}{problem.message}")
    checked = ", ".join(each.key for each in contents.keys) or "no key"
    found = f"{output.count(errors, 'error')}, {output.count(warnings, 'warning')}"
    output.say(f"{Path(name).name}: {checked}: {found if findings else 'no problems'}")


def _record(finding: ConfigFinding) -> Mapping[str, Any]:
    problem = finding.problem
    return {
        "severity": problem.severity.value,
        "key": finding.key,
        "line": problem.line,
        "column": problem.column,
        "path": problem.path,
        "message": problem.message,
    }
