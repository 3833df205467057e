"""Shells complete commands, options and values; kubectl runs corewise as a plugin and completes it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click
import pytest
import yaml
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from commands.command_tree import contexts
from corewise.cli import COMMANDS, completers, completion, corewise, main
from corewise.vocabulary.reasons import Reason
from corewise_lab.scenario import packaged_scenarios
from golden.cluster import running_cluster
from golden.transcripts import INPUTS
from kubectl import KUBECTLS

ROOT = Path(__file__).parents[2]
SCRIPTS = tomllib.loads((ROOT / "packages/corewise/pyproject.toml").read_text())["project"]["scripts"]


def completed(line: str) -> list[str]:
    """Return the shell's completions of these words; the last one is not finished."""
    *words, incomplete = line.split(" ")
    found = ShellComplete(corewise, {}, "corewise", "").get_completions(words, incomplete)
    return [item.value for item in found]


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    objects = INPUTS / "clusters" / "looked-at.json"
    with running_cluster(tmp_path_factory.mktemp("cluster"), objects) as cluster:
        yield cluster.kubeconfig


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_asks_corewise(shell: str) -> None:
    script = CliRunner().invoke(corewise, ["completion", shell])
    assert script.exit_code == 0
    assert f"_COREWISE_COMPLETE={shell}_complete" in script.stdout


def test_help_shows_each_shells_command_on_own_line() -> None:
    lines = [line.split() for line in CliRunner().invoke(corewise, ["completion", "-h"]).stdout.splitlines()]
    for shell in ("bash", "zsh", "fish"):
        assert [f"{shell}:", "corewise", "completion", shell, ">"] in [line[:5] for line in lines]


IN_SHELLS = {
    "bash": (
        "complete() {{ :; }}; compopt() {{ echo files; }}; source <(corewise completion bash)\n"
        "COMP_WORDS=({line} '{last}'); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n"
        "_corewise_completion corewise\n"
        'echo "${{COMPREPLY[@]}}"'
    ),
    "zsh": (
        "compdef() {{ :; }}; _path_files() {{ echo files; }}; compadd() {{ print $completions; }}\n"
        "_describe() {{ print -l $completions_with_descriptions; }}; source <(corewise completion zsh)\n"
        "words=({line} '{last}'); CURRENT=$#words; _corewise_completion corewise"
    ),
    "fish": "corewise completion fish | source; complete -C '{line} {last}'",
}


@pytest.mark.parametrize("shell", IN_SHELLS)
def test_a_real_shell_completes_with_the_script(shell: str, tmp_path: Path) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"there is no {shell} here")
    command = tmp_path / "corewise"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m corewise "$@"\n')
    command.chmod(0o755)
    (tmp_path / "kubeconfig").touch()
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)}

    def offered(line: str, last: str) -> str:
        script = IN_SHELLS[shell].format(line=line, last=last)
        done = subprocess.run(
            [program, "-c", script],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stderr == ""
        return done.stdout.strip()

    nodes = {
        "bash": "nodes",
        "zsh": f"nodes:{COMMANDS['nodes'][1]}",
        "fish": f"nodes\t{COMMANDS['nodes'][1]}",
    }
    assert offered("corewise", "nod") == nodes[shell].replace("raw:", "raw\\:")
    assert offered("corewise explain reason", "UnknownC") == "UnknownCPUModel"
    assert offered("corewise nodes --kubeconfig", "kubec") == ("kubeconfig" if shell == "fish" else "files")


def test_commands_are_completed_without_importing_them() -> None:
    program = (
        "import sys\nfrom click.shell_completion import ShellComplete\nfrom corewise.cli import corewise\n"
        "found = ShellComplete(corewise, {}, 'corewise', '').get_completions([], '')\n"
        "assert {item.value for item in found} >= {'nodes', 'top', 'completion'}, found\n"
        "sys.exit(any(name.startswith('corewise.cli.node') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_nodes_and_pods_of_the_cluster_are_completed(kubeconfig: Path) -> None:
    given = f"--kubeconfig {kubeconfig} "
    assert completed(f"explain node {given}s") == ["silent", "slow", "strange"]
    assert completed(f"explain suppression {given}fa") == ["fast"]
    assert completed(f"explain pod {given}default/pe") == ["default/pending"]
    assert completed(f"explain pod {given}pe") == ["pending"]
    assert completed(f"explain pod {given}pending --node fa") == ["fast"]


def test_unreachable_cluster_completes_nothing_silently(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = tmp_path / "nobody"
    nobody.write_text(
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\nusers: [{name: u, user: {}}]\n"
        "contexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n"
    )
    monkeypatch.setattr(completers, "PATIENCE_SECONDS", 0.3)
    for kubeconfig in (str(tmp_path / "none"), str(nobody)):
        assert completed(f"explain node --kubeconfig {kubeconfig} ") == []
    assert capfd.readouterr() == ("", "")


def test_dump_objects_and_kubeconfig_contexts_are_completed(kubeconfig: Path) -> None:
    dump = INPUTS / "plan" / "dump.json"
    nodes = [each for each in json.loads(dump.read_text())["items"] if each["kind"] == "Node"]
    assert completed(f"explain node --from {dump} ") == sorted(each["metadata"]["name"] for each in nodes)
    assert completed(f"explain pod --from {dump} shop/ap") == ["shop/api"]
    assert completed(f"explain node --from {kubeconfig} ") == []
    contexts = yaml.safe_load(kubeconfig.read_text())["contexts"]
    assert completed(f"nodes --kubeconfig {kubeconfig} --context ") == [each["name"] for each in contexts]
    assert completed("nodes --kubeconfig /nonexistent --context ") == []


def test_hosts_and_guests_of_a_folder_are_completed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    hosts = shutil.copytree(INPUTS / "compute" / "hosts", tmp_path / "hosts")
    flavor = INPUTS / "compute" / "dedicated.json"
    call = f"compute pin --flavor {flavor} --hosts {hosts} --host b --guest web-1"
    pinned = CliRunner().invoke(corewise, call.split())
    assert pinned.exit_code == 0, pinned.output
    capfd.readouterr()
    for command in ("apply", "delete"):
        assert completed(f"compute {command} --hosts {hosts} w") == ["web-1"]
        assert completed(f"compute {command} --hosts {hosts} --host ") == ["a", "b"]
    assert completed(f"compute delete --hosts {tmp_path / 'none'} ") == []
    assert capfd.readouterr() == ("", "")


def every_parameter() -> Iterator[tuple[click.Context, click.Parameter]]:
    """Yield each parameter of each command."""

    for context in contexts():
        for parameter in context.command.params:
            yield context, parameter


FILES = [
    pytest.param(context, parameter, id=f"{context.command_path} {parameter.opts[0]}")
    for context, parameter in every_parameter()
    if re.search(
        "FILE|DUMP|DIR", f"{parameter.metavar}{parameter.make_metavar(context)}{parameter.name}".upper()
    )
    and parameter.name != "scenario"  # names or files
    and not isinstance(parameter.type, click.Choice)
]


@pytest.mark.parametrize(("context", "parameter"), FILES)
def test_file_or_directory_parameter_completes_paths(
    context: click.Context, parameter: click.Parameter
) -> None:
    offered = {item.type for item in parameter.shell_complete(context, "")}
    assert offered & {"file", "dir"}


CHOICES = [
    pytest.param(context, parameter, id=f"{context.command_path} {parameter.opts[0]}")
    for context, parameter in every_parameter()
    if isinstance(parameter.type, click.Choice)
]


@pytest.mark.parametrize(("context", "parameter"), CHOICES)
def test_a_misspelt_choice_is_answered_with_the_nearest(
    context: click.Context, parameter: click.Parameter
) -> None:
    assert isinstance(parameter.type, click.Choice)
    meant = max(parameter.type.choices, key=len)
    with pytest.raises(click.BadParameter, match=f"Did you mean .*'{meant}'") as error:
        parameter.type.convert(f"{meant[:2]}{meant[3:]}x", parameter, context)
    assert len(error.value.message) < 300


def test_scenarios_reasons_and_forms_are_completed() -> None:
    assert completed("explain reason UnknownC") == [Reason.UNKNOWN_CPU_MODEL]
    assert completed("up --scenario ") == [*packaged_scenarios(), "openstack", "outage"]
    assert completed("audit --reason QuotaNor") == [Reason.QUOTA_NORMALIZED]
    assert completed("nodes -o ") == ["table", "wide", "json", "yaml", "csv", "name"]
    assert completed("nodes --sel") == ["--selector"]


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (["compute", "inv"], "inventory\tShow which VCPU and PCPU a host offers, and why not more.\n:4\n"),
        (
            ["top", "--sort", "of"],
            "offline-offered\noffline\noffered\noffered-mem-gib\noffline-lately\n:4\n",
        ),
        (["up", "--scenario", "none.y"], ":0\n"),
    ],
)
def test_kubectl_gets_values_with_help_and_file_directive(
    words: list[str], printed: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["kubectl_complete-corewise", *words])
    completion.complete_for_kubectl()
    shown = capsys.readouterr().out
    assert re.sub(r"(?<=inventory\t).*", "HELP", shown) == re.sub(r"(?<=inventory\t).*", "HELP", printed)


def test_every_script_of_the_package_exists() -> None:
    assert SCRIPTS.keys() == {"corewise", "kubectl-corewise", "kubectl_complete-corewise"}
    for target in SCRIPTS.values():
        module, _, name = target.partition(":")
        assert callable(getattr(import_module(module), name))


def test_kubectl_plugin_usage_and_errors_say_kubectl_corewise(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["/usr/local/bin/kubectl-corewise"])
    for arguments in (["nodes", "--help"], ["nodes", "--kubeconfig", "/nonexistent"]):
        with pytest.raises(SystemExit):
            main(arguments)
    printed = capsys.readouterr()
    assert printed.out.startswith("Usage: kubectl corewise nodes [OPTIONS]")
    assert printed.err.startswith("kubectl corewise: /nonexistent: ")


@pytest.mark.skipif(not KUBECTLS, reason="there is no kubectl here")
def test_the_real_kubectl_finds_the_plugin(tmp_path: Path) -> None:
    plugin = tmp_path / "kubectl-corewise"
    plugin.write_text(f"#!{sys.executable}\nfrom corewise.cli import main\nmain()\n")
    plugin.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = [KUBECTLS[0], "corewise", "explain", "node", "--help"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("Usage: kubectl corewise explain node [OPTIONS] NAME"), done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nods"], "No such command 'nods'. Did you mean 'nodes'?"),
        (["compute", "stats"], "No such command 'stats'. Did you mean 'status'?"),
        (["explain", "nod"], "'node'"),
        (["xyzzy"], "No such command 'xyzzy'.\n"),
        (["nodes", "--slector", "a=b"], "'--selector'"),
    ],
)
def test_a_misspelt_command_or_option_names_the_nearest(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(corewise, arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert ("Did you mean" in result.stderr or "Did you mean" in said) == (arguments != ["xyzzy"])


def test_unknown_scenario_lists_all_with_one_line_each(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["up", "--scenario", "colocatoin"])
    said = capsys.readouterr().err
    assert end.value.code == 5
    assert 'did you mean "colocation"?' in said
    listed = dict(line.split(maxsplit=1) for line in said.splitlines()[2:])
    assert list(listed) == completed("up --scenario ")
    assert all(listed.values())
