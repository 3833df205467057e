"""Range queries, with which ``corewise profile`` asks: a long time piece by piece, and what is no answer."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from corewise.prometheus.client import (
    PIECE,
    NotPrometheusError,
    PrometheusClient,
    PrometheusError,
    QueryError,
    RangeSeries,
    query_range,
)
from prometheus.fake_prometheus import said

Form = dict[str, str]
STEP = 60.0


def matrix(*series: tuple[Form, list[tuple[float, str]]]) -> web.Response:
    result = [{"metric": labels, "values": values} for labels, values in series]
    return web.json_response({"status": "success", "data": {"resultType": "matrix", "result": result}})


@asynccontextmanager
async def served(answer: Callable[[Form], web.Response]) -> AsyncIterator[PrometheusClient]:
    """A client of a server that answers range queries so."""

    async def handle(request: web.Request) -> web.Response:
        return answer({key: str(value) for key, value in (await request.post()).items()})

    application = web.Application()
    application.router.add_post("/api/v1/query_range", handle)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        async with PrometheusClient(f"http://127.0.0.1:{runner.addresses[0][1]}") as client:
            yield client
    finally:
        await runner.cleanup()


async def test_long_range_splits_without_overlap_or_gap() -> None:
    asked: list[Form] = []

    def answer(form: Form) -> web.Response:
        asked.append(form)
        start, end = float(form["start"]), float(form["end"])
        times = [start + STEP * number for number in range(int((end - start) / STEP) + 1)]
        return matrix(({"node": "n1"}, [(at, "2.5") for at in times]))

    count = 2 * PIECE + 7
    async with served(answer) as client:
        (found,) = await query_range(client, "up", start=0.0, end=STEP * (count - 1), step=STEP)
    assert found.labels == {"node": "n1"}
    assert [at for at, _ in found.points] == [STEP * number for number in range(count)]
    assert len(asked) == 3
    assert {(form["query"], form["step"]) for form in asked} == {("up", "60")}


async def test_series_split_across_pieces_join_by_labels() -> None:
    def answer(form: Form) -> web.Response:
        at = float(form["start"])
        first = at == 0.0
        here = (
            [({"pod": "a"}, [(at, "1")])]
            if first
            else [({"pod": "b"}, [(at, "2")]), ({"pod": "a"}, [(at, "3")])]
        )
        return matrix(*here)

    async with served(answer) as client:
        found = await query_range(client, "x", start=0.0, end=STEP * PIECE, step=STEP)
    by_pod = {series.labels["pod"]: [value for _, value in series.points] for series in found}
    assert by_pod == {"a": [1.0, 3.0], "b": [2.0]}


async def test_nan_and_infinity_are_values_histograms_are_not() -> None:
    text = json.dumps(
        {
            "status": "success",
            "data": {
                "resultType": "matrix",
                "result": [
                    {"metric": {}, "values": [[0, "NaN"], [60, "+Inf"]]},
                    {"metric": {"a": "b"}, "histograms": []},
                ],
            },
        }
    )
    async with served(lambda _: web.Response(text=text)) as client:
        found = await query_range(client, "x", start=0.0, end=60.0, step=60.0)
    assert math.isnan(found[0].points[0][1])
    assert found[0].points[1][1] == math.inf
    assert found[1] == RangeSeries({"a": "b"}, ())


@pytest.mark.parametrize(
    ("response", "error"),
    [
        (lambda: said(400, "bad_data", "parse error: unexpected end of input"), QueryError),
        (
            lambda: web.json_response({"status": "success", "data": {"resultType": "vector", "result": []}}),
            NotPrometheusError,
        ),
        (lambda: matrix(({}, [(0.0, "many")])), NotPrometheusError),
        (lambda: web.Response(text="<html>"), NotPrometheusError),
    ],
)
async def test_non_answer_is_an_error_of_its_kind(
    response: Callable[[], Any], error: type[PrometheusError]
) -> None:
    async with served(lambda _: response()) as client:
        with pytest.raises(error):
            await query_range(client, "x", start=0.0, end=60.0, step=60.0)
