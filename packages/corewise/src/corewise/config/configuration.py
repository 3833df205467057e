"""The configuration users write: the text of a ConfigMap key in, a value and all problems out.

``cpu-normalization-config``::

    {"enable": true,
     "ratioModel": {"Xeon 8269CY": {"baseRatio": 1.50, "hyperThreadEnabledRatio": 1.00, ...}},
     "defaultRatio": 1.00,
     "workloadRatios": [{"name": "vector", "podSelector": {"matchLabels": {...}},
                         "ratioModel": {"Xeon 8269CY": {"baseRatio": 1.20, ...}}}],
     "nodeConfigs": [{"name": "fast", "nodeSelector": {"matchLabels": {...}}, "enable": false, ...}]}

``resource-amplification-config``::

    {"enable": true, "resourceAmplificationRatio": {"cpu": 1.5, "memory": 1.2}, "amplifyCapacity": true,
     "nodeConfigs": [...]}

``workloadRatios`` is for pods that the mix behind ``ratioModel`` misleads. Its first entry that selects a pod
and states a ratio for the node's CPU divides the quotas of that pod; for everything else the node's ratio
stays. An entry of ``nodeConfigs`` that has the member replaces the whole list.

A null is an absent key. The structs are those of Koordinator, and ``defaultRatio``, ``workloadRatios`` and
``amplifyCapacity``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import TypeAlias

from corewise.config.decoding import MOST_PROBLEMS, Decoder, Fields, Parsed, Place, Problem, Severity, either
from corewise.config.json_text import Members, read_json
from corewise.config.node_configs import Configuration, S, read_label_selector, read_node_configs
from corewise.quantities import ONE, Ratio
from corewise.vocabulary.selectors import NOTHING, LabelSelector

SMALLEST_RATIO = ONE
LARGEST_NORMALIZATION_RATIO = Ratio(500)
LARGEST_AMPLIFICATION_RATIO = Ratio(1000)
"""The default: the manager's option can set another."""

MOST_WORKLOADS = 16
"""How many entries ``workloadRatios`` may have: each node's annotation states all that concern its CPU."""
_LONGEST_SELECTOR = 2000
"""Characters in the keys and values of a selector."""
_LONGEST_NAME = 63


class AmplifiableResource(StrEnum):
    """The resources that can be amplified. Of all others kubelet reads back what is stored."""

    CPU = "cpu"
    MEMORY = "memory"


class RatioField(StrEnum):
    """The ratios of one CPU model, by what is switched on; the values are the keys users write."""

    BASE = "baseRatio"
    HYPER_THREADING = "hyperThreadEnabledRatio"
    TURBO = "turboEnabledRatio"
    HYPER_THREADING_TURBO = "hyperThreadTurboEnabledRatio"

    @classmethod
    def of(cls, *, hyper_threading: bool, turbo: bool) -> RatioField:
        """Return the field that holds the ratio of a CPU with these settings."""
        if hyper_threading:
            return cls.HYPER_THREADING_TURBO if turbo else cls.HYPER_THREADING
        return cls.TURBO if turbo else cls.BASE

    @property
    def hyper_threading(self) -> bool:
        """Whether it is of CPUs with hyper-threading."""
        return self in {RatioField.HYPER_THREADING, RatioField.HYPER_THREADING_TURBO}

    @property
    def turbo(self) -> bool:
        """Whether it is of CPUs with turbo."""
        return self in {RatioField.TURBO, RatioField.HYPER_THREADING_TURBO}


ModelRatios: TypeAlias = Mapping[RatioField, Ratio]


@dataclass(frozen=True, slots=True)
class WorkloadRatioModel:
    """One entry of ``workloadRatios``: the ratios of the pods that it selects, by CPU model."""

    name: str
    selector: LabelSelector
    ratio_model: Mapping[str, ModelRatios]


@dataclass(frozen=True, slots=True)
class NormalizationStrategy:
    """Which CPUs are how much faster than the baseline.

    Nodes of the ``unreadable`` models, and all nodes if ``is_unreadable``, stay as they are: what is said of
    them has errors.
    """

    enable: bool | None = None
    ratio_model: Mapping[str, ModelRatios] = field(default_factory=dict)
    default_ratio: Ratio | None = None
    workloads: tuple[WorkloadRatioModel, ...] = ()
    unreadable: frozenset[str] = frozenset()
    is_unreadable: bool = False


@dataclass(frozen=True, slots=True)
class AmplificationStrategy:
    """The original ratios, which normalization then multiplies.

    Those of the ``unreadable`` resources, and all if ``is_unreadable``, stay as they are: what is said of
    them has errors.
    """

    enable: bool = False
    ratios: Mapping[AmplifiableResource, Ratio] = field(default_factory=dict)
    amplifies_capacity: bool = True
    unreadable: frozenset[AmplifiableResource] = frozenset()
    is_unreadable: bool = False

    @property
    def originals(self) -> Mapping[AmplifiableResource, Ratio]:
        """The ratios that are applied: none unless enabled."""
        return self.ratios if self.enable else {}


NormalizationConfig: TypeAlias = Configuration[NormalizationStrategy]
AmplificationConfig: TypeAlias = Configuration[AmplificationStrategy]

NO_NORMALIZATION: NormalizationConfig = Configuration(NormalizationStrategy())
"""What applies where the key is absent: nothing but labels enables anything, and no model is known."""

NO_AMPLIFICATION: AmplificationConfig = Configuration(AmplificationStrategy())

NORMALIZATION_MEMBERS = ("enable", "ratioModel", "defaultRatio", "workloadRatios")
AMPLIFICATION_MEMBERS = ("enable", "resourceAmplificationRatio", "amplifyCapacity")
_BASELINE = "the slowest CPU model is the baseline, with ratio 1.00"
_WHOLE_LIMIT = "a pod never gets more time than its limit says"


def parse_normalization(text: str) -> Parsed[NormalizationConfig]:
    """Read the value of the key ``cpu-normalization-config``."""
    decoder = Decoder(read_json(text))
    return decoder.finish(
        read_node_configs(decoder, NORMALIZATION_MEMBERS, NormalizationStrategy(), _normalization_strategy)
    )


_LARGEST = "the largest is the manager's --largest-amplification"


def parse_amplification(
    text: str, largest: Ratio = LARGEST_AMPLIFICATION_RATIO
) -> Parsed[AmplificationConfig]:
    """Read the value of the key ``resource-amplification-config``."""
    decoder = Decoder(read_json(text))

    read = partial(_amplification_strategy, largest=largest)
    return decoder.finish(read_node_configs(decoder, AMPLIFICATION_MEMBERS, AmplificationStrategy(), read))


def node_config_conflicts(
    config: Configuration[S], nodes: Iterable[tuple[str, Mapping[str, str]]]
) -> tuple[Problem, ...]:
    """Return one error for each pair of entries that select a common node, naming such a node."""
    if len(config.node_configs) < 2:
        return ()
    common: dict[tuple[int, int], list[str]] = {}
    for name, labels in nodes:
        # With more entries for one node, there are enough pairs of smaller numbers to list.
        matching = list(islice(config.each_matching(labels), MOST_PROBLEMS + 1))
        for first, other in zip(matching[:1] * len(matching), matching[1:], strict=False):
            common.setdefault((first.index, other.index), []).append(name)
    listed = sorted(common.items())[:MOST_PROBLEMS]
    found = [_conflict(config, first, other, sorted(names)) for (first, other), names in listed]
    if len(common) > MOST_PROBLEMS:
        message = (
            f"and {len(common) - MOST_PROBLEMS:,} more errors or more: other entries select common nodes"
        )
        found.append(replace(found[-1], path="", message=message))
    return tuple(found)


def _conflict(config: Configuration[S], first: int, other: int, names: list[str]) -> Problem:
    entry = config.node_configs[other]
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return Problem(
        Severity.ERROR,
        entry.line,
        entry.column,
        f"{entry.member}[{other}]",
        f"selects node {names[0]}{more}, as {config.node_configs[first]} does: "
        "let the selectors exclude each other",
    )


def _normalization_strategy(
    decoder: Decoder, fields: Fields, inherited: NormalizationStrategy
) -> NormalizationStrategy:
    before = decoder.error_count
    enable = either(decoder.flag(fields["enable"]), inherited.enable)
    default_ratio = either(_normalization_ratio(decoder, fields["defaultRatio"]), inherited.default_ratio)
    entries = decoder.entries(fields["ratioModel"])
    is_unreadable = inherited.is_unreadable or decoder.error_count > before
    models: dict[str, ModelRatios] = {}
    unreadable: set[str] = set()
    for model, ratios in entries:
        before = decoder.error_count
        models[name := str(model.path[-1])] = _model_ratios(decoder, ratios)
        if decoder.error_count > before:
            unreadable.add(name)
    ratio_model = MappingProxyType({**inherited.ratio_model, **models})
    before = decoder.error_count
    workloads = _workloads(decoder, fields["workloadRatios"], inherited.workloads, ratio_model)
    is_unreadable = is_unreadable or decoder.error_count > before
    return NormalizationStrategy(
        enable=enable,
        ratio_model=ratio_model,
        default_ratio=default_ratio,
        workloads=workloads,
        unreadable=frozenset(inherited.unreadable - models.keys() | unreadable),
        is_unreadable=is_unreadable,
    )


def _workloads(
    decoder: Decoder,
    place: Place,
    inherited: tuple[WorkloadRatioModel, ...],
    ratio_model: Mapping[str, ModelRatios],
) -> tuple[WorkloadRatioModel, ...]:
    """Read ``workloadRatios``; an entry that selects no pod is left out."""
    if place.value is None:
        return inherited
    places = decoder.items(place)
    if len(places) > MOST_WORKLOADS:
        decoder.error(place, f"has {len(places):,} entries: at most {MOST_WORKLOADS} are allowed")
    found = (
        _workload(decoder, each, index, ratio_model) for index, each in enumerate(places[:MOST_WORKLOADS])
    )
    return tuple(each for each in found if not each.selector.selects_nothing)


def _workload(
    decoder: Decoder, place: Place, index: int, ratio_model: Mapping[str, ModelRatios]
) -> WorkloadRatioModel:
    fields = decoder.fields(place, ("name", "podSelector", "ratioModel"))
    name = decoder.text(fields["name"]) or f"workloadRatios[{index}]"
    if len(name) > _LONGEST_NAME:
        decoder.error(fields["name"], f"has {len(name):,} characters: at most {_LONGEST_NAME} are allowed")
    selector = NOTHING
    if fields["podSelector"].value is None:
        decoder.warn(place, "no podSelector, so the entry selects no pod: {} selects all")
    else:
        selector = read_label_selector(decoder, fields["podSelector"])
    if selector.size > _LONGEST_SELECTOR:
        many = (
            f"has {selector.size:,} characters in keys and values: at most {_LONGEST_SELECTOR:,} are allowed"
        )
        decoder.error(fields["podSelector"], many)
    models: dict[str, ModelRatios] = {}
    if fields["ratioModel"].value is None:
        decoder.warn(place, "no ratioModel, so the entry has no effect")
    elif _is_empty_object(fields["ratioModel"]):
        decoder.warn(fields["ratioModel"], "is empty, so the entry has no effect")
    for key, ratios in decoder.entries(fields["ratioModel"]):
        models[model := str(key.path[-1])] = _model_ratios(decoder, ratios, _WHOLE_LIMIT)
        if _is_empty_object(ratios):
            decoder.warn(ratios, "is empty, so the entry has no effect on this model")
        if ratio_model and model not in ratio_model:
            near = decoder.near(model, ratio_model)
            decoder.warn(key, f"ratioModel of the nodes has no entry for this model{near}")
    return WorkloadRatioModel(name, selector, MappingProxyType(models))


def _is_empty_object(place: Place) -> bool:
    return isinstance(place.value, Members) and not place.value


def _model_ratios(decoder: Decoder, place: Place, hint: str = _BASELINE) -> ModelRatios:
    fields = decoder.fields(place, tuple(RatioField))
    ratios = {name: _normalization_ratio(decoder, fields[name], hint) for name in RatioField}
    return MappingProxyType({name: ratio for name, ratio in ratios.items() if ratio is not None})


def _normalization_ratio(decoder: Decoder, place: Place, hint: str = _BASELINE) -> Ratio | None:
    return decoder.ratio(place, SMALLEST_RATIO, LARGEST_NORMALIZATION_RATIO, hint)


def _amplification_strategy(
    decoder: Decoder, fields: Fields, inherited: AmplificationStrategy, largest: Ratio
) -> AmplificationStrategy:
    known = tuple(AmplifiableResource)
    before = decoder.error_count
    enable = either(decoder.flag(fields["enable"]), inherited.enable)
    amplifies_capacity = either(decoder.flag(fields["amplifyCapacity"]), inherited.amplifies_capacity)
    entries = decoder.entries(fields["resourceAmplificationRatio"])
    is_unreadable = inherited.is_unreadable or decoder.error_count > before
    ratios, unreadable = dict(inherited.ratios), set(inherited.unreadable)
    unknown = [key for key, _ in entries if key.path[-1] not in known]
    for key in unknown:
        near = decoder.near(str(key.path[-1]), known)
        decoder.error(key, f"only cpu and memory can be amplified{near}")
    if unknown:
        # Each may be meant for a resource that has no good ratio beside it.
        unreadable.update(known)
    for key, place in entries:
        name = str(key.path[-1])
        if name not in known:
            continue
        resource = AmplifiableResource(name)
        ratio = decoder.ratio(place, SMALLEST_RATIO, largest, "a node is never made smaller", _LARGEST)
        if ratio is not None:
            ratios[resource] = ratio
            unreadable.discard(resource)
        elif place.value is not None:
            unreadable.add(resource)
    return AmplificationStrategy(
        enable=enable,
        ratios=MappingProxyType(ratios),
        amplifies_capacity=amplifies_capacity,
        unreadable=frozenset(unreadable),
        is_unreadable=is_unreadable,
    )
