"""Whether a node's label turns oversubscription on. Pure.

``volcano.sh/oversubscription`` is "true" or "false"; absent is off. Anything else is told, and what was in
force before it stays in force: off, if there was nothing before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from corewise.vocabulary.names import OVERSUBSCRIPTION

_TEXTS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Switch:
    """On or off; ``problem`` says why the label does not count."""

    on: bool = False
    problem: str = ""


def read_switch(labels: Mapping[str, str], before: Switch) -> Switch:
    """Return the switch that follows the one before."""
    text = labels.get(OVERSUBSCRIPTION)
    if text is None or text in _TEXTS:
        return Switch(on=_TEXTS.get(text or "", False))
    stays = "on" if before.on else "off"
    return Switch(before.on, f'label {OVERSUBSCRIPTION}: "{text}" is neither true nor false; {stays} stays')
