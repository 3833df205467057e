"""Instant queries: what an answer becomes, and every way in which there is none.

| the server | becomes |
|---|---|
| a vector, a scalar | samples |
| a matrix, a string | QueryError: no number for each series |
| 400, 422 with the API's error | QueryError, in the server's words |
| 503 with the API's error, a timeout of the query | OverloadedError, to be tried again |
| 401, 403 | DeniedError |
| a redirect, a page, no JSON, a value that is no number, too much | AnswerError |
| no one listens, the connection is cut, silence | UnreachableError, to be tried again |
"""

from __future__ import annotations

import asyncio
import math

import pytest
from aiohttp import web

from corewise.prometheus import client as module
from corewise.prometheus.client import (
    DeniedError,
    NotPrometheusError,
    OverloadedError,
    PrometheusClient,
    PrometheusError,
    QueryError,
    QueryResult,
    Sample,
    ServerURLError,
    UnreachableError,
)
from prometheus.fake_prometheus import Answers, fake_prometheus, said, vector


async def ask(answer: Answers, **options: float) -> QueryResult:
    async with fake_prometheus(answer) as server, PrometheusClient(server.url, **options) as client:
        return await client.query("up")


def page(status: int, text: str = "", **headers: str) -> Answers:
    return lambda _: web.Response(status=status, text=text, headers=headers)


async def test_vector_yields_samples_with_what_server_adds() -> None:
    answer = await ask(lambda _: vector([({"node": "n1"}, 1.5), ({}, math.inf)], warnings=["slow"]))
    assert answer.samples == (Sample({"node": "n1"}, 1.5), Sample({}, math.inf))
    assert answer.warnings == ("slow",)
    assert answer.at > 0


async def test_nan_is_a_value_but_histogram_is_not() -> None:
    body = (
        '{"status":"success","data":{"resultType":"vector","result":['
        '{"metric":{},"value":[1,"NaN"]},{"metric":{},"histogram":[1,{}]}]}}'
    )
    (sample,) = (await ask(page(200, body))).samples
    assert math.isnan(sample.value)


async def test_a_scalar_is_one_sample_without_labels() -> None:
    body = '{"status":"success","data":{"resultType":"scalar","result":[7,"2"]}}'
    assert await ask(page(200, body)) == QueryResult(7, (Sample({}, 2.0),))


def result(kind: str, value: str) -> str:
    return f'{{"status":"success","data":{{"resultType":"{kind}","result":{value}}}}}'


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        (page(200, result("matrix", "[]")), QueryError, "ranges of samples"),
        (page(200, result("string", '[1,"x"]')), QueryError, "no series"),
        (lambda _: said(400, "bad_data", "1:5: parse error"), QueryError, "bad_data: 1:5: parse error"),
        (lambda _: said(422, "execution", "many-to-many"), QueryError, "many-to-many"),
        (lambda _: said(503, "timeout", "query timed out"), OverloadedError, "timed out"),
        (lambda _: said(403, "forbidden", "no"), DeniedError, "no"),
        (page(401, "who are you"), DeniedError, "HTTP 401: who are you"),
        (page(429), OverloadedError, "HTTP 429"),
        (page(502, "<html>bad gateway"), OverloadedError, "HTTP 502"),
        (page(302, location="http://x/"), NotPrometheusError, "HTTP 302"),
        (page(404, "404 page not found"), NotPrometheusError, "404 page not found"),
        (page(200, "<html>"), NotPrometheusError, "HTTP 200"),
        (page(200, '{"status":"success"}'), QueryError, "no series"),
        (
            page(200, result("vector", '[{"metric":{},"value":[1,"much"]}]')),
            NotPrometheusError,
            "not a number",
        ),
        (page(200, result("vector", '[{"metric":7}]')), NotPrometheusError, "not an answer from Prometheus"),
        (page(200, '{"status":"success","data":' + "[" * 100_000), NotPrometheusError, "HTTP 200"),
        (page(200, '{"status":"success","infos":' + '{"a":' * 100_000), NotPrometheusError, "HTTP 200"),
        (page(503, '{"status":"error","infos":' + "[" * 100_000), OverloadedError, "HTTP 503"),
    ],
)
async def test_what_is_no_answer_is_told_by_kind(
    answer: Answers, error: type[PrometheusError], text: str
) -> None:
    with pytest.raises(PrometheusError) as found:
        await ask(answer)
    assert type(found.value) is error
    assert text in str(found.value)
    assert found.value.retryable is (error in {OverloadedError, UnreachableError})


async def test_overlong_answer_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST_ANSWER", 1 << 20)
    with pytest.raises(NotPrometheusError, match="longer than 1 MiB"):
        await ask(page(200, " " * (1 << 21)))


async def test_silence_and_a_closed_port_are_unreachable() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(-1)
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with PrometheusClient(url, timeout=0.2) as client:
        with pytest.raises(UnreachableError, match="no answer within"):
            await client.query("up")
    server.close()
    await server.wait_closed()
    async with PrometheusClient(url) as client:
        with pytest.raises(UnreachableError) as refused:
            await client.query("up")
    assert url in str(refused.value)
    assert "cannot connect: " in str(refused.value)
    assert "ssl" not in str(refused.value)
    assert refused.value.retryable


async def test_a_path_before_the_api_is_kept() -> None:
    with pytest.raises(ServerURLError):
        PrometheusClient("prometheus:9090")
    assert PrometheusClient("https://host/prom").label == "https://host/prom/"
    assert PrometheusClient("http://user:word@host:1").label == "http://host:1/"
