"""Pictures of what ``corewise up`` prints show what it prints today; tools/picture.py draws them.

A picture's first line is its command, which is run. Words are the same. Figures are about the same where
the run alone decides them; bindings that race put a pod or two of the scenario interference elsewhere.
"""

from __future__ import annotations

import html
import re
import subprocess
import sys
from pathlib import Path

import pytest

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
NUMBER = re.compile(r"\d[\d.]*")
OF_THE_COMPUTER = (
    "time: ",
    "resident memory: ",
    "loaded, ",
    "with corewise off, while ",
    "with corewise on, while ",
)


def shown(picture: Path) -> list[str]:
    """Return the lines of a drawn terminal, the command first."""
    text = html.unescape(picture.read_text()).replace("\xa0", " ")
    lines: dict[float, str] = {}
    for y, part in re.findall(r'<text[^>]* y="([\d.]+)"[^>]*>([^<]*)</text>', text):
        lines[float(y)] = lines.get(float(y), "") + part
    return [lines[y].rstrip() for y in sorted(lines) if lines[y].strip()]


def of_every_computer(lines: list[str]) -> list[str]:
    return [line for line in lines if line.strip() and not line.startswith(OF_THE_COMPUTER)]


def words(lines: list[str]) -> list[str]:
    return [" ".join(re.sub("█+", "", NUMBER.sub("N", line)).split()) for line in lines]


@pytest.mark.parametrize(("name", "tolerance"), [("up", 0.05), ("up-interference", None)])
def test_a_picture_of_up_shows_what_it_prints(name: str, tolerance: float | None) -> None:
    command, more, *lines = shown(PICTURES / f"{name}.svg")
    drawn = of_every_computer(lines)
    assert (command[:12], more) == ("$ corewise up"[:12], "…")
    arguments = [sys.executable, "-m", "corewise", *command.split()[2:]]
    run = subprocess.run(arguments, capture_output=True, text=True, timeout=300, check=True)
    printed = of_every_computer(run.stdout.splitlines())[-len(drawn) :]
    assert words(printed) == words(drawn)
    if tolerance is not None:
        figures = [float(each.rstrip(".")) for line in printed for each in NUMBER.findall(line)]
        assert figures == pytest.approx(
            [float(each.rstrip(".")) for line in drawn for each in NUMBER.findall(line)], rel=tolerance
        )
