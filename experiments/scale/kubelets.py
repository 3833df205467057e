"""``python -m experiments.scale.kubelets``: kubelets of the first machines, until standard input ends.

They report status and renew leases at a kubelet's times; what they have done goes to standard output.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import sys

from corewise.kube.cache import Cache
from corewise.kube.client import Client
from corewise.kube.config import load_config
from corewise_lab.control_plane import running
from corewise_lab.kubelets import SIMULATED_NODES, KubeletFleet
from experiments.scale import filling

_REPORT = 1.0


async def main(kubeconfig: str, nodes: int, count: int) -> None:
    """Run them."""
    async with Client(load_config(kubeconfig, None)) as client:
        cache = Cache(client, SIMULATED_NODES)
        fleet = KubeletFleet(
            client,
            filling.machines(nodes)[:count],
            cached_node=cache.get,
            boot_id=lambda _: "simulated",
        )

        async def report() -> None:
            while True:
                print(json.dumps(dataclasses.asdict(fleet.counters)), flush=True)
                await asyncio.sleep(_REPORT)

        async with running(cache.run, fleet.run, report):
            await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--count", type=int, required=True)
    given = parser.parse_args()
    asyncio.run(main(given.kubeconfig, given.nodes, given.count))
