"""One event, one line."""

from __future__ import annotations

import io
import json
import logging

import pytest

from corewise.service import logs
from corewise.service.logs import LogFormat, configure, fields


@pytest.mark.parametrize("form", LogFormat)
def test_an_event_is_one_line_with_its_fields(form: LogFormat) -> None:
    stream = io.StringIO()
    root = logging.getLogger("corewise")
    before = (root.handlers[:], root.level, root.propagate)
    try:
        configure(form, stream=stream)
        logging.getLogger("corewise.test").info("wrote", extra=fields(node="n1", why='a "b"\nc'))
        logging.getLogger("corewise.test").debug("not shown")
    finally:
        root.handlers[:], root.propagate = before[0], before[2]
        root.setLevel(before[1])
    (line,) = stream.getvalue().splitlines()
    if form is LogFormat.JSON:
        assert json.loads(line)["node"] == "n1"
    else:
        assert line.endswith('wrote node=n1 why="a \\"b\\"\\nc"')


def test_a_traceback_stays_on_the_line() -> None:
    error = ZeroDivisionError("first line\nsecond line")
    record = logging.LogRecord("corewise", logging.ERROR, "f", 1, "bug", (), (type(error), error, None))
    assert "\n" not in logs.LineFormatter(LogFormat.TEXT).format(record)
