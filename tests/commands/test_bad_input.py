"""A call that cannot be answered says what is wrong and what to do, in a line or two."""

from __future__ import annotations

import shutil
from pathlib import Path

import click
import pytest

from commands.command_tree import contexts
from corewise.cli import main
from golden.transcripts import INPUTS

DUMP = INPUTS / "plan" / "dump.json"
FLAVOR = INPUTS / "compute" / "dedicated.json"
CASES = [
    ("explain node '' --from {dump}", 2, "it is empty: write a name"),
    ("explain pod shop/ --from {dump}", 2, "it is empty: write a name"),
    ("explain suppression '' --from {dump}", 2, "it is empty: write a name"),
    ("explain pod nosuch --from {dump}", 4, "there is no pod default/nosuch\n  namespace default has none"),
    ("explain pod nosuch --from nothing", 4, "there is no pod default/nosuch\n  the file has no pods"),
    ("explain interference nosuch --from nothing", 4, "default/nosuch\n  the file has no pods"),
    ("explain reason ''", 2, "'' is unknown; docs/reference/index.md lists all."),
    ("audit --reason Nonsense", 2, "'Nonsense' is unknown; docs/reference/index.md lists all."),
    ("nodes --kubeconfig empty", 5, "empty: no current-context is set\n  is it a kubeconfig?"),
    ("scheduler --listen 127.0.0.1:0 --config binary", 5, "binary is not UTF-8: byte 0 is wrong"),
    ("plan --from-openb binary binary", 5, "binary is not UTF-8: byte 0 is wrong"),
    (
        "plan --from empty",
        5,
        "empty: not what kubectl prints: it is empty or breaks off; make it with: kubectl get",
    ),
    (
        "explain node n1 --from empty",
        5,
        "empty is not what kubectl prints: it is empty or breaks off\n  make it",
    ),
    ("agent restore --state-dir none", 4, "none: there is no journal\n  has an agent run here?"),
    ("compute inventory --placement-url nourl", 2, "--placement-url must begin with http:// or https://"),
    (
        "compute schedule --flavor {flavor} --hosts hosts --host c",
        4,
        "there is no host c\n  there are a, b",
    ),
    ("compute delete x --hosts hosts --host c", 4, "there is no host c\n  there are a, b"),
    ("up --scenario empty", 5, "scenario empty: cannot be used\n  line 1"),
]


@pytest.mark.parametrize(("call", "code", "said"), CASES)
def test_bad_call_says_what_is_wrong_and_remedy(
    call: str, code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").touch()
    (tmp_path / "nothing").write_text('{"items": []}')
    (tmp_path / "binary").write_bytes(b"\xff\xfe\0")
    shutil.copytree(INPUTS / "compute" / "hosts", tmp_path / "hosts")
    words = call.format(dump=DUMP, flavor=FLAVOR).replace("''", "EMPTY").split()
    with pytest.raises(SystemExit) as end:
        main(["" if word == "EMPTY" else word for word in words])
    assert said in capsys.readouterr().err
    assert end.value.code == code
    assert not (tmp_path / "none").exists()


def test_guest_goes_to_the_named_host_among_many(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hosts = shutil.copytree(INPUTS / "compute" / "hosts", tmp_path / "hosts")
    for name in ("a", "b"):
        with pytest.raises(SystemExit) as end:
            main(["compute", "schedule", "--flavor", str(FLAVOR), "--hosts", str(hosts), "--host", name])
        assert end.value.code == 0
        assert f"host {name}" in capsys.readouterr().out


@pytest.mark.parametrize("context", list(contexts()), ids=lambda context: context.command_path)
def test_help_cuts_no_sentence_and_explains_every_option(context: click.Context) -> None:
    _, _, commands = context.get_help().partition("\nCommands:\n")
    assert "..." not in commands
    options = [each for each in context.command.params if isinstance(each, click.Option)]
    assert [each.opts[0] for each in options if not each.help] == []
