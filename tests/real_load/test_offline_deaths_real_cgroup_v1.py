"""An agent that is killed again and again leaves nothing behind that its restore does not put back (v1).

Each life has other settings, another load, and ends with SIGKILL after some milliseconds, wherever it is.
Needs root and a writable v1 hierarchy; skipped elsewhere.
"""

from __future__ import annotations

import os
import random
import signal
import time
import traceback
from functools import partial
from itertools import product
from pathlib import Path

import pytest

from corewise.agent.cgroups import restore
from corewise.config.colocation import Isolation, SuppressionMode, SuppressionSettings
from corewise.kernel.cgroups.layout import Version
from kernel.cgroup_writes import layout_here
from real_load.stated_node import BUSY, FULL, QUIET, StatedNode, stated_node

LAYOUT = layout_here(Version.V1)
pytestmark = pytest.mark.skipif(LAYOUT is None, reason="needs root and a writable cgroup v1 cpu controller")

KILLS, KILLS_PER_RESTORE = 147, 7
LATEST_SECONDS = 0.06
SETTINGS = [
    SuppressionSettings(isolation=isolation, mode=mode)
    for isolation, mode in product(Isolation, SuppressionMode)
]


def test_restore_is_exact_after_many_kills(tmp_path: Path) -> None:
    assert LAYOUT is not None
    draw = random.Random(35)  # noqa: S311 - moments of death, not secrets
    node = stated_node(LAYOUT, tmp_path)
    changed = 0
    try:
        as_kubelet_made_it = node.as_it_is()
        for _ in range(KILLS // KILLS_PER_RESTORE):
            for _ in range(KILLS_PER_RESTORE):
                work = partial(live, node, draw.choice(SETTINGS), draw.randrange(1 << 30))
                assert killed_after(draw.uniform(0, LATEST_SECONDS), work) == signal.SIGKILL
            changed += node.as_it_is() != as_kubelet_made_it
            assert restore(Path("/"), node.journal).failed == {}
            assert node.as_it_is() == as_kubelet_made_it
    finally:
        node.tree.end()
    assert changed


def live(node: StatedNode, settings: SuppressionSettings, seed: int) -> None:
    """Be an agent until killed."""
    draw = random.Random(seed)  # noqa: S311 - loads, not secrets
    node.load.use(0)  # the counters begin again in each child
    agent = node.agent(settings)
    while True:
        node.tick(agent, draw.choice((0, QUIET, BUSY, FULL)))


def killed_after(seconds: float, work: partial[None]) -> int:
    """Run ``work`` in a child process for some seconds; return the signal that ended it."""
    child = os.fork()
    if not child:
        try:
            work()
        except BaseException:  # noqa: BLE001 - whatever it is, this is not the test's own process
            traceback.print_exc()
        finally:
            os._exit(1)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    return -os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
