"""What the plugin tells about itself while it runs: the seam to a program's metrics and health."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol


class Outcome(StrEnum):
    """What became of one request of the runtime."""

    ANSWERED = "answered"
    LATE = "late"
    """The handler took too long; nothing was changed."""
    FAILED = "failed"
    """The handler raised; nothing was changed."""
    UNKNOWN = "unknown"
    """A method of later releases; the runtime was told so."""


class Observer(Protocol):
    """Is told at once, in the event loop; must not block or raise."""

    def request(self, method: str, outcome: Outcome) -> None:
        """Note a request that was answered, one way or another."""
        ...

    def synchronized(self, *, now: bool) -> None:
        """Note that the runtime asks us from now on, or that it no longer does."""
        ...


class Unobserved:
    """Nobody wants to know."""

    def request(self, method: str, outcome: Outcome) -> None:
        """Do nothing."""

    def synchronized(self, *, now: bool) -> None:
        """Do nothing."""
