"""The longest step of an event loop, counted in calls of functions: times differ from machine to machine."""

from __future__ import annotations

import sys
from asyncio import Handle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import corewise

_CODE = str(Path(corewise.__file__).parent)
FEW = 20_000
"""Calls of functions that take less than 50 ms: one takes 1 to 2 microseconds, with what it does in C."""


class Steps:
    """The calls of corewise's functions within one step, the most of them, and where that step began."""

    def __init__(self) -> None:
        self.calls, self.most, self.where = 0, 0, ""

    def count(self, frame: FrameType, event: str, _argument: object) -> None:
        self.calls += event == "call" and frame.f_code.co_filename.startswith(_CODE)

    def run(self, handle: Handle, step: Any) -> None:
        self.calls = 0
        step(handle)
        if self.calls > self.most:
            self.most, self.where = self.calls, repr(handle)


@contextmanager
def counted() -> Iterator[Steps]:
    """Count the steps of this thread's event loop until the block ends."""
    steps, step = Steps(), Handle._run
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Handle, "_run", lambda handle: steps.run(handle, step))
        before = sys.getprofile()
        sys.setprofile(steps.count)
        try:
            yield steps
        finally:
            sys.setprofile(before)
