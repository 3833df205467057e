"""Actions are values: equal if they do the same for the same reason, and never changed."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields

import pytest

from corewise.actions import EmitEvent, NodeAction, PatchNode, RepairNodeStatus, TouchNodeStatus
from corewise.quantities import Quantity
from corewise.vocabulary.reasons import Reason

RAW = {"cpu": Quantity.parse("48")}
ACTIONS: list[NodeAction] = [
    PatchNode("n1", "7", {"a": "1", "b": None}, Reason.RATIOS_WRITTEN, "cpu 1.50"),
    TouchNodeStatus("n1", "42", Reason.STATUS_TOUCHED, "cpu 1.50 takes effect"),
    RepairNodeStatus("n1", "7", RAW, RAW, ("a",), Reason.STATUS_REPAIRED, "status is not raw x ratio"),
    EmitEvent("Node", "", "n1", "uid", Reason.UNKNOWN_CPU_MODEL, "no entry", warning=True),
]


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: type(action).__name__)
def test_every_action_says_why_and_cannot_be_changed(action: NodeAction) -> None:
    assert isinstance(action.reason, Reason)
    assert action.why
    with pytest.raises(FrozenInstanceError):
        action.name = "other"  # type: ignore[misc]  # that it is frozen is what is tested
    values = [getattr(action, each.name) for each in fields(action)]
    assert type(action)(*values) == action
