"""Whatever kubelet, Koordinator and corewise wrote in any order, the next look puts quota and burst right.

By the kernel's rules alone; :mod:`kernel.test_real_cgroup_v1` has the same promises on a kernel.
"""

from __future__ import annotations

import pytest

from corewise.kernel.cgroups.layout import Version
from kernel.burst_orders import SharedPod, check_written, orders, write
from kernel.cgroup_trees import KernelRules, StoredCgroups

POD = "/kubepods/burstable/podx"
CONTAINER = f"{POD}/one"


def shared_pod(version: Version, stored: StoredCgroups | None = None) -> SharedPod:
    return SharedPod(KernelRules(stored or StoredCgroups(version, [CONTAINER])), POD, CONTAINER)


@pytest.mark.parametrize("version", Version)
def test_every_order_of_writes_ends_as_promised(version: Version) -> None:
    """Orders that leave the same files, claims and promises have one future: it is checked once."""
    checked = set()
    for order in orders(3, distinct=4):
        stored = StoredCgroups(version, [CONTAINER])
        pod = shared_pod(version, stored)
        write(pod, order)
        bursts = any(each.startswith("burst") for each in order)
        state = repr((stored.contents, dict(pod.writer.held), pod.base, pod.burst_set, bursts))
        if state not in checked:
            checked.add(state)
            check_written(pod, order)


@pytest.mark.parametrize("version", Version)
def test_resize_that_burst_blocked_succeeds_after_look(version: Version) -> None:
    pod = shared_pod(version)
    pod.set_burst(80)
    pod.look(150)
    assert not pod.resize(50_000), "below the burst that belongs to the old quota"
    assert pod.look(150).failed == {}
    assert (pod.quota(CONTAINER), pod.burst(CONTAINER)) == (33_334, 33_334)
    assert pod.resize(50_000)


@pytest.mark.parametrize("version", Version)
def test_kernel_refuses_a_burst_above_the_divided_quota(version: Version) -> None:
    """So a burst of 100 % of the limit cannot be set on a node that divides; 66 % can, at 1.50."""
    pod = shared_pod(version)
    pod.look(150)
    assert not pod.set_burst(100)
    assert pod.set_burst(66)
    assert pod.look(150).failed == {}
    assert pod.burst(CONTAINER) == 66_000
    pod.writer.restore()
    assert pod.burst(CONTAINER) == 99_000, "the same share of the whole quota"
