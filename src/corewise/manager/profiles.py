"""The ClusterColocationProfiles of the cluster, as every replica knows them.

The resource may not be installed: then there are no profiles, and everything else works.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from corewise.colocation.profiles import PriorityOfClass
from corewise.config.colocation_profile import ColocationProfile, conflicts, parse_profile
from corewise.config.decoding import Parsed
from corewise.config.json_text import read_json
from corewise.kube.cache import Cache
from corewise.kube.client import Client
from corewise.kube.clock import Clock
from corewise.kube.objects import PriorityClass, RawObject
from corewise.kube.resources import COLOCATION_PROFILES, PRIORITY_CLASSES
from corewise.service.logs import fields

log = logging.getLogger(__name__)


def parse_object(found: RawObject) -> Parsed[ColocationProfile]:
    """Read a profile of the API. Its lines and columns mean nothing: it was JSON of one line."""
    meta = found.metadata
    metadata = {"name": meta.name, "labels": dict(meta.labels), "annotations": dict(meta.annotations)}
    document = msgspec.json.encode({"metadata": metadata, "spec": found.spec})
    return parse_profile(read_json(document.decode()))


def priorities_of(classes: Iterable[PriorityClass]) -> dict[str, PriorityOfClass]:
    """Return what PriorityClasses give to pods, by name."""
    return {each.metadata.name: PriorityOfClass(each.value, each.preemption_policy) for each in classes}


class Profiles:
    """The profiles and the PriorityClasses that they name. ``on_change`` is called when a profile changes."""

    def __init__(self, client: Client, on_change: Callable[[], None], clock: Clock) -> None:
        self._on_change = on_change
        self.good: dict[str, ColocationProfile] = {}
        self.objects = Cache(client, COLOCATION_PROFILES, on_change=self._changed, clock=clock)
        self.classes = Cache(client, PRIORITY_CLASSES, clock=clock)
        self.caches: tuple[Cache[Any], ...] = (self.objects, self.classes)

    def ordered(self) -> list[ColocationProfile]:
        """Return the profiles that are applied, in the order in which they are."""
        return [self.good[name] for name in sorted(self.good)]

    def priorities(self) -> dict[str, PriorityOfClass]:
        return priorities_of(self.classes.items.values())

    def remarks(self, profile: ColocationProfile) -> Iterator[str]:
        """Say what is doubtful about a profile, stored or not, among the others."""
        if profile.priority_class and self.classes.get(profile.priority_class) is None:
            yield (
                f"spec.priorityClassName: there is no PriorityClass {profile.priority_class}: until it is "
                "created, the pods that this profile selects are refused"
            )
        others = [each for each in self.good.values() if each.name != profile.name]
        for conflict in conflicts([*others, profile]):
            if profile.name in {conflict.first, conflict.second}:
                yield str(conflict)

    def _changed(self, old: RawObject | None, new: RawObject | None) -> None:
        if old is not None:
            self.good.pop(old.metadata.name, None)
        if new is not None:
            name, parsed = new.metadata.name, parse_object(new)
            if parsed.value is None:
                errors = "; ".join(f"{each.path}: {each.message}" for each in parsed.errors)
                log.warning(
                    "a ClusterColocationProfile is not applied", extra=fields(profile=name, errors=errors)
                )
            else:
                self.good[name] = parsed.value
        self._on_change()
