"""The burst of the documents: the more counterweights count in, the fewer pods are on one node."""

from __future__ import annotations

import pytest

from experiments.interference_burst import burst
from experiments.interference_burst.burst import AT_ONCE, PODS, WAYS, run


def test_sixty_pods_spread_more_as_more_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(burst, "_SNAPSHOTS", 20)
    ended = [run(AT_ONCE, way, seed=2) for way in WAYS]
    nothing, score, both, tolerance, curve = (each.most for each in ended)
    assert nothing > score >= both > tolerance >= curve
    assert all(len(each.fullest) == PODS for each in ended)
    assert not any(each.unplaced for each in ended)
    assert ended[-1].latency < ended[0].latency
    assert ended[-1].lost < 0.01
