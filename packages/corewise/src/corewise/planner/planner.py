"""The offline planner: places all pods of a dump or a trace from scratch, on the scheduler's own engine.

What a configuration makes of the nodes comes first: the ratios that the manager would write, by its own
decision, and the amounts by them. What it leaves as it is stays as the node has it. Nothing is held back
for running pods, nor are CPUs that they own: a plan places all of them from scratch. The nodes where the
manager would hold back a decrease are named apart (:func:`held_decreases`), and those that keep an amplified
CPU because the configuration gives them no normalization ratio are counted (:func:`kept_ratios`).

Then each pod goes where it goes best at its turn. Online pods come first, in their order, then offline
ones: what is offered to these is what online pods leave. Where the input says so, nodes offer a share of
the CPU and memory that online pods have not requested:

    batch-cpu    = (raw allocatable - requests / ratio) x share x normalization ratio        milli-CPU
    batch-memory = (allocatable - requests) x share                                            bytes

With profiles (``interference``) nodes are idle at first, and each pod placed counts by its profile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np

from corewise.amplification import AMPLIFIABLE, amplified, normalization_of_owned, raw_amounts
from corewise.amplification.annotations import effective_ratios
from corewise.config.configuration import LARGEST_AMPLIFICATION_RATIO
from corewise.config.interference.model import InterferenceConfiguration
from corewise.engine import (
    Allocation,
    Cause,
    Cluster,
    Engine,
    Interference,
    Measured,
    NodeFacts,
    Placement,
    Placer,
    Plugin,
    PodFacts,
    assemble,
)
from corewise.engine.facts import CPU, MEMORY
from corewise.engine.reading import amount_of, read_node_facts
from corewise.planner.inputs import PlanInput, PlannedNode
from corewise.quantities import MILLI, ONE, Ratio, amplify, deamplified_ceil
from corewise.ratios.cluster import ClusterConfiguration, ClusterContext
from corewise.ratios.decision import held_back, normalization_of, wanted_ratio
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.names import (
    BATCH_CPU,
    BATCH_MEMORY,
    CPU_BASIC_INFO,
    CPU_MANAGER_POLICY,
    CPU_RATIO_APPLIED,
    CPU_TOPOLOGY,
    NODE_NAMES,
    OWNED_CPUS,
)
from corewise.vocabulary.owned_cpus import NOTHING_OWNED
from corewise.vocabulary.reasons import Reason

_HUNDRED = 100
_NOW = 0.0
"""Nothing takes time in a plan: what a pod is going to use counts in full, as a counterweight."""
_NEXT_TO_NOTHING = 1.0
"""Bytes, bytes/s: a source that says 0 is one that does not measure."""
_NO_NODES = Cause(Reason.NODE_NAME_MISMATCH, "no nodes")


@dataclass(frozen=True, slots=True)
class ConfiguredNode:
    """A node under a configuration. ``raw_milli``: its raw allocatable CPU."""

    facts: NodeFacts
    raw_milli: int
    normalization: Ratio
    others: Mapping[str, Ratio] = field(default_factory=dict)
    """The ratios of resources other than CPU that are not 1.00."""


def configured(
    nodes: Iterable[PlannedNode],
    configuration: ClusterConfiguration,
    largest: Ratio = LARGEST_AMPLIFICATION_RATIO,
) -> list[ConfiguredNode]:
    """Return the nodes as they are once the manager has applied a configuration.

    Nodes of a kind differ in their names and in labels that mean nothing here: each kind is decided once.
    """
    context = ClusterContext(configuration, largest=largest)
    names = (NODE_NAMES - {OWNED_CPUS}) | _selected_labels(configuration)
    known: dict[bytes, ConfiguredNode] = {}
    ready = []
    for node in nodes:
        kind = _kind(node, names)
        like = known.get(kind)
        if like is None:
            like = known[kind] = _configured(node, context)
        meta, topology = node.node.metadata, like.facts.topology or node.assumed
        facts = replace(like.facts, name=meta.name, labels=meta.labels, topology=topology)
        ready.append(replace(like, facts=facts))
    return ready


def _selected_labels(configuration: ClusterConfiguration) -> set[str]:
    """Return the labels by which a configuration selects nodes."""
    keys = (configuration.normalization, configuration.amplification)
    entries = (entry for key in keys if key is not None for entry in key.node_configs)
    return {requirement.key for entry in entries for requirement in entry.selector.requirements}


_ENCODER = msgspec.json.Encoder(enc_hook=dict)
_OF_TOPOLOGY = (CPU_BASIC_INFO, CPU_TOPOLOGY, CPU_MANAGER_POLICY, CPU_RATIO_APPLIED)


def _kind(node: PlannedNode, names: Collection[str]) -> bytes:
    """Return all that is read of a node but its name, and the labels that constraints of pods select by."""
    meta, status = node.node.metadata, node.node.status
    return _ENCODER.encode(
        (
            [
                [(name, text) for name, text in each.items() if name in names]
                for each in (meta.labels, meta.annotations)
            ],
            [node.topology.metadata.annotations.get(name) for name in _OF_TOPOLOGY],
            (node.topology.topology_policies, node.topology.zones),
            node.node.spec,
            (status.capacity, status.allocatable),
        )
    )


def _configured(node: PlannedNode, context: ClusterContext) -> ConfiguredNode:
    view = node.view
    normalization = normalization_of(view, context.configuration)
    ratios = wanted_ratio(view, normalization, context).ratios
    facts = replace(read_node_facts(node.node, node.topology).facts, owned=NOTHING_OWNED)
    raw = raw_amounts(view.amounts, view.annotations).allocatable
    cpu = amount_of(CPU, raw[CPU]) if CPU in raw else 0
    if facts.ratio is None:
        return ConfiguredNode(facts, cpu, ONE)
    amounts = {
        name: amount_of(name, amplified(name, raw[name], ratios.get(name, ONE)))
        for name in AMPLIFIABLE
        if name in raw
    }
    ratio, static = ratios.get(CPU, ONE), facts.static_cpu_manager
    owned = normalization_of_owned(normalization.ratio, ratio, static_cpu_manager=static)
    amounts = {**facts.allocatable, **amounts}
    facts = replace(facts, ratio=ratio, normalization=owned or facts.normalization, allocatable=amounts)
    others = {name: each for name, each in ratios.items() if name in raw and name != CPU and each != ONE}
    return ConfiguredNode(facts, cpu, normalization.ratio or ONE, others)


def held_decreases(given: PlanInput, configuration: ClusterConfiguration) -> tuple[str, ...]:
    """Return the nodes whose decrease of a ratio the manager would hold back for the pods that run there."""
    context = ClusterContext(configuration, largest=given.largest)
    views = (node.view for node in given.nodes)
    return tuple(
        view.name for view in views if held_back(view, normalization_of(view, configuration), context)
    )


def kept_ratios(given: PlanInput, configuration: ClusterConfiguration) -> Counter[Reason]:
    """Count the nodes that keep their present cpu ratio, by why no normalization ratio can be decided."""
    kept: Counter[Reason] = Counter()
    for node in given.nodes:
        view = node.view
        verdict = normalization_of(view, configuration)
        if verdict.ratio is None and CPU in effective_ratios(view.annotations, maximum=given.largest):
            kept[verdict.reason] += 1
    return kept


def idle(nodes: Sequence[ConfiguredNode]) -> Measured:
    """Return the measurements of nodes without pods. Latency, and what memory can move, are unknown."""
    size = len(nodes)
    memory = [float(node.facts.allocatable.get(MEMORY, 0)) for node in nodes]
    columns = {
        "memorybandwidth_used": np.full(size, _NEXT_TO_NOTHING),
        "llc_occupancy": np.full(size, _NEXT_TO_NOTHING),
        "cpu": np.zeros(size),
        "cpu_cores": np.array([node.raw_milli / MILLI for node in nodes]),
        "memory_available": np.array(memory),
    }
    at = np.zeros(size)
    names = tuple(node.facts.name for node in nodes)
    return Measured(names, {name: (values, at) for name, values in columns.items()})


@dataclass(frozen=True, slots=True)
class PlanOutcome:
    """The node of every pod, and the resulting use of the nodes. Amounts are milli-CPU.

    ``unplaced``: the cause that refuses most nodes, or the refusal of the node chosen last.
    ``schedulable`` is amplified, ``requested`` counts what CPUSet pods own amplified, ``promised`` is the
    plain sum of requests, which ``raw`` CPUs have to serve: their quotient is the raw overcommit. Batch CPU
    counts in none of them. ``ratios`` are by node and resource; that of CPU is always there. ``worst`` is the
    node of the largest overcommit, in percent.
    """

    placed: Mapping[str, str]
    unplaced: Mapping[str, Finding]
    ratios: Mapping[str, Mapping[str, str]]
    nodes: int
    nodes_used: int
    raw: int
    schedulable: int
    schedulable_used: int
    requested: int
    promised: int
    owned: int
    overcommitted: int
    worst: tuple[str, int] | None

    @property
    def by_reason(self) -> Mapping[str, int]:
        """The number of pods without a node by cause, the most frequent first."""
        return dict(Counter(each.message for each in self.unplaced.values()).most_common())


def plan(
    given: PlanInput,
    configuration: ClusterConfiguration,
    allocation: Allocation,
    interference: InterferenceConfiguration | None = None,
    plugins: Sequence[Plugin] = (),
) -> PlanOutcome:
    """Place all pods under a configuration, by their profiles too if there are any."""
    nodes = configured(given.nodes, configuration, given.largest)
    cluster = Cluster()
    for node in nodes:
        cluster.put_node(node.facts)
    plugin = None
    if interference is not None:
        plugin = Interference(interference, now=lambda: _NOW)
        cluster.estimate(plugin.estimates())
        cluster.measure(idle(nodes))
    engine = assemble(allocation, interference=plugin, plugins=plugins, kube_checks=True)
    offline = [pod for pod in given.pods if BATCH_CPU in pod.requests]
    unplaced = _place(engine, cluster, (pod for pod in given.pods if BATCH_CPU not in pod.requests))
    if offline and given.offered_share is not None:
        for node in nodes:
            cluster.put_node(replace(node.facts, allocatable=_with_offer(node, cluster, given.offered_share)))
    unplaced |= _place(engine, cluster, offline)
    return _outcome(given, nodes, cluster, unplaced)


def _place(engine: Engine, cluster: Cluster, pods: Iterable[PodFacts]) -> dict[str, Finding]:
    unplaced: dict[str, Finding] = {}
    placer = Placer(engine, cluster)
    for pod in pods:
        answer = placer.place(pod)
        if isinstance(answer, Placement):
            cluster.put_pod(pod, answer)
        elif answer.refused:
            _, unplaced[pod.key] = answer.refused[-1]
        else:
            causes = [each.cause for each in answer.decision.causes()] or [_NO_NODES]
            unplaced[pod.key] = Finding(causes[0].reason, causes[0].summary)
    return unplaced


def _with_offer(node: ConfiguredNode, cluster: Cluster, share: int) -> Mapping[str, int]:
    facts, snapshot = node.facts, cluster.snapshot()
    row = snapshot.index[facts.name]
    taken = int(snapshot.allocatable[CPU][row] - snapshot.cpu_room[row])
    left = max(0, node.raw_milli - deamplified_ceil(taken, facts.ratio or ONE))
    memory = max(0, int(snapshot.free[MEMORY][row]))
    offer = {
        BATCH_CPU: amplify(left * share // _HUNDRED, node.normalization),
        BATCH_MEMORY: memory * share // _HUNDRED,
    }
    return {**facts.allocatable, **offer}


def _outcome(
    given: PlanInput, nodes: Sequence[ConfiguredNode], cluster: Cluster, unplaced: Mapping[str, Finding]
) -> PlanOutcome:
    snapshot = cluster.snapshot()
    rows = np.array([snapshot.index[node.facts.name] for node in nodes], dtype=np.intp)
    raw = np.array([node.raw_milli for node in nodes], dtype=np.int64)
    schedulable = snapshot.allocatable[CPU][rows]
    taken = schedulable - snapshot.cpu_room[rows]
    promised = snapshot.requested_cpu[rows]
    used = np.array([bool(cluster.pods_on(node.facts.name)) for node in nodes], dtype=np.bool_)
    percent = promised * _HUNDRED // np.maximum(raw, 1)
    worst = int(percent.argmax()) if len(nodes) else 0
    homes = ((pod.key, cluster.node_of(pod.key)) for pod in given.pods)
    return PlanOutcome(
        placed={key: name for key, name in homes if name is not None},
        unplaced=unplaced,
        ratios={
            node.facts.name: {
                name: str(ratio) for name, ratio in {CPU: node.facts.ratio or ONE, **node.others}.items()
            }
            for node in nodes
        },
        nodes=len(nodes),
        nodes_used=int(used.sum()),
        raw=int(raw.sum()),
        schedulable=int(schedulable.sum()),
        schedulable_used=int(schedulable[used].sum()),
        requested=int(taken.sum()),
        promised=int(promised.sum()),
        owned=int(snapshot.owned_cpu[rows].sum()),
        overcommitted=int((promised > raw).sum()),
        worst=(nodes[worst].facts.name, int(percent[worst])) if len(nodes) else None,
    )


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two outcomes compared. ``gained`` pods have a node only in the second, ``lost`` only in the first."""

    gained: tuple[str, ...]
    lost: tuple[str, ...]
    moved: int
    ratios_changed: int

    @property
    def differs(self) -> bool:
        return bool(self.gained or self.lost or self.moved or self.ratios_changed)


def compare(first: PlanOutcome, second: PlanOutcome) -> Comparison:
    """Compare where pods went and which ratios nodes had."""
    both = first.placed.keys() & second.placed.keys()
    return Comparison(
        gained=tuple(sorted(second.placed.keys() - first.placed.keys())),
        lost=tuple(sorted(first.placed.keys() - second.placed.keys())),
        moved=sum(first.placed[pod] != second.placed[pod] for pod in both),
        ratios_changed=sum(second.ratios.get(node) != ratio for node, ratio in first.ratios.items()),
    )
