"""The internal event bus: who computes need not know who acts.

Invariants:
- A subscriber that has not come to an event sees only the newest: events are whole states, not changes.
- A handler that fails keeps its event until it succeeds or a newer one takes its place. So an older event is
  never handled after a newer one.
- One subscriber's failure is nobody else's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from corewise.kernel.errors import KernelError

E = TypeVar("E")


@dataclass(slots=True)
class _Subscriber(Generic[E]):
    handle: Callable[[E], None]
    pending: E | None = None


class Bus(Generic[E]):
    """Hands each event to every subscriber, in the order in which they subscribed."""

    def __init__(self) -> None:
        self._subscribers: dict[str, _Subscriber[E]] = {}

    def subscribe(self, name: str, handle: Callable[[E], None]) -> None:
        """Have ``handle`` called with events. Its KernelError means: not done, again at the next delivery."""
        self._subscribers[name] = _Subscriber(handle)

    def publish(self, event: E) -> None:
        """Put an event in the place of what subscribers have not handled yet."""
        for subscriber in self._subscribers.values():
            subscriber.pending = event

    def deliver(self) -> Mapping[str, KernelError]:
        """Have everybody handle what is pending; return whose handler failed, and how."""
        failed = {}
        for name, subscriber in self._subscribers.items():
            event = subscriber.pending
            if event is None:
                continue
            try:
                subscriber.handle(event)
            except KernelError as error:
                failed[name] = error
            else:
                if subscriber.pending is event:
                    subscriber.pending = None
        return failed
