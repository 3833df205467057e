"""``python -m experiments.scale.apiserver``: an API server, filled at the start, that can lose a watch.

Commands, one a line, on standard input:

    cut          break the connection of one watch of a corewise program, as a failing network does
    expire       forget all changes, and break the connections of all these watches: each lists again
    replay RATE  store new heartbeats of so many nodes a second, without a request: their watchers see what
                 they see when a kubelet's write is stored, whatever this server can take
    count        print how many heartbeats ``replay`` has stored, and how many watches these programs have
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
from corewise_lab.control_plane import running
from experiments.scale import filling
from kubedouble.cluster import OpenWatch
from kubedouble.server import LocalAPIServer, serve
from kubedouble.store import HISTORY, Store

_PROGRAMS = "system:serviceaccount:"
_TICK = 0.1
_HISTORY_OF_A_POD = 0.25
"""Changes to remember for each pod: 1 % are replaced a minute, by five writes, and a kube-apiserver remembers
five minutes (``--etcd-compaction-interval``)."""


class Replay:
    """Stores new heartbeats, ``rate`` a second, one node after the other, but for the first ``skipped``."""

    def __init__(self, store: Store, skipped: int) -> None:
        self._store = store
        self._skipped = skipped
        self.rate = 0.0
        self.stored = 0

    async def run(self) -> None:
        """Store them until canceled."""
        every = sorted(stored.key[1] for stored in self._store.table("nodes").scan())
        names = every[self._skipped :] or every
        due, last = 0.0, time.monotonic()
        while True:
            await asyncio.sleep(_TICK)
            now = time.monotonic()
            due, last = due + (now - last) * self.rate, now
            while due >= 1:
                self._store_anew(names[self.stored % len(names)])
                self.stored, due = self.stored + 1, due - 1

    def _store_anew(self, name: str) -> None:
        stored = self._store.get("nodes", "", name)
        if stored is not None:
            node, now = stored.object, rfc3339(SYSTEM_CLOCK.now())
            conditions = [{**each, "lastHeartbeatTime": now} for each in node["status"]["conditions"]]
            self._store.put(
                "nodes", stored.key, {**node, "status": {**node["status"], "conditions": conditions}}
            )


def _watches(server: LocalAPIServer) -> list[OpenWatch]:
    """Return the watches of corewise programs."""
    return [each for each in server.cluster.watches if each.user.startswith(_PROGRAMS)]


def _cut(server: LocalAPIServer, number: int | None = None) -> None:
    """Break so many watches of corewise programs, drawn by lot, or all."""
    watches = _watches(server)
    for lost in random.sample(watches, min(len(watches), number or len(watches))):
        lost.cut()
        print(f"lost a watch of {lost.user}", flush=True)


async def _obey(server: LocalAPIServer, replay: Replay) -> None:
    """Obey standard input until it ends."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        match line.decode().split():
            case ["cut"]:
                _cut(server, 1)
            case ["expire"]:
                server.store.forget()
                _cut(server)
            case ["replay", rate]:
                replay.rate = float(rate)
            case ["count"]:
                print(f"stored {replay.stored} watches {len(_watches(server))}", flush=True)


async def main(nodes: int, pods: int, written: int, kubeconfig: Path) -> None:
    """Serve until standard input ends; of the nodes, the first ``written`` have kubelets."""
    async with serve(name="corewise", history=max(HISTORY, int(_HISTORY_OF_A_POD * pods))) as server:
        gc.disable()
        for storage, item in filling.objects(nodes, pods):
            meta = item["metadata"]
            server.store.put(storage, (meta.get("namespace", ""), meta["name"]), item)
        server.store.forget()
        gc.freeze()
        gc.enable()
        replay = Replay(server.store, written)
        server.write_kubeconfig(kubeconfig)
        async with running(replay.run):
            await _obey(server, replay)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--pods", type=int, required=True)
    parser.add_argument("--written", type=int, required=True)
    parser.add_argument("--kubeconfig-out", type=Path, required=True)
    given = parser.parse_args()
    asyncio.run(main(given.nodes, given.pods, given.written, given.kubeconfig_out))
