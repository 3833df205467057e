"""What of the offer is written to the Node, and when; and which ConfigMap applies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from corewise.agent.objects import AgentNode
from corewise.agent.offline_settings import ColocationConfiguration, raw_allocatable
from corewise.agent.publication import Publication, Publisher, Tick
from corewise.kube.objects import ConfigMap
from corewise.quantities import Ratio, Share
from corewise.suppression.offer import Computed, Offer, OfflineAmounts
from corewise.vocabulary.names import (
    AMPLIFICATION_RATIO,
    BATCH_CPU,
    BATCH_MEMORY,
    OFFLINE_REPORT,
    OFFLINE_SHORTFALL,
    OVERSUBSCRIPTION_KEY,
    RAW_ALLOCATABLE,
    SUPPRESSION_KEY,
)
from corewise.vocabulary.offline_report import (
    EvictionReport,
    MemoryReport,
    OfferState,
    OfflineReport,
    ShortfallReport,
    SuppressionReport,
    decode,
)
from corewise.vocabulary.reasons import Reason

GIB = 1 << 30
RATIO = Ratio(150)


def tick(cpu: int = 4000, *, state: OfferState = OfferState.FRESH, task: str = "", **eviction: str) -> Tick:
    latest = Computed(cpu, GIB, 0, 0, 0, 0, Reason.OFFER_FROM_IDLE)
    offer = Offer(cpu, GIB, state, 1, 0, latest, 0.0)
    memory = MemoryReport(allocatable=0, online=0, offline=0, offered=GIB)
    report = OfflineReport(
        time="2026-01-01T00:00:00Z",
        interval_seconds=10,
        state=state,
        ratio="0.60",
        normalization_ratio="1.50",
        offered_milli=cpu,
        memory=memory,
        suppression=SuppressionReport(mode="per-pod-quota", reason="r", why="w", task=task),
        eviction=EvictionReport(**{"reason": "r", "why": "w", **eviction}),  # type: ignore[arg-type]
        allocatable_milli=0,
        node_milli=0,
        online_milli=0,
        offline_milli=0,
        pinned_milli=0,
        raw_offer_milli=0,
    )
    return Tick(on=True, offer=offer, report=report)


def node(cpu: str | None = None, memory: str | None = None, **annotations: str) -> AgentNode:
    amounts = {BATCH_CPU: cpu, BATCH_MEMORY: memory} if cpu else {}
    status = {"capacity": amounts, "allocatable": amounts}
    return msgspec.convert({"metadata": {"annotations": annotations}, "status": status}, AgentNode)


def shows(cpu: str, *conditions: Mapping[str, str], memory: str = "1Gi", annotated: bool = True) -> AgentNode:
    """A Node with conditions."""
    amounts = {BATCH_CPU: cpu, BATCH_MEMORY: memory}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": conditions}
    annotations = {OFFLINE_REPORT: "{}"} if annotated else {}
    return msgspec.convert({"metadata": {"annotations": annotations}, "status": status}, AgentNode)


SHOWN = node("6k", "1Gi", **{OFFLINE_REPORT: "{}"})


@pytest.fixture
def publisher() -> Publisher:
    """One that has published 4 CPUs of a node with ratio 1.50, at time 100."""
    publisher = Publisher()
    publication = publisher.change(tick(), node(), RATIO, 100.0)
    assert publication is not None
    publisher.done(publication, 100.0)
    return publisher


def test_publication_holds_normalized_cpu_bytes_and_the_report() -> None:
    publication = Publisher().change(tick(), node(), RATIO, 100.0)
    assert publication is not None
    amounts = {BATCH_CPU: "6000", BATCH_MEMORY: str(GIB)}
    body: Any = publication.body
    assert body["status"] == {"capacity": amounts, "allocatable": amounts, "conditions": []}
    report = decode(body["metadata"]["annotations"][OFFLINE_REPORT])
    assert report is not None
    assert report.offered_milli == 4000


@pytest.mark.parametrize(
    ("change", "seconds", "due"),
    [
        (tick(), 10, False),
        (tick(4400), 10, False),
        (tick(4401), 10, True),
        (tick(3599), 10, True),
        (tick(), 89, False),
        (tick(), 90, True),
        (tick(state=OfferState.FROZEN), 10, True),
        (tick(task="suppressing"), 10, True),
        (tick(reason="EvictionNoSample", why="memory is 71 %", next="default/a"), 10, False),
        (tick(pressure="memory"), 10, True),
        (tick(last="default/a"), 10, True),
    ],
)
def test_publication_follows_large_changes_or_once_per_minute(
    publisher: Publisher, change: Tick, seconds: int, due: bool
) -> None:
    assert (publisher.change(change, SHOWN, RATIO, 100.0 + seconds) is not None) == due


@pytest.mark.parametrize("shown", [node(), node("6k", "1Gi"), node("8k", "1Gi", **{OFFLINE_REPORT: "{}"})])
def test_amounts_changed_on_the_node_are_written_again(publisher: Publisher, shown: AgentNode) -> None:
    assert publisher.change(tick(), shown, RATIO, 102.0) is None
    assert publisher.change(tick(), shown, RATIO, 110.0) is not None


def test_missing_label_removes_only_what_an_agent_wrote(publisher: Publisher) -> None:
    off = Tick(on=False)
    assert publisher.change(off, node("6k", "1Gi"), RATIO, 110.0) is None
    publication = publisher.change(off, SHOWN, RATIO, 110.0)
    assert publication == Publication(None, None)
    nothing = {BATCH_CPU: None, BATCH_MEMORY: None}
    assert publication.body == {
        "metadata": {"annotations": {OFFLINE_REPORT: None}},
        "status": {
            "capacity": nothing,
            "allocatable": nothing,
            "conditions": [{"$patch": "delete", "type": OFFLINE_SHORTFALL}],
        },
    }
    publisher.done(publication, 110.0)
    assert publisher.change(off, SHOWN, RATIO, 111.0) is None, "it has been written a moment ago"
    assert publisher.change(off, SHOWN, RATIO, 120.0) == publication


def held(cpu: int, memory: int = 0) -> OfflineAmounts:
    return OfflineAmounts(cpu, memory)


def test_shortfall_shows_requests_on_node_until_it_ends(
    publisher: Publisher,
) -> None:
    short = replace(tick(3000), running=held(5000), requested=held(5000), wall=0.0)
    publication = publisher.change(short, SHOWN, RATIO, 110.0)
    assert publication is not None
    assert publication.amounts == OfflineAmounts(5000, GIB)
    assert publication.report is not None
    assert publication.report.shortfall == ShortfallReport(batch_cpu=5000, batch_memory=0)
    body: Any = publication.body
    (condition,) = body["status"]["conditions"]
    assert (condition["type"], condition["status"]) == (OFFLINE_SHORTFALL, "True")
    assert condition["lastTransitionTime"] == "1970-01-01T00:00:00Z"
    assert "request 5000 kubernetes.io/batch-cpu" in condition["message"]
    assert "4500 kubernetes.io/batch-cpu" in condition["message"]
    publisher.done(publication, 110.0)
    shown = shows("5k", condition)
    assert publisher.change(short, shown, RATIO, 120.0) is None
    later = publisher.change(replace(short, wall=500.0), shown, RATIO, 300.0)
    assert later is not None
    assert later.shortfall == condition, "since when stays"
    assert publisher.change(short, shows("5k"), RATIO, 120.0) is not None, "somebody removed the condition"
    enough = publisher.change(replace(short, running=held(0), requested=held(0)), shown, RATIO, 200.0)
    assert enough is not None
    body = enough.body
    assert (enough.amounts, body["status"]["conditions"]) == (OfflineAmounts(4500, GIB), [])


@pytest.mark.parametrize(
    ("running", "requested", "published"),
    [
        pytest.param(0, 5000, 5000, id="bound within what the Node shows: kubelet is about to admit it"),
        pytest.param(0, 9000, 6000, id="bound beyond it: that raises nothing"),
        pytest.param(5000, 9000, 6000, id="beside pods that run"),
        pytest.param(7000, 7000, 7000, id="admitted already"),
    ],
)
def test_pod_not_yet_running_never_raises_the_publication(
    publisher: Publisher, running: int, requested: int, published: int
) -> None:
    change = replace(tick(1000), running=held(running), requested=held(requested))
    publication = publisher.change(change, SHOWN, RATIO, 200.0)
    assert publication is not None
    assert publication.amounts == OfflineAmounts(published, GIB)


def test_requests_of_running_pods_outlast_the_label(
    publisher: Publisher,
) -> None:
    off = Tick(on=False, running=held(5000, 7), requested=held(5000, 7))
    publication = publisher.change(off, SHOWN, RATIO, 110.0)
    assert publication is not None
    body: Any = publication.body
    assert publication.amounts == OfflineAmounts(5000, 7)
    assert "annotations" in body["metadata"]
    assert not body["metadata"]["annotations"]
    (condition,) = body["status"]["conditions"]
    assert "nothing is offered any more" in condition["message"]
    publisher.done(publication, 110.0)
    shown = shows("5k", condition, memory="7", annotated=False)
    assert publisher.change(off, shown, RATIO, 120.0) is None
    assert Publisher().change(off, shown, RATIO, 120.0) is None, "nor after a restart"
    fewer = publisher.change(
        replace(off, running=held(2000, 7), requested=held(2000, 7)), shown, RATIO, 120.0
    )
    assert fewer is not None
    assert fewer.amounts == OfflineAmounts(2000, 7)
    assert publisher.change(Tick(on=False), shown, RATIO, 120.0) == Publication(None, None)


def test_what_is_not_known_is_not_told(publisher: Publisher) -> None:
    for unknown in (Tick(), Tick(on=True)):
        assert publisher.change(unknown, SHOWN, RATIO, 1000.0) is None


def test_a_dry_run_says_everything_once() -> None:
    publisher = Publisher()
    first = publisher.change(tick(), node(), RATIO, 100.0)
    assert first is not None
    publisher.done(first, 100.0, is_written=False)
    assert publisher.change(tick(), node(), RATIO, 120.0) is None
    off = publisher.change(Tick(on=False), SHOWN, RATIO, 130.0)
    assert off is not None
    publisher.done(off, 130.0, is_written=False)
    assert publisher.change(Tick(on=False), SHOWN, RATIO, 140.0) is None


def stated(cpu: str, memory: str, **annotations: str) -> AgentNode:
    amounts = {"cpu": cpu, "memory": memory}
    status = {"capacity": amounts, "allocatable": amounts}
    return msgspec.convert({"metadata": {"annotations": annotations}, "status": status}, AgentNode)


@pytest.mark.parametrize(
    ("shown", "raw"),
    [
        (stated("15900m", "32Gi"), OfflineAmounts(15_900, 32 * GIB)),
        (
            stated("24", "32Gi", **{RAW_ALLOCATABLE: '{"cpu":"16"}', AMPLIFICATION_RATIO: '{"cpu":1.5}'}),
            OfflineAmounts(16_000, 32 * GIB),
        ),
        (node(), None),
    ],
)
def test_the_physical_allocatable_amounts_count(shown: AgentNode, raw: OfflineAmounts | None) -> None:
    assert raw_allocatable(shown) == raw


def config_map(**keys: str) -> ConfigMap:
    names = {"oversubscription": OVERSUBSCRIPTION_KEY, "suppression": SUPPRESSION_KEY}
    return ConfigMap(data={names[key]: text for key, text in keys.items()})


def test_unread_configmap_is_unknown_but_missing_means_defaults() -> None:
    configuration = ColocationConfiguration()
    assert configuration.oversubscription({}) is None
    assert configuration.suppression({}) is None
    configuration.read(None)
    oversubscription, suppression = configuration.oversubscription({}), configuration.suppression({})
    assert oversubscription is not None
    assert oversubscription.ratio == Share(6000)
    assert suppression is not None
    assert not suppression.enabled


def test_a_nodes_own_settings_go_over_the_clusters() -> None:
    text = """{"adjustStep": 0.2, "nodeConfigs": [
        {"name": "s", "nodeSelector": {"matchLabels": {"kind": "small"}}, "adjustStep": 0.5}]}"""
    configuration = ColocationConfiguration()
    configuration.read(config_map(suppression=text))
    steps = [configuration.suppression(labels) for labels in ({}, {"kind": "small"})]
    assert [step.adjust_step if step else None for step in steps] == [Share(2000), Share(5000)]


def test_koordinator_and_volcano_keys_are_reported_as_ignored() -> None:
    configuration = ColocationConfiguration()
    others = {"colocation-config": '{"enable": true}'}
    configuration.read(ConfigMap(data={**others, "cpu-normalization-config": "{}"}))
    assert [each.partition(" is not honored")[0] for each in configuration.warnings] == list(others)
    assert configuration.problems == {}


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("suppression", '{"adjustStep": 0}'),
        ("suppression", '{"adjustStep": 1.5}'),
        ("suppression", '{"adjustStep": "x"}'),
        ("suppression", '{"highThreshold": 0.5}'),
        ("suppression", "{"),
        ("oversubscription", '{"ratio": 1.01}'),
        ("oversubscription", '{"intervalSeconds": 0}'),
    ],
)
def test_bad_key_keeps_its_last_good_value_alone(key: str, text: str) -> None:
    good = {"suppression": '{"adjustStep": 0.2}', "oversubscription": '{"ratio": 0.50}'}
    configuration = ColocationConfiguration()
    configuration.read(config_map(**{**good, key: text}))
    assert list(configuration.problems) == list(config_map(**{key: ""}).data)
    known = {
        "suppression": configuration.suppression({}),
        "oversubscription": configuration.oversubscription({}),
    }
    assert [name for name, value in known.items() if value is None] == [key]
    configuration.read(config_map(**good))
    assert not configuration.problems
    configuration.read(config_map(**{**good, key: text}))
    assert "the last good one is kept" in next(iter(configuration.problems.values()))
    suppression, oversubscription = configuration.suppression({}), configuration.oversubscription({})
    assert suppression is not None
    assert oversubscription is not None
    assert (suppression.adjust_step, oversubscription.ratio) == (Share(2000), Share(5000))
