"""What the pages on interference show is what happens: configuration and example are current."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from textwrap import dedent

from click.testing import CliRunner

from corewise.cli import corewise
from corewise.config.interference.reading import parse_interference

ROOT = Path(__file__).parents[2]
PAGE = "".join(
    (ROOT / "docs" / page).read_text()
    for page in (
        "concepts/interference-example.md",
        "guides/interference-configuration.md",
        "guides/interference.md",
    )
)
POD = "kind: Pod\nmetadata: {name: web, labels: {app: incept-no-leak}}\nspec: {containers: [{name: main}]}\n"


def block(begin: str) -> str:
    """Return the indented block of the page that begins with these words."""
    found = re.search(rf"^( +){re.escape(begin)}.*\n(?:(?:\1.*)?\n)*", PAGE, re.MULTILINE)
    assert found
    return dedent(found[0]).strip() + "\n"


def test_page_configuration_is_valid_and_matches_its_example() -> None:
    parsed = parse_interference(block("interference:"))
    assert parsed.value is not None
    assert not parsed.problems
    assert list(parsed.value.profiles) == ["incept-no-leak"]


def test_page_example_matches_the_command_output(tmp_path: Path) -> None:
    for name, text in (("C.yaml", block("interference:")), ("M.json", block('{"n1":')), ("P.yaml", POD)):
        (tmp_path / name).write_text(text)
    files = [
        f"--{option}={tmp_path / name}"
        for option, name in (("config", "C.yaml"), ("metrics", "M.json"), ("pod", "P.yaml"))
    ]
    result = CliRunner().invoke(corewise, ["explain", "interference", *files])
    assert result.exit_code == 0, result.exception
    shown = block("$ corewise explain interference").split("\n", 1)[1]
    assert result.stdout.strip() == shown.strip()
    n1 = next(line for line in shown.splitlines() if line.startswith("n1 "))
    assert n1.split()[-2:] == ["610", "36"]


def test_what_the_page_says_shows_it_is_there() -> None:
    _, _, table = PAGE.partition("## What shows it")
    tests = re.findall(r"(?:packages/[\w-]+/)?tests/[a-z_/]+(?:\.py)?", table)
    tools = re.findall(r"python -m ([a-z_.]+)", table)
    assert len(tests) > 15
    assert len(tools) == 4
    assert not [name for name in tests if not (ROOT / name).exists()]
    assert not [name for name in tools if find_spec(name) is None]
