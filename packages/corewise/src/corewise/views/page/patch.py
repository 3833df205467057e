"""A change of the ConfigMap as a command that a person can review: a patch in YAML, no escaped line."""

from __future__ import annotations

import re
import shlex

import yaml

_END = "EOF"
_READABLE = re.compile(r"[\x20-\x7e\n\xa1-\u2027\u202a-\ud7ff]*")
"""Texts of which a block of YAML keeps every character."""


class _Block(str):
    """A text that YAML shows line by line."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):
    """Writes blocks as they are."""


def _as_block(dumper: yaml.SafeDumper, text: _Block) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style="|")


_Dumper.add_representer(_Block, _as_block)


def config_patch(key: str, text: str) -> str:
    """Return a merge patch that sets one key of a ConfigMap, as YAML."""
    if not _READABLE.fullmatch(text):
        escaped: str = yaml.dump({"data": {key: text}}, Dumper=_Dumper, width=10**6, default_style='"')
        return escaped
    written: str = yaml.dump({"data": {key: _Block(text)}}, Dumper=_Dumper, width=10**6, allow_unicode=True)
    return written


def patch_command(namespace: str, name: str, patch: str) -> str:
    """Return the command that applies a patch, with the patch in it."""
    end = _END
    while end in patch.splitlines():
        end += "_"
    where = f"kubectl -n {shlex.quote(namespace)} patch configmap {shlex.quote(name)}"
    return f"{where} --type merge --patch-file /dev/stdin <<'{end}'\n{patch}{end}"
