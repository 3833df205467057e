"""What ``make explore`` prints of a counterexample can be pasted and fails again; it counts what was done."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from every_case import Tried
from schedules import Schedule, explore
from tools.explore.__main__ import ROOT
from tools.explore.exhaustive import counts_of
from tools.explore.plugin import Ran

Decorator = Callable[[Callable[..., None]], Callable[..., None]]
TESTS = """
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from tally import fault, step

@pytest.mark.parametrize("base", [7])
@given(xs=st.lists(st.integers()), ys=st.lists(st.integers()))
@settings(max_examples=200)
def test_lists(tmp_path_factory, base, xs, ys):
    assert len(xs) < 2 or not ys

class Machine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.n = 0

    @rule(by=st.integers(1, 3))
    def add(self, by):
        self.n += by
        assert self.n < 5

TestMachine = Machine.TestCase

@given(st.integers())
@settings(max_examples=30)
def test_passes(x):
    step("flood" if x else None)
    fault("fire")

def test_that_draws_nothing():
    raise AssertionError
"""


def explored(folder: Path, text: str = TESTS, *, until: float | None = None) -> dict[str, Ran]:
    (folder / "conftest.py").write_text((ROOT / "conftest.py").read_text())
    (folder / "test_drawn.py").write_text(text)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tools.explore.plugin"),
            *("-m", "hypothesis", "--hypothesis-seed=1", f"--explore-until={until or time.time() + 600}"),
            *(f"--explore-out={folder / 'out'}", "-c", ROOT / "pyproject.toml", folder),
        ],
        cwd=ROOT,
        env={"COREWISE_EXPLORE": "1"},
        capture_output=True,
        check=False,
    )
    assert done.returncode in {0, 1}, done.stdout
    return {ran.test.partition("::")[2]: ran for ran in read(folder / "out")}


def read(path: Path) -> Iterator[Ran]:
    for line in path.read_bytes().splitlines() if path.exists() else ():
        document = msgspec.json.decode(line)
        if "begun" not in document:
            yield msgspec.convert(document, Ran)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ran]:
    return explored(tmp_path_factory.mktemp("explored"))


def test_only_tests_that_draw_inputs_run_and_count(ran: dict[str, Ran]) -> None:
    assert set(ran) == {"test_lists[7]", "TestMachine::runTest", "test_passes"}
    passed = ran["test_passes"]
    assert (passed.inputs, passed.failure) == (30, "")
    assert passed.faults["fire"] == 30
    assert passed.steps == 30
    assert 0 < passed.faults["flood"] <= 30
    assert ran["TestMachine::runTest"].steps >= ran["TestMachine::runTest"].inputs > 0


def test_machine_counterexample_is_a_test_to_paste(ran: dict[str, Ran]) -> None:
    text = ran["TestMachine::runTest"].failure.partition("\n\n")[0]
    namespace: dict[str, Any] = {}
    exec(TESTS + text, namespace)  # noqa: S102 - what is printed is to be pasted
    with pytest.raises(AssertionError):
        namespace["test_counterexample"]()


def test_test_counterexample_is_an_example_of_drawn_inputs(ran: dict[str, Ran]) -> None:
    text, *_, command = ran["test_lists[7]"].failure.split("\n\n")
    decorator: Decorator = eval(text.partition("#")[0].removeprefix("@"), {"example": example})  # noqa: S307 - as above
    seen: list[object] = []

    @settings(max_examples=1)
    @decorator
    @given(xs=st.lists(st.integers()), ys=st.lists(st.integers()))
    def pasted(xs: list[int], ys: list[int]) -> None:
        seen.append((xs, ys))

    pasted()
    assert seen[0] == ([0, 0], [0])
    assert command.startswith("COREWISE_EXPLORE=1 .venv/bin/pytest '")
    assert command.endswith("test_lists[7]' --hypothesis-seed=1")


def test_the_same_seed_finds_the_same(ran: dict[str, Ran], tmp_path: Path) -> None:
    again = explored(tmp_path)
    assert [each.inputs for each in again.values()] == [each.inputs for each in ran.values()]


def test_no_test_begins_after_the_end(tmp_path: Path) -> None:
    assert explored(tmp_path, until=1.0) == {}


def test_one_profile_decides_how_all_tests_draw_inputs() -> None:
    setting = re.compile(r"\b(derandomize|database|load_profile)\b *[=(]")
    found = {
        path.name
        for path in (
            ROOT / "conftest.py",
            *ROOT.glob("tests/**/*.py"),
            *ROOT.glob("packages/*/tests/**/*.py"),
        )
        if "hypothesis" in (text := path.read_text()) and setting.search(text)
    }
    assert found == {"conftest.py"}


def test_counts_of_one_domain_are_added() -> None:
    tried = [Tried("ledger", {"states": 1000 * number}, 0.6 * number, ["bind", "look"]) for number in (1, 2)]
    *_, row = counts_of(tried)
    assert row == "| ledger | 3,000 states | 2 | bind > look |"


def test_exhaustive_run_reports_what_each_test_tried(tmp_path: Path) -> None:
    (tmp_path / "test_cases.py").write_text(
        "from every_case import WHOLE, Stopwatch\n"
        "def test_cases() -> None:\n    Stopwatch('cases').report(cases=7 if WHOLE else 1)\n"
    )
    command = [sys.executable, "-m", "tools.explore", "--exhaustive", str(tmp_path / "test_cases.py")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, "| cases | 7 cases | 0 |  |" in done.stdout) == (0, True), done.stderr


def test_every_schedule_is_tried_once() -> None:
    tried: list[tuple[str, ...]] = []

    def run(schedule: Schedule) -> None:
        for _ in range(2):
            schedule.choose(["a", "b"], lambda: tuple(schedule.taken))
        tried.append(tuple(schedule.names))

    found = explore(run)
    assert tried == [("a", "a"), ("a", "b"), ("b", "a"), ("b", "b")]
    assert (found.schedules, found.states) == (4, 3)


@pytest.mark.parametrize(("first", "second", "ends"), [(1, 0, 1), (0, 1, 2), (1, 1, 1)])
def test_state_with_more_faults_left_is_tried_again(first: int, second: int, ends: int) -> None:
    ended: list[int] = []

    def run(schedule: Schedule) -> None:
        left = (first, second)[schedule.choose(["one way", "another"], lambda: "begin")]
        schedule.arrive_at("the same state", left)
        ended.append(left)

    assert (explore(run).states, len(ended)) == (2, ends)


def test_schedule_stops_at_the_first_failure() -> None:
    def run(schedule: Schedule) -> None:
        assert schedule.choose(["right", "wrong", "never tried"], lambda: "begin") == 0

    found = explore(run)
    assert found.failure is not None
    assert (found.schedules, found.failure[0]) == (2, ("wrong",))
