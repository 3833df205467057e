"""A change tried on the live cluster's objects: what the manager and the scheduler would make of it.

Nothing is written. A changed key of the ConfigMap is checked as ``config check`` does it. Without errors all
pods are placed from scratch, as in ``plan``, with the present configuration and nodes and with the changed
ones, and each node is assessed with both, which shows the decreases that would be held back.
The commands that would make the change, and undo it, come with the answer.

A change is one of:

    {"change": "config", "key": KEY, "text": TEXT}                   a key of the ConfigMap, as a whole
    {"change": "model", "model": MODEL, "field": FIELD, "ratio": RATIO or null}
    {"change": "ratio", "resource": "cpu", "ratio": RATIO or null}   of the cluster's strategy
    {"change": "ratio", "resource": "cpu", "ratio": RATIO or null, "node": NODE}
    {"change": "label", "node": NODE, "label": KEY, "value": VALUE or null}

null takes the entry or the label away.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import msgspec

from corewise.amplification.amounts import CPU
from corewise.amplification.annotations import LARGEST_RECORDED, raw_amounts, read_ratios
from corewise.config.configuration import RatioField
from corewise.config.facts import CPUFacts
from corewise.config.key_texts import KEYS, Contents, KeyText
from corewise.engine import Allocation
from corewise.engine.objects import ReportedTopology
from corewise.kube.objects import ConfigMap
from corewise.planner.inputs import PlanInput, plan_from_objects
from corewise.planner.planner import compare, plan
from corewise.planner.records import Planned, record_of
from corewise.quantities import ONE, Ratio, RatioError, amplify
from corewise.ratios.cluster import ClusterConfiguration, ClusterContext, read_configuration
from corewise.ratios.decision import assess
from corewise.ratios.nodes import view_of
from corewise.scheduler.plugins import load_plugins
from corewise.views.compared_nodes import ComparedNodes
from corewise.views.config_check import check_contents, check_record
from corewise.views.machine_kinds import short_model
from corewise.views.page.patch import config_patch, create_command, patch_command
from corewise.vocabulary.names import (
    AMPLIFICATION_KEY,
    AMPLIFICATION_ORIGINAL,
    AMPLIFICATION_RATIO,
    CONFIG_NAME,
    NORMALIZATION_KEY,
    NORMALIZATION_RATIO,
)
from corewise.vocabulary.qos import QoSRules
from corewise.vocabulary.selectors import label_key_fault, label_value_fault
from corewise.workload.nodes import Node
from corewise.workload.pods import Pod


class ChangeRefused(ValueError):  # noqa: N818 - an answer, not a fault
    """The change cannot be tried; the text says why."""


class TriedChange(msgspec.Struct, forbid_unknown_fields=True):
    """The change as the page states it."""

    change: Literal["config", "model", "ratio", "label"]
    key: str = ""
    text: str = ""
    model: str = ""
    field: RatioField = RatioField.BASE
    resource: Literal["cpu", "memory"] = "cpu"
    ratio: str | None = None
    node: str = ""
    label: str = ""
    value: str | None = None


@dataclass(frozen=True, slots=True)
class LiveObjects:
    """The cluster's objects at one moment, as the caches have them. ``pods_of`` are those bound to a node."""

    nodes: Mapping[str, Node]
    topologies: Mapping[str, ReportedTopology]
    pods: tuple[Pod, ...]
    pods_of: Mapping[str, Iterable[Pod]]
    config: Mapping[str, str]
    context: ClusterContext
    namespace: str
    used: Mapping[str, int] = field(default_factory=dict)
    rules: QoSRules | None = None
    no_config_map: bool = False
    """Whether ``config`` is empty because the cluster has no ConfigMap."""


@dataclass(frozen=True, slots=True)
class _Edit:
    """A change: the text of a key, or labels and annotations of a node (None removes one).

    ``undo`` is the command that restores what is there now.
    """

    command: str
    undo: str
    key: str = ""
    text: str = ""
    node: str = ""
    labels: Mapping[str, str | None] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)

    def on(self, node: Node) -> Node:
        meta = node.metadata
        if meta.name != self.node:
            return node
        labels = {key: each for key, each in {**meta.labels, **self.labels}.items() if each is not None}
        changed = msgspec.structs.replace(
            meta, labels=labels, annotations={**meta.annotations, **self.annotations}
        )
        return msgspec.structs.replace(node, metadata=changed)


def try_change(body: Mapping[str, Any], live: LiveObjects) -> dict[str, Any]:
    """Return the findings of ``config check``; without errors also both plans, their difference, the command.

    Raises:
        ChangeRefused: if the body is not a change that can be tried.
    """
    edit = _edit_of(_read_change(body), live)
    answer: dict[str, Any] = {"command": edit.command, "undo": edit.undo, "problems": [], "check": None}
    if edit.key:
        contents = Contents(edit.text)
        contents.keys.append(KeyText(edit.key, edit.text, range(len(edit.text) + 1)))
        checked = check_contents(contents, _compared(live), live.context.largest)
        record = check_record("the change", checked)
        answer |= {"problems": record["problems"], "check": record}
        if checked.errors:
            return answer
    before, after = live.context.configuration, _configuration(edit, live)
    planned = [_planned("now", live, before), _planned("with the change", _changed(live, edit), after)]
    difference = compare(planned[0].outcome, planned[1].outcome)
    record = record_of(_given(live), planned, difference)
    for each in record["plans"]:
        del each["placements"]
    old, new = (each.outcome.ratios for each in planned)
    return answer | {
        "plan": record,
        "difference": {
            **record["difference"],
            "ratios": [
                {"node": name, "before": _ratio_text(old[name]), "after": _ratio_text(ratios)}
                for name, ratios in sorted(new.items())
                if old[name] != ratios
            ],
            "heldBack": list(_held_back(live, edit, after)),
            "models": _by_model(live, old, new),
        },
    }


def _read_change(body: Mapping[str, Any]) -> TriedChange:
    try:
        return msgspec.convert(body, TriedChange)
    except msgspec.ValidationError as error:
        raise ChangeRefused(f"this is not a change: {error}") from None


def _edit_of(change: TriedChange, live: LiveObjects) -> _Edit:
    match change.change:
        case "config":
            return _config_edit(change.key, change.text, live)
        case "model":
            return _config_edit(NORMALIZATION_KEY, _with_model(change, live), live)
        case "ratio" if not change.node:
            return _config_edit(AMPLIFICATION_KEY, _with_ratio(change, live), live)
        case "ratio":
            return _ratio_edit(change, _node(change, live))
    node = _node(change, live)
    fault = label_key_fault(change.label) or (label_value_fault(change.value) if change.value else None)
    if fault:
        raise ChangeRefused(f"label {change.label}: {fault}")
    name, now = node.metadata.name, node.metadata.labels.get(change.label)
    command, undo = (_set_on("label", name, {change.label: value}) for value in (change.value, now))
    return _Edit(command, undo, node=name, labels={change.label: change.value})


def _set_on(verb: str, node: str, values: Mapping[str, str | None]) -> str:
    """Return the command that sets labels or annotations of a node; None takes one away."""
    stated = (f"{key}-" if value is None else f"{key}={value}" for key, value in values.items())
    return shlex.join(["kubectl", verb, "node", node, *stated, "--overwrite"])


def _node(change: TriedChange, live: LiveObjects) -> Node:
    if change.node not in live.nodes:
        raise ChangeRefused(f"there is no node {change.node}")
    return live.nodes[change.node]


def _config_edit(key: str, text: str, live: LiveObjects) -> _Edit:
    if key not in KEYS:
        raise ChangeRefused(f"{key!r} is not a key of corewise; the keys are {', '.join(KEYS)}")
    if live.no_config_map:
        command = create_command(live.namespace, CONFIG_NAME, config_patch(key, text))
        undo = shlex.join(["kubectl", "-n", live.namespace, "delete", "configmap", CONFIG_NAME])
        return _Edit(command, undo, key, text)
    command = patch_command(live.namespace, CONFIG_NAME, config_patch(key, text))
    now = live.config.get(key)
    undo = config_patch(key, now) if now is not None else f"data:\n  {key}: null\n"
    return _Edit(command, patch_command(live.namespace, CONFIG_NAME, undo), key, text)


def _with_model(change: TriedChange, live: LiveObjects) -> str:
    """Return the key of normalization with one entry of ratioModel changed."""
    if not change.model:
        raise ChangeRefused("name the CPU model, as nodes report it")
    config = _key_of(live, NORMALIZATION_KEY)
    models = config.setdefault("ratioModel", {})
    if not isinstance(models, dict) or not isinstance(models.setdefault(change.model, {}), dict):
        raise ChangeRefused(f"{NORMALIZATION_KEY}: ratioModel is invalid: correct it as text first")
    _set(models[change.model], change.field.value, change)
    if not models[change.model]:
        del models[change.model]
    return json.dumps(config, indent=2)


def _with_ratio(change: TriedChange, live: LiveObjects) -> str:
    """Return the key of amplification with one ratio of the cluster's strategy changed."""
    config = _key_of(live, AMPLIFICATION_KEY)
    entries = config.setdefault("resourceAmplificationRatio", {})
    if not isinstance(entries, dict):
        raise ChangeRefused(f"{AMPLIFICATION_KEY} is invalid: correct it as text first")
    _set(entries, change.resource, change)
    return json.dumps(config, indent=2)


def _key_of(live: LiveObjects, key: str) -> dict[str, Any]:
    try:
        config = json.loads(live.config.get(key) or "{}")
    except (ValueError, RecursionError) as error:
        raise ChangeRefused(f"{key} cannot be read, so correct it as text first: {error}") from None
    if not isinstance(config, dict):
        raise ChangeRefused(f"{key} is not a JSON object, so correct it as text first")
    return config


def _set(entries: dict[str, Any], name: str, change: TriedChange) -> None:
    if change.ratio is None:
        entries.pop(name, None)
    else:
        entries[name] = float(str(_ratio(change.ratio)))


def _ratio(text: str) -> Ratio:
    try:
        return Ratio.parse(text)
    except RatioError as error:
        raise ChangeRefused(f"ratio {text[:20]!r}: {error}") from None


def _ratio_edit(change: TriedChange, node: Node) -> _Edit:
    """Change the ratio that a user gave a node: the manager keeps it apart once it has written its own."""
    meta = node.metadata
    name = AMPLIFICATION_ORIGINAL if AMPLIFICATION_ORIGINAL in meta.annotations else AMPLIFICATION_RATIO
    stated = read_ratios(meta.annotations.get(name), annotation=name, maximum=LARGEST_RECORDED)
    if not stated.readable:
        raise ChangeRefused(f"node {meta.name}: annotation {name} cannot be read, so correct it first")
    ratios = {resource: str(ratio) for resource, ratio in stated.ratios.items()}
    if change.ratio is None:
        ratios.pop(change.resource, None)
    else:
        ratios[change.resource] = str(_ratio(change.ratio))
    text = "{" + ",".join(f'"{resource}":{ratio}' for resource, ratio in sorted(ratios.items())) + "}"
    # The manager may own the ratio by then. Beside a normalization ratio, one without -original is
    # Koordinator's: so that it stays the user's, it is both.
    original: dict[str, str | None] = {}
    if name == AMPLIFICATION_RATIO:
        is_koordinators = NORMALIZATION_RATIO in meta.annotations
        original = {AMPLIFICATION_ORIGINAL: None if is_koordinators else meta.annotations.get(name)}
    return _Edit(
        _set_on("annotate", meta.name, {name: text}),
        _set_on("annotate", meta.name, {name: meta.annotations.get(name), **original}),
        node=meta.name,
        annotations={name: text},
    )


def _compared(live: LiveObjects) -> ComparedNodes:
    topologies = {name: each.metadata.annotations for name, each in live.topologies.items()}
    return ComparedNodes.of(live.nodes.values(), topologies, live.used, live.config, live.context.koordinator)


def _configuration(edit: _Edit, live: LiveObjects) -> ClusterConfiguration:
    before = live.context.configuration
    if not edit.key:
        return before
    planned = ConfigMap(data={**live.config, edit.key: edit.text})
    return read_configuration(planned, before, live.context.largest).configuration


def _changed(live: LiveObjects, edit: _Edit) -> LiveObjects:
    return replace(live, nodes={name: edit.on(node) for name, node in live.nodes.items()})


def _given(live: LiveObjects) -> PlanInput:
    nodes = [live.nodes[name] for name in sorted(live.nodes)]
    topologies = live.topologies.values()
    return plan_from_objects(
        *("the cluster", nodes, topologies, live.pods, live.config),
        rules=live.rules,
        largest=live.context.largest,
    )


def _planned(name: str, live: LiveObjects, configuration: ClusterConfiguration) -> Planned:
    given = _given(live)
    start = time.perf_counter()
    outcome = plan(given, configuration, Allocation.LEAST, None, load_plugins())
    return Planned(name, outcome, time.perf_counter() - start)


def _ratio_text(ratios: Mapping[str, str]) -> str:
    """Return the ratio of CPU, and those of other resources with their names."""
    others = (f"{resource} {ratio}" for resource, ratio in ratios.items() if resource != CPU)
    return ", ".join([ratios[CPU], *others])


def _by_model(
    live: LiveObjects, before: Mapping[str, Mapping[str, str]], after: Mapping[str, Mapping[str, str]]
) -> list[dict[str, Any]]:
    """Return the CPUs that nodes of each model offer under both ratios, the most first."""
    models: dict[str, list[int]] = {}
    for name, node in live.nodes.items():
        topology = live.topologies.get(name)
        view = view_of(node, topology.metadata.annotations if topology else None, tuple)
        raw = raw_amounts(view.amounts, view.annotations).allocatable.get(CPU)
        if raw is None:
            continue
        model = view.facts.model if isinstance(view.facts, CPUFacts) else "model unknown"
        sums = models.setdefault(model, [0, 0, 0])
        sums[0] += 1
        for place, ratios in enumerate((before, after), 1):
            sums[place] += amplify(raw.milli, Ratio.parse(ratios.get(name, {}).get(CPU, str(ONE))))
    rows = [
        {
            "model": model,
            "shortModel": short_model(model),
            "nodes": nodes,
            "beforeCPUMilli": old,
            "afterCPUMilli": new,
        }
        for model, (nodes, old, new) in models.items()
    ]
    return sorted(rows, key=lambda row: (-row["beforeCPUMilli"], row["model"]))


def _held_back(live: LiveObjects, edit: _Edit, after: ClusterConfiguration) -> Iterable[dict[str, Any]]:
    """Yield the nodes whose decrease the manager would hold back, and which it holds back already."""
    for name, node in sorted(live.nodes.items()):
        topology = live.topologies.get(name)
        annotations = topology.metadata.annotations if topology else None

        def held(changed: Node, context: ClusterContext) -> list[str]:
            view = view_of(changed, annotations, lambda: live.pods_of.get(name, ()))  # noqa: B023 - called here
            return [each.message for each in assess(view, context).held_back]

        new = held(edit.on(node), replace(live.context, configuration=after))
        if new:
            yield {"node": name, "messages": new, "already": bool(held(node, live.context))}
