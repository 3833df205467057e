"""``python -m tools.scale.apiserver``: the local API server, filled at the start, that can lose a watch.

Commands, one a line, on standard input:

    cut          break the connection of one watch of a corewise program, as a failing network does
    replay RATE  store so many nodes a second anew with fresh heartbeats, without a request: their watchers
                 see what they see when a kubelet's write is stored, whatever this server can take
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import random
import sys
import time
from pathlib import Path

from corewise.kube.clock import SYSTEM_CLOCK, rfc3339
from kubedouble.server import LocalAPIServer, serve
from kubedouble.store import HISTORY, Store
from tools.scale import filling

_PROGRAMS = "system:serviceaccount:"
_TICK = 0.1
_HISTORY_OF_A_POD = 0.25
"""Changes to remember for each pod: 1 % are replaced a minute, by five writes, and a kube-apiserver remembers
five minutes (``--etcd-compaction-interval``)."""


class Replay:
    """Stores nodes anew, ``rate`` a second, one after the other."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.rate = 0.0

    async def run(self) -> None:
        """Store them until cancelled."""
        names = [stored.key[1] for stored in self._store.table("nodes").scan()]
        at, due, last = 0, 0.0, time.monotonic()
        while True:
            await asyncio.sleep(_TICK)
            now = time.monotonic()
            due, last = due + (now - last) * self.rate, now
            while due >= 1:
                self._store_anew(names[at % len(names)])
                at, due = at + 1, due - 1

    def _store_anew(self, name: str) -> None:
        stored = self._store.get("nodes", "", name)
        if stored is not None:
            node, now = stored.object, rfc3339(SYSTEM_CLOCK.now())
            conditions = [{**each, "lastHeartbeatTime": now} for each in node["status"]["conditions"]]
            self._store.put(
                "nodes", stored.key, {**node, "status": {**node["status"], "conditions": conditions}}
            )


def _cut(server: LocalAPIServer, draw: random.Random) -> None:
    watches = [each for each in server.cluster.watches if each.user.startswith(_PROGRAMS)]
    if watches:
        lost = draw.choice(watches)
        lost.cut()
        print(f"lost a watch of {lost.user}", flush=True)


async def main(nodes: int, pods: int, kubeconfig: Path) -> None:
    """Serve until standard input ends."""
    draw = random.Random(0)  # noqa: S311 - guards nothing
    async with serve(name="corewise", history=max(HISTORY, int(_HISTORY_OF_A_POD * pods))) as server:
        gc.disable()
        for storage, item in filling.objects(nodes, pods):
            meta = item["metadata"]
            server.store.put(storage, (meta.get("namespace", ""), meta["name"]), item)
        server.store.forget()
        gc.freeze()
        gc.enable()
        replay = Replay(server.store)
        replaying = asyncio.create_task(replay.run())
        server.write_kubeconfig(kubeconfig)
        while line := await asyncio.to_thread(sys.stdin.readline):
            match line.split():
                case ["cut"]:
                    _cut(server, draw)
                case ["replay", rate]:
                    replay.rate = float(rate)
        replaying.cancel()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--pods", type=int, required=True)
    parser.add_argument("--kubeconfig-out", type=Path, required=True)
    given = parser.parse_args()
    asyncio.run(main(given.nodes, given.pods, given.kubeconfig_out))
