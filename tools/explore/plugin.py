"""The pytest plugin of ``make explore``: stops in time, and writes down what each one did.

Lines of JSON go to ``--explore-out``: ``{"begun": test}`` before a test, so that one that never ends is
known, and a :class:`Ran` after it.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from hypothesis.stateful import RuleBasedStateMachine
from hypothesis.statistics import collector

from tally import STEPS, counts, step

TRIED = ("valid", "interesting")
"""How hypothesis calls inputs that reached the end of a test; the others broke off while they were drawn."""
_FAILING = re.compile(r"(?:Failing|Falsifying) (?:test case|example): ")
_ARGUMENT = re.compile(r"^ {4}(?=\w+=)", re.MULTILINE)


class Ran(msgspec.Struct, frozen=True):
    """The result of one test. ``failure`` is what to paste and the error, empty if it passed."""

    test: str
    inputs: int
    steps: int
    faults: dict[str, int]
    failure: str = ""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options for the end of the run and for the output."""
    group = parser.getgroup("explore")
    group.addoption(
        "--explore-until", type=float, help="begin no test after this time, in seconds since 1970"
    )
    group.addoption("--explore-out", help="file to write the figures to")
    group.addoption("--explore-begin", type=float, default=0.0, help="part of the files to begin after")


def pytest_configure(config: pytest.Config) -> None:
    """Begin a round."""
    config.pluginmanager.register(Exploration(config), "exploration")


class Exploration:
    """One round of one process."""

    def __init__(self, config: pytest.Config) -> None:
        self._until: float = config.getoption("--explore-until")
        self._seed = str(config.getoption("--hypothesis-seed"))
        self._out = Path(config.getoption("--explore-out"))
        self._inputs = 0
        self._before: Counter[str] = Counter()
        self._failures: list[str] = []
        pytest.MonkeyPatch().setattr(RuleBasedStateMachine, "check_invariants", _counting_steps())

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """Leave out what would begin too late."""
        return True if time.time() >= self._until else None

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._inputs, self._before, self._failures = 0, counts.copy(), []
        self._write({"begun": nodeid})

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self) -> Generator[None]:
        theirs = cast("Callable[[dict[str, Any]], None] | None", collector.value)

        def count(statistics: dict[str, Any]) -> None:
            phases = (value for key, value in statistics.items() if key.endswith("-phase"))
            cases = (case for phase in phases for case in phase["test-cases"])
            self._inputs += sum(case["status"] in TRIED for case in cases)
            if theirs is not None:
                theirs(statistics)

        with collector.with_value(count):  # type: ignore[arg-type]  # declared by its first value, None
            yield

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.failed and call.excinfo is not None:
            fixed = getattr(item, "fixturenames", ())
            self._failures += [
                *pasteable(call.excinfo.value, fixed),
                f"{call.excinfo.typename}: {call.excinfo.value}",
                f"COREWISE_EXPLORE=1 .venv/bin/pytest '{item.nodeid}' --hypothesis-seed={self._seed}",
            ]
        return report

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        done = counts - self._before
        steps = done.pop(STEPS, 0)
        self._write(Ran(nodeid, self._inputs, steps, dict(done), "\n\n".join(self._failures)))

    def _write(self, line: object) -> None:
        with self._out.open("ab") as file:
            file.write(msgspec.json.encode(line) + b"\n")


def _counting_steps() -> Callable[..., None]:
    """Return a check of invariants that counts: it is made once at the beginning and after each step."""
    check, begun = RuleBasedStateMachine.check_invariants, "_exploration_has_begun"

    def counted(machine: RuleBasedStateMachine, *args: Any, **kwargs: Any) -> None:
        if begun in machine.__dict__:
            step()
        machine.__dict__[begun] = True
        check(machine, *args, **kwargs)

    return counted


def pasteable(error: BaseException, fixed: Iterable[str]) -> list[str]:
    """Return the counterexamples that hypothesis noted on an error, each as Python to paste.

    ``fixed`` are arguments that pytest passes: fixtures and parameters.
    """
    if isinstance(error, BaseExceptionGroup):
        return [text for each in error.exceptions for text in pasteable(each, fixed)]
    notes = list(getattr(error, "__notes__", ()))
    for number, note in enumerate(notes):
        if found := _FAILING.match(note):
            case, more = note[found.end() :], notes[number + 1 :]
            return [_machine_test(more) if case == "<state machine>" else _example(case, more, set(fixed))]
    return []


def _machine_test(notes: list[str]) -> str:
    lines = (line for note in notes for line in note.strip().splitlines())
    body = [f"    {line}" if _is_python(line) else f"    # {line}" for line in lines]
    return "\n".join(["def test_counterexample() -> None:", *body])


def _is_python(line: str) -> bool:
    """Whether a note is a line of the program, and not a value drawn within it or advice."""
    return "=data(...)" not in line and not re.match(r"Draw |You can reproduce ", line)


def _example(case: str, notes: list[str], fixed: set[str]) -> str:
    """Return a decorator for the test: what hypothesis drew, without what pytest passes."""
    _, *arguments = _ARGUMENT.split(case.removesuffix(")"))
    drawn = [f"    {each}" for each in arguments if each.partition("=")[0] not in fixed]
    advice = "".join(f"\n# {line}" for note in notes for line in note.strip().splitlines())
    return "@example(\n" + "".join(drawn) + ")" + advice
