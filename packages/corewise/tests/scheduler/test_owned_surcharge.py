"""What owned CPUs cost on an amplified node, from the manager's ratio to both schedulers' verdicts.

n1 has 8 CPUs, which the manager offers as 12. A pod that owns 4 of them takes 6: 6 are left for others, where
requests alone would leave 8. kube-scheduler subtracts requests from what the Node offers, so that is 10.
"""

from __future__ import annotations

import json

import pytest

from corewise.manager.options import AmplifyBy
from corewise.vocabulary.cpu_annotations import print_cpu_topology
from corewise.vocabulary.names import CPU_BASIC_INFO, CPU_TOPOLOGY
from engine.scenes import arrangement
from manager.world import FAST, World, eventually, normalization
from scheduler.program_world import SchedulerWorld, caller, pod_document


@pytest.mark.parametrize("by", [AmplifyBy.WEBHOOK, AmplifyBy.POLICY])
async def test_pod_that_fits_only_without_surcharge_is_refused(world: SchedulerWorld, by: AmplifyBy) -> None:
    machines = World(world.server, world.client, world.administrator, world.clock)
    await world.add_node("n1", 8, stated=False)
    facts = {CPU_BASIC_INFO: json.dumps({"cpuModel": FAST}), CPU_TOPOLOGY: print_cpu_topology(arrangement(8))}
    await world.state_topology("n1", facts)
    await machines.configure(normalization=normalization(models={FAST: {"baseRatio": 1.5}}))
    await world.add_pod("owner", cpu="4", qos="LSR")
    async with machines.manager(amplify_by=by), world.scheduler() as scheduler, caller(scheduler) as call:

        async def is_exact() -> bool:
            pods = (pod_document("p", cpu=cpu) for cpu in ("6", "7"))
            sent = [{"Pod": pod, "Nodes": None, "NodeNames": ["n1"]} for pod in pods]
            return ["n1" in (await call("filter", each))[1]["FailedNodes"] for each in sent] == [False, True]

        await machines.kubelet_gets("n1", "12")
        await world.bind("owner", "n1")
        await machines.kubelet_gets("n1", "10")
        await eventually(is_exact)
