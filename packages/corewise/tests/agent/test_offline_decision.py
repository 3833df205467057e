"""What is done to offline pods in each state of the settings and the Node."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from corewise.agent.offline_decision import Measurement, NodeColocation, halfway_step, next_step
from corewise.config.colocation import OversubscriptionSettings, SuppressionMode, SuppressionSettings
from corewise.quantities import Share
from corewise.suppression.offer import Offer, OfflineAmounts
from corewise.vocabulary.offline_report import OfferState

ONE_QUOTA = SuppressionSettings()
PER_POD = SuppressionSettings(mode=SuppressionMode.PER_POD_QUOTA)
OFF = SuppressionSettings(enabled=False)
NODE = NodeColocation(OversubscriptionSettings(), ONE_QUOTA, on=True, allocatable=OfflineAmounts(16_000, 0))
OFFER = Offer(4000, 0, OfferState.FRESH, 1, 0, None, 0.0)


@pytest.mark.parametrize(
    ("on", "suppression", "suppresses", "gives_back", "is_sampled"),
    [
        (True, ONE_QUOTA, True, False, True),
        (True, PER_POD, True, False, True),
        (True, OFF, False, True, True),
        (True, None, False, False, True),
        (False, ONE_QUOTA, False, True, False),
        (False, PER_POD, True, False, True),
        (False, OFF, False, True, False),
        (False, None, False, True, False),
        (None, ONE_QUOTA, False, False, False),
        (None, PER_POD, False, False, False),
        (None, None, False, False, False),
    ],
)
def test_settings_and_label_decide_what_is_held(
    on: bool | None,
    suppression: SuppressionSettings | None,
    suppresses: bool,
    gives_back: bool,
    is_sampled: bool,
) -> None:
    node = replace(NODE, on=on, suppression=suppression)
    assert (node.mode is not None, node.gives_back, node.is_sampled) == (suppresses, gives_back, is_sampled)
    step = next_step(node, Measurement(OFFER, utilization=Fraction(1, 2)))
    assert (step is not None) is suppresses
    assert step is None or (step.settings, step.utilization) == (suppression, Fraction(1, 2))


@pytest.mark.parametrize("node", [replace(NODE, oversubscription=None), replace(NODE, allocatable=None)])
def test_nothing_is_sampled_without_settings_or_amounts(node: NodeColocation) -> None:
    assert not node.is_sampled


@pytest.mark.parametrize(
    ("node", "quota_milli", "steps"),
    [
        (NODE, 4800, True),  # half a step of 5 % of 16 CPUs above the offer
        (NODE, 4799, False),
        (NODE, None, False),
        (replace(NODE, suppression=PER_POD), 16_000, False),
        (replace(NODE, on=False), 16_000, False),
    ],
)
def test_halfway_step_only_lowers_one_quota(
    node: NodeColocation, quota_milli: int | None, steps: bool
) -> None:
    step = halfway_step(node, OFFER, quota_milli)
    assert (step is not None) is steps
    assert step is None or step.settings.adjust_step == Share(ONE_QUOTA.adjust_step.ten_thousandths // 2)
