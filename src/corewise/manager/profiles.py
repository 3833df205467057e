"""The ClusterColocationProfiles of the cluster, as every replica knows them.

The resource may not be installed: then there are no profiles, and everything else works.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

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
    """The profiles, the PriorityClasses that they name, and the namespaces that they select.

    ``on_change`` is called when a profile changes, ``on_effect`` when any of it does.
    """

    def __init__(
        self,
        client: Client,
        on_change: Callable[[], None],
        clock: Clock,
        on_effect: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_change, self._on_effect = on_change, on_effect
        self.good: dict[str, ColocationProfile] = {}
        self._compared = ComparedProfiles()
        self.objects = Cache(client, COLOCATION_PROFILES, on_change=self._changed, clock=clock)
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

    def _namespace_changed(self, old: Namespace | None, new: Namespace | None) -> None:
        if old is not None and new is not None and old.metadata.labels != new.metadata.labels:
            self._on_effect()

    def remarks(self, profile: ColocationProfile) -> Iterator[str]:
        """Say what is doubtful about a profile, stored or not, among the others."""
        of_class = profile.settings().get("spec.priorityClassName")
        if of_class and self.classes.get(str(of_class)) is None:
            yield (
                f"spec.priorityClassName: there is no PriorityClass {of_class}: until it is "
                "created, the pods that this profile selects are refused"
            )
        for conflict in self.conflicts_of(profile):
            if not conflict.is_certain:
                yield conflict.said_of(profile.name)

    def conflicts_of(self, profile: ColocationProfile) -> list[ProfileContradiction]:
        """Return what a profile, stored or not, sets otherwise than the others."""
        return list(self._compared.conflicts_of(profile))

    def _changed(self, old: RawObject | None, new: RawObject | None) -> None:
        if old is not None:
            self.good.pop(old.metadata.name, None)
            self._compared.remove(old.metadata.name)
        if new is not None:
            name, parsed = new.metadata.name, parse_object(new)
            if parsed.value is None:
                errors = "; ".join(f"{each.path}: {each.message}" for each in parsed.errors)
                log.warning(
                    "a ClusterColocationProfile is not applied", extra=fields(profile=name, errors=errors)
                )
            else:
                self.good[name] = parsed.value
                self._compared.remove(name)
                self._compared.add(parsed.value)
                for conflict in self.conflicts_of(parsed.value):
                    if conflict.is_certain:
                        log.warning(
                            "two ClusterColocationProfiles contradict each other; the later name counts",
                            extra=fields(profile=name, conflict=str(conflict)),
                        )
        self._on_change()
        self._on_effect()
