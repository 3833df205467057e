"""The ClusterColocationProfiles of the cluster, as every replica knows them.

The resource may not be installed: then there are no profiles, and everything else works.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import msgspec

from corewise.colocation.profiles import PriorityOfClass
from corewise.config.colocation_profile import (
    ColocationProfile,
    ComparedProfiles,
    ProfileContradiction,
    parse_profile,
)
from corewise.config.decoding import Parsed
from corewise.config.json_text import read_json
from corewise.kube.cache import Cache
from corewise.kube.client import Client
from corewise.kube.clock import Clock
from corewise.kube.objects import Namespace, PriorityClass, RawObject
from corewise.kube.resources import COLOCATION_PROFILES, NAMESPACES, PRIORITY_CLASSES
from corewise.service.logs import fields
from corewise.service.reader import in_reader

log = logging.getLogger(__name__)


def parse_object(found: RawObject) -> Parsed[ColocationProfile]:
    """Read a profile of the API. Its lines and columns mean nothing: it was JSON of one line."""
    meta = found.metadata
    metadata = {"name": meta.name, "labels": dict(meta.labels), "annotations": dict(meta.annotations)}
    document = msgspec.json.encode({"metadata": metadata, "spec": found.spec})
    return parse_profile(read_json(document.decode()))


class ProfileReading(NamedTuple):
    """A profile as it was read, and what it sets otherwise than other profiles."""

    parsed: Parsed[ColocationProfile]
    conflicts: tuple[ProfileContradiction, ...]


def priorities_of(classes: Iterable[PriorityClass]) -> dict[str, PriorityOfClass]:
    """Return the priorities that PriorityClasses give to pods, by name."""
    return {each.metadata.name: PriorityOfClass(each.value, each.preemption_policy) for each in classes}


class Profiles:
    """The profiles, the PriorityClasses that they name, and the namespaces that they select.

    ``on_change`` is called when a profile changes, ``on_effect`` when any of it does, ``on_labels`` when
    labels of a namespace do. ``_compared`` is touched by the reader's thread alone.
    """

    def __init__(
        self,
        client: Client,
        on_change: Callable[[], None],
        clock: Clock,
        on_effect: Callable[[], None] = lambda: None,
        on_labels: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_change, self._on_effect, self._on_labels = on_change, on_effect, on_labels
        self.good: dict[str, ColocationProfile] = {}
        self._compared = ComparedProfiles()
        self._readings: dict[str, asyncio.Future[ProfileReading]] = {}
        self.objects = Cache(
            client, COLOCATION_PROFILES, prepare=self._prepare, on_change=self._changed, clock=clock
        )
        self.classes = Cache(client, PRIORITY_CLASSES, on_change=lambda _old, _new: on_effect(), clock=clock)
        self._namespaces = Cache(client, NAMESPACES, on_change=self._namespace_changed, clock=clock)
        self.caches: tuple[Cache[Any], ...] = (self.objects, self.classes, self._namespaces)

    def ordered(self) -> list[ColocationProfile]:
        """Return the profiles that are applied, in the order in which they are."""
        return [self.good[name] for name in sorted(self.good)]

    def priorities(self) -> dict[str, PriorityOfClass]:
        return priorities_of(self.classes.items.values())

    def created(self, profile: str) -> str:
        """Return when a profile was created, as the API has it; "" if it is gone."""
        found = self.objects.get(profile)
        return (found and found.metadata.creation_timestamp) or ""

    def labels_of(self, namespace: str) -> Mapping[str, str]:
        found = self._namespaces.get(namespace)
        return found.metadata.labels if found else {}

    def namespaces(self) -> Iterable[Namespace]:
        return tuple(self._namespaces.items.values())

    def _namespace_changed(self, old: Namespace | None, new: Namespace | None) -> None:
        if old is None or new is None or old.metadata.labels != new.metadata.labels:
            self._on_labels()
        if old is not None and new is not None and old.metadata.labels != new.metadata.labels:
            self._on_effect()

    def remarks(self, profile: ColocationProfile, conflicts: Iterable[ProfileContradiction]) -> Iterator[str]:
        """Return warnings about a profile, stored or not, that has these conflicts with others."""
        of_class = profile.settings().get("spec.priorityClassName")
        if of_class and self.classes.get(str(of_class)) is None:
            yield (
                f"spec.priorityClassName: there is no PriorityClass {of_class}: until it is "
                "created, the pods that this profile selects are refused"
            )
        for conflict in conflicts:
            if not conflict.is_certain:
                yield conflict.said_of(profile.name)

    async def read(self, found: RawObject) -> ProfileReading:
        """Read a profile, stored or not, and compare it with the others."""
        return await in_reader(partial(self._read, found, is_stored=False))

    async def _prepare(self, found: RawObject) -> None:
        reading = self._readings[found.metadata.name] = in_reader(partial(self._read, found, is_stored=True))
        await asyncio.wait([reading])

    def _read(self, found: RawObject, *, is_stored: bool) -> ProfileReading:
        parsed = parse_object(found)
        if is_stored:
            self._compared.remove(found.metadata.name)
            if parsed.value is not None:
                self._compared.add(parsed.value)
        conflicts = () if parsed.value is None else tuple(self._compared.conflicts_of(parsed.value))
        return ProfileReading(parsed, conflicts)

    def _changed(self, old: RawObject | None, new: RawObject | None) -> None:
        if old is not None:
            self.good.pop(old.metadata.name, None)
        if new is None and old is not None:
            in_reader(partial(self._compared.remove, old.metadata.name))
        if new is not None:
            name = new.metadata.name
            parsed, conflicts = self._readings.pop(name).result()
            if parsed.value is None:
                errors = "; ".join(f"{each.path}: {each.message}" for each in parsed.errors)
                log.warning(
                    "a ClusterColocationProfile is not applied", extra=fields(profile=name, errors=errors)
                )
            else:
                self.good[name] = parsed.value
                certain = [each for each in conflicts if each.is_certain]
                if certain:
                    log.warning(
                        "ClusterColocationProfiles contradict each other; the latest name counts",
                        extra=fields(profile=name, conflict=str(certain[0]), others=len(certain) - 1),
                    )
        self._on_change()
        self._on_effect()
