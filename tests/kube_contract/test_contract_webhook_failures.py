"""Webhooks that do not answer, or answer nonsense."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable

import pytest
from aiohttp import web

from kube_contract.api import Api, Object
from kube_contract.conftest import TEST_LABEL, Register
from service.webhook_server import WebhookServer, patch, webhook_server

NOWHERE = "https://127.0.0.1:1/"


@pytest.fixture
def config_maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


@pytest.fixture
def a_map(unique: str) -> Object:
    return {"metadata": {"name": "one", "labels": {TEST_LABEL: unique}}}


async def refused_call(api: Api, config_maps: str, a_map: Object, configuration: Object) -> str:
    """The message of a 500, after the part that names the webhook."""
    status = (await api.request("POST", config_maps, a_map)).refused(500, "InternalError")
    start = f'Internal error occurred: failed calling webhook "{configuration["webhooks"][0]["name"]}": '
    assert status["message"].startswith(start)
    return str(status["message"].removeprefix(start))


async def test_an_unreachable_webhook_fails_the_write_by_default(
    api: Api, config_maps: str, a_map: Object, register: Register
) -> None:
    configuration = await register("mutating", ["configmaps"], clientConfig={"url": NOWHERE})
    message = await refused_call(api, config_maps, a_map, configuration)
    assert message.startswith(f'failed to call webhook: Post "{NOWHERE}?timeout=5s": ')
    assert "connection refused" in message


@pytest.mark.parametrize("kind", ["mutating", "validating"])
async def test_unreachable_webhook_with_ignore_policy_is_skipped(
    api: Api, config_maps: str, a_map: Object, register: Register, kind: str
) -> None:
    await register(kind, ["configmaps"], clientConfig={"url": NOWHERE}, failurePolicy="Ignore")
    await api.create(config_maps, a_map)


async def test_a_certificate_of_another_authority_is_not_trusted(
    api: Api, config_maps: str, a_map: Object, webhook: WebhookServer, register: Register
) -> None:
    async with webhook_server() as other:
        config = {**webhook.client_config(), "caBundle": other.client_config()["caBundle"]}
        configuration = await register("mutating", ["configmaps"], clientConfig=config)
        message = await refused_call(api, config_maps, a_map, configuration)
    assert "x509: certificate signed by unknown authority" in message


@pytest.mark.parametrize("bundle", [b"\n", b"no certificate", b"\xff\xfe"])
async def test_invalid_ca_bundle_is_stored_and_fails_calls(
    api: Api, config_maps: str, a_map: Object, webhook: WebhookServer, register: Register, bundle: bytes
) -> None:
    config = {**webhook.client_config(), "caBundle": b64encode(bundle).decode()}
    configuration = await register("mutating", ["configmaps"], clientConfig=config)
    await refused_call(api, config_maps, a_map, configuration)


async def test_a_service_that_is_not_there_fails(
    api: Api, config_maps: str, a_map: Object, namespace: str, register: Register
) -> None:
    service = {"name": "absent", "namespace": namespace, "path": "/mutate"}
    configuration = await register("mutating", ["configmaps"], clientConfig={"service": service})
    message = await refused_call(api, config_maps, a_map, configuration)
    assert (
        f'Post "https://absent.{namespace}.svc:443/mutate?timeout=5s": service "absent" not found' in message
    )


async def test_a_webhook_that_takes_too_long_fails(
    api: Api, config_maps: str, a_map: Object, webhook: WebhookServer, register: Register
) -> None:
    configuration = await register("validating", ["configmaps"], timeoutSeconds=1)
    webhook.answering.clear()
    try:
        message = await refused_call(api, config_maps, a_map, configuration)
    finally:
        webhook.answering.set()
    assert "context deadline exceeded" in message or "Client.Timeout" in message


def respond(change: Callable[[Object], Object]) -> Callable[[web.Request, Object], web.Response]:
    """Answer with a changed review."""

    def raw(_: web.Request, review: Object) -> web.Response:
        right = {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "response": {"uid": review["request"]["uid"], "allowed": True},
        }
        return web.json_response(change(right))

    return raw


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda right: {**right, "response": {"uid": "other", "allowed": True}}, "expected response.uid="),
        (lambda right: {**right, "apiVersion": "admission.k8s.io/v2"}, "admission.k8s.io/v2"),
        (lambda right: {**right, "kind": "Review"}, "Review"),
        (lambda right: {**right, "response": None}, "webhook response was absent"),
        (
            lambda right: {**right, "response": {**right["response"], "patch": "W10="}},
            "webhook returned response.patch but not response.patchType",
        ),
    ],
    ids=["wrong uid", "wrong version", "wrong kind", "no response", "no patch type"],
)
async def test_improper_review_counts_as_a_failure(
    api: Api,
    config_maps: str,
    a_map: Object,
    webhook: WebhookServer,
    register: Register,
    change: Callable[[Object], Object],
    expected: str,
) -> None:
    configuration = await register("mutating", ["configmaps"])
    webhook.raw = respond(change)
    assert expected in await refused_call(api, config_maps, a_map, configuration)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"text"', b"null", b'{"response": 7}'])
async def test_answer_other_than_a_review_counts_as_failure(
    api: Api, config_maps: str, a_map: Object, webhook: WebhookServer, register: Register, body: bytes
) -> None:
    configuration = await register("mutating", ["configmaps"])
    webhook.raw = lambda *_: web.Response(body=body, content_type="application/json")
    await refused_call(api, config_maps, a_map, configuration)


async def test_http_error_answer_counts_as_a_failure(
    api: Api, config_maps: str, a_map: Object, webhook: WebhookServer, register: Register
) -> None:
    configuration = await register("mutating", ["configmaps"])
    webhook.raw = lambda *_: web.Response(status=500, text="boom")
    message = await refused_call(api, config_maps, a_map, configuration)
    assert "an error on the server" in message
    assert "has prevented the request from succeeding" in message


async def test_a_validating_webhook_must_not_patch(
    api: Api, config_maps: str, a_map: Object, webhook: WebhookServer, register: Register
) -> None:
    configuration = await register("validating", ["configmaps"])
    webhook.answers["/"] = patch({"op": "add", "path": "/data", "value": {}})
    message = await refused_call(api, config_maps, a_map, configuration)
    assert "validating webhook may not return response.patch" in message


async def test_ignore_policy_skips_a_bad_answer(
    api: Api, config_maps: str, a_map: Object, webhook: WebhookServer, register: Register
) -> None:
    await register("mutating", ["configmaps"], failurePolicy="Ignore")
    webhook.raw = lambda *_: web.Response(text=json.dumps({"not": "a review"}))
    await api.create(config_maps, a_map)


async def test_inapplicable_patch_fails_the_write_despite_ignore_policy(
    api: Api, config_maps: str, a_map: Object, webhook: WebhookServer, register: Register
) -> None:
    await register("mutating", ["configmaps"], failurePolicy="Ignore")
    webhook.answers["/"] = patch({"op": "remove", "path": "/data/absent"})
    (await api.request("POST", config_maps, a_map)).refused(500, "InternalError")


async def test_denial_stands_despite_ignore_policy(
    api: Api, config_maps: str, a_map: Object, webhook: WebhookServer, register: Register
) -> None:
    await register("validating", ["configmaps"], failurePolicy="Ignore")
    webhook.answers["/"] = lambda _: {"allowed": False, "status": {"code": 403, "message": "no"}}
    (await api.request("POST", config_maps, a_map)).refused(403)
