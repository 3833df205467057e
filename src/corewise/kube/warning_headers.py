"""``Warning`` headers: what the API server advises, such as that a field is deprecated.

Each text is logged once: a controller repeats its requests for months.

Source: https://kubernetes.io/blog/2020/09/03/warnings/ and RFC 7234, section 5.5 (``299 - "text"``).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator

_WARNING = re.compile(r'\b299 \S+ "((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")
_REMEMBERED = 1000

_log = logging.getLogger(__name__)


def warnings_in(headers: Iterable[str]) -> Iterator[str]:
    """The texts in all ``Warning`` headers of an answer; each may hold several."""
    for header in headers:
        for quoted in _WARNING.findall(header):
            yield _ESCAPED.sub(r"\1", quoted)


class WarningLog:
    """Logs each text the first time; past a thousand texts, anew."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def __call__(self, text: str) -> None:
        if text in self._seen:
            return
        if len(self._seen) >= _REMEMBERED:
            self._seen.clear()
        self._seen.add(text)
        _log.warning("the API server warns: %s", text)
