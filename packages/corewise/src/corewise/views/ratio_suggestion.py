"""The ratioModel that a cluster's scores give, against its configuration, and what a change would do. Pure.

The suggestion is the cluster's key with the measured ratios in place of the old ones. What it says of models
and settings that were not measured, and everything else, stays as it is, so the measured ratios are in the
same scale (:mod:`corewise.normalization.measured_ratios`). What a change does to nodes is what
the manager would decide: the same assessment, with the key changed, so a decrease that it would hold back is
named before anybody makes it.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from math import ceil, floor
from typing import Any

from corewise.config.configuration import (
    LARGEST_NORMALIZATION_RATIO,
    NO_NORMALIZATION,
    ModelRatios,
    NormalizationConfig,
    RatioField,
)
from corewise.config.facts import CPUFacts
from corewise.kube.objects import ConfigMap
from corewise.normalization.calibration import ModelSetting, ratio_model_json
from corewise.normalization.decision import decide
from corewise.normalization.fleet import Fleet, LeftOut, newest_score
from corewise.normalization.measured_ratios import (
    LEAST_NODES,
    MeasuredRatio,
    RatioOff,
    applied_ratios,
    measured_ratios,
    ratios_off,
    suggested_model,
    suggested_ratios,
)
from corewise.quantities import ONE, Ratio, RatioError
from corewise.ratios.cluster import ClusterContext, ConfigurationReading, read_configuration
from corewise.ratios.decision import held_back
from corewise.ratios.nodes import NodeView, read_scores
from corewise.views.compared_nodes import ComparedNodes
from corewise.views.stored_config import check_command
from corewise.views.tables import CellSeverity, Column
from corewise.views.text import count, some
from corewise.vocabulary.names import (
    CONFIG_NAMESPACE,
    CPU_EVALUATION,
    NORMALIZATION_KEY,
    NORMALIZATION_RATIO,
)

_HUNDRED = 100
_RATIO_MODEL = "ratioModel"
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class SuggestedRatio:
    """The suggested ratio of a model, beside the configured one.

    ``raised`` and ``lowered`` count the nodes whose normalization ratio the change would raise or lower;
    ``held_back`` names those whose decrease the manager would hold back, since their pods would not fit.
    """

    measured: MeasuredRatio
    off: RatioOff | None
    raised: int = 0
    lowered: int = 0
    held_back: tuple[str, ...] = ()

    @property
    def configured(self) -> Ratio | None:
        return self.measured.configured

    @property
    def could_be_closer(self) -> bool:
        """Whether the largest ratio is nearer than the configured one to a measured one above it."""
        if self.measured.is_allowed or self.off is None:
            return False
        return self.off.configured < LARGEST_NORMALIZATION_RATIO

    @property
    def percent(self) -> Fraction | None:
        """The difference to the configured ratio."""
        if self.configured is None or not self.configured.hundredths:
            return None
        return Fraction(self.measured.ratio.hundredths, self.configured.hundredths) * _HUNDRED - _HUNDRED


@dataclass(frozen=True, slots=True)
class RatioSuggestion:
    """The suggestion for a cluster. ``model`` is the ratioModel to configure, ``key`` the JSON of the
    key with it.

    ``slowest``: the ratio of the slowest model in the scale of the key. ``kept``: the ratios of nodes that
    stay as they are, of models and settings that were not measured and of ``nodeConfigs``; ``others``: what
    else in the key is in its scale. ``off_in_entries``: ratios of ``nodeConfigs`` that are off. ``unsafe``:
    why decreases would be held back, by node. ``problem`` says what is wrong with the key that the cluster
    has; ``unread``, why none is known.
    """

    rows: tuple[SuggestedRatio, ...]
    fleet: Fleet
    model: Mapping[str, ModelRatios]
    key: str
    slowest: Ratio
    is_enabled: bool
    pods_known: bool
    unsafe: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""
    unread: str = ""
    kept: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    off_in_entries: tuple[RatioOff, ...] = ()

    @property
    def differs(self) -> bool:
        """Whether a model has no ratio, or one that is off, and an allowed one would be better."""
        return bool(self.off_in_entries) or any(
            each.could_be_closer or (each.measured.is_suggested and (each.configured is None or each.off))
            for each in self.rows
        )


def fleet_of(views: Iterable[NodeView], now: datetime) -> Fleet:
    """Return the scores of nodes, as they were when the newest one was measured."""
    read = read_scores((each.name, each.topology or {}) for each in views)
    return Fleet.of(read, newest_score(read, now))


def suggest(nodes: ComparedNodes, now: datetime, config_namespace: str = CONFIG_NAMESPACE) -> RatioSuggestion:
    """Return the ratios that the nodes measured, and what they would change."""
    reading = read_configuration(ConfigMap(data=dict(nodes.stored)), largest=nodes.largest)
    present = reading.configuration
    config = present.normalization or NO_NORMALIZATION
    configured = config.cluster.ratio_model
    fleet = fleet_of(nodes.views, now)
    applied = applied_ratios(fleet, {each.name: each for each in nodes.views}, config)
    measured = measured_ratios(fleet, configured)
    kept = tuple(_kept(config, measured))
    suggested = suggested_ratios(measured, others_stay=bool(kept))
    model = suggested_model(suggested, configured)
    off = {(each.model, each.field): each for each in ratios_off(measured)}
    text = key_text(nodes.stored.get(NORMALIZATION_KEY), model)
    planned = ConfigMap(data={**nodes.stored, NORMALIZATION_KEY: text})
    after = read_configuration(planned, largest=nodes.largest).configuration
    effects = _Effects()
    if present.normalization is not None and after.normalization is not None:
        effects.compute(
            nodes.views, after.normalization, ClusterContext(after, nodes.koordinator, nodes.largest)
        )
    rows = tuple(
        SuggestedRatio(
            each,
            off.get(each.setting),
            effects.raised[each.setting],
            effects.lowered[each.setting],
            tuple(effects.held_back[each.setting]),
        )
        for each in suggested
    )
    return RatioSuggestion(
        rows=rows,
        fleet=fleet,
        model=model,
        key=text,
        slowest=measured[0].ratio if measured else ONE,
        is_enabled=config.cluster.enable is True,
        pods_known=nodes.pods_known,
        unsafe=effects.unsafe,
        problem=_problem(reading, check_command(config_namespace)),
        unread=nodes.unread,
        kept=kept,
        others=tuple(_others(config)),
        off_in_entries=tuple(each for each in ratios_off(applied) if each.entry),
    )


def _kept(config: NormalizationConfig, measured: Iterable[MeasuredRatio]) -> Iterator[str]:
    """Yield the ratios of nodes in the key that stay as they are."""
    settings, cluster = {each.setting for each in measured}, config.cluster.ratio_model
    for model, ratios in cluster.items():
        yield from (f'{field} of "{model}"' for field in ratios if (model, field) not in settings)
    for entry in config.node_configs:
        if entry.strategy.ratio_model != cluster:
            yield f"ratioModel of {entry}"


def _others(config: NormalizationConfig) -> Iterator[str]:
    """Yield the ratios in the key that are not of a model's nodes."""
    strategies = (config.cluster, *(each.strategy for each in config.node_configs))
    if any(each.default_ratio is not None for each in strategies):
        yield "defaultRatio"
    if any(each.workloads for each in strategies):
        yield "workloadRatios"


def _problem(reading: ConfigurationReading, to_see: str) -> str:
    """Return the remark on errors in the cluster's key: what the suggestion keeps of it."""
    if not reading.errors(NORMALIZATION_KEY):
        return ""
    kept = "the suggestion has nothing of it"
    if reading.configuration.normalization is not None:
        kept = "the suggestion leaves out ratios of ratioModel with errors and keeps all else"
    return f"{NORMALIZATION_KEY} of the cluster has errors, and {kept}. To see them: {to_see}"


class _Effects:
    """What a changed configuration does to nodes, by their CPU model and settings."""

    def __init__(self) -> None:
        self.raised: Counter[ModelSetting] = Counter()
        self.lowered: Counter[ModelSetting] = Counter()
        self.held_back: dict[ModelSetting, list[str]] = defaultdict(list)
        self.unsafe: dict[str, str] = {}

    def compute(
        self, views: Iterable[NodeView], config: NormalizationConfig, context: ClusterContext
    ) -> None:
        """Look at each node; only those whose ratio falls are assessed in full, which takes longest."""
        for view in views:
            if not isinstance(view.facts, CPUFacts):
                continue
            facts = view.facts
            setting = facts.model, RatioField.of(hyper_threading=facts.hyper_threading, turbo=facts.turbo)
            verdict, now = decide(view, config), _annotated(view)
            ratio = verdict.ratio
            if ratio is None or ratio == now:
                continue
            if ratio > now:
                self.raised[setting] += 1
                continue
            self.lowered[setting] += 1
            if held := held_back(view, verdict, context):
                self.held_back[setting].append(view.name)
                self.unsafe[view.name] = "; ".join(each.message for each in held)


def _annotated(view: NodeView) -> Ratio:
    try:
        return Ratio.parse(view.annotations.get(NORMALIZATION_RATIO, str(ONE)))
    except RatioError:
        return ONE


def key_text(stored: str | None, model: Mapping[str, ModelRatios]) -> str:
    """Return the key's JSON with this ratioModel; every ratio has its two decimals."""
    try:
        members = json.loads(stored or "{}")
    except (ValueError, RecursionError):
        members = {}
    if not isinstance(members, dict):
        members = {}
    members.setdefault(_RATIO_MODEL, None)
    lines = []
    for name, value in members.items():
        text = json.dumps(value, indent=2, ensure_ascii=False).replace("\n", "\n  ")
        shown = ratio_model_json(model) if name == _RATIO_MODEL else text
        lines.append(f"  {json.dumps(name, ensure_ascii=False)}: {shown}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _outward(interval: tuple[Fraction, Fraction]) -> tuple[Ratio, Ratio]:
    return Ratio(floor(interval[0] * _HUNDRED)), Ratio(ceil(interval[1] * _HUNDRED))


def _interval(row: SuggestedRatio) -> str:
    if not row.measured.is_scaled:
        return "-"
    if row.measured.interval is None:
        return "baseline" if row.measured.is_base else "-"
    low, high = _outward(row.measured.interval)
    return f"{low}-{high}"


def _ratio(row: SuggestedRatio) -> str:
    return str(row.measured.ratio) if row.measured.is_scaled else "-"


def _range(row: SuggestedRatio) -> str:
    if not row.measured.is_scaled:
        return "-"
    low, high = _outward(row.measured.extremes)
    return f"{low}-{high}" if len(row.measured.nodes) > 1 else "-"


def _change(row: SuggestedRatio) -> str:
    if not row.measured.is_scaled:
        return "not compared"
    if not row.measured.is_allowed:
        return f"above {LARGEST_NORMALIZATION_RATIO}"
    if row.configured is None:
        return "new"
    percent = row.percent
    return "" if not percent else f"{float(percent):+.1f}%"


def _effect(row: SuggestedRatio) -> str:
    parts = [f"{row.raised} up"] * bool(row.raised) + [f"{row.lowered} down"] * bool(row.lowered)
    parts += [f"{len(row.held_back)} held back"] * bool(row.held_back)
    return ", ".join(parts) or "-"


def _switch(*, on: bool) -> str:
    return "on" if on else "off"


COLUMNS: Sequence[Column[SuggestedRatio]] = (
    Column("NODES", lambda row: str(len(row.measured.nodes)), right=True),
    Column("RATIO", _ratio, right=True),
    Column("95% INTERVAL", _interval, right=True),
    Column("ALL NODES", _range, right=True, priority=2),
    Column("NOW", lambda row: str(row.configured or "-"), right=True),
    Column(
        "CHANGE",
        _change,
        right=True,
        severity=lambda row: (
            CellSeverity.WARNING if row.off or (row.configured is None and row.measured.is_scaled) else None
        ),
    ),
    Column(
        "EFFECT ON NODES",
        _effect,
        severity=lambda row: CellSeverity.ERROR if row.held_back else None,
        priority=1,
    ),
    Column("HT", lambda row: _switch(on=row.measured.field.hyper_threading)),
    Column("TURBO", lambda row: _switch(on=row.measured.field.turbo)),
    Column("MODEL", lambda row: row.measured.model, shrink=16),
)


def remarks(suggestion: RatioSuggestion) -> Iterator[str]:
    """Yield remarks on nodes that do not count, on the ratios, and on what a change would do."""
    for why, names in suggestion.fleet.left_out.items():
        yield f"{count(len(names), 'node')} left out, {why}: {some(names)}"
        if why is LeftOut.NOT_MEASURED:
            path = CPU_EVALUATION.replace(".", r"\.")
            get = f"kubectl get noderesourcetopology {names[0]}"
            yield f"  to see the reason: {get} -o jsonpath='{{.metadata.annotations.{path}}}'"
    if suggestion.rows:
        yield from _on_samples(suggestion.rows)
        yield from _on_hyper_threading([each.measured for each in suggestion.rows])
        yield from _on_configuration(suggestion)
        yield from _on_pods(suggestion)


def _on_samples(rows: Sequence[SuggestedRatio]) -> Iterator[str]:
    others = [each.measured for each in rows if not each.measured.is_base and each.measured.is_scaled]
    if len(rows) == 1:
        yield f"one model says nothing about others: its ratio is {rows[0].measured.ratio}"
    elif unsure := [each.model for each in others if each.interval is None]:
        yield f"no interval, which takes 7 nodes of a model and 7 of the baseline: {some(unsure)}"
    if few := [each.measured.model for each in rows if len(each.measured.nodes) < LEAST_NODES]:
        yield f"fewer than {LEAST_NODES} nodes, so a slow one would not be noticed in the ratio: {some(few)}"
    for each in rows:
        if each.measured.is_scaled and not each.measured.is_allowed:
            name, ratio, largest = each.measured.model, each.measured.ratio, LARGEST_NORMALIZATION_RATIO
            closer = f"; write {largest} into the key, which is closer" if each.could_be_closer else ""
            yield f'"{name}" measured {ratio}, above the largest ratio {largest}: it is not suggested{closer}'


def _on_hyper_threading(measured: Sequence[MeasuredRatio]) -> Iterator[str]:
    if len({each.field.hyper_threading for each in measured}) == 1:
        return
    yield (
        "nodes with hyper-threading and nodes without are not compared with each other, "
        "since each score is of a thread alone on its core"
    )
    if unknown := [each for each in measured if not each.is_scaled]:
        models = some([f'"{each.model}"' for each in unknown])
        switch = _switch(on=unknown[0].field.hyper_threading)
        yield (
            f"no ratio for {models} with hyper-threading {switch}, since the key has none to start from: "
            "measure one node of each kind with corewise calibrate"
        )


def _on_configuration(suggestion: RatioSuggestion) -> Iterator[str]:
    slowest, suggested = suggestion.slowest, suggestion.rows[0].measured.ratio
    if slowest != suggested:
        stays = (*suggestion.kept, *suggestion.others)
        divide = f": divide by {slowest} what stays as it is, too: {some(stays)}" if stays else ""
        yield f"by the key the slowest model has {slowest}, and the suggestion gives it {suggested}{divide}"
    elif suggested != ONE:
        yield f"the suggestion keeps the scale of the key, since ratios stay in it: {some(suggestion.kept)}"
    elif suggestion.kept and not any(each.configured for each in suggestion.rows):
        yield (
            "no model that was measured has a ratio in the key, so the slowest gets 1.00, "
            f"whatever stays there: {some(suggestion.kept)}"
        )
    for each in suggestion.off_in_entries:
        yield f"{each.message}: the suggestion leaves nodeConfigs as it is, so correct the ratio there"
    if suggestion.unread:
        yield f"{suggestion.unread}, so all ratios count as new, and -o configmap has no other keys"
    if suggestion.problem:
        yield suggestion.problem
    if not suggestion.is_enabled:
        yield 'the key has no "enable": true, so the ratios count only on nodes whose label enables them'


def _on_pods(suggestion: RatioSuggestion) -> Iterator[str]:
    for node, message in list(suggestion.unsafe.items())[:_SHOWN]:
        yield f"unsafe decrease, which the manager would hold back: node {node}: {message}"
    if len(suggestion.unsafe) > _SHOWN:
        yield f"and {len(suggestion.unsafe) - _SHOWN} more unsafe decreases (-o json has all)"
    if not suggestion.pods_known:
        yield "no pods came with the nodes: whether they fit after a decrease is not checked"


def suggestion_record(suggestion: RatioSuggestion) -> dict[str, Any]:
    """Return the suggestion for programs. Ratios are decimal texts."""
    return {
        "differs": suggestion.differs,
        "models": [_record(each) for each in suggestion.rows],
        "ratioModel": {
            model: {field.value: str(ratio) for field, ratio in ratios.items()}
            for model, ratios in suggestion.model.items()
        },
        "configuredRatioOfSlowest": str(suggestion.slowest),
        "enabled": suggestion.is_enabled,
        "leftOut": [
            {"reason": why.name, "message": str(why), "nodes": list(names)}
            for why, names in suggestion.fleet.left_out.items()
        ],
        "podsKnown": suggestion.pods_known,
        "unsafeDecreases": [
            {"node": node, "message": message} for node, message in suggestion.unsafe.items()
        ],
    }


def _record(row: SuggestedRatio) -> Mapping[str, Any]:
    measured = row.measured
    interval = (
        None
        if measured.interval is None or not measured.is_scaled
        else [str(each) for each in _outward(measured.interval)]
    )
    return {
        "model": measured.model,
        "hyperThreading": measured.field.hyper_threading,
        "turbo": measured.field.turbo,
        "ratioField": measured.field.value,
        "nodes": list(measured.nodes),
        "measuredRatio": str(measured.ratio) if measured.is_scaled else None,
        "interval95": interval,
        "allNodes": [str(each) for each in _outward(measured.extremes)] if measured.is_scaled else None,
        "configuredRatio": None if row.configured is None else str(row.configured),
        "isOff": row.off is not None,
        "nodesRaised": row.raised,
        "nodesLowered": row.lowered,
        "nodesHeldBack": list(row.held_back),
    }
