"""The patch of a what-if: a person can read it, and kubectl gets exactly the text."""

from __future__ import annotations

import shlex

import yaml
from hypothesis import given
from hypothesis import strategies as st

from corewise.views.page.patch import config_patch, patch_command


@given(st.text(st.characters(codec="utf-8"), max_size=60))
def test_patch_holds_exactly_the_text(text: str) -> None:
    assert yaml.safe_load(config_patch("key", text)) == {"data": {"key": text}}


def test_json_text_is_shown_line_by_line() -> None:
    patch = config_patch("cpu-normalization-config", '{\n  "enable": true\n}')
    assert patch == 'data:\n  cpu-normalization-config: |-\n    {\n      "enable": true\n    }\n'


def test_command_carries_the_patch_up_to_its_end() -> None:
    command = patch_command("ns", "config", config_patch("key", "a\nEOF\n"))
    first, *patch, end = command.split("\n")
    assert shlex.split(first) == [
        *("kubectl", "-n", "ns", "patch", "configmap", "config"),
        *("--type", "merge", "--patch-file", "/dev/stdin", "<<EOF"),
    ]
    assert end == "EOF"
    assert end not in patch
    assert yaml.safe_load("\n".join([*patch, ""])) == {"data": {"key": "a\nEOF\n"}}
