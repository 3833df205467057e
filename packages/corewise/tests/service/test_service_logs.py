"""One event, one line."""

from __future__ import annotations

import io
import json
import logging

import pytest

from corewise.service import logs
from corewise.service.logs import LogFormat, configure, fields


@pytest.mark.parametrize("distribution", ["corewise", "corewise_lab", "corewise_openstack"])
@pytest.mark.parametrize("form", LogFormat)
def test_an_event_is_one_line_with_its_fields(form: LogFormat, distribution: str) -> None:
    stream = io.StringIO()
    roots = [logging.getLogger(name) for name in ("corewise", "corewise_lab", "corewise_openstack")]
    before = [(root.handlers[:], root.level, root.propagate) for root in roots]
    try:
        configure(form, stream=stream)
        logger = logging.getLogger(f"{distribution}.test")
        logger.info("wrote", extra=fields(node="n1", why='a "b"\nc'))
        logger.debug("not shown")
    finally:
        for root, (handlers, level, propagate) in zip(roots, before, strict=True):
            root.handlers[:], root.propagate = handlers, propagate
            root.setLevel(level)
    (line,) = stream.getvalue().splitlines()
    if form is LogFormat.JSON:
        assert json.loads(line)["node"] == "n1"
    else:
        assert line.endswith('wrote node=n1 why="a \\"b\\"\\nc"')


def test_a_traceback_stays_on_the_line() -> None:
    error = ZeroDivisionError("first line\nsecond line")
    record = logging.LogRecord("corewise", logging.ERROR, "f", 1, "bug", (), (type(error), error, None))
    assert "\n" not in logs.LineFormatter(LogFormat.TEXT).format(record)
