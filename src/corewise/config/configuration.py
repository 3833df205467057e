"""The configuration users write: the text of a ConfigMap key in, a value and all problems out.

``cpu-normalization-config``::

    {"enable": true,
     "ratioModel": {"Xeon 8269CY": {"baseRatio": 1.50, "hyperThreadEnabledRatio": 1.00, ...}},
     "defaultRatio": 1.00,
     "nodeConfigs": [{"name": "fast", "nodeSelector": {"matchLabels": {...}}, "enable": false, ...}]}

``resource-amplification-config``::

    {"enable": true, "resourceAmplificationRatio": {"cpu": 1.5, "memory": 1.2}, "amplifyCapacity": true,
     "nodeConfigs": [...]}

A null is an absent key. The structs are those of Koordinator, and ``defaultRatio`` and ``amplifyCapacity``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from corewise.config.decoding import Decoder, Fields, Parsed, Place, Problem, Severity, did_you_mean
from corewise.config.json_text import read_json
from corewise.config.node_configs import (
    LARGEST_AMPLIFICATION_RATIO,
    LARGEST_NORMALIZATION_RATIO,
    NO_AMPLIFICATION,
    NO_NORMALIZATION,
    SMALLEST_RATIO,
    AmplifiableResource,
    AmplificationConfig,
    AmplificationStrategy,
    Configuration,
    ModelRatios,
    NodeConfig,
    NormalizationConfig,
    NormalizationStrategy,
    RatioField,
    S,
    read_node_configs,
)
from corewise.quantities import Ratio

__all__ = [
    "AMPLIFICATION_MEMBERS",
    "LARGEST_AMPLIFICATION_RATIO",
    "LARGEST_NORMALIZATION_RATIO",
    "NORMALIZATION_MEMBERS",
    "NO_AMPLIFICATION",
    "NO_NORMALIZATION",
    "SMALLEST_RATIO",
    "AmplifiableResource",
    "AmplificationConfig",
    "AmplificationStrategy",
    "Configuration",
    "ModelRatios",
    "NodeConfig",
    "NormalizationConfig",
    "NormalizationStrategy",
    "Parsed",
    "Problem",
    "RatioField",
    "Severity",
    "node_config_conflicts",
    "parse_amplification",
    "parse_normalization",
]

NORMALIZATION_MEMBERS = ("enable", "ratioModel", "defaultRatio")
AMPLIFICATION_MEMBERS = ("enable", "resourceAmplificationRatio", "amplifyCapacity")
_BASELINE = "the slowest CPU model is the baseline, with ratio 1.00"


def parse_normalization(text: str) -> Parsed[NormalizationConfig]:
    """Read the value of the key ``cpu-normalization-config``."""
    decoder = Decoder(read_json(text))
    return decoder.finish(read_node_configs(decoder, NORMALIZATION_MEMBERS, _normalization_strategy))


def parse_amplification(
    text: str, largest: Ratio = LARGEST_AMPLIFICATION_RATIO
) -> Parsed[AmplificationConfig]:
    """Read the value of the key ``resource-amplification-config``."""
    decoder = Decoder(read_json(text))

    def strategy(decoder: Decoder, fields: Fields) -> AmplificationStrategy:
        return _amplification_strategy(decoder, fields, largest)

    return decoder.finish(read_node_configs(decoder, AMPLIFICATION_MEMBERS, strategy))


def node_config_conflicts(
    config: Configuration[S], nodes: Iterable[tuple[str, Mapping[str, str]]]
) -> tuple[Problem, ...]:
    """Return one error for each pair of entries that select a common node, naming such a node."""
    common: dict[tuple[int, int], list[str]] = {}
    for name, labels in nodes:
        first, *others = config.matching(labels) or (None,)
        for other in others:
            if first is not None and other is not None:
                common.setdefault((first.index, other.index), []).append(name)
    return tuple(
        _conflict(config, first, other, sorted(names)) for (first, other), names in sorted(common.items())
    )


def _conflict(config: Configuration[S], first: int, other: int, names: list[str]) -> Problem:
    entry = config.node_configs[other]
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return Problem(
        Severity.ERROR,
        entry.line,
        entry.column,
        f"nodeConfigs[{other}]",
        f"selects node {names[0]}{more}, as {config.node_configs[first]} does: "
        "let the selectors exclude each other",
    )


def _normalization_strategy(decoder: Decoder, fields: Fields) -> NormalizationStrategy:
    models = {
        str(model.path[-1]): _model_ratios(decoder, ratios)
        for model, ratios in decoder.entries(fields["ratioModel"])
    }
    return NormalizationStrategy(
        enable=decoder.flag(fields["enable"]),
        ratio_model=MappingProxyType(models),
        default_ratio=_normalization_ratio(decoder, fields["defaultRatio"]),
    )


def _model_ratios(decoder: Decoder, place: Place) -> ModelRatios:
    fields = decoder.fields(place, tuple(RatioField))
    ratios = {name: _normalization_ratio(decoder, fields[name]) for name in RatioField}
    return MappingProxyType({name: ratio for name, ratio in ratios.items() if ratio is not None})


def _normalization_ratio(decoder: Decoder, place: Place) -> Ratio | None:
    return decoder.ratio(place, SMALLEST_RATIO, LARGEST_NORMALIZATION_RATIO, _BASELINE)


def _amplification_strategy(decoder: Decoder, fields: Fields, largest: Ratio) -> AmplificationStrategy:
    ratios: dict[AmplifiableResource, Ratio] = {}
    known = tuple(AmplifiableResource)
    for key, place in decoder.entries(fields["resourceAmplificationRatio"]):
        name = str(key.path[-1])
        if name not in known:
            decoder.tell(key, f"only cpu and memory can be amplified{did_you_mean(name, known)}")
            continue
        ratio = decoder.ratio(place, SMALLEST_RATIO, largest, "a node is never made smaller")
        if ratio is not None:
            ratios[AmplifiableResource(name)] = ratio
    return AmplificationStrategy(
        enable=decoder.flag(fields["enable"]),
        ratios=MappingProxyType(ratios),
        amplify_capacity=decoder.flag(fields["amplifyCapacity"]),
    )
