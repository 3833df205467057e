"""What is done to offline pods in each state of the settings and the Node."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from corewise.agent.offline_decision import Measurement, NodeColocation, next_step
from corewise.config.colocation import OversubscriptionSettings, SuppressionMode, SuppressionSettings
from corewise.suppression.offer import Offer, OfflineAmounts
from corewise.vocabulary.offline_report import OfferState

ONE_QUOTA = SuppressionSettings()
PER_POD = SuppressionSettings(mode=SuppressionMode.PER_POD_QUOTA)
OFF = SuppressionSettings(enabled=False)
NODE = NodeColocation(OversubscriptionSettings(), ONE_QUOTA, on=True, allocatable=OfflineAmounts(16_000, 0))
ALL = "slice", "pods"
"""What is given back: the bound of the BestEffort cgroup, and those of pods."""
OFFER = Offer(4000, 0, OfferState.FRESH, 1, 0, None, 0.0)


@pytest.mark.parametrize(
    ("on", "suppression", "suppresses", "gives_back", "is_sampled"),
    [
        (True, ONE_QUOTA, True, (), True),
        (True, PER_POD, True, (), True),
        (True, OFF, False, ALL, True),
        (True, None, False, (), True),
        (False, ONE_QUOTA, False, ALL, False),
        (False, PER_POD, True, (), True),
        (False, OFF, False, ALL, False),
        (False, None, False, ("slice",), False),
        (None, ONE_QUOTA, False, (), False),
        (None, PER_POD, False, (), False),
        (None, None, False, (), False),
    ],
)
def test_settings_and_label_decide_what_is_held(
    on: bool | None,
    suppression: SuppressionSettings | None,
    suppresses: bool,
    gives_back: tuple[str, ...],
    is_sampled: bool,
) -> None:
    node = replace(NODE, on=on, suppression=suppression)
    given = ("slice",) if node.keeps_pods_bounds else ALL
    assert (node.mode is not None, node.is_sampled) == (suppresses, is_sampled)
    assert (given if node.gives_back else ()) == gives_back
    step = next_step(node, Measurement(OFFER, utilization=Fraction(1, 2)))
    assert (step is not None) is suppresses
    assert step is None or (step.settings, step.utilization) == (suppression, Fraction(1, 2))


@pytest.mark.parametrize("on", [False, True])
def test_quota_for_each_pod_needs_no_oversubscription_settings(*, on: bool) -> None:
    node = replace(NODE, on=on, suppression=PER_POD, oversubscription=None)
    assert node.is_sampled
    assert not replace(node, allocatable=None).is_sampled


@pytest.mark.parametrize("node", [replace(NODE, oversubscription=None), replace(NODE, allocatable=None)])
def test_nothing_is_sampled_without_settings_or_amounts(node: NodeColocation) -> None:
    assert not node.is_sampled
