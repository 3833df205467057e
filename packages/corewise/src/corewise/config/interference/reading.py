"""The section ``interference`` of the scheduler's file: the text in, the configuration and all problems out.

    interference:
      overprovisioning: 2
      points: [10, 5, 1]
      profiles:               types of workloads, what a pod of each uses, which metrics matter how much to it
      metrics:                which series are asked of Prometheus, and how each metric ranks nodes
      ...

Every error is reported at once, with line, column, field, and what is allowed. An unknown key is an error; a
metric missing among affinities counts as 0, with a warning. A preset knows the queries of an exporter, and
what is written for a series replaces it; without a preset only the series that are written are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from itertools import pairwise
from types import MappingProxyType

from corewise.config.decoding import Decoder, Fields, Parsed, Place, either, shown
from corewise.config.interference.amounts import (
    BANDWIDTH,
    BYTES,
    PERCENT,
    duration,
    float_amount,
    milli_cpus,
    number,
    unit_of,
    whole_amount,
)
from corewise.config.interference.metrics import (
    DEFAULT_RANKINGS,
    DIVISORS,
    RANKED,
    Metric,
    Order,
    Preset,
    Ranking,
)
from corewise.config.interference.model import (
    BANDWIDTH_PER_CORE,
    DEFAULT,
    AffinityPoints,
    CapacityRule,
    CounterweightSettings,
    Decay,
    DefaultProfile,
    InterferenceConfiguration,
    LatencyModel,
    MetricsSettings,
    Profile,
    SeriesSettings,
    WhileAway,
    WorkloadProfile,
    equal_affinity,
)
from corewise.config.json_text import Items
from corewise.config.node_configs import read_label_selector
from corewise.config.yaml_text import read_yaml
from corewise.vocabulary.selectors import LabelSelector, label_key_fault, label_value_fault

_AMOUNTS = ("memoryBandwidth", "memory", "cpu", "llc")
_PER_CORE = "memoryBandwidthPerCore"
_IMPACT = "0 is no impact on the run time, 100 a very heavy one"


def _profiles(decoder: Decoder, place: Place) -> tuple[DefaultProfile, Mapping[str, WorkloadProfile]]:
    """Read all entries; the one named ``default`` is of another form."""
    default = DefaultProfile()
    named: dict[str, WorkloadProfile] = {}
    for key, value in decoder.entries(place):
        name = str(key.path[-1])
        if name == DEFAULT:
            default = _default(decoder, key, value)
        else:
            named[name] = _workload(decoder, name, key, value)
    return default, MappingProxyType(named)


def _workload(decoder: Decoder, name: str, key: Place, place: Place) -> WorkloadProfile:
    fault = label_value_fault(name) if name else "it is empty"
    if fault:
        decoder.error(key, f"no pod can have this as the value of its type label: {fault}")
    if place.value is None:
        decoder.error(key, "is empty: write profile and affinity")
    fields = decoder.fields(place, ("profile", "affinity", "selector"))
    line, column = decoder.position(key)
    return WorkloadProfile(
        name=name,
        profile=_profile(decoder, fields["profile"]),
        affinity=_affinity(decoder, fields["affinity"]),
        selector=_selector(decoder, fields["selector"]),
        line=line,
        column=column,
    )


def _selector(decoder: Decoder, place: Place) -> LabelSelector | None:
    if place.value is None:
        return None
    before = len(decoder.problems)
    selector = read_label_selector(decoder, place)
    if not selector.requirements and len(decoder.problems) == before:
        decoder.warn(place, "selects every pod, so pods of all other types are in conflict with it")
    return selector


def _profile(decoder: Decoder, place: Place) -> Profile:
    if place.value is None:
        decoder.warn(place, "no profile: pods of this type are not filtered, and weigh nothing once placed")
    fields = decoder.fields(place, _AMOUNTS)
    return Profile(
        memory_bandwidth=whole_amount(decoder, fields["memoryBandwidth"], BANDWIDTH) or 0,
        memory=whole_amount(decoder, fields["memory"], BYTES) or 0,
        cpu=milli_cpus(decoder, fields["cpu"]) or 0,
        llc=whole_amount(decoder, fields["llc"], BYTES) or 0,
    )


def _affinity(decoder: Decoder, place: Place) -> AffinityPoints:
    fields = decoder.fields(place, RANKED)
    missing = [metric.value for metric in RANKED if fields[metric].value is None]
    if missing:
        decoder.warn(place, f"{', '.join(missing)} missing: counts as 0, no impact")
    values = {metric: decoder.whole(fields[metric], 0, 100, _IMPACT) or 0 for metric in RANKED}
    return MappingProxyType(values)


def _default(decoder: Decoder, key: Place, place: Place) -> DefaultProfile:
    fields = decoder.fields(place, ("profile", "affinity"))
    amounts = decoder.fields(fields["profile"], (*_AMOUNTS, _PER_CORE))
    if amounts["memoryBandwidth"].value is not None and amounts[_PER_CORE].value is not None:
        decoder.error(amounts[_PER_CORE], "excludes memoryBandwidth: write one of the two")
    affinity = fields["affinity"]
    return DefaultProfile(
        bandwidth_per_core=either(whole_amount(decoder, amounts[_PER_CORE], BANDWIDTH), BANDWIDTH_PER_CORE),
        memory_bandwidth=whole_amount(decoder, amounts["memoryBandwidth"], BANDWIDTH),
        memory=whole_amount(decoder, amounts["memory"], BYTES),
        cpu=milli_cpus(decoder, amounts["cpu"]),
        llc=whole_amount(decoder, amounts["llc"], BYTES) or 0,
        affinity=equal_affinity() if affinity.value is None else _affinity(decoder, affinity),
        line=decoder.position(key)[0],
    )


_AGE = duration(1, 24 * 3600, "1s..24h")
_OF_ALL = ("preset", "nodeLabel", "maximumAge")
_OF_A_SERIES = ("query", "nodeLabel", "unit", "maximumAge")
_OF_A_METRIC = (*_OF_A_SERIES, "order", "tolerance")


def read_metrics(decoder: Decoder, place: Place) -> MetricsSettings:
    """Read the whole of ``metrics``; where nothing is written, it is the preset of corewise's own agent."""
    if place.value is None:
        return MetricsSettings()
    fields = decoder.fields(place, (*_OF_ALL, *Metric))
    preset = decoder.choice(fields["preset"], Preset)
    written = [each for each in Metric if fields[each].value is not None]
    inside = {
        each: decoder.fields(fields[each], _OF_A_METRIC if each in RANKED else _OF_A_SERIES)
        for each in written
    }
    if fields["preset"].value is None:
        _need_queries(decoder, place, inside)
    rankings = {each: _ranking(decoder, inside.get(each), each) for each in RANKED}
    return MetricsSettings(
        preset=preset,
        node_label=decoder.text(fields["nodeLabel"]),
        maximum_age=float_amount(decoder, fields["maximumAge"], _AGE),
        series=MappingProxyType({each: _series(decoder, each, found) for each, found in inside.items()}),
        rankings=MappingProxyType(rankings),
    )


def _need_queries(decoder: Decoder, place: Place, inside: Mapping[Metric, Fields]) -> None:
    """Without a preset, everything that is asked for has its query."""
    if not inside:
        decoder.error(place, f"neither a preset ({', '.join(Preset)}) nor a series with its query")
    for fields in inside.values():
        if fields["query"].value is None:
            decoder.error(fields.owner, "has no query, and there is no preset that has one")


def _series(decoder: Decoder, series: Metric, fields: Fields) -> SeriesSettings:
    query = decoder.text(fields["query"])
    if query is not None and not query.strip():
        decoder.error(fields["query"], "is empty")
    return SeriesSettings(
        query=query,
        node_label=decoder.text(fields["nodeLabel"]),
        unit=unit_of(decoder, fields["unit"], series.spec.kind.units),
        maximum_age=float_amount(decoder, fields["maximumAge"], _AGE),
        line=decoder.position(fields.owner)[0],
    )


def _ranking(decoder: Decoder, fields: Fields | None, metric: Metric) -> Ranking:
    default = DEFAULT_RANKINGS[metric]
    if fields is None:
        return default
    return Ranking(
        order=either(decoder.choice(fields["order"], Order), default.order),
        tolerance=either(float_amount(decoder, fields["tolerance"], PERCENT), default.tolerance),
    )


INTERFERENCE = "interference"
SCORING, REMEMBERED, NORMALIZE = "scoring", "rememberedDecisions", "normalizeCPUSet"
"""The other keys of the scheduler's file, which :mod:`corewise.scheduler.configuration` reads."""
SCHEDULER_KEYS = (SCORING, REMEMBERED, NORMALIZE, INTERFERENCE)

_KEYS = (
    *("overprovisioning", "points", "window", "counterweight", "missing", "typeLabel", "metrics"),
    *("capacity", "profiles", "relative", "latencyModel", "askAbove", "whileAway"),
)
_DEFAULTS = InterferenceConfiguration()
_WINDOW = duration(10, 24 * 3600, "10s..24h")
_EXPIRY = duration(0, 24 * 3600, "0s..24h")
_LINEAR = "linear"
_LARGEST_FACTOR = 100
_MOST_POINTS = 10_000
_LONGEST_LIST = 1000


class _OnMissing(StrEnum):
    PASS = "pass"  # noqa: S105 - it lets a node pass
    FAIL = "fail"


class _MissingScore(StrEnum):
    ZERO = "zero"


def parse_interference(text: str) -> Parsed[InterferenceConfiguration | None]:
    """Read the section of a YAML or JSON file, and nothing else of it.

    The value is None without errors if the file has no such section: nothing is configured.
    """
    decoder = Decoder(read_yaml(text), strict=True)
    root = decoder.fields(decoder.root, SCHEDULER_KEYS)
    return decoder.finish(read_interference(decoder, root))


def read_interference(decoder: Decoder, root: Fields) -> InterferenceConfiguration | None:
    """Read the section; None if the file has none."""
    if INTERFERENCE not in root.found:
        return None
    place = root[INTERFERENCE]
    fields = decoder.fields(place, _KEYS)
    default, profiles = _profiles(decoder, fields["profiles"])
    window = either(float_amount(decoder, fields["window"], _WINDOW), _DEFAULTS.window)
    missing = decoder.fields(fields["missing"], ("filter", "score"))
    decoder.choice(missing["score"], _MissingScore)
    relative = decoder.flag(fields["relative"])
    capacity = decoder.fields(fields["capacity"], ("memoryBandwidth",))
    errors = decoder.error_count
    metrics = read_metrics(decoder, fields["metrics"])
    metrics_are_right = decoder.error_count == errors
    config = InterferenceConfiguration(
        overprovisioning=_overprovisioning(decoder, fields["overprovisioning"]),
        points=_points(decoder, fields["points"]),
        window=window,
        counterweight=_counterweight(decoder, fields["counterweight"], window),
        missing_passes=decoder.choice(missing["filter"], _OnMissing) is not _OnMissing.FAIL,
        type_label=_type_label(decoder, fields["typeLabel"]),
        metrics=metrics,
        capacity=tuple(_rule(decoder, item) for item in decoder.items(capacity["memoryBandwidth"])),
        default=default,
        profiles=profiles,
        relative=bool(relative),
        latency_model=either(decoder.choice(fields["latencyModel"], LatencyModel), _DEFAULTS.latency_model),
        ask_above=either(whole_amount(decoder, fields["askAbove"], BANDWIDTH), _DEFAULTS.ask_above),
        while_away=either(decoder.choice(fields["whileAway"], WhileAway), _DEFAULTS.while_away),
    )
    if config.profiles and not config.at_stake:
        decoder.warn(
            fields["profiles"],
            "kube-scheduler asks about no pod, unless about all (--pods all): no profile but default has an "
            "affinity above 0 or moves more than askAbove",
        )
    _warn_of_conflicts(decoder, fields["profiles"], config)
    _warn_unplaceable(decoder, fields["profiles"], config)
    _warn_unread(decoder, fields["metrics"], config)
    if metrics_are_right:
        _warn_uncounted(decoder, fields["metrics"], config)
    if config.relative:
        _warn_absolute(decoder, fields["relative"], config)
    return config


def _overprovisioning(decoder: Decoder, place: Place) -> Fraction:
    factor = number(decoder, place, 0, _LARGEST_FACTOR)
    if factor is not None and factor == 0:
        decoder.error(place, "0 makes every profile need nothing: write a factor above 0, such as 2")
    return _DEFAULTS.overprovisioning if factor is None else Fraction(factor)


def _points(decoder: Decoder, place: Place) -> tuple[float, ...] | None:
    if place.is_empty:
        return _DEFAULTS.points
    if isinstance(place.value, str):
        if place.value != _LINEAR:
            decoder.error(
                place, f'{shown(place.value)} is not a known value: write "linear" or a list [10, 5, 1]'
            )
        return None
    items = decoder.items(place)
    if not isinstance(place.value, Items):
        return _DEFAULTS.points
    found = [number(decoder, item, 0, _MOST_POINTS) for item in items]
    for item in items:
        if item.value is None:
            decoder.error(item, "is empty: write a number, or remove the item")
    values = [value for value in found if value is not None]
    if len(values) == len(items):
        _check_points(decoder, place, items, values)
    return tuple(float(value) for value in values)


def _check_points(decoder: Decoder, place: Place, items: list[Place], values: list[Decimal]) -> None:
    if not values:
        decoder.error(place, "no points: write those of the first positions, such as [10, 5, 1]")
    if len(values) > _LONGEST_LIST:
        decoder.error(place, f"{len(values)} points are more than {_LONGEST_LIST}: write linear")
    for item, (better, worse) in zip(items[1:], pairwise(values), strict=False):
        if worse > better:
            decoder.error(item, f"{worse} is more than {better} before it: points must not increase")
    if values and not any(values):
        decoder.warn(place, "all points are 0, so every node scores 0")


def _counterweight(decoder: Decoder, place: Place, window: float) -> CounterweightSettings:
    fields = decoder.fields(place, ("expiry", "decay"))
    default = _DEFAULTS.counterweight
    expiry = either(float_amount(decoder, fields["expiry"], _EXPIRY), default.expiry)
    if expiry < window:
        at = fields["expiry"] if fields["expiry"].value is not None else place
        decoder.warn(
            at,
            f"expires after {expiry:g} s, before the window of {window:g} s shows the pod in full",
        )
    return CounterweightSettings(expiry, either(decoder.choice(fields["decay"], Decay), default.decay))


def _type_label(decoder: Decoder, place: Place) -> str:
    key = decoder.text(place)
    fault = None if key is None else label_key_fault(key)
    if fault:
        decoder.error(place, f"not a label key: {fault}")
    return _DEFAULTS.type_label if key is None else key


def _rule(decoder: Decoder, place: Place) -> CapacityRule:
    fields = decoder.fields(place, ("selector", "value"))
    value = whole_amount(decoder, fields["value"], BANDWIDTH)
    for name in ("selector", "value"):
        if fields[name].value is None:
            hint = ": {} selects all nodes" if name == "selector" else ": write 107GB/s"
            decoder.error(fields[name], f"is missing{hint}")
    if value == 0:
        decoder.error(fields["value"], "0 is not a capacity: leave out the rule if it is unknown")
    selector = read_label_selector(decoder, fields["selector"])
    return CapacityRule(selector, value or 0, decoder.position(place)[0])


def _warn_of_conflicts(decoder: Decoder, place: Place, config: InterferenceConfiguration) -> None:
    """Warn of selectors that select a pod whose only label says that it is of another type."""
    selectors = {
        name: each.selector
        for name, each in config.profiles.items()
        if each.selector and each.selector.requirements
    }
    at_stake = {each.name for each in config.at_stake}
    for key, _ in decoder.entries(place) if selectors else ():
        if (name := str(key.path[-1])) not in selectors:
            continue
        others = [
            each
            for each in config.profiles
            if each != name
            and (name in at_stake or each in at_stake)
            and selectors[name].matches({config.type_label: each})
        ]
        if others:
            decoder.warn(
                key,
                f"its selector takes in {config.type_label}={others[0]}, which is a type too: a pod of two "
                "types that kube-scheduler asks about fits no node (ProfileConflict); have the selector "
                "exclude it",
            )


def _warn_unplaceable(decoder: Decoder, place: Place, config: InterferenceConfiguration) -> None:
    """Warn of profiles that need more bandwidth than any capacity rule gives a node."""
    needed = {name: demand for name, _, demand in config.stated_bandwidths()}
    if not config.capacity or not needed:
        return
    largest = max(rule.memory_bandwidth for rule in config.capacity)
    for key, _ in decoder.entries(place):
        demand = needed.get(str(key.path[-1]), Fraction(0))
        if demand >= largest > 0:
            decoder.warn(
                key,
                unplaceable_message(float(demand), largest, "no node that a capacity rule selects"),
            )


def _warn_unread(decoder: Decoder, place: Place, config: InterferenceConfiguration) -> None:
    """Warn of series that are written, but that no decision reads."""
    for key, _ in decoder.entries(place) if config.metrics.series else ():
        if (name := str(key.path[-1])) in config.unread:
            curve = " or latencyModel: curve" if name == Metric.MEMORY_LATENCY_IDLE else ""
            decoder.warn(key, f"is not queried: write relative: true{curve} to use it")


def _warn_uncounted(decoder: Decoder, place: Place, config: InterferenceConfiguration) -> None:
    """Warn that scores leave out the cache of neighbors, because no query gives the sizes of caches."""
    if not _is_uncounted(config):
        return
    size = Metric.LLC_CAPACITY
    absolute = "".join(
        f"{each} stays absolute, and " for each in _absolute(config) if each.spec.reference is size
    )
    added = f'query: "{size.spec.queries[Preset.COREWISE].query}"'
    stated = {str(key.path[-1]): value for key, value in decoder.entries(place)}.get(size)
    inside = [str(key.path[-1]) for key, _ in decoder.entries(stated)] if stated else []
    if "nodeLabel" not in inside:
        added += ", nodeLabel: node"
    decoder.warn(
        place,
        f"nothing queries {size}: {absolute}scores do not count the cache that a pod takes from others, so a "
        "pod with an llc may be placed beside pods that need their cache; where corewise's agent runs, write "
        + (f"in {size}: {added}" if inside else f"{size}: {{{added}}}"),
    )


def _is_uncounted(config: InterferenceConfiguration) -> bool:
    return config.counts_neighbors and not config.metrics.template(Metric.LLC_CAPACITY)


def _warn_absolute(decoder: Decoder, place: Place, config: InterferenceConfiguration) -> None:
    """Warn of metrics that cannot be relative; of the size of caches only if no other warning names it."""
    for metric in _absolute(config):
        divisor = metric.spec.reference
        if divisor is not Metric.LLC_CAPACITY or not _is_uncounted(config):
            decoder.warn(
                place,
                f"{metric} stays absolute: nothing queries {divisor}; write metrics.{divisor}.query",
            )


def _absolute(config: InterferenceConfiguration) -> Iterator[Metric]:
    """Yield the metrics that cannot be relative, because no query gives what they are divided by."""
    template = config.metrics.template
    for metric in RANKED if config.relative else ():
        divisor = metric.spec.reference
        if (
            divisor in DIVISORS
            and metric not in config.predicted
            and template(metric)
            and not template(divisor)
        ):
            yield metric


def unplaceable_message(needed: float, largest: float, which: str = "no node") -> str:
    """Say that no node is large enough; a rule speaks only of nodes that state no capacity themselves."""
    return (
        f"fits {which}: it needs more than {needed / 10**9:g} GB/s of free memory bandwidth "
        f"(overprovisioning x profile), and the largest capacity known is {largest / 10**9:g} GB/s"
    )
