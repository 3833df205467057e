"""Scenarios: a cluster described in YAML. The packaged ones are in ``scenarios/``.

``nodes`` are groups of like machines, ``pods`` groups of like pods, ``config`` the data of the ConfigMap
that turns corewise on, as an operator would write it; labels of nodes that switch a part of it come with
that too, and so does ``scheduler``, its file. ``cpuModels`` adds to the catalogue,
``cpuFacts`` says by label which CPU the nodes of a dump have. All problems of a file are reported at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path

from corewise.config.configuration import Problem
from corewise.config.yaml_fields import REQUIRED, Fields, read_document
from corewise.quantities import Bytes, RawMilli
from corewise.simulation.contention import MemoryUse
from corewise.simulation.load import Load, Shape
from corewise.simulation.machines import CATALOGUE, CPUModel, Machine
from corewise.simulation.plan import SWITCHES, InputError, NodeMetadata, Plan, PodGroup

BUILTIN = "builtin"
_QOS = ("", "LS", "BE", "LSR", "LSE", "SYSTEM")


@dataclass(frozen=True, slots=True)
class CPUChoice:
    """A CPU with its settings, for the machines that carry all of ``labels``."""

    model: CPUModel
    hyper_threading: bool
    turbo: bool
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Like machines; ``template`` is one of them, without its number."""

    template: Machine
    count: int

    def machine(self, index: int) -> Machine:
        return replace(self.template, name=f"{self.template.name}-{index}")


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario that was read without problems."""

    name: str
    description: str
    nodes: tuple[NodeGroup, ...]
    pods: tuple[PodGroup, ...]
    config: Mapping[str, str]
    cpu_facts: tuple[CPUChoice, ...]
    models: Mapping[str, CPUModel]
    scheduler: str = ""

    def plan(self, node_count: int | None = None) -> Plan:
        """Return the cluster; ``node_count`` machines, group after group in turn, or as the file has them."""
        turn = [group for group in self.nodes for _ in range(group.count)]
        count = len(turn) if node_count is None else node_count
        numbers = dict.fromkeys((group.template.name for group in turn), 0)
        machines: list[Machine] = []
        for index in range(count):
            group = turn[index % len(turn)]
            machines.append(group.machine(numbers[group.template.name]))
            numbers[group.template.name] += 1
        return Plan(
            f"scenario {self.name}",
            tuple(replace(machine, labels=_without(machine.labels)) for machine in machines),
            self.config,
            groups=self.pods,
            when_on={m.name: NodeMetadata(_switches(m.labels)) for m in machines if _switches(m.labels)},
            scheduler=self.scheduler,
        )


def _switches(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels that turn something of corewise on: they come with its configuration."""
    return {key: value for key, value in labels.items() if key in SWITCHES}


def _without(labels: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in labels.items() if key not in SWITCHES}


def load_scenario(name_or_path: str) -> Scenario:
    """Read a packaged scenario by its name, or any by its path.

    Raises:
        InputError: with every problem of the file, each on a line of its own.
    """
    text = _text_of(name_or_path)
    problems: list[Problem] = []
    scenario = read_scenario(text, problems)
    if problems or scenario is None:
        shown = "\n".join(f"  {problem}" for problem in sorted(problems, key=lambda p: (p.line, p.column)))
        raise InputError(f"scenario {name_or_path}: {len(problems)} problem(s)\n{shown}")
    return scenario


def packaged_scenarios() -> list[str]:
    """Return the names of the scenarios that come with corewise."""
    folder = files("corewise.simulation").joinpath("scenarios")
    return sorted(
        entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml")
    )


def _text_of(name_or_path: str) -> str:
    if name_or_path in packaged_scenarios():
        return (
            files("corewise.simulation")
            .joinpath("scenarios", f"{name_or_path}.yaml")
            .read_text(encoding="utf-8")
        )
    try:
        return Path(name_or_path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"scenario {name_or_path}: not UTF-8: byte {error.start} is wrong") from error
    except OSError as error:
        known = ", ".join(packaged_scenarios())
        raise InputError(
            f"scenario {name_or_path}: {error.strerror or error}; packaged scenarios: {known}"
        ) from error


def read_scenario(text: str, problems: list[Problem]) -> Scenario | None:
    """Read a scenario; its value is good only if no problem was noted."""
    document = read_document(text, problems)
    if document is None:
        return None
    models = dict(CATALOGUE) | {m.name: m for m in map(_model, document.items("cpuModels"))}
    scenario = Scenario(
        name=document.text("name"),
        description=document.text("description", ""),
        nodes=tuple(_node_group(fields, models) for fields in document.items("nodes", REQUIRED)),
        pods=tuple(_pod_group(fields) for fields in document.items("pods")),
        config=document.texts("config"),
        cpu_facts=tuple(_cpu_choice(fields, models) for fields in document.items("cpuFacts")),
        models=models,
        scheduler=document.text("scheduler", ""),
    )
    _check_names(document, "nodes", [group.template.name for group in scenario.nodes])
    _check_names(document, "pods", [group.name for group in scenario.pods])
    document.finish()
    return scenario


def _check_names(document: Fields, key: str, names: list[str]) -> None:
    if key == "nodes" and key in document and not names:
        document.note("at least one is needed", key=key)
    for name in sorted({name for name in names if names.count(name) > 1}):
        document.note(f"the name {name!r} is used twice", key=key)


def _model(fields: Fields) -> CPUModel:
    model = CPUModel(
        name=fields.text("name"),
        vendor=fields.text("vendor", "GenuineIntel"),
        architecture=fields.choice("architecture", "amd64", allowed=("amd64", "arm64")),
        core_speed=fields.number("coreSpeed", low=0.01, high=100),
        turbo_gain=fields.number("turboGain", 1.0, low=1, high=5),
        thread_share=fields.number("threadShare", 1.0, low=0.1, high=1),
        l3_mask=fields.text("l3Mask", ""),
    )
    fields.finish()
    return model


def _choose_model(fields: Fields, models: Mapping[str, CPUModel]) -> CPUModel:
    """Return the named model; any at all if there is none of that name, which is noted."""
    return models.get(fields.choice("model", REQUIRED, allowed=tuple(models)), next(iter(models.values())))


def _cpu_choice(fields: Fields, models: Mapping[str, CPUModel]) -> CPUChoice:
    choice = CPUChoice(
        model=_choose_model(fields, models),
        hyper_threading=fields.boolean("hyperThreading", default=False),
        turbo=fields.boolean("turbo", default=False),
        labels=fields.texts("matchLabels"),
    )
    fields.finish()
    return choice


def _node_group(fields: Fields, models: Mapping[str, CPUModel]) -> NodeGroup:
    sockets = fields.integer("sockets", 1, low=1, high=16)
    cores = fields.integer("coresPerSocket", low=1, high=1024)
    hyper_threading = fields.boolean("hyperThreading", default=False)
    reserved = fields.mapping("reserved")
    template = Machine(
        name=fields.object_name("name"),
        model=_choose_model(fields, models),
        cpus=sockets * cores * (2 if hyper_threading else 1),
        memory=Bytes(fields.quantity("memory").units),
        hyper_threading=hyper_threading,
        turbo=fields.boolean("turbo", default=False),
        sockets=sockets,
        numa_per_socket=fields.integer("numaPerSocket", 1, low=1, high=16),
        reserved_cpu=RawMilli(reserved.quantity("cpu", "0").milli if reserved else 0),
        reserved_memory=Bytes(reserved.quantity("memory", "0").units if reserved else 0),
        max_pods=fields.integer("maxPods", 110, low=1, high=100_000),
        labels=fields.texts("labels"),
        memory_bandwidth=fields.quantity("memoryBandwidth", "0").units,
        llc=Bytes(fields.quantity("llc", "0").units),
    )
    count = fields.integer("count", 1, low=1, high=100_000)
    for part in filter(None, (reserved, fields)):
        part.finish()
    return NodeGroup(template, count)


def _pod_group(fields: Fields) -> PodGroup:
    if ("replicas" in fields) == ("fill" in fields):
        fields.note("needs either 'replicas' (how many) or 'fill' (share of the schedulable CPU)")
    cpu = fields.quantity("cpu").milli
    if cpu < 1:
        fields.note("a pod must request some CPU", key="cpu")
    load, memory_use = fields.mapping("load"), fields.mapping("memoryUse")
    offline = fields.boolean("offline", default=False)
    group = PodGroup(
        name=fields.object_name("name"),
        cpu_milli=max(1, cpu),
        memory=Bytes(fields.quantity("memory", "1Gi").units),
        replicas=fields.integer("replicas", 0, low=0, high=1_000_000),
        fill=fields.number("fill", 0.0, low=0, high=1),
        limited=fields.boolean("limited", default=True),
        offline=offline,
        qos_class=fields.choice("qosClass", "BE" if offline else "LS", allowed=_QOS),
        load=_load(load) if load else None,
        labels=fields.texts("labels"),
        memory_use=_memory_use(memory_use) if memory_use else None,
    )
    fields.finish()
    return group


def _memory_use(fields: Fields) -> MemoryUse:
    use = MemoryUse(
        bandwidth=float(fields.quantity("bandwidth").units),
        llc=float(fields.quantity("llc", "0").units),
        cache_sensitivity=fields.number("cacheSensitivity", 0.0, low=0, high=10),
        memory_bound=fields.number("memoryBound", low=0, high=1) if "memoryBound" in fields else None,
    )
    fields.finish()
    return use


def _load(fields: Fields) -> Load:
    low = fields.number("low", low=0, high=1000)
    high = fields.number("high", low, low=0, high=1000)
    if high < low:
        fields.note(f"{high:g} is below low ({low:g})", key="high")
    shape = fields.choice("shape", Shape.WAVE, allowed=tuple(each.value for each in Shape))
    known = Shape(shape) if shape in set(Shape) else Shape.WAVE
    load = Load(low, high, fields.number("periodSeconds", 60.0, low=1, high=86_400), known)
    fields.finish()
    return load
