"""What is read of a real Prometheus that scrapes exporters as they print.

| the exporter | must give |
|---|---|
| pcm, telegraf intel_rdt, cAdvisor, node_exporter, the agent | each node's true figures, in base units |
| zero, NaN | no value, told as invalid |
| several series of a node | no value, told as ambiguous |
| no node label, or another one | no value, told with the labels that there are |
| a target that is gone | values until they are too old |
| PromQL that is wrong | the server's own words |

Counters of exporters are read within 15 %: on a busy machine a scrape's time and its figures lie apart.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from corewise.config.interference.metrics import USABLE_SHARE, Metric, Preset
from corewise.config.interference.model import InterferenceConfiguration
from corewise.config.interference.reading import parse_interference
from corewise.prometheus.client import PrometheusClient, QueryError
from corewise.scheduler.observing.readings import (
    NodeIdentity,
    NodeNames,
    Observation,
    State,
    complaint,
    observe,
)
from corewise.scheduler.observing.sources import sources
from prometheus_server.conftest import ODD, THIS_MACHINE, TRUTHS, Scraped
from prometheus_server.exporters import Truth
from prometheus_server.recorded_node import DIMMS

WINDOW = 5.0
"""Shorter than a file may have it, so that no one waits."""

NAMES = (*TRUTHS, THIS_MACHINE, *ODD)
BY_VENDOR = {Preset.CADVISOR, Preset.NODE_EXPORTER}
SECOND = 2.0
ABOUT = 0.15
EXACTLY = 1e-6
TRIES = 60


def configured(metrics: str, more: str = "") -> InterferenceConfiguration:
    parsed = parse_interference(f"interference:\n  metrics: {metrics}\n{more}")
    assert parsed.value is not None, parsed.errors
    return replace(parsed.value, window=WINDOW)


async def ask(
    scraped: Scraped,
    configuration: InterferenceConfiguration,
    before: Observation | None = None,
    names: tuple[str, ...] = NAMES,
) -> Observation:
    nodes = NodeNames(map(NodeIdentity, names))
    async with PrometheusClient(scraped.server.url) as client:
        return await observe(client, sources(configuration), nodes, time.time, before)


def value(observation: Observation, series: Metric, node: str) -> float:
    return float(observation.readings[series].values[observation.names.index(node)])


def usage(truth: Truth) -> dict[Metric, tuple[float, float]]:
    """Return every preset's values of CPU and memory: figure and how exactly."""
    return {
        Metric.CPU: (truth.busy / truth.cpus, ABOUT),
        Metric.CPU_CORES: (truth.cpus, EXACTLY),
        Metric.MEMORY_AVAILABLE: (truth.available, EXACTLY),
    }


def expected(preset: Preset, truth: Truth) -> dict[Metric, tuple[float, float]]:
    """Return a preset's values of a node, and how exactly; it must give no others."""
    bandwidth = {Metric.MEMORY_BANDWIDTH: (truth.bandwidth, ABOUT)}
    occupancy = {Metric.LLC_OCCUPANCY: (float(truth.occupancy), EXACTLY)}
    mpki = {Metric.LLC_MPKI: (truth.mpki, 0.02)}
    match preset:
        case Preset.NODE_EXPORTER:
            return {**usage(truth), **mpki}
        case Preset.INTEL_RDT:
            return {**usage(truth), **occupancy, Metric.MEMORY_BANDWIDTH: (truth.bandwidth, EXACTLY)}
        case Preset.COREWISE:
            own = {
                Metric.MEMORY_LATENCY: (100e-9, EXACTLY),
                Metric.MEMORY_BANDWIDTH_CAPACITY: (USABLE_SHARE * DIMMS, EXACTLY),
            }
            return {**usage(truth), **bandwidth, **occupancy, **mpki, **own}
        case _:
            return {**usage(truth), **bandwidth, **occupancy, **mpki}


@pytest.mark.parametrize("preset", list(Preset))
async def test_preset_gives_each_nodes_figures_in_base_units(scraped: Scraped, preset: Preset) -> None:
    """A late scrape makes a rate wrong for as long as it is in the window: then it is asked again."""
    wrong: list[str] = ["never asked"]
    for _ in range(TRIES):
        observation = await ask(scraped, configured(f"{{preset: {preset}}}"))
        assert not observation.failures
        wrong = [text for node in TRUTHS for text in differences(observation, preset, node)]
        if not wrong:
            break
        await asyncio.sleep(1.0)
    assert not wrong


def differences(observation: Observation, preset: Preset, node: str) -> Iterator[str]:
    wanted = expected(preset, TRUTHS[node])
    if preset in BY_VENDOR:
        level = observation.readings[Metric.LLC_MPKI].levels[observation.names.index(node)]
        if (level == SECOND) != (TRUTHS[node].vendor == "AuthenticAMD"):
            yield f"{node}: misses of level {level}"
    for series in observation.readings:
        given = value(observation, series, node)
        figure, tolerance = wanted.get(series, (float("nan"), 0.0))
        if given != pytest.approx(figure, rel=tolerance, nan_ok=True):
            yield f"{node} {series}: {given} instead of {figure}"
    yield from (f"{node} {series}: not asked" for series in wanted.keys() - observation.readings.keys())


async def test_value_is_as_old_as_its_last_sample(scraped: Scraped) -> None:
    observation = await ask(scraped, configured("{preset: pcm, maximumAge: 60s}"))
    reading = observation.readings[Metric.MEMORY_BANDWIDTH]
    ages = observation.at - reading.sampled[: len(TRUTHS)]
    assert (ages >= -1).all()
    assert (ages < 60).all()


async def test_this_machine_as_its_own_agent_tells_it(scraped: Scraped) -> None:
    observation = await ask(scraped, configured("{preset: corewise}"))
    assert 0 <= value(observation, Metric.CPU, THIS_MACHINE) < 1.2
    assert value(observation, Metric.MEMORY_AVAILABLE, THIS_MACHINE) > 1 << 20
    assert value(observation, Metric.MEMORY_LATENCY, THIS_MACHINE) == pytest.approx(90e-9)


async def test_reference_values_exist_for_differing_nodes(scraped: Scraped) -> None:
    observation = await ask(scraped, configured("{preset: corewise}", "  relative: true\n"))
    assert not observation.failures
    assert value(observation, Metric.MEMORY_LATENCY_IDLE, "n1") == pytest.approx(100e-9)
    assert value(observation, Metric.LLC_CAPACITY, "n1") == 2 * 36608 * 1024


async def odd(scraped: Scraped, query: str = "odd_bandwidth", more: str = "") -> Observation:
    return await ask(
        scraped, configured(f"{{memorybandwidth: {{query: '{query}', unit: B/s, maximumAge: 60s{more}}}}}")
    )


async def test_what_cannot_be_is_missing_and_told_apart(scraped: Scraped) -> None:
    scraped.server.waits_for("odd_bandwidth", len(ODD) + 1)
    observation = await odd(scraped)
    reading = observation.readings[Metric.MEMORY_BANDWIDTH]
    places = {name: observation.names.index(name) for name in ODD}
    assert [bool(reading.invalid[places[name]]) for name in ("zero", "nan", "frozen")] == [True, True, False]
    assert bool(reading.ambiguous[places["several"]])
    assert np.isnan(reading.values[[places[name] for name in ("zero", "nan", "several", "unlabelled")]]).all()
    assert reading.values[places["frozen"]] == 4e9
    states = reading.states(observation.at, 60.0)
    assert states[State.INVALID] == 2
    assert states[State.AMBIGUOUS] == 1
    assert reading.unmatched == 1
    (labels,) = reading.examples
    assert labels["host"] == "unlabelled"
    (source,) = observation.sources
    assert "several series of one node" in complaint(source, reading)


async def test_another_label_may_name_the_node(scraped: Scraped) -> None:
    scraped.server.waits_for("odd_bandwidth", len(ODD) + 1)
    observation = await odd(scraped, more=", nodeLabel: host")
    assert value(observation, Metric.MEMORY_BANDWIDTH, "unlabelled") == 3e9
    lost = await odd(scraped, "sum(odd_bandwidth) by (job)")
    (source,) = lost.sources
    said = complaint(source, lost.readings[Metric.MEMORY_BANDWIDTH])
    assert 'no series has a node of this cluster in its label "node"' in said
    assert "odd" in said


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("rate(odd_bandwidth)", "expected type range vector"),
        ("odd_bandwidth[5m]", "ranges of samples"),
        ('label_replace(odd_bandwidth, "node", "x", "node", "(")', "invalid regular expression"),
        ("sum(", "parse error"),
    ],
)
async def test_wrong_promql_is_reported_in_the_servers_words(scraped: Scraped, query: str, said: str) -> None:
    observation = await odd(scraped, query.replace("'", "''"))
    failure = observation.failures[Metric.MEMORY_BANDWIDTH]
    assert isinstance(failure, QueryError)
    assert said in str(failure)
    assert failure.hint


async def test_lost_target_keeps_its_values_until_too_old(scraped: Scraped) -> None:
    going = configured(
        "{memorybandwidth: {query: 'max by (node) (max_over_time(odd_bandwidth[60s]))', unit: B/s}}"
    )
    (source,) = sources(going)
    source = replace(
        source,
        maximum_age=5.0,
        last_samples="max by (node) (max_over_time(timestamp(odd_bandwidth)[60s:1s]))",
    )
    scraped.server.waits_for('odd_bandwidth{node="going"}', 1)
    scraped.machines.say("/odd/going", None)
    nodes = NodeNames([NodeIdentity("going"), NodeIdentity("frozen")])
    async with PrometheusClient(scraped.server.url) as client, asyncio.timeout(90):
        while True:
            observation = await observe(client, (source,), nodes, time.time)
            states = observation.readings[Metric.MEMORY_BANDWIDTH].states(observation.at, 5.0)
            assert not np.isnan(observation.readings[Metric.MEMORY_BANDWIDTH].values).any()
            if states[State.STALE]:
                break
            await asyncio.sleep(0.5)
    scraped.machines.say("/odd/going", "odd_bandwidth 5e9\n")
    assert states == {**dict.fromkeys(State, 0), State.FRESH: 1, State.STALE: 1}
