"""Draw what a command prints as an SVG of a terminal: ``python -m tools.picture OUT.svg -- corewise nodes``.

The command is run, and its stdout is drawn as it is: a picture in the documents is always of real output.
``--last N`` draws the last lines only. tests/docs/test_pictures.py runs the commands of the pictures again.
"""

from __future__ import annotations

import argparse
import io
import re
import shlex
import subprocess
import sys
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

_WEB_FONTS = re.compile(r"@font-face \{\{.*?\}\}\s*", re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->\s*", re.DOTALL)


def draw(command: list[str], printed: str) -> str:
    """Return the SVG."""
    lines = printed.rstrip("\n").splitlines()
    width = max(len(line) for line in lines) + 1
    console = Console(record=True, width=width, file=io.StringIO(), legacy_windows=False)
    console.print(Text("$ " + shlex.join(command), style="bold"), soft_wrap=True)
    for line in lines:
        console.print(Text(line), soft_wrap=True)
    return export(console)


def export(console: Console) -> str:
    """Return a console's recording as an SVG; its text is selectable, and it loads no font."""
    template = _COMMENT.sub("", _WEB_FONTS.sub("", CONSOLE_SVG_FORMAT))
    return console.export_svg(title="", code_format=template, unique_id="corewise")


def main(arguments: list[str]) -> None:
    """Run the command behind ``--`` and write the picture."""
    parser = argparse.ArgumentParser(description="Draw what a command prints.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--last", type=int, metavar="N", help="draw the last N lines only")
    parser.add_argument("command", nargs="+")
    given = parser.parse_args(arguments)
    command: list[str] = given.command
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"{shlex.join(command)} ended with {done.returncode}: nothing drawn")
    lines = done.stdout.splitlines(keepends=True)
    shown = ["…\n", *lines[-given.last :]] if given.last else lines
    given.out.write_text(draw(command, "".join(shown)))


if __name__ == "__main__":
    main(sys.argv[1:])
