"""What is remembered of a node between two assessments."""

from __future__ import annotations

from corewise.actions import PatchNode, TouchNodeStatus
from corewise.manager.reconciler import JUST_NOW, STALE_FOR, NodeMemory
from corewise.ratios.decision import assess
from corewise.vocabulary.names import (
    AMPLIFICATION_RATIO,
    recorded_applied,
)
from corewise.vocabulary.reasons import Reason
from ratios.test_assessment_decision import SETTLED, configured, view


def test_cache_is_stale_until_it_shows_the_write() -> None:
    memory, node = NodeMemory(), view()
    patch = PatchNode("n1", "7", {}, Reason.RATIOS_WRITTEN, "")
    memory.wrote(patch, node, "8", 100.0)
    assert memory.stale(node, 101.0)
    assert not memory.stale(node, 100.0 + STALE_FOR)


def test_touch_that_changed_nothing_keeps_the_cache_fresh() -> None:
    memory, node = NodeMemory(), view()
    memory.wrote(TouchNodeStatus("n1", "7", Reason.STATUS_TOUCHED, ""), node, "7", 100.0)
    assert not memory.stale(node, 100.0)
    assert memory.observe(node, 103.0).since_touch == 3


def test_ratio_counts_as_fresh_only_on_correct_status() -> None:
    patch = PatchNode("n1", "7", {AMPLIFICATION_RATIO: '{"cpu":2.00}'}, Reason.RATIOS_WRITTEN, "")
    right, wrong = NodeMemory(), NodeMemory()
    right.assessed(assess(view(), configured()), 0.0)
    wrong.assessed(assess(view(SETTLED), configured()), 0.0)
    for memory in (right, wrong):
        memory.wrote(patch, view(), "8", 1.0)
    assert right.observe(view(), 2.0).ratio_written
    assert not right.observe(view(), 2.0 + JUST_NOW).ratio_written
    assert not wrong.observe(view(), 2.0).ratio_written


def test_the_record_is_as_old_as_its_texts() -> None:
    memory = NodeMemory()
    assert memory.observe(view(SETTLED), 0.0).record == 0
    assert memory.observe(view(SETTLED | {"other": "x"}), 31.0).record == 31
    rewritten = SETTLED | {recorded_applied("capacity", "cpu"): "24"}
    assert memory.observe(view(rewritten), 40.0).record == 0
