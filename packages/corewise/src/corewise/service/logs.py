"""Log lines: one line per event on stderr, as text (``key=value``) or JSON.

A line is a short message and fields; ``log.info("node patched", extra=fields(node="n1"))``. Every logger of
corewise is below ``corewise``, so one handler there serves all of them. Times are UTC.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TextIO

_FIELDS = "corewise_fields"


class LogFormat(StrEnum):
    """The two forms of a line."""

    TEXT = "text"
    JSON = "json"


def fields(**values: object) -> Mapping[str, object]:
    """Return the ``extra`` argument of a logging call that carries these fields."""
    return {_FIELDS: values}


class LineFormatter(logging.Formatter):
    """Formats a record as one line of text or JSON; a traceback becomes a field of it."""

    def __init__(self, form: LogFormat) -> None:
        super().__init__()
        self._form = form

    def format(self, record: logging.LogRecord) -> str:
        values: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{record.msecs:03.0f}Z",
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, _FIELDS, {}),
        }
        if record.exc_info:
            values["traceback"] = self.formatException(record.exc_info)
        if self._form is LogFormat.JSON:
            return json.dumps(values | {"logger": record.name}, default=str, ensure_ascii=False)
        head = f"{values.pop('time')} {values.pop('level'):7} {values.pop('message')}"
        return " ".join([head, *(f"{key}={_shown(value)}" for key, value in values.items())])


def configure(form: LogFormat, *, verbose: bool = False, stream: TextIO | None = None) -> None:
    """Send the lines of all distributions to ``stream`` (stderr), from INFO up, or DEBUG when verbose."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(LineFormatter(form))
    for name in ("corewise", "corewise_lab", "corewise_openstack"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(logging.DEBUG if verbose else logging.INFO)
        logger.propagate = False


def _shown(value: object) -> str:
    text = str(value)
    return (
        text
        if text and text.isprintable() and not set(text) & set(' "=')
        else json.dumps(text, ensure_ascii=False)
    )
