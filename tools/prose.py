"""Report words that readers stumble over: ``python -m tools.prose [FILES]``; exit code 1 if there are any.

Docstrings begin with verb + noun object, tests have names of eight words or fewer, and spelling is American.
Strings without a space are names.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path

LONGEST_NAME = 8
"""Words after ``test``."""
FOLDERS = ("src", "packages", "tests", "tools", "experiments")
FILES = (*(f"{folder}/*.py" for folder in FOLDERS), "docs/*.md", "README.md")
OPENING = re.compile(r"(Return|Say|Yield|Tell|Be) (what|who|how|why|whether it|by how)")
WORDS = re.compile(
    r"\b(anew|for\sever|nobody|be\sit|(mis)?spelt|programmes?|catalogues?|centred?|grey|analys(e|ed|ing)|"
    r"(dis)?(col|hon|fav|neighb|behavi)our\w*|((un)?labell|modell|signall|travell|(?<!\.)cancell)(ed|ing)(?!\()|"
    r"(normal|organ|optim|recogn|initial|serial|summar|minim|maxim|synchron|priorit)is(e|ed|es|er|ing|ation))\b",
    re.IGNORECASE,
)
NAMES = re.compile(r"`[^`]*`|-*(pod|cgroup|Class|name:|warning:) \w+(?=$|:)|[-/{\"]\w+|\w+\.(json|yaml)")
"""What is no prose inside a line: code, objects, files."""


def found(path: Path) -> Iterator[str]:
    """Yield a report on each line that readers would stumble over."""
    text = path.read_text()
    for first, piece, opens in _prose(text) if path.suffix == ".py" else [(1, text, False)]:
        for number, line in enumerate(piece.split("\n"), first):
            if WORDS.search(NAMES.sub("", line)):
                yield f"{path}:{number}: {line.strip()}"
        if opens and OPENING.match(piece):
            yield f"{path}:{first}: {piece.partition(chr(10))[0]}"
    for name in (
        re.findall(r"^ *(?:async )?def (test_\w+)", text, re.MULTILINE) if path.suffix == ".py" else ()
    ):
        if name.count("_") > LONGEST_NAME:
            yield f"{path}: {name}: {name.count('_')} words"


def _prose(text: str) -> Iterator[tuple[int, str, bool]]:
    """Yield line, text and whether it is an expression of its own, as docstrings are."""
    nodes = list(ast.walk(ast.parse(text)))
    alone = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip():
            yield node.lineno, node.value, id(node) in alone
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string, False


def main(names: Sequence[str]) -> int:
    """Print the reports; return the exit code."""
    listed = subprocess.run(("git", "ls-files", *FILES), capture_output=True, text=True, check=True)
    reports = [line for name in names or listed.stdout.splitlines() for line in found(Path(name))]
    print("\n".join(reports))
    return bool(reports)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
