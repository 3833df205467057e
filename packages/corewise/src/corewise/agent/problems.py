"""Logs what is wrong once, and again only when it changes or is over.

A cgroup that cannot be written fails every ten seconds; a log with one line for it is read, one with a
thousand is not.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from corewise.service.logs import fields

log = logging.getLogger(__name__)


class ProblemLog:
    """The problems of each topic as they were last logged."""

    def __init__(self, node: str, logger: logging.Logger = log) -> None:
        self._node = node
        self._log = logger
        self._logged: dict[str, dict[str, str]] = {}

    def update(self, topic: str, problems: Mapping[str, str]) -> None:
        """Take all problems that a topic has now, by what each is about."""
        logged = self._logged.setdefault(topic, {})
        for about, problem in problems.items():
            if logged.get(about) != problem:
                self._log.warning("%s: %s", topic, problem, extra=fields(node=self._node))
        for about in logged.keys() - problems.keys():
            self._log.info("%s: no longer a problem: %s", topic, about, extra=fields(node=self._node))
        self._logged[topic] = dict(problems)

    def count(self, topic: str) -> int:
        return len(self._logged.get(topic, {}))
