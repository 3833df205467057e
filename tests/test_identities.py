"""No test gives a program an administrator's permissions: ``identities`` and the worlds start it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from identities import PROGRAMS

TESTS = Path(__file__).parent
IN_PROCESS = {"run_agent", "run_manager", "run_scheduler", "run_page"}
SIGNS = (*IN_PROCESS, "--kubeconfig")
"""A file without any of these texts starts no program; to parse it takes long."""
AS_ITS_ACCOUNT = {
    "agent/agent_world.py": "kubeconfig_of",
    "commands/test_start_errors.py": "kubeconfig_of",
    "manager/world.py": "kubeconfig_of",
    "scheduler/program_world.py": "kubeconfig_of",
}
"""The files that start programs, and the name by which each gets the ServiceAccount's kubeconfig."""
WITHOUT_A_CLUSTER = {
    "agent/test_agent_program.py": "starts once more with the configuration of its world",
    "agent/test_offline_program.py": "starts once more with the configuration of its world",
    "agent/test_pinning_program.py": "starts once more with the configuration of its world",
    "commands/test_hostile_inputs.py": "its files are refused before anything is asked",
    "cli/test_cli_agent.py": "its kubeconfig does not exist",
    "cli/test_cli_manager.py": "its kubeconfig is empty: options are refused before anything is asked",
    "compute_cli/test_web_hosts.py": "puts a stand-in in the place of run_page",
    "golden/cases.py": "its kubeconfig does not exist",
}


def starts(tree: ast.AST) -> Iterator[str]:
    """Yield the program starts in a file: its function, or its command line with a kubeconfig."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in IN_PROCESS:
            yield node.id
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _commands(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            lines = (line.split() for line in node.value.splitlines())
            yield from (line[0] for line in lines if "--kubeconfig" in line[1:] and line[0] in PROGRAMS)


def _commands(function: ast.AST) -> Iterator[str]:
    """Yield programs that are followed by options or by variables, in a function that says --kubeconfig."""
    nodes = list(ast.walk(function))
    if not any(isinstance(node, ast.Constant) and node.value == "--kubeconfig" for node in nodes):
        return
    calls = [node.args for node in nodes if isinstance(node, ast.Call)]
    for words in calls + [node.elts for node in nodes if isinstance(node, ast.List | ast.Tuple)]:
        for word, after in pairwise(words):
            is_option = not isinstance(after, ast.Constant) or str(after.value).startswith("--")
            if is_option and isinstance(word, ast.Constant) and word.value in PROGRAMS:
                yield str(word.value)


def starters() -> Iterator[tuple[str, str]]:
    """Yield the files that start programs, with their texts."""
    for tests in (TESTS, *TESTS.parent.glob("packages/*/tests")):
        for path in sorted(tests.rglob("*.py")):
            text = path.read_text()
            is_sought = path != Path(__file__) and any(sign in text for sign in SIGNS)
            if is_sought and any(starts(ast.parse(text))):
                yield str(path.relative_to(tests)), text


def test_programs_start_as_their_accounts_alone() -> None:
    found = dict(starters())
    assert set(found) == AS_ITS_ACCOUNT.keys() | WITHOUT_A_CLUSTER.keys()
    assert [path for path, name in AS_ITS_ACCOUNT.items() if f"{name}(" not in found[path]] == []
