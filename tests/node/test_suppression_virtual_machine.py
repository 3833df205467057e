"""On a real kernel with cgroup v2, offline pods are held back as they are on v1 and on simulated nodes.

One machine is booted once, and everything observed in it (``node.guest.suppression``); the tests judge what
was seen. Load and time are stated there: how busy processes fare in an emulated machine is measured by hand
(``experiments.suppression_proof``).
"""

from __future__ import annotations

from itertools import pairwise

import pytest

from node.guest.records import Observations
from node.suppression_machine import MACHINE, OPTIONS
from node.unpacking import Unavailable
from node.virtual_machines import observed, tools
from real_load.stated_node import ROOMY, STEP, TIGHT


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Observations:
    try:
        return observed(MACHINE, tools(), tmp_path_factory.mktemp(MACHINE.name))
    except Unavailable as reason:
        pytest.skip(str(reason))


def quotas(seen: Observations, name: str) -> list[int | None]:
    return seen.get(name, list[int | None])


def test_quotas_follow_a_load_step_and_its_return(seen: Observations) -> None:
    quiet, busy, again = (quotas(seen, f"steps/{name}") for name in ("quiet", "busy", "quiet again"))
    assert (quiet[-1], busy[-1], again[-1]) == (ROOMY, TIGHT, ROOMY)
    assert busy[:2] == [ROOMY - STEP, ROOMY - 2 * STEP]
    assert again[:2] == [TIGHT + STEP, TIGHT + 2 * STEP]
    steps = [abs((after or 0) - (before or 0)) for before, after in pairwise([*quiet, *busy, *again])]
    assert max(steps) == STEP


def test_successor_of_a_killed_agent_continues_from_there(seen: Observations) -> None:
    assert seen.get("killed", int) == ROOMY
    assert quotas(seen, "followed") == [ROOMY] * 3


@pytest.mark.parametrize(
    ("name", "written", "repaired"),
    [("max", None, ROOMY), ("less", 500, ROOMY), ("a period", None, ROOMY)],
)
def test_foreign_writes_are_repaired_next_tick_and_counted(
    seen: Observations, name: str, written: int | None, repaired: int
) -> None:
    assert quotas(seen, f"writers/{name}/written") == [written]
    assert quotas(seen, f"writers/{name}/repaired") == [repaired, repaired]
    assert seen.get(f"writers/{name}/counted", int) == 1


@pytest.mark.parametrize("option", OPTIONS)
def test_ending_restores_every_file_as_found(seen: Observations, option: str) -> None:
    kubelets, limited, suppressed, disabled, restored = (
        seen.get(f"ends/{option}/{name}", dict[str, str])
        for name in ("kubelet's", "limited", "suppressed", "disabled", "restored")
    )
    assert suppressed != limited != kubelets
    assert disabled == limited
    assert restored == kubelets


THOUSANDS = 1_000
MARKED = {
    "kubelet's": (800, 400, 800, 400),
    "busy": (240, 120, 800, 400),
    "quiet": (800, 400, 800, 400),
    "busy again": (560, 280, 800, 400),
    "ratio": (560, 280, 640, 320),
    "busy under a ratio": (240, 120, 640, 320),
    "ratio gone": (240, 120, 800, 400),
    "busy without it": (240, 120, 800, 400),
    "restored": (800, 400, 800, 400),
}
"""Quota and burst of a pod marked offline, then of its container, in ms per 100 ms: a CPU is 100."""


@pytest.mark.parametrize("step", MARKED)
def test_option_2_bounds_and_restores_a_marked_pod(seen: Observations, step: str) -> None:
    """The pod is lowered, its container only divided; a burst above its quota would be refused."""
    pod, burst, container, container_burst = (each * THOUSANDS for each in MARKED[step])
    assert seen.get(f"marked/{step}", dict[str, list[str]]) == {
        "pod": [f"{pod} 100000", str(burst)],
        "container": [f"{container} 100000", str(container_burst)],
    }


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        pytest.param(
            "busy", [720, 640, 560, 480, 400, 320, 240, 240, 240, 240], id="from 94 % to below 60 %"
        ),
        pytest.param(
            "quiet", [320, 400, 480, 560, 640, 720, 800, 800, 800, 800], id="from 28 % to the limit"
        ),
        pytest.param("busy under a ratio", [496, 432, 368, 304, 240, 240, 240, 240], id="a tenth of 640"),
    ],
)
def test_option_2_moves_by_limit_tenths_and_settles(
    seen: Observations, step: str, expected: list[int]
) -> None:
    assert quotas(seen, f"marked/quotas/{step}") == [each * THOUSANDS for each in expected]
