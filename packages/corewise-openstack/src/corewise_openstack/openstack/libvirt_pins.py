"""Where a domain may run, setting by setting: what is there, what is to be there, and the difference.

A setting is an element of libvirt's XML, named by its tag and number (``vcpupin 3``, ``memnode 0``,
``emulatorpin``, ``memory``), with its other attributes as the value (``cpuset="2-5"``); "" is no such
element. A domain has settings twice: those it runs with (``live``), and those of its next start (``stored``).
Whatever else a domain has stays as it is.

- Stored settings change together, by redefining the domain; live ones change one by one.
- libvirt has no call for ``vcpusched`` and ``memnode`` of a running domain. It moves a running domain's
  memory only if that is bound in mode ``strict`` already. Such a setting counts from the next start on, and a
  note says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias
from xml.etree import ElementTree as ET

from corewise_openstack.openstack.libvirt_xml import (
    CPUTuning,
    parsed_domain,
    section_of,
    text_of_domain,
    tuned,
)

Settings: TypeAlias = Mapping[str, str]
"""Setting -> its value."""

MEMORY = "memory"
_NUMBERED = {"vcpupin": "vcpu", "iothreadpin": "iothread", "vcpusched": "vcpus", "memnode": "cellid"}
_SECTIONS = {
    "cputune": ("vcpupin", "emulatorpin", "iothreadpin", "vcpusched"),
    "numatune": (MEMORY, "memnode"),
}
_AFTER = {"cputune": "vcpu", "numatune": "cputune"}
_ONLY_AT_START = {
    "vcpusched": "libvirt cannot change the scheduling policy of a running domain",
    "memnode": "libvirt cannot move the NUMA nodes of a running domain",
    MEMORY: "libvirt moves memory of a running domain only if it is bound in mode strict already",
}


class SettingKind(StrEnum):
    """Which settings of a domain: those it runs with, or those of its next start."""

    LIVE = "live"
    STORED = "stored"


@dataclass(frozen=True, slots=True)
class DomainChange:
    """One setting of a domain that changes."""

    kind: SettingKind
    setting: str
    before: str
    after: str

    @property
    def reversed(self) -> DomainChange:
        """The change that takes it back."""
        return DomainChange(self.kind, self.setting, self.after, self.before)


@dataclass(frozen=True, slots=True)
class DomainSettings:
    """The settings of a domain. ``live`` is None of one that does not run, ``stored`` of a transient one."""

    live: Settings | None
    stored: Settings | None

    def value(self, kind: SettingKind, setting: str) -> str | None:
        """Return a setting; None if the domain has no settings of this kind."""
        settings = self.live if kind is SettingKind.LIVE else self.stored
        return None if settings is None else settings.get(setting, "")


def settings_in(text: str) -> Settings:
    """Return the settings of a domain's document.

    Raises:
        LibvirtXMLError: if the document is not a domain.
    """
    domain = parsed_domain(text)
    return {_name(each): _value(each) for each in _elements(domain)}


def tuned_settings(text: str, tuning: CPUTuning) -> Settings:
    """Return the settings that a domain would have with these CPUs; raises as ``tuned``."""
    return settings_in(tuned(text, tuning))


def with_settings(text: str, settings: Settings) -> str:
    """Return a domain with some settings changed; "" removes one.

    Raises:
        LibvirtXMLError: if the document is not a domain.
    """
    domain = parsed_domain(text)
    for name, value in settings.items():
        tag, _, number = name.partition(" ")
        section = next(each for each, tags in _SECTIONS.items() if tag in tags)
        parent = section_of(domain, section, after=_AFTER[section]) if value else domain.find(section)
        if parent is None:
            continue
        for old in [each for each in parent.findall(tag) if _name(each) == name]:
            parent.remove(old)
        if value:
            numbered = {_NUMBERED[tag]: number} if number else {}
            parent.append(ET.Element(tag, {**numbered, **_attributes(value)}))
        if not len(parent) and section == "numatune":
            domain.remove(parent)
    return text_of_domain(domain)


def changes_between(kind: SettingKind, now: Settings, wanted: Settings) -> Iterator[DomainChange]:
    """Yield the differences, in the order of the settings that are wanted."""
    for name in [*wanted, *(each for each in now if each not in wanted)]:
        if now.get(name, "") != wanted.get(name, ""):
            yield DomainChange(kind, name, now.get(name, ""), wanted.get(name, ""))


def possible_live(changes: Iterable[DomainChange]) -> tuple[list[DomainChange], list[str]]:
    """Return the changes that libvirt has a call for, and a note on each of the others."""
    possible: list[DomainChange] = []
    notes: dict[str, None] = {}
    for each in changes:
        tag = each.setting.partition(" ")[0]
        binds = tag == MEMORY and 'mode="strict"' in each.before and 'mode="strict"' in each.after
        if tag not in _ONLY_AT_START or binds:
            possible.append(each)
        else:
            notes[f"{tag} counts from the next start on: {_ONLY_AT_START[tag]}"] = None
    return possible, list(notes)


def attribute(value: str, name: str) -> str:
    """Return an attribute of a setting's value; "" without it."""
    return _attributes(value).get(name, "")


def _elements(domain: ET.Element) -> Iterator[ET.Element]:
    for section, tags in _SECTIONS.items():
        for each in domain.iterfind(f"{section}/*"):
            if each.tag in tags:
                yield each


def _name(element: ET.Element) -> str:
    number = element.get(_NUMBERED.get(element.tag, ""), "")
    return f"{element.tag} {number}".strip()


def _value(element: ET.Element) -> str:
    own = _NUMBERED.get(element.tag)
    return " ".join(f'{name}="{value}"' for name, value in sorted(element.attrib.items()) if name != own)


def _attributes(value: str) -> dict[str, str]:
    return dict(ET.fromstring(f"<value {value}/>").attrib)  # noqa: S314 - our own text
