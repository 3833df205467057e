"""Scenarios: a cluster described in YAML. The packaged ones are in ``scenarios/``.

``nodes`` are groups of like machines, ``pods`` groups of like pods, ``config`` the data of the ConfigMap
that turns corewise on, as an operator would write it; labels of nodes that switch a part of it come with
that too, and so does ``scheduler``, its file. ``cpuModels`` adds to the catalog,
``cpuFacts`` says by label which CPU the nodes of a dump have. A file for a dump needs no ``nodes`` and no
``name``: the dump has the nodes. All problems of a file are reported at once.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from importlib.resources import files
from pathlib import Path

from corewise.config.decoding import Decoder, Fields, Parsed, Place, did_you_mean, shown
from corewise.config.json_text import Items, Members
from corewise.config.yaml_text import read_yaml
from corewise.quantities import Bytes, Quantity, QuantityError, RawMilli
from corewise_lab.contention import MemoryUse
from corewise_lab.label_facts import CPURow, NFDModel
from corewise_lab.load import Load, Shape
from corewise_lab.machines import CATALOG, CPUModel, Machine
from corewise_lab.plan import SWITCHES, InputError, NodeMetadata, Plan, PodGroup

BUILTIN = "builtin"
ELSEWHERE = {
    "openstack": "OpenStack hosts instead of a cluster: dedicated and shared CPUs, guests, an upgrade",
    "outage": "every corewise program is killed under load for a while: what keeps working, what waits",
}
"""Scenarios without a file, and what each is: they run and report in their own way."""
_QOS = ("", "LS", "BE", "LSR", "LSE", "SYSTEM")
_NODE_KEYS = (
    *("name", "count", "model", "coresPerSocket", "sockets", "hyperThreading", "turbo", "numaPerSocket"),
    *("memory", "reserved", "maxPods", "labels", "memoryBandwidth", "llc"),
)
_POD_KEYS = (
    *("name", "cpu", "memory", "replicas", "fill", "limited", "offline", "qosClass", "load", "labels"),
    "memoryUse",
)
_NAME = re.compile("[a-z0-9]([a-z0-9-]{0,198}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Like machines; ``template`` is one of them, without its number."""

    template: Machine
    count: int


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario that was read without problems."""

    name: str
    description: str
    nodes: tuple[NodeGroup, ...]
    pods: tuple[PodGroup, ...]
    config: Mapping[str, str]
    cpu_facts: tuple[CPURow, ...]
    models: Mapping[str, CPUModel]
    scheduler: str = ""

    def plan(self, node_count: int | None = None) -> Plan:
        """Return the cluster; ``node_count`` machines, group after group in turn, or as the file has them."""
        turn = [group for group in self.nodes for _ in range(group.count)]
        count = len(turn) if node_count is None else node_count
        numbers = dict.fromkeys((group.template.name for group in turn), 0)
        machines: list[Machine] = []
        for index in range(count):
            template = turn[index % len(turn)].template
            machines.append(replace(template, name=f"{template.name}-{numbers[template.name]}"))
            numbers[template.name] += 1
        return Plan(
            f"scenario {self.name}",
            tuple(
                replace(machine, labels={k: v for k, v in machine.labels.items() if k not in SWITCHES})
                for machine in machines
            ),
            self.config,
            groups=self.pods,
            when_on={
                machine.name: NodeMetadata(switches)
                for machine in machines
                if (switches := {k: v for k, v in machine.labels.items() if k in SWITCHES})
            },
            scheduler=self.scheduler,
        )


def load_scenario(name_or_path: str, *, has_nodes: bool = True) -> Scenario:
    """Read a packaged scenario by its name, or any by its path; without ``has_nodes`` it may lack nodes.

    Raises:
        InputError: with every problem of the file, each on a line of its own.
    """
    parsed = read_scenario(_text_of(name_or_path), has_nodes=has_nodes)
    if parsed.problems or parsed.value is None:
        shown = "\n".join(f"  {problem}" for problem in parsed.problems)
        raise InputError(f"scenario {name_or_path}: cannot be used\n{shown}")
    return parsed.value


def packaged_scenarios() -> list[str]:
    """Return the names of the scenarios that come with corewise."""
    folder = files("corewise_lab").joinpath("scenarios")
    return sorted(
        entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml")
    )


def scenario_descriptions() -> dict[str, str]:
    """Return every scenario that can be named, with its description in one line."""
    packaged = {name: load_scenario(name).description for name in packaged_scenarios()}
    return packaged | ELSEWHERE


def _text_of(name_or_path: str) -> str:
    if name_or_path in packaged_scenarios():
        return files("corewise_lab").joinpath("scenarios", f"{name_or_path}.yaml").read_text(encoding="utf-8")
    try:
        return Path(name_or_path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"scenario {name_or_path}: not UTF-8: byte {error.start} is wrong") from error
    except OSError as error:
        known = scenario_descriptions()
        meant = did_you_mean(name_or_path, known)
        listed = "".join(f"\n  {name:<14} {description}" for name, description in known.items())
        why = f"{error.strerror or error}{meant}"
        raise InputError(f"scenario {name_or_path}: {why}\nThe scenarios are:{listed}") from error


def read_scenario(text: str, *, has_nodes: bool = True) -> Parsed[Scenario]:
    """Read a scenario; it can be used only if there is no problem at all, not even a warning."""
    read = _ScenarioDecoder(read_yaml(text))
    keys = ("name", "description", "nodes", "pods", "config", "cpuFacts", "cpuModels", "scheduler")
    if read.root.value is None:
        read.error(read.root, "must be an object (key: value lines), not empty")
    fields = read.fields(read.root, keys)
    models = dict(CATALOG) | {
        m.name: m for m in (_model(read, each) for each in read.items(fields["cpuModels"]))
    }
    if has_nodes:
        read.required(fields, "name")
        read.required(fields, "nodes", "; a file without nodes goes with --from")
    nodes = read.items(fields["nodes"])
    scenario = Scenario(
        name=read.text(fields["name"]) or "",
        description=read.text(fields["description"]) or "",
        nodes=tuple(_node_group(read, place, models) for place in nodes),
        pods=tuple(_pod_group(read, place) for place in read.items(fields["pods"])),
        config=read.texts(fields["config"]),
        cpu_facts=tuple(_cpu_row(read, place, models) for place in read.items(fields["cpuFacts"])),
        models=models,
        scheduler=read.text(fields["scheduler"]) or "",
    )
    if fields["nodes"].value == Items():
        read.error(fields["nodes"], "at least one is needed")
    named = {
        "nodes": [each.template.name for each in scenario.nodes],
        "pods": [each.name for each in scenario.pods],
    }
    for key, names in named.items():
        for name in sorted({name for name in names if name and names.count(name) > 1}):
            read.error(fields[key], f"the name {name!r} is used twice")
    return read.finish(scenario)


class _ScenarioDecoder(Decoder):
    """Reads quantities, numbers and names too; a value that is absent or wrong is the default."""

    def required(self, fields: Fields, name: str, hint: str = "") -> Place:
        place = fields[name]
        if place.value is None and isinstance(fields.owner.value, Members):
            self.error(place, f"is missing{hint}")
        return place

    def word(self, place: Place, known: Collection[str], default: str) -> str:
        word = self.text(place)
        if word is None or word in known:
            return default if word is None else word
        hint = did_you_mean(word, known) or f": write one of {', '.join(filter(None, known))}"
        self.error(place, f"{shown(word)} is not a known value{hint}")
        return default

    def object_name(self, place: Place) -> str:
        """Read the beginning of objects' names: what Kubernetes takes, with room for a number behind it."""
        name = self.text(place) or ""
        if name and not _NAME.fullmatch(name):
            allowed = "up to 200 of a-z, 0-9 and '-', a letter or digit at its ends"
            self.error(place, f"{name!r} is not a name: {allowed}")
        return name

    def number(self, place: Place, low: float, high: float, default: float = 0.0) -> float:
        if place.is_empty:
            return default
        if not isinstance(place.value, Decimal):
            self.error(place, f"must be a number from {low:g} to {high:g}, not {shown(place.value)}")
        elif not low <= place.value <= high:
            self.error(place, f"{shown(place.value)} is outside {low:g}..{high:g}")
        else:
            return float(place.value)
        return default

    def quantity(self, place: Place, default: str = "0") -> Quantity:
        value = default if place.is_empty else place.value
        if not isinstance(value, str | Decimal):
            self.error(place, f"must be a quantity such as 500m, 2 or 16Gi, not {shown(value)}")
            return Quantity(0)
        try:
            quantity = Quantity.parse(str(value))
        except QuantityError as error:
            self.error(place, str(error))
            return Quantity(0)
        if quantity.nano < 0:
            self.error(place, "must not be negative")
        return quantity

    def texts(self, place: Place) -> dict[str, str]:
        """Read a mapping of text to text (labels, ConfigMap data)."""
        texts: dict[str, str] = {}
        for key, value in self.entries(place):
            if value.value is None:
                self.error(value, "is missing")
            texts[str(key.path[-1])] = self.text(value) or ""
        return texts


def _model(read: _ScenarioDecoder, place: Place) -> CPUModel:
    keys = ("name", "vendor", "architecture", "coreSpeed", "turboGain", "threadShare", "l3Mask")
    fields = read.fields(place, keys)
    return CPUModel(
        name=read.text(read.required(fields, "name")) or "",
        vendor=read.text(fields["vendor"]) or "GenuineIntel",
        architecture=read.word(fields["architecture"], ("amd64", "arm64"), "amd64"),
        core_speed=read.number(read.required(fields, "coreSpeed"), 0.01, 100),
        turbo_gain=read.number(fields["turboGain"], 1, 5, 1.0),
        thread_share=read.number(fields["threadShare"], 0.1, 1, 1.0),
        l3_mask=read.text(fields["l3Mask"]) or "",
    )


def _choose_model(read: _ScenarioDecoder, fields: Fields, models: Mapping[str, CPUModel]) -> CPUModel:
    """Return the named model; any at all if there is none of that name, which is a problem."""
    return models[read.word(read.required(fields, "model"), models, next(iter(models)))]


def _cpu_row(read: _ScenarioDecoder, place: Place, models: Mapping[str, CPUModel]) -> CPURow:
    fields = read.fields(place, ("instanceType", "nfd", "matchLabels", "model", "hyperThreading", "turbo"))
    if all(fields[selector].is_empty for selector in ("instanceType", "nfd", "matchLabels")):
        read.error(place, "needs instanceType, nfd or matchLabels: which nodes have this CPU")
    model = read.text(read.required(fields, "model"))
    if model == "":
        read.error(fields["model"], "is empty: write what lscpu prints as Model name on such a node")
    return CPURow(
        model=models.get(model or "") or CPUModel(model or "", _vendor_of(model or ""), "amd64", None),
        hyper_threading=read.flag(fields["hyperThreading"]),
        turbo=read.flag(fields["turbo"]),
        labels=read.texts(fields["matchLabels"]),
        instance_type=read.text(fields["instanceType"]),
        nfd=None if fields["nfd"].is_empty else _nfd_model(read, fields["nfd"]),
    )


def _vendor_of(model: str) -> str:
    return "AuthenticAMD" if model.startswith("AMD ") else "GenuineIntel"


def _nfd_model(read: _ScenarioDecoder, place: Place) -> NFDModel:
    fields = read.fields(place, ("vendor", "family", "id"))
    return NFDModel(
        vendor=read.text(read.required(fields, "vendor")) or "",
        family=read.whole(read.required(fields, "family"), 0, 999_999) or 0,
        id=read.whole(read.required(fields, "id"), 0, 999_999) or 0,
    )


def _node_group(read: _ScenarioDecoder, place: Place, models: Mapping[str, CPUModel]) -> NodeGroup:
    fields = read.fields(place, _NODE_KEYS)
    sockets = read.whole(fields["sockets"], 1, 16) or 1
    cores = read.whole(read.required(fields, "coresPerSocket"), 1, 1024) or 1
    hyper_threading = bool(read.flag(fields["hyperThreading"]))
    reserved = read.fields(fields["reserved"], ("cpu", "memory"))
    template = Machine(
        name=read.object_name(read.required(fields, "name")),
        model=_choose_model(read, fields, models),
        cpus=sockets * cores * (2 if hyper_threading else 1),
        memory=Bytes(read.quantity(read.required(fields, "memory")).units),
        hyper_threading=hyper_threading,
        turbo=bool(read.flag(fields["turbo"])),
        sockets=sockets,
        numa_per_socket=read.whole(fields["numaPerSocket"], 1, 16) or 1,
        reserved_cpu=RawMilli(read.quantity(reserved["cpu"]).milli),
        reserved_memory=Bytes(read.quantity(reserved["memory"]).units),
        max_pods=read.whole(fields["maxPods"], 1, 100_000) or 110,
        labels=read.texts(fields["labels"]),
        memory_bandwidth=read.quantity(fields["memoryBandwidth"]).units,
        llc=Bytes(read.quantity(fields["llc"]).units),
    )
    return NodeGroup(template, read.whole(fields["count"], 1, 100_000) or 1)


def _pod_group(read: _ScenarioDecoder, place: Place) -> PodGroup:
    fields = read.fields(place, _POD_KEYS)
    if (fields["replicas"].value is None) == (fields["fill"].value is None):
        read.error(place, "needs either 'replicas' (how many) or 'fill' (share of the schedulable CPU)")
    cpu = read.quantity(read.required(fields, "cpu")).milli
    if cpu < 1:
        read.error(fields["cpu"], "a pod must request some CPU")
    load, memory_use = fields["load"], fields["memoryUse"]
    offline = bool(read.flag(fields["offline"]))
    return PodGroup(
        name=read.object_name(read.required(fields, "name")),
        cpu_milli=max(1, cpu),
        memory=Bytes(read.quantity(fields["memory"], "1Gi").units),
        replicas=read.whole(fields["replicas"], 0, 1_000_000) or 0,
        fill=read.number(fields["fill"], 0, 1),
        limited=read.flag(fields["limited"]) is not False,
        offline=offline,
        qos_class=read.word(fields["qosClass"], _QOS, "BE" if offline else "LS"),
        load=None if load.is_empty else _load(read, load),
        labels=read.texts(fields["labels"]),
        memory_use=None if memory_use.is_empty else _memory_use(read, memory_use),
    )


def _memory_use(read: _ScenarioDecoder, place: Place) -> MemoryUse:
    fields = read.fields(place, ("bandwidth", "llc", "cacheSensitivity", "memoryBound"))
    bound = fields["memoryBound"]
    return MemoryUse(
        bandwidth=float(read.quantity(read.required(fields, "bandwidth")).units),
        llc=float(read.quantity(fields["llc"]).units),
        cache_sensitivity=read.number(fields["cacheSensitivity"], 0, 10),
        memory_bound=None if bound.is_empty else read.number(bound, 0, 1),
    )


def _load(read: _ScenarioDecoder, place: Place) -> Load:
    fields = read.fields(place, ("low", "high", "shape", "periodSeconds"))
    low = read.number(read.required(fields, "low"), 0, 1000)
    high = read.number(fields["high"], 0, 1000, low)
    if high < low:
        read.error(fields["high"], f"{high:g} is below low ({low:g})")
    shape = read.choice(fields["shape"], Shape) or Shape.WAVE
    return Load(low, high, read.number(fields["periodSeconds"], 1, 86_400, 60.0), shape)
