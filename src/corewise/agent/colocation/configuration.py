"""What the ConfigMap says about this node: the last good of each key, merged for the node's labels.

An absent ConfigMap or key is a configuration too: the one with the defaults, which suppresses nothing. A bad
key that was never good (the agent has just started) is *unknown*, None: nothing is begun and nothing is
given back, since taking it for the empty one would let every offline pod loose on a typing error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from corewise.config.colocation import (
    NO_OVERSUBSCRIPTION,
    NO_SUPPRESSION,
    OversubscriptionSettings,
    OversubscriptionStrategy,
    SuppressionSettings,
    SuppressionStrategy,
    parse_oversubscription,
    parse_suppression,
)
from corewise.config.decoding import Parsed, Severity
from corewise.config.node_configs import Configuration
from corewise.kube.objects import ConfigMap
from corewise.vocabulary.names import OVERSUBSCRIPTION_KEY, SUPPRESSION_KEY

KEYS = (OVERSUBSCRIPTION_KEY, SUPPRESSION_KEY)
_SHOWN = 3
S = TypeVar("S", OversubscriptionStrategy, SuppressionStrategy)


class _Key(Generic[S]):
    """One key of the ConfigMap."""

    def __init__(
        self, name: str, parse: Callable[[str], Parsed[Configuration[S]]], absent: Configuration[S]
    ) -> None:
        self._name = name
        self._parse: Callable[[str], Parsed[Configuration[S]]] = parse
        self._absent: Configuration[S] = absent
        self.good: Configuration[S] | None = None
        self.problem = ""

    def read(self, data: Mapping[str, str]) -> None:
        """Take the key's text; what is wrong with it stands in ``problem``."""
        text = data.get(self._name, "")
        self.problem = ""
        if not text.strip():
            self.good = self._absent
            return
        parsed = self._parse(text)
        if parsed.value is not None:
            self.good = parsed.value
            return
        errors = [str(each) for each in parsed.problems if each.severity is Severity.ERROR]
        more = f"; and {len(errors) - _SHOWN} more" if len(errors) > _SHOWN else ""
        stays = "nothing is known to be in force" if self.good is None else "the last good one stays in force"
        self.problem = "; ".join(errors[:_SHOWN]) + f"{more}; {stays}"


class ColocationConfiguration:
    """Both keys. Before the first ``read`` nothing is known."""

    def __init__(self) -> None:
        self._oversubscription = _Key(OVERSUBSCRIPTION_KEY, parse_oversubscription, NO_OVERSUBSCRIPTION)
        self._suppression = _Key(SUPPRESSION_KEY, parse_suppression, NO_SUPPRESSION)

    def read(self, config_map: ConfigMap | None) -> None:
        """Take the ConfigMap; None: there is none."""
        data = config_map.data if config_map else {}
        self._oversubscription.read(data)
        self._suppression.read(data)

    @property
    def problems(self) -> Mapping[str, str]:
        """What is wrong, by key."""
        problems = {
            OVERSUBSCRIPTION_KEY: self._oversubscription.problem,
            SUPPRESSION_KEY: self._suppression.problem,
        }
        return {key: problem for key, problem in problems.items() if problem}

    def oversubscription(self, labels: Mapping[str, str]) -> OversubscriptionSettings | None:
        """Return what is in force for a node with these labels; None if that is not known."""
        good = self._oversubscription.good
        return good.strategy_for(labels)[0].in_force if good else None

    def suppression(self, labels: Mapping[str, str]) -> SuppressionSettings | None:
        """Return what is in force for a node with these labels; None if that is not known."""
        good = self._suppression.good
        return good.strategy_for(labels)[0].in_force if good else None
