"""A what-if in a process of its own, so that open pages stay quick while all pods are placed twice.

The server sends the cluster's objects as its caches have them, a thousand at a time, and the process answers
with what :func:`corewise.views.page.what_if.try_change` returns. It is killed after ``LIMIT`` seconds, and
when the task that waits for it is canceled. It ends by itself when the server has ended, however that comes:
the kernel then closes the pipe for the answer.

What is sent is one pickle after another: the change and what is not a list of objects, then the name of a
list and some of its objects as MessagePack. That takes a tenth of the time of pickling them, in which open
pages wait.
"""

from __future__ import annotations

import asyncio
import copyreg
import os
import pickle
import select
import sys
import threading
from asyncio.subprocess import PIPE
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, BinaryIO

import msgspec

from corewise.engine.objects import ReportedTopology
from corewise.views.page.what_if import ChangeRefused, LiveObjects, try_change
from corewise.vocabulary.errors import OperationalError
from corewise.workload.nodes import Node
from corewise.workload.pods import Pod

LIMIT = 120.0
"""Seconds that a change may take."""
_AT_ONCE = 1000
_NICE = 5
_DONE, _REFUSED = b"1", b"0"


def _as_dict(view: MappingProxyType[Any, Any]) -> Any:
    return dict, (dict(view),)


copyreg.pickle(MappingProxyType, _as_dict)
_KINDS: Mapping[str, Any] = {
    "nodes": list[Node],
    "topologies": list[ReportedTopology],
    "pods": list[Pod],
    "bound": list[Pod],
}
_NO_LISTS = ("config", "context", "namespace", "used", "rules", "no_config_map")


class ChangeNotTried(OperationalError):  # noqa: N818 - an answer, not a fault
    """The change could not be tried to its end; the text says why."""

    retryable = True


async def tried(body: Mapping[str, Any], live: LiveObjects, *, limit: float = LIMIT) -> msgspec.Raw:
    """Return the result of ``try_change``, as JSON.

    Raises:
        ChangeRefused: as ``try_change``.
        ChangeNotTried: if it takes longer than ``limit`` seconds, or its process ends too early.
    """
    # -P: no module is imported from the folder in which the server was started.
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", __name__, stdin=PIPE, stdout=PIPE
    )
    sending, answer = process.stdin, b""
    assert sending is not None and process.stdout is not None  # noqa: S101, PT018 - both are pipes
    try:
        async with asyncio.timeout(limit):
            with suppress(ConnectionError):  # it has ended; its exit code is reported below
                for each in _pieces(body, live):
                    sending.write(each)
                    await sending.drain()
            sending.close()
            answer = await process.stdout.read()
            await process.wait()
    except TimeoutError:
        raise ChangeNotTried(f"the change takes longer than {limit:.0f} s to try: it was given up") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise ChangeNotTried(f"the process that tried the change ended with code {process.returncode}")
    if answer[:1] == _REFUSED:
        raise ChangeRefused(answer[1:].decode())
    return msgspec.Raw(answer[1:])


def _pieces(body: Mapping[str, Any], live: LiveObjects) -> Iterator[bytes]:
    yield pickle.dumps((body, {name: getattr(live, name) for name in _NO_LISTS}))
    lists: dict[str, Sequence[object]] = {
        "nodes": [*live.nodes.values()],
        "topologies": [*live.topologies.values()],
        "pods": live.pods,
        "bound": [pod for pods in live.pods_of.values() for pod in pods],
    }
    for name, objects in lists.items():
        for start in range(0, len(objects), _AT_ONCE):
            # Maps that many objects share are read-only views of dicts: dict is what encodes them.
            piece = msgspec.msgpack.encode(objects[start : start + _AT_ONCE], enc_hook=dict)
            yield pickle.dumps((name, piece))


def _received(source: BinaryIO) -> tuple[Mapping[str, Any], LiveObjects]:
    """Return the objects that ``_pieces`` split."""
    body, others = pickle.load(source)  # noqa: S301 - the server sent it
    known: dict[str, list[Any]] = {name: [] for name in _KINDS}
    with suppress(EOFError):
        while True:
            name, piece = pickle.load(source)  # noqa: S301 - the server sent it
            known[name] += msgspec.msgpack.decode(piece, type=_KINDS[name])
    pods_of: dict[str, list[Pod]] = {}
    for pod in known["bound"]:
        pods_of.setdefault(pod.spec.node_name, []).append(pod)
    by_name: dict[str, Any] = {
        name: {each.metadata.name: each for each in known[name]} for name in ("nodes", "topologies")
    }
    return body, LiveObjects(**by_name, pods=tuple(known["pods"]), pods_of=pods_of, **others)


def _end_with_reader(pipe: int) -> None:
    """Wait until the server, which reads this pipe, has ended; then end this process."""
    waiting = select.poll()
    waiting.register(pipe, 0)  # an error is reported, whatever is waited for
    waiting.poll()
    os._exit(1)


def main() -> None:
    """Try the change that comes on stdin, and answer on stdout."""
    os.nice(_NICE)
    threading.Thread(target=_end_with_reader, args=(sys.stdout.fileno(),), daemon=True).start()
    body, live = _received(sys.stdin.buffer)
    try:
        answer = _DONE + msgspec.json.encode(try_change(body, live))
    except ChangeRefused as refused:
        answer = _REFUSED + str(refused).encode()
    sys.stdout.buffer.write(answer)


if __name__ == "__main__":
    main()
