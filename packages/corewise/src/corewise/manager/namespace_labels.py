"""Reports namespaces whose label normalize-cpuset is neither true nor false.

The API server reads that label, in the scheduler's policy or webhook, and takes any other value for none. The
leader reports each such namespace once: an Event on it, and the log. It changes nothing. However many they
are, few Events at a time wait to be written: their queue is bounded, and serves Events about nodes, too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator

from corewise.actions import EmitEvent
from corewise.kube.objects import Namespace
from corewise.service.logs import fields
from corewise.vocabulary.cpu_annotations import normalize_label_problem

log = logging.getLogger(__name__)

_AT_ONCE = 100


class NamespaceLabels:
    """Looks at the labels of all namespaces when ``changed`` says so, while it runs.

    ``written`` waits until all Events recorded so far have been written.
    """

    def __init__(
        self,
        namespaces: Callable[[], Iterable[Namespace]],
        record: Callable[[EmitEvent], object],
        written: Callable[[], Awaitable[None]],
    ) -> None:
        self._namespaces, self._record, self._written = namespaces, record, written
        self._wake = asyncio.Event()

    def changed(self) -> None:
        """Have the labels looked at again."""
        self._wake.set()

    async def run(self) -> None:
        """Report each problem when it is first seen, until canceled."""
        known: frozenset[EmitEvent] = frozenset()
        self.changed()
        while True:
            await self._wake.wait()
            self._wake.clear()
            found = frozenset(unread_labels(self._namespaces()))
            for number, event in enumerate(sorted(found - known, key=lambda each: each.name)):
                if number % _AT_ONCE == 0:
                    await self._written()
                log.warning("%s", event.message, extra=fields(namespace=event.name, reason=event.reason))
                self._record(event)
            known = found


def unread_labels(namespaces: Iterable[Namespace]) -> Iterator[EmitEvent]:
    """Yield the Event on each namespace whose label cannot be read."""
    for each in namespaces:
        meta = each.metadata
        problem = normalize_label_problem(meta.name, meta.labels)
        if problem is not None:
            yield EmitEvent(
                "Namespace", "", meta.name, meta.uid, problem.reason, problem.message, problem.reason.warning
            )
