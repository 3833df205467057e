"""Draw what a command prints as an SVG of a terminal: ``python -m tools.picture OUT.svg -- corewise nodes``.

The command is run, and its stdout is drawn as it is: a picture in the documents is always of real output.
"""

from __future__ import annotations

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
    """Return the SVG; its text is selectable, and no font is loaded from anywhere."""
    lines = printed.rstrip("\n").splitlines()
    width = max(len(line) for line in lines) + 1
    console = Console(record=True, width=width, file=io.StringIO(), legacy_windows=False)
    console.print(Text("$ " + shlex.join(command), style="bold"), soft_wrap=True)
    for line in lines:
        console.print(Text(line), soft_wrap=True)
    template = _COMMENT.sub("", _WEB_FONTS.sub("", CONSOLE_SVG_FORMAT))
    return console.export_svg(title="", code_format=template, unique_id="corewise")


def main(arguments: list[str]) -> None:
    """Run the command behind ``--`` and write the picture."""
    out, separator, *command = arguments
    if separator != "--" or not command:
        raise SystemExit("usage: python -m tools.picture OUT.svg -- COMMAND ...")
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"{shlex.join(command)} ended with {done.returncode}: nothing drawn")
    Path(out).write_text(draw(command, done.stdout))


main(sys.argv[1:])
