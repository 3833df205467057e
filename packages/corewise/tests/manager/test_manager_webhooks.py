"""Whatever arrives at a webhook is answered, or refused with 400; never does it crash."""

from __future__ import annotations

import asyncio
import copy
import json
import threading
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from aiohttp import ClientSession, TCPConnector
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corewise.kube.admission import AdmissionRequest, decode_review
from corewise.kube.errors import DecodeError
from corewise.manager.webhooks import (
    APPLY_PROFILE,
    CONFIG_MAP,
    NODE,
    NODE_STATUS,
    OFFLINE_PODS,
    PATHS,
    PROFILE,
)
from corewise.prometheus.exposition import Exposition
from corewise.ratios.cluster import read_configuration
from corewise.service.http_servers import WEBHOOKS
from corewise.service.options import Address
from corewise.service.webhooks import Answer, ReviewOutcome, Webhook, WebhookServer
from corewise.vocabulary import metrics
from corewise.vocabulary.metrics import METRICS
from corewise.vocabulary.names import (
    AMPLIFICATION_KEY,
    AMPLIFICATION_ORIGINAL,
    AMPLIFICATION_RATIO,
    CONFIG_NAME,
    NORMALIZATION_ENABLED,
    NORMALIZATION_KEY,
    NORMALIZATION_RATIO,
    OVERSUBSCRIPTION_KEY,
    RAW_ALLOCATABLE,
    SUPPRESSION_KEY,
    WORKLOAD_RATIOS,
    recorded_raw,
)
from corewise.vocabulary.reasons import Reason
from corewise.workload.pods import Pod
from manager.reviews import body, node, patch_of, response_of, review, webhooks
from node_records import recorded
from service.http_servers_world import serving

FULL = {
    AMPLIFICATION_RATIO: '{"cpu":2.00}',
    AMPLIFICATION_ORIGINAL: "{}",
    **recorded({"cpu": ("8", "16")}),
    NORMALIZATION_RATIO: "2.00",
}
CONFIG = {
    "kind": "ConfigMap",
    "metadata": {"name": CONFIG_NAME},
    "data": {
        NORMALIZATION_KEY: '{"enable":true,"ratioModel":{"A":{"baseRatio":1.5}},"nodeConfigs":[]}',
        AMPLIFICATION_KEY: '{"enable":true,"resourceAmplificationRatio":{"cpu":1.5}}',
    },
}
AMOUNTS = {"cpu": "1500m", "memory": "1Gi"}
OFFLINE_POD = {
    "metadata": {"name": "p", "labels": {"koordinator.sh/qosClass": "BE"}},
    "spec": {"containers": [{"name": "c", "resources": {"requests": AMOUNTS, "limits": AMOUNTS}}]},
}
COLOCATION = {
    "metadata": {"name": "batch"},
    "spec": {"selector": {"matchLabels": {"a": "b"}}, "labels": {"a": "b"}, "probability": "30%"},
}
REAL = {
    NODE_STATUS: review(NODE_STATUS, node(FULL), node(FULL, cpu="16")),
    NODE: review(NODE, node(FULL | {AMPLIFICATION_RATIO: '{"cpu":1.50}'}, cpu="16"), node(FULL, cpu="16")),
    CONFIG_MAP: review(CONFIG_MAP, CONFIG, CONFIG, name=CONFIG_NAME),
    PROFILE: review(PROFILE, COLOCATION, COLOCATION),
    APPLY_PROFILE: review(APPLY_PROFILE, OFFLINE_POD, None, operation="CREATE"),
    OFFLINE_PODS: review(OFFLINE_PODS, OFFLINE_POD, None, operation="CREATE"),
}
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
    st.sampled_from(["1e3", "0.1m", "12Ei", "-1", "1,2", "NaN", '{"cpu":1e400}', '{"cpu":', "[]", "0" * 40]),
)
VALUES = st.recursive(
    SCALARS | st.just("\ud800"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
LENIENT = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


async def ask(webhook: str, document: bytes, hooks: Any = None) -> Answer | None:
    """The answer, or None for what the server answers with 400."""
    try:
        return await (hooks or webhooks())[webhook](decode_review(document))
    except DecodeError:
        return None


def places(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON document."""
    found = [path]
    if isinstance(document, dict):
        found += [place for key, value in document.items() for place in places(value, (*path, key))]
    if isinstance(document, list):
        found += [place for index, value in enumerate(document) for place in places(value, (*path, index))]
    return found


def mutated(document: Any, path: tuple[Any, ...], value: Any, *, remove: bool) -> Any:
    if not path:
        return value
    changed = copy.deepcopy(document)
    at = changed
    for step in path[:-1]:
        at = at[step]
    if remove:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return changed


@pytest.mark.parametrize("webhook", REAL)
async def test_a_real_review_is_answered(webhook: str) -> None:
    answer = await ask(webhook, body(REAL[webhook]))
    assert answer
    assert response_of(answer.body)["allowed"]


@pytest.mark.parametrize("webhook", REAL)
@LENIENT
@given(data=st.data())
async def test_review_with_any_content_is_answered_or_refused(webhook: str, data: st.DataObject) -> None:
    document = REAL[webhook]
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(places(document)))
        document = mutated(document, path, data.draw(VALUES), remove=data.draw(st.booleans()))
    answer = await ask(webhook, body(document))
    if answer:
        assert response_of(answer.body)["uid"]


@pytest.mark.parametrize("webhook", [NODE_STATUS, NODE])
@LENIENT
@given(data=st.data())
async def test_annotations_of_any_content_are_no_trouble(webhook: str, data: st.DataObject) -> None:
    texts = st.one_of(SCALARS.map(str), st.lists(SCALARS).map(json.dumps), st.sampled_from([*FULL.values()]))
    names = st.sampled_from([*FULL])
    new, old = (data.draw(st.dictionaries(names, texts)) for _ in range(2))
    labels = data.draw(st.dictionaries(st.just(NORMALIZATION_ENABLED), st.text(max_size=6)))
    amounts = st.sampled_from(["8", "16", "1e3", "0.1m", "12Ei", "500m", "-1", "x", ""])
    document = review(
        webhook, node(new, cpu=data.draw(amounts), labels=labels), node(old, cpu=data.draw(amounts))
    )
    assert await ask(webhook, body(document))


@LENIENT
@given(st.binary(max_size=200) | VALUES.map(lambda value: json.dumps(value).encode()))
async def test_a_body_that_is_no_review_is_refused(content: bytes) -> None:
    hooks = webhooks()
    for webhook in PATHS:
        assert await ask(webhook, content, hooks) is None


@LENIENT
@given(normalization=st.text(max_size=60) | VALUES.map(json.dumps), amplification=VALUES.map(json.dumps))
async def test_a_config_map_of_any_content_is_judged(normalization: str, amplification: str) -> None:
    data = {NORMALIZATION_KEY: normalization, AMPLIFICATION_KEY: amplification}
    document = review(CONFIG_MAP, CONFIG | {"data": data}, CONFIG, name=CONFIG_NAME)
    assert await ask(CONFIG_MAP, body(document))


async def test_raw_amounts_are_amplified_and_heartbeats_put_back() -> None:
    beat = "2026-01-01T00:00:10Z"
    new = node(FULL)
    new["status"]["conditions"][0]["lastHeartbeatTime"] = beat
    answer = await ask(NODE_STATUS, body(review(NODE_STATUS, new, node(FULL, cpu="16"))))
    assert answer
    changes = {each["path"]: each["value"] for each in patch_of(answer.body)}
    assert changes == {
        "/status/capacity/cpu": "16",
        "/status/allocatable/cpu": "16",
        "/status/conditions/0/lastHeartbeatTime": "2026-01-01T00:00:00Z",
    }


def requesting(cpu: str) -> Sequence[Pod]:
    document = {
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
    }
    return (msgspec.convert(document, Pod),)


async def test_ratio_stays_while_its_raw_amounts_are_unknown() -> None:
    """4 CPUs at 2.00 show 8 (7 allocatable): by these pods of 6500m would fit without the ratio."""
    ratio = {AMPLIFICATION_RATIO: '{"cpu":2.00}'}
    hooks = webhooks(pods=requesting("6500m"))
    document = review(NODE, node({}, cpu="7"), node(ratio, cpu="7"))
    answer = await ask(NODE, body(document), hooks)
    assert answer
    status = response_of(answer.body)
    assert not status["allowed"]
    assert "may be amplified already" in status["status"]["message"]
    recorded_amounts = ratio | recorded({"cpu": ("7", "14")})
    kept = {name: text for name, text in recorded_amounts.items() if name != AMPLIFICATION_RATIO}
    answer = await ask(
        NODE, body(review(NODE, node(kept, cpu="14"), node(recorded_amounts, cpu="14"))), hooks
    )
    assert answer
    assert response_of(answer.body)["allowed"]


@pytest.mark.parametrize(("requested", "allowed"), [("9650m", False), ("0", True)])
async def test_damaged_raw_amounts_let_no_decrease_through(requested: str, allowed: bool) -> None:
    """8 CPUs at 1.21 show 9680m, at 1.20 they would show 9600m."""
    damage = {recorded_raw("allocatable", "cpu"): "{", RAW_ALLOCATABLE: "{"}
    before = {AMPLIFICATION_RATIO: '{"cpu":1.21}'} | recorded({"cpu": ("8", "9680m")}) | damage
    after = before | {AMPLIFICATION_RATIO: '{"cpu":1.20}'}
    document = review(NODE, node(after, cpu="9680m"), node(before, cpu="9680m"))
    answer = await ask(NODE, body(document), webhooks(pods=requesting(requested)))
    assert answer
    assert response_of(answer.body)["allowed"] is allowed


async def test_ratio_the_manager_will_replace_gets_a_warning() -> None:
    by_hand = FULL | {AMPLIFICATION_RATIO: '{"cpu":3.00}'}
    answer = await ask(NODE, body(review(NODE, node(by_hand, cpu="16"), node(FULL, cpu="16"))))
    assert answer
    response = response_of(answer.body)
    assert response["allowed"]
    assert any(AMPLIFICATION_ORIGINAL in each and "RatioOverruled" in each for each in response["warnings"])
    own = FULL | {AMPLIFICATION_ORIGINAL: '{"cpu":3.00}'}
    answer = await ask(NODE, body(review(NODE, node(own, cpu="16"), node(FULL, cpu="16"))))
    assert answer
    assert not any("RatioOverruled" in each for each in response_of(answer.body).get("warnings", ()))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"cpu":1.234}', ["cpu: 1.234 has more than two decimal places: it counts as 1.23"]),
        ('{"cpu":1.999,"memory":1.001}', ["it counts as 1.99", "it counts as 1.00"]),
        ('{"cpu":1.5000}', []),
    ],
)
@pytest.mark.parametrize("name", [AMPLIFICATION_RATIO, AMPLIFICATION_ORIGINAL])
async def test_ratio_decimals_that_are_ignored_get_a_warning(name: str, text: str, said: list[str]) -> None:
    """As in the ConfigMap: cut off, never rounded up."""
    before = {AMPLIFICATION_ORIGINAL: "{}"} if name == AMPLIFICATION_ORIGINAL else {}
    answer = await ask(NODE, body(review(NODE, node(before | {name: text}), node(before))))
    assert answer
    response = response_of(answer.body)
    assert response["allowed"]
    warnings = [each for each in response.get("warnings", ()) if "decimal" in each]
    assert len(warnings) == len(said)
    assert all(words in each for words, each in zip(said, warnings, strict=True))


async def test_next_to_koordinators_webhook_status_passes_unchanged() -> None:
    hooks = webhooks(koordinator="koordinator/mnode-status.koordinator.sh")
    answer = await ask(NODE_STATUS, body(REAL[NODE_STATUS]), hooks)
    assert answer
    assert not patch_of(answer.body)


async def test_raising_the_ratio_of_a_busy_node_warns() -> None:
    raised = node(FULL | {AMPLIFICATION_RATIO: '{"cpu":3.00}'}, cpu="16")
    answer = await ask(NODE, body(review(NODE, raised, node(FULL, cpu="16"), user="somebody")))
    assert answer
    assert any("RaiseOnBusyNode" in each for each in response_of(answer.body)["warnings"])


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({AMPLIFICATION_ORIGINAL: None}, "OriginalNeeded"),
        ({AMPLIFICATION_ORIGINAL: '{"cpu":1,5}'}, "Invalid"),
        ({AMPLIFICATION_ORIGINAL: ""}, "Invalid"),
        ({AMPLIFICATION_ORIGINAL: None, AMPLIFICATION_RATIO: None}, ""),
        ({AMPLIFICATION_ORIGINAL: None, AMPLIFICATION_RATIO: '{"cpu":2.50}'}, ""),
        ({AMPLIFICATION_RATIO: None}, ""),
        ({AMPLIFICATION_ORIGINAL: "{}"}, ""),
        ({AMPLIFICATION_ORIGINAL: '{"cpu":1.25}'}, ""),
    ],
)
async def test_corewise_computed_ratio_never_passes_as_the_users(
    changes: dict[str, str | None], refusal: str
) -> None:
    """`-original` may change to any ratio or go with the ratio itself, but not alone and not unreadable."""
    owned = FULL | {AMPLIFICATION_ORIGINAL: '{"cpu":1.33}'}
    changed = {name: text for name, text in (owned | changes).items() if text is not None}
    answer = await ask(
        NODE, body(review(NODE, node(changed, cpu="16"), node(owned, cpu="16"), user="somebody"))
    )
    assert answer
    response = response_of(answer.body)
    assert response["allowed"] == (not refusal)
    if refusal:
        assert response["status"]["reason"] == refusal
        assert "to {}" in response["status"]["message"]


async def test_original_stays_where_pods_need_the_ratio() -> None:
    """Without both annotations the node is raw, 8 CPUs, until the manager writes the ratio again."""
    owned = FULL | {AMPLIFICATION_ORIGINAL: '{"cpu":1.00}'}
    ratios = {AMPLIFICATION_RATIO, AMPLIFICATION_ORIGINAL}
    without = {name: text for name, text in FULL.items() if name not in ratios}
    for changed, allowed in ((without, False), (FULL, True)):
        document = review(NODE, node(changed, cpu="16"), node(owned, cpu="16"))
        answer = await ask(NODE, body(document), webhooks(pods=requesting("12")))
        assert answer
        assert response_of(answer.body)["allowed"] is allowed
    assert "Remove" not in Reason.ORIGINAL_NEEDED.fix


VECTOR = '[{"name":"vector","selector":{},"ratio":"%s"}]'


@pytest.mark.parametrize(
    ("stated", "refused"),
    [
        (VECTOR % "1.20", ""),
        (VECTOR % "0.50", "0.50 is outside 1.00..5.00"),
        ("[{}]", "missing required field"),
    ],
)
async def test_bad_workload_ratios_on_a_node_are_refused(stated: str, refused: str) -> None:
    changed = node(FULL | {WORKLOAD_RATIOS: stated}, cpu="16")
    answer = await ask(NODE, body(review(NODE, changed, node(FULL, cpu="16"), user="somebody")))
    assert answer
    response = response_of(answer.body)
    assert response["allowed"] == (not refused)
    assert refused in response.get("status", {}).get("message", "")
    again = await ask(NODE, body(review(NODE, changed, changed, user="somebody")))
    assert again
    assert response_of(again.body)["allowed"], "an old fault stays allowed"


async def test_original_is_removable_where_corewise_owns_no_ratio() -> None:
    old = node({AMPLIFICATION_ORIGINAL: '{"cpu":1.00}'})
    answer = await ask(NODE, body(review(NODE, node({}), old, user="somebody")))
    assert answer
    assert response_of(answer.body)["allowed"]


@pytest.mark.parametrize(
    ("key", "text", "told"),
    [
        (OVERSUBSCRIPTION_KEY, '{"ratio": 1.5}', "ratio: 1.5 is outside 0.00..1.00"),
        (SUPPRESSION_KEY, '{"adjustStep": "x"}', 'adjustStep: "x" is not a number'),
        (SUPPRESSION_KEY, '{"highThreshold": 0.3}', "0.30 must be above lowThreshold"),
    ],
)
async def test_webhook_refuses_bad_colocation_settings(key: str, text: str, told: str) -> None:
    changed = CONFIG | {"data": {key: text}}
    answer = await ask(CONFIG_MAP, body(review(CONFIG_MAP, changed, CONFIG, name=CONFIG_NAME)))
    assert answer
    response = response_of(answer.body)
    assert not response["allowed"]
    assert told in response["status"]["message"]


async def test_key_that_was_already_bad_allows_other_changes() -> None:
    bad = CONFIG | {"data": {NORMALIZATION_KEY: "{"}}
    changed = CONFIG | {"data": {NORMALIZATION_KEY: "{", "colocation-config": "{}"}}
    answer = await ask(CONFIG_MAP, body(review(CONFIG_MAP, changed, bad, name=CONFIG_NAME)))
    assert answer
    response = response_of(answer.body)
    assert response["allowed"]
    assert NORMALIZATION_KEY in response["warnings"][0]


async def test_offline_pod_with_volcano_preemptable_gets_a_warning() -> None:
    pod: dict[str, Any] = copy.deepcopy(OFFLINE_POD)
    pod["metadata"]["annotations"] = {"volcano.sh/preemptable": "false"}
    answer = await ask(OFFLINE_PODS, body(review(OFFLINE_PODS, pod, None, operation="CREATE")))
    assert answer
    (warning,) = response_of(answer.body)["warnings"]
    assert warning.startswith("volcano.sh/preemptable of Volcano is not honored: kube-scheduler preempts")


@pytest.mark.parametrize("depth", [150, 450, 900, 5000])
@pytest.mark.parametrize("webhook", [APPLY_PROFILE, OFFLINE_PODS])
async def test_a_pod_nested_too_deep_is_malformed(webhook: str, depth: int) -> None:
    pod: dict[str, Any] = copy.deepcopy(OFFLINE_POD)
    pod["spec"]["x"] = "@"
    document = json.dumps(review(webhook, pod, None, operation="CREATE"))
    assert await ask(webhook, document.replace('"@"', "[" * depth + "]" * depth).encode()) is None


async def test_patch_number_with_millions_of_digits_is_refused() -> None:
    patch = {"spec": {"activeDeadlineSeconds": "@"}}
    profile = {"metadata": {"name": "p"}, "spec": {"selector": {}, "patch": patch}}
    for number in ("1e30000000", "-1e-30000000", "9" * 5000):
        document = json.dumps(review(PROFILE, profile, None, operation="CREATE")).replace('"@"', number)
        answer = await ask(PROFILE, document.encode())
        assert answer is not None
        assert "out of range" in response_of(answer.body)["status"]["message"]


async def test_long_configuration_is_read_off_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []

    def reading(*arguments: Any, **options: Any) -> Any:
        threads.append(threading.get_ident())
        return read_configuration(*arguments, **options)

    monkeypatch.setattr("corewise.manager.webhooks.read_configuration", reading)
    for entries in (1, 2000):
        text = json.dumps({"nodeConfigs": [{"nodeSelector": {"matchLabels": {"a": "b"}}}] * entries})
        config = {**CONFIG, "data": {NORMALIZATION_KEY: text}}
        document = body(review(CONFIG_MAP, config, None, operation="CREATE", name=CONFIG_NAME))
        answer = await ask(CONFIG_MAP, document)
        assert answer is not None
        assert (answer.outcome is ReviewOutcome.ALLOWED) is (entries == 1)
    assert [each == threading.get_ident() for each in threads] == [True, False]


async def test_other_config_maps_are_none_of_our_business() -> None:
    bad = CONFIG | {"data": {NORMALIZATION_KEY: "{"}}
    answer = await ask(CONFIG_MAP, body(review(CONFIG_MAP, bad, bad, name="other")))
    assert answer
    assert response_of(answer.body) == {"uid": REAL[NODE]["request"]["uid"], "allowed": True}


@pytest.mark.parametrize("place", ["spec", "label", "condition", "capacity", "annotation"])
async def test_whatever_else_changes_makes_a_heartbeat_loud(place: str) -> None:
    old, new = node(FULL, cpu="16"), node(FULL)
    for each in (old, new):
        each["status"]["conditions"][0]["lastHeartbeatTime"] = "2999-01-01T00:00:00Z"
    new["status"]["conditions"][0]["lastHeartbeatTime"] = "2999-01-01T00:00:10Z"
    quiet = await ask(NODE_STATUS, body(review(NODE_STATUS, new, old)))
    assert quiet
    assert "/status/conditions/0/lastHeartbeatTime" in {each["path"] for each in patch_of(quiet.body)}
    match place:
        case "spec":
            new["spec"]["unschedulable"] = True
        case "label":
            new["metadata"]["labels"]["zone"] = "b"
        case "condition":
            new["status"]["conditions"][0]["reason"] = "KubeletReady"
        case "capacity":
            new["status"]["capacity"]["pods"] = "111"
        case _:
            new["metadata"]["annotations"]["example.com/note"] = "new"
    loud = await ask(NODE_STATUS, body(review(NODE_STATUS, new, old)))
    assert loud
    assert "/status/conditions/0/lastHeartbeatTime" not in {each["path"] for each in patch_of(loud.body)}


async def test_malformed_reviews_count_as_400_and_bugs_500() -> None:
    exposition = Exposition(METRICS)
    hooks = dict(webhooks(exposition))

    async def bug(_request: AdmissionRequest) -> Answer:
        raise ZeroDivisionError

    hooks[NODE] = bug
    served = [Webhook(name, PATHS[name], review) for name, review in hooks.items()]
    server = WebhookServer(WEBHOOKS, Address("127.0.0.1", 0), serving(), served, exposition)
    task = asyncio.create_task(server.run())
    await server.listening.wait()
    connector = TCPConnector(ssl=False)
    async with ClientSession(f"https://{server.address}", connector=connector) as client:
        good = await client.post(PATHS[NODE_STATUS], data=body(REAL[NODE_STATUS]))
        assert (good.status, good.content_type) == (200, "application/json")
        malformed = await client.post(PATHS[NODE_STATUS], data=b"{}")
        assert malformed.status == 400
        assert "AdmissionReview expected" in await malformed.text()
        broken = await client.post(PATHS[NODE], data=body(REAL[NODE]))
        assert broken.status == 500
        assert (await client.get(PATHS[NODE_STATUS])).status == 405
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert exposition.value(metrics.WEBHOOK_REQUESTS, NODE_STATUS, "changed") == 1
    assert exposition.value(metrics.WEBHOOK_REQUESTS, NODE_STATUS, "malformed") == 1
    assert exposition.value(metrics.WEBHOOK_REQUESTS, NODE, "bug") == 1


async def test_configuration_raising_busy_nodes_ratios_gets_a_warning() -> None:
    data = {AMPLIFICATION_KEY: '{"enable":true,"resourceAmplificationRatio":{"cpu":1.70}}'}
    changed = CONFIG | {"data": data}
    answer = await ask(CONFIG_MAP, body(review(CONFIG_MAP, changed, CONFIG, name=CONFIG_NAME)))
    assert answer
    warnings = response_of(answer.body)["warnings"]
    assert warnings[0].startswith("node busy-0: the cpu ratio rises from 1.00 to 1.70 while 70 % of")
    assert "RaiseOnBusyNode" in warnings[0]
    assert warnings[3:] == ["2 more busy nodes get a higher cpu ratio, too"]
    assert not any("idle" in each.partition(":")[0] or "unknown" in each for each in warnings)
    other = changed | {"data": data | {"other": "{}"}}
    answer = await ask(CONFIG_MAP, body(review(CONFIG_MAP, other, changed, name=CONFIG_NAME)))
    assert answer
    assert not response_of(answer.body).get("warnings"), "the ratios do not change"
