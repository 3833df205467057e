"""A change of the ConfigMap as a command that a person can review: a patch in YAML, no escaped line.

The text of a key is a block of YAML, line by line. One with characters that a block does not keep, or that
people cannot see, is a quoted text with escapes.
"""

from __future__ import annotations

import re
import shlex

_END = "EOF"
_READABLE = re.compile(r"[\x20-\x7e\t\n\xa1-\u2027\u202a-\ud7ff\U00010000-\U0001fffd]*")
_INDENT = 4


def config_patch(key: str, text: str) -> str:
    """Return a merge patch that sets one key of a ConfigMap, as YAML."""
    return (
        f"data:\n  {key}: {_block(text) if text.strip() and _READABLE.fullmatch(text) else _quoted(text)}\n"
    )


def _block(text: str) -> str:
    """Return a block that keeps exactly this text: its marks say how it begins and ends."""
    begins = str(_INDENT - 2) if text[0] in " \t\n" else ""
    ends = "-" if not text.endswith("\n") else "+" if text.endswith("\n\n") else ""
    lines = text.removesuffix("\n").split("\n")
    return "\n".join([f"|{begins}{ends}", *(" " * _INDENT + line if line else "" for line in lines)])


def _quoted(text: str) -> str:
    shown = (each if each.isascii() and each.isprintable() and each not in '"\\' else "" for each in text)
    return '"' + "".join(each or f"\\U{ord(was):08x}" for each, was in zip(shown, text, strict=True)) + '"'


def patch_command(namespace: str, name: str, patch: str) -> str:
    """Return the command that applies a patch, with the patch in it."""
    where = f"kubectl -n {shlex.quote(namespace)} patch configmap {shlex.quote(name)}"
    return _with_input(f"{where} --type merge --patch-file /dev/stdin", patch)


def create_command(namespace: str, name: str, patch: str) -> str:
    """Return the command that creates a ConfigMap of what a patch sets."""
    meta = f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {_quoted(name)}\n"
    return _with_input(f"kubectl -n {shlex.quote(namespace)} create -f -", meta + patch)


def _with_input(command: str, text: str) -> str:
    end = _END
    while end in text.splitlines():
        end += "_"
    return f"{command} <<'{end}'\n{text}{end}"
