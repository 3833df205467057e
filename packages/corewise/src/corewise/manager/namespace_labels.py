"""Reports namespaces whose label normalize-cpuset is neither true nor false.

The API server reads that label, in the scheduler's policy or webhook, and takes any other value for none. The
leader reports each such namespace by an Event on it, and once in the log. It changes nothing.

It records all of them again each minute, since an Event may not be written, and expires. The recorder holds
back those written in the last 15 minutes, so what did not fit into its queue has its turn a minute later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator

from corewise.actions import EmitEvent
from corewise.kube.clock import Clock, sleep_unless
from corewise.kube.objects import Namespace
from corewise.service.logs import fields
from corewise.vocabulary.cpu_annotations import normalize_label_problem

log = logging.getLogger(__name__)

_AGAIN_AFTER = 60.0


class NamespaceLabels:
    """Looks at the labels of all namespaces each minute, and when ``changed`` says so, while it runs."""

    def __init__(
        self,
        namespaces: Callable[[], Iterable[Namespace]],
        record: Callable[[EmitEvent], object],
        clock: Clock,
    ) -> None:
        self._namespaces, self._record, self._clock = namespaces, record, clock
        self._wake = asyncio.Event()

    def changed(self) -> None:
        """Have the labels looked at again."""
        self._wake.set()

    async def run(self) -> None:
        """Report each problem as long as it is there, until canceled."""
        logged: frozenset[EmitEvent] = frozenset()
        while True:
            self._wake.clear()
            found = frozenset(unread_labels(self._namespaces()))
            for event in sorted(found, key=lambda each: each.name):
                if event not in logged:
                    log.warning("%s", event.message, extra=fields(namespace=event.name, reason=event.reason))
                self._record(event)
            logged = found
            await sleep_unless(self._wake, self._clock, _AGAIN_AFTER)


def unread_labels(namespaces: Iterable[Namespace]) -> Iterator[EmitEvent]:
    """Yield the Event on each namespace whose label cannot be read."""
    for each in namespaces:
        meta = each.metadata
        problem = normalize_label_problem(meta.name, meta.labels)
        if problem is not None:
            yield EmitEvent(
                "Namespace", "", meta.name, meta.uid, problem.reason, problem.message, problem.reason.warning
            )
