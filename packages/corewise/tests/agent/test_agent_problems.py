"""A problem is said once, again when it changes, and when it is over."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.fake_node import FakeNode, container, pod
from corewise.agent.cgroups import NodeCgroups
from corewise.agent.executor import Rehearsal
from corewise.agent.local_node import LocalNode
from corewise.agent.problems import ProblemLog
from corewise.kernel.cgroups.layout import Version
from corewise.kernel.cgroups.resources import read_bandwidth
from corewise.kernel.writing.journal import MemoryLog
from corewise.quantities import Microseconds
from corewise.vocabulary.names import AMPLIFICATION_RATIO, NORMALIZATION_RATIO
from kernel.cgroup_writes import write_quota

WEB = pod("web", container("a", "1"))


@pytest.fixture
def said() -> Iterator[list[str]]:
    lines: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(f"{record.levelname} {record.getMessage()}")

    logger, listener = logging.getLogger("corewise.agent.problems"), Listener()
    before = logger.level
    logger.addHandler(listener)
    logger.setLevel(logging.INFO)
    yield lines
    logger.removeHandler(listener)
    logger.setLevel(before)


def test_a_problem_that_stays_is_said_once(said: list[str]) -> None:
    problem_log = ProblemLog("n1")
    for problems in ({"a": "broken"}, {"a": "broken"}, {"a": "broken", "b": "too"}, {"a": "worse"}, {}):
        problem_log.update("quotas", problems)
    assert said == [
        "WARNING quotas: broken",
        "WARNING quotas: too",
        "WARNING quotas: worse",
        "INFO quotas: no longer a problem: b",
        "INFO quotas: no longer a problem: a",
    ]
    assert problem_log.count("quotas") == 0


def local_node(root: Path) -> LocalNode:
    return LocalNode("n1", root, NodeCgroups(root, "/", MemoryLog(), now=lambda: 1.0))


def test_unwritable_cgroup_is_reported_once_with_its_errno(tmp_path: Path, said: list[str]) -> None:
    node = FakeNode(tmp_path)
    node.start(WEB)
    node.path(WEB, "a").unlink()
    node.path(WEB, "a").mkdir()
    local = local_node(tmp_path)
    local.see({NORMALIZATION_RATIO: "1.50", AMPLIFICATION_RATIO: '{"cpu":1.50}'})
    for _ in range(3):
        local.cycle([WEB])
    (line,) = said
    assert str(node.path(WEB, "a")) in line
    assert "EISDIR" in line
    assert node.quota(WEB) == 66_667


@pytest.mark.parametrize("amplified", [None, '{"cpu":1.20}', '{"memory":2.00}'])
def test_normalized_but_unamplified_node_is_warned_and_divided(
    tmp_path: Path, said: list[str], amplified: str | None
) -> None:
    node = FakeNode(tmp_path)
    node.start(WEB)
    local = local_node(tmp_path)
    annotations = {} if amplified is None else {AMPLIFICATION_RATIO: amplified}
    local.see({NORMALIZATION_RATIO: "1.50", **annotations})
    local.cycle([WEB])
    (line,) = said
    assert "normalized by 1.50 but amplified by" in line
    assert node.quota(WEB, "a") == 66_667


@pytest.mark.parametrize("version", Version)
def test_rehearsal_shows_the_result_and_writes_nothing(tmp_path: Path, version: Version) -> None:
    node = FakeNode(tmp_path, version)
    node.start(WEB)
    rehearsal, cgroup = Rehearsal(node.files), node.cgroup(WEB, "a")
    write_quota(rehearsal, cgroup, Microseconds(50_000))
    assert read_bandwidth(rehearsal, cgroup).quota == 50_000
    write_quota(rehearsal, cgroup, None)
    assert read_bandwidth(rehearsal, cgroup).quota is None
    assert node.quota(WEB, "a") == 100_000


def test_rehearsal_shows_a_period_written_with_its_quota(tmp_path: Path) -> None:
    node = FakeNode(tmp_path, Version.V2)
    node.start(WEB)
    rehearsal, cgroup = Rehearsal(node.files), node.cgroup(WEB, "a")
    rehearsal.write(cgroup, "cpu.max", "500000 1000000")
    assert rehearsal.read(cgroup, "cpu.max") == "500000 1000000"
    write_quota(rehearsal, cgroup, None)
    assert rehearsal.read(cgroup, "cpu.max") == "max 1000000"
