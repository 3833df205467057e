"""The children of the local cluster: started with a pipe, watched, measured, ended.

A child runs in a session of its own, so that Ctrl-C reaches the parent alone and the report can still be
made. Its standard input is a pipe whose end it takes as the sign to go (see :mod:`corewise.cli.tether`).
What it prints goes to a log file; if it dies, its last lines are in the error, and what its exit code means
(a full disk takes no log).
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from corewise.quantities import Bytes

_PATIENCE = 8.0
_LAST_LINES = 12


class ClusterError(Exception):
    """The local cluster cannot go on; the message says which part, and what it said last."""


@dataclass
class Child:
    """A running child process."""

    name: str
    process: asyncio.subprocess.Process
    log: Path
    meanings: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    async def start(cls, name: str, module: str, arguments: Sequence[str], log: Path) -> Self:
        """Start ``python -m module arguments``."""
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                module,
                *arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        return cls(name, process, log)

    @property
    def alive(self) -> bool:
        return self.process.returncode is None

    async def died(self) -> ClusterError:
        """Wait until the child ends, and return what to say about it."""
        code = await self.process.wait()
        meaning = f": {self.meanings[code]}" if code in self.meanings else ""
        return ClusterError(f"{self.name} ended with exit code {code}{meaning}\n{self.last_words()}".rstrip())

    def last_words(self) -> str:
        """Return the last lines of the child's log, indented."""
        try:
            lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return ""
        return "\n".join(f"  {line}" for line in lines[-_LAST_LINES:])

    def memory(self) -> Bytes | None:
        return resident_memory(self.process.pid) if self.alive else None

    async def stop(self) -> None:
        """Close the pipe and wait; a child that stays gets SIGTERM, then SIGKILL."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        for end in (self.process.terminate, self.process.kill):
            with suppress(TimeoutError):
                await asyncio.wait_for(self.process.wait(), _PATIENCE)
                return
            with suppress(ProcessLookupError):
                end()
        await self.process.wait()


def resident_memory(pid: int) -> Bytes | None:
    """Return a process's resident memory, or None where the system does not tell."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return Bytes(pages * os.sysconf("SC_PAGE_SIZE"))


@asynccontextmanager
async def running(*loops: Callable[[], Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    """Run loops beside the block. One that fails ends the block; all end with it."""
    async with asyncio.TaskGroup() as tasks:
        started = [tasks.create_task(loop()) for loop in loops]
        yield
        for task in started:
            task.cancel()


@asynccontextmanager
async def child_process(
    name: str, module: str, arguments: Sequence[str], log: Path, *, meanings: Mapping[int, str] | None = None
) -> AsyncIterator[Child]:
    """Run a child beside the block. Its death ends the block with a ClusterError; it ends with the block.

    ``meanings`` says what some of its exit codes mean.
    """
    child = await Child.start(name, module, arguments, log)
    child.meanings = meanings or {}

    async def fail_on_death() -> None:
        raise await child.died()

    try:
        async with running(fail_on_death):
            yield child
    finally:
        await child.stop()
