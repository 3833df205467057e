"""Suppressed pods stay suppressed whatever fails or is unknown for a while."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.fake_node import container, pod
from agent.offline_node import OfflineNode, batch_container, offline_pod
from agent.test_offline_controller import JOB, NATIVE, OFF, PER_POD, STEPPED, Kept, limits
from corewise.agent.offline_limits import AGAIN_AFTER
from corewise.kernel.cgroups.layout import Version
from corewise.quantities import Seconds
from corewise.vocabulary.names import OVERSUBSCRIPTION
from kernel.full_log import FullLog

HIGH, LOW = 15_000, 3_000
"""Milli-CPU of 16: above the high threshold, and below the one to recover."""


@pytest.fixture(params=Version)
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Kept:
    kept = Kept(OfflineNode(tmp_path, request.param), FullLog())
    kept.labels, kept.suppression = {}, PER_POD
    kept.start(JOB, NATIVE)
    for _ in range(4):
        kept.tick(online=HIGH)
    assert kept.milli_of(JOB) == 3600
    return kept


def room(kept: Kept, calls: int | None) -> None:
    assert isinstance(kept.log, FullLog)
    kept.log.room = calls


@pytest.mark.parametrize(("online", "after"), [(HIGH, 3000), (3000, 4200)])
def test_full_journal_holds_quotas_where_they_are(kept: Kept, online: int, after: int) -> None:
    before = limits(kept, NATIVE)
    room(kept, 0)
    for _ in range(2 * AGAIN_AFTER // 10):
        assert kept.tick(online=online).problems
        assert (kept.milli_of(JOB), limits(kept, NATIVE)) == (3600, before)
    room(kept, None)
    kept.tick(online=online)
    assert kept.milli_of(JOB) == after


@pytest.mark.parametrize("calls", [0, 1, 2, 3])
def test_pod_that_cannot_be_journaled_frees_no_other(kept: Kept, calls: int) -> None:
    before = limits(kept, NATIVE)
    kept.start(offline_pod("new", batch_container("a", limit=1000)))
    room(kept, calls)
    assert kept.tick(online=HIGH).problems
    assert (kept.milli_of(JOB), limits(kept, NATIVE)) == (3600, before)
    room(kept, None)
    kept.tick(online=HIGH)
    assert kept.milli_of(JOB) == 3000


@pytest.mark.parametrize("resize", ["Deferred", "Infeasible"])
def test_pod_moves_within_its_limits_while_resize_waits(kept: Kept, resize: str) -> None:
    bounded = "a" if kept.node.machine.version is Version.V1 else ""
    spec = pod("native", container("a", "6", "1"), container("b", "1")).spec
    kept.pods = [JOB, replace(NATIVE, spec=spec, status=replace(NATIVE.status, resize=resize))]
    kept.restart()
    kept.tick(online=HIGH)
    assert (kept.milli_of(NATIVE, bounded), kept.milli_of(JOB)) == (1500 if bounded else 2000, 3000)
    for _ in range(10):
        kept.tick(online=LOW)
    assert limits(kept, NATIVE) == (4000, 3000, 1000)
    kept.tick(online=HIGH)
    assert kept.milli_of(NATIVE, bounded) == (2700 if bounded else 3600)
    kept.pods = [JOB, NATIVE]
    kept.tick(online=HIGH)
    kept.suppression = OFF
    kept.settle()
    assert limits(kept, NATIVE) == (4000, 3000, 1000)


def test_cgroup_unreadable_for_a_moment_stays_bounded(kept: Kept) -> None:
    path = kept.node.machine.path(JOB)
    text = path.read_text()
    path.write_text("nonsense\n")
    kept.restart()
    kept.tick(online=HIGH)
    path.write_text(text)
    kept.tick(online=8000)
    assert kept.milli_of(JOB) == 3600


def test_quota_moves_one_step_after_refused_writes(kept: Kept) -> None:
    path = kept.node.machine.path(JOB)
    text = path.read_text()
    path.write_text("nonsense\n")
    for _ in range(3):
        kept.tick(online=HIGH)
    path.write_text(text)
    kept.tick(online=HIGH)
    assert kept.milli_of(JOB) == 3000


@pytest.mark.parametrize("labels", [{}, {OVERSUBSCRIPTION: "true"}], ids=["not offering", "offering"])
def test_pods_are_suppressed_without_oversubscription_settings(kept: Kept, labels: Mapping[str, str]) -> None:
    kept.labels, kept.interval = labels, None
    kept.restart()
    tick = kept.tick(online=HIGH)
    assert (kept.milli_of(JOB), tick.report, tick.problems) == (3000, None, {})
    assert not kept.controller.awaits_first_sample


def test_offering_node_that_cannot_be_sampled_awaits_nothing(kept: Kept) -> None:
    kept.labels, kept.suppression, kept.interval = {OVERSUBSCRIPTION: "true"}, STEPPED, None
    kept.restart()
    awaits = []
    for interval in (None, Seconds(10), Seconds(10)):
        kept.interval = interval
        kept.tick(online=HIGH)
        awaits.append(kept.controller.awaits_first_sample)
    assert awaits == [False, True, False]
