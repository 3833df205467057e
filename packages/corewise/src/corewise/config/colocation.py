"""Configuration of offline pods' admission and limits: three ConfigMap keys, and the settings that apply.

``oversubscription-config``::

    {"ratio": 0.60, "intervalSeconds": 10, "nodeConfigs": [...]}

``cpu-suppression-config``::

    {"enabled": true, "isolation": "idle", "mode": "besteffort-quota", "onAgentStop": "hold",
     "adjustStep": 0.1, "highThreshold": 0.8, "lowThreshold": 0.6, "recoverThreshold": 0.4,
     "adjustQuotaStep": 0.1, "adjustPodNum": 5, "nodeConfigs": [...]}

Every value is optional; an entry of ``nodeConfigs`` inherits from the cluster, the cluster from the defaults
above. A key that is absent suppresses nothing; one that is there does, unless ``enabled`` is false. The
thresholds must rise, 0 <= recover < low < high <= 1, in the cluster's settings and in each entry's.

The values may stand in one member ``cpuSuppression``, as JSON or as the YAML ``cpuSuppression: {...}``.
There, a missing ``mode`` follows from the values: ``adjustStep`` means ``besteffort-quota``, a threshold,
``adjustQuotaStep`` or ``adjustPodNum`` means ``per-pod-quota``; values of both are refused. A warning says
what was read. So may Volcano's ``cpuThrottlingConfig``: ``enable`` is honored (false if absent, as there),
and means one quota for all offline pods; ``isolation`` and ``onAgentStop``, which it does not have, may stand
beside it.

Other keys of Koordinator and Volcano, such as ``colocation-config``, may stand beside these. Nothing of them
is honored, and a warning names what they say.

``resource-qos-config`` is Koordinator's. Of it the limits of offline pods by resctrl are honored, which are
off unless ``enable`` is true; each other member gets a warning::

    {"clusterStrategy": {"beClass": {"resctrlQOS":
       {"enable": true, "catRangeStartPercent": 0, "catRangeEndPercent": 30, "mbaPercent": 100}}},
     "nodeStrategies": [{"name": "test", "nodeSelector": {...}, "beClass": {...}}]}

docs/guides/suppression.md lists every key and spelling. Source: Koordinator's
apis/configuration/slo_controller_config.go and apis/slo/v1alpha1/nodeslo_types.go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from typing import TypeAlias

from corewise.config.decoding import Decoder, Fields, Parsed, Severity, either
from corewise.config.json_text import Items, Located, Members, Path, Value, path_text, read_json
from corewise.config.node_configs import Configuration, read_node_configs
from corewise.config.yaml_text import read_yaml
from corewise.quantities import NOTHING, Seconds, Share
from corewise.vocabulary.foreign_names import UNREAD_KEYS

SMALLEST_STEP = Share(1)
LONGEST_INTERVAL = 60
MOST_PODS_A_CYCLE = 1000

_TEN_PERCENT, _FORTY_PERCENT, _SIXTY_PERCENT, _EIGHTY_PERCENT = (Share(n * 1000) for n in (1, 4, 6, 8))
_TEN_SECONDS = Seconds(10)


class Isolation(StrEnum):
    """The way the kernel chooses between online work and offline pods that want the same CPU.

    ``idle``: an offline pod gives way to online work that wakes up. ``weights``: kubelet's weights decide.
    """

    IDLE = "idle"
    WEIGHTS = "weights"


class SuppressionMode(StrEnum):
    """The way offline pods are held back: all by one quota, or each by its own."""

    BESTEFFORT_QUOTA = "besteffort-quota"
    PER_POD_QUOTA = "per-pod-quota"


class OnAgentStop(StrEnum):
    """The fate of the quotas when the agent is stopped in good order."""

    HOLD = "hold"
    RESTORE = "restore"


@dataclass(frozen=True, slots=True)
class OversubscriptionSettings:
    """The share of idle online CPU and memory that is offered, and the interval at which it is computed."""

    ratio: Share = _SIXTY_PERCENT
    interval: Seconds = _TEN_SECONDS


@dataclass(frozen=True, slots=True)
class SuppressionSettings:
    """The settings that hold offline pods back; all values have their defaults.

    ``adjust_step`` is a share of the node's raw allocatable CPU, ``quota_step`` one of the pod's limit;
    ``high``, ``low`` and ``recover`` are shares of the node's raw CPU.
    """

    enabled: bool = True
    isolation: Isolation = Isolation.IDLE
    mode: SuppressionMode = SuppressionMode.BESTEFFORT_QUOTA
    adjust_step: Share = _TEN_PERCENT
    restore_on_stop: bool = False
    high: Share = _EIGHTY_PERCENT
    low: Share = _SIXTY_PERCENT
    recover: Share = _FORTY_PERCENT
    quota_step: Share = _TEN_PERCENT
    pods_a_cycle: int = 5


@dataclass(frozen=True, slots=True)
class ResctrlSettings:
    """Which part of the last-level cache and of memory bandwidth offline pods may use, in percent."""

    enabled: bool = False
    cat_start: int = 0
    cat_end: int = 30
    mba: int = 100

    @property
    def limits_cache(self) -> bool:
        return self.cat_start > 0 or self.cat_end < _ALL

    @property
    def limits_bandwidth(self) -> bool:
        return self.mba < _ALL


OversubscriptionConfig: TypeAlias = Configuration[OversubscriptionSettings]
SuppressionConfig: TypeAlias = Configuration[SuppressionSettings]
ResourceQOSConfig: TypeAlias = Configuration[ResctrlSettings]

NO_OVERSUBSCRIPTION: OversubscriptionConfig = Configuration(OversubscriptionSettings())
"""What applies where the key is absent: the defaults. Whether a node offers at all, its label says."""

NO_SUPPRESSION: SuppressionConfig = Configuration(SuppressionSettings(enabled=False))
"""What applies where the key is absent: offline pods are not held back."""

NO_RESOURCE_QOS: ResourceQOSConfig = Configuration(ResctrlSettings())
"""What applies where the key is absent: cache and memory bandwidth are not limited."""

OVERSUBSCRIPTION_MEMBERS = ("ratio", "intervalSeconds")
SUPPRESSION_MEMBERS = (
    *("enabled", "isolation", "mode", "adjustStep", "onAgentStop"),
    *("highThreshold", "lowThreshold", "recoverThreshold", "adjustQuotaStep", "adjustPodNum"),
)
RESOURCE_QOS_MEMBERS = ("clusterStrategy", "nodeStrategies")
_OFFLINE_CLASS, _RESCTRL = "beClass", "resctrlQOS"
_OTHER_STRATEGIES = ("policies", "lsrClass", "lsClass", "systemClass", "cgroupRoot")
_OTHER_QOS = ("cpuQOS", "memoryQOS", "blkioQOS", "networkQOS")
_RESCTRL_MEMBERS = ("enable", "catRangeStartPercent", "catRangeEndPercent", "mbaPercent")
_ALL = 100
_AROUND = "cpuSuppression"
"""The member that may hold all of these, as the documents of cpuSuppression write them."""

_SLICE_MEMBERS = ("adjustStep",)
_POD_MEMBERS = ("highThreshold", "lowThreshold", "recoverThreshold", "adjustQuotaStep", "adjustPodNum")

_THRESHOLDS = {"recoverThreshold": "recover", "lowThreshold": "low", "highThreshold": "high"}
_NO_STEP = "without a step nothing is ever adjusted"


_VOLCANO = "cpuThrottlingConfig"
"""The member that Volcano's agent reads."""
_VOLCANO_MEMBERS = {
    "cpuThrottlingThreshold": "the quota follows the offer (oversubscription-config), not a utilization",
    "cpuJitterLimitPercent": "each step is at most adjustStep, and no change is too small",
    "cpuRecoverLimitPercent": "each step is at most adjustStep, up as down",
}
_BESIDE_VOLCANO = ("isolation", "onAgentStop")
SUPPRESSION_BLOCKS = (_AROUND, _VOLCANO)
"""The members that may hold the settings of ``cpu-suppression-config``, in YAML too."""


def not_honored(key: str, text: str) -> str:
    """Return the warning for one of ``UNREAD_KEYS``: each value that it states, and what counts instead."""
    decoder = Decoder(read_json(text))
    paths = [path_text(path) for path in _stated_paths(decoder.root.value)] if decoder.is_complete else []
    named = f" (here: {', '.join(paths)})" if paths else ""
    return f"{key} is not honored{named}: {UNREAD_KEYS[key]}"


def _stated_paths(value: Value, path: Path = ()) -> Iterator[Path]:
    """Yield the path of each value that holds no others."""
    inner: list[tuple[str | int, Located]] = []
    if isinstance(value, Members):
        inner = [(each.key, each.value) for each in value]
    elif isinstance(value, Items):
        inner = list(enumerate(value))
    if path and not inner:
        yield path
    for step, each in inner:
        yield from _stated_paths(each.value, (*path, step))


def parse_oversubscription(text: str) -> Parsed[OversubscriptionConfig]:
    """Read the value of the key ``oversubscription-config``."""
    decoder = Decoder(read_json(text))
    default = OversubscriptionSettings()
    return decoder.finish(read_node_configs(decoder, OVERSUBSCRIPTION_MEMBERS, default, _oversubscription))


def parse_suppression(text: str) -> Parsed[SuppressionConfig]:
    """Read the value of the key ``cpu-suppression-config``."""
    decoder = Decoder(read_yaml(text) if is_suppression_yaml(text) else read_json(text))
    read: list[tuple[Fields, SuppressionSettings]] = []

    def settings(decoder: Decoder, places: Fields, inherited: SuppressionSettings) -> SuppressionSettings:
        if not places[_VOLCANO].is_empty:
            return _of_volcano(decoder, places, inherited)
        if not places[_AROUND].is_empty:
            places, inherited = _unwrap(decoder, places, inherited)
        found = _suppression(decoder, places, inherited)
        read.append((places, found))
        return found

    members = (*SUPPRESSION_MEMBERS, _AROUND, _VOLCANO)
    config = read_node_configs(decoder, members, SuppressionSettings(), settings)
    if all(each.severity is Severity.WARNING for each in decoder.problems):
        for places, found in read:
            _check_thresholds(decoder, places, found)
            is_entry = "nodeConfigs" in places.owner.path
            others = () if is_entry else (each.strategy.mode for each in config.node_configs)
            _check_mode(decoder, places, found.mode, {found.mode, *others})
    return decoder.finish(config)


def is_suppression_yaml(text: str) -> bool:
    """Whether a text is YAML that begins with a block of suppression, after comments and ``---``."""
    lines = (line.strip() for line in text.splitlines())
    first = next((line for line in lines if line and not line.startswith(("#", "---"))), "")
    return first.startswith(tuple(f"{block}:" for block in SUPPRESSION_BLOCKS))


def parse_resource_qos(text: str) -> Parsed[ResourceQOSConfig]:
    """Read the value of the key ``resource-qos-config``."""
    decoder = Decoder(read_json(text))
    around, member = RESOURCE_QOS_MEMBERS
    members = (_OFFLINE_CLASS, *_OTHER_STRATEGIES)
    return decoder.finish(
        read_node_configs(decoder, members, ResctrlSettings(), _resctrl, around=around, member=member)
    )


def _resctrl(decoder: Decoder, places: Fields, inherited: ResctrlSettings) -> ResctrlSettings:
    of_class = decoder.fields(places[_OFFLINE_CLASS], (_RESCTRL, *_OTHER_QOS))
    for fields, names in ((places, _OTHER_STRATEGIES), (of_class, _OTHER_QOS)):
        for name in names:
            if not fields[name].is_empty:
                honored = f"of this key only {_OFFLINE_CLASS}.{_RESCTRL} is"
                decoder.warn(fields[name], f"not honored: {honored}")
    limits = decoder.fields(of_class[_RESCTRL], _RESCTRL_MEMBERS)

    def percent(name: str, smallest: int, inherited: int) -> int:
        return either(decoder.whole(limits[name], smallest, _ALL), inherited)

    start = percent("catRangeStartPercent", 0, inherited.cat_start)
    end = percent("catRangeEndPercent", 1, inherited.cat_end)
    if start >= end:
        wrong = "catRangeStartPercent" if limits["catRangeEndPercent"].is_empty else "catRangeEndPercent"
        message = (
            f"the range of the cache is empty: from {start} % to {end} %; the end must be above the start"
        )
        decoder.error(limits[wrong], message)
    settings = ResctrlSettings(
        either(decoder.flag(limits["enable"]), inherited.enabled),
        start,
        end,
        percent("mbaPercent", 1, inherited.mba),
    )
    if settings.enabled and not (settings.limits_cache or settings.limits_bandwidth):
        decoder.warn(of_class[_RESCTRL], "limits nothing: all of the cache and of memory bandwidth")
    return settings


def _oversubscription(
    decoder: Decoder, places: Fields, inherited: OversubscriptionSettings
) -> OversubscriptionSettings:
    interval = decoder.whole(places["intervalSeconds"], 1, LONGEST_INTERVAL)
    ratio = decoder.share(places["ratio"], NOTHING, places=2)
    if ratio == NOTHING:
        decoder.warn(places["ratio"], "offers nothing to offline pods")
    return OversubscriptionSettings(
        ratio=either(ratio, inherited.ratio),
        interval=inherited.interval if interval is None else Seconds(interval),
    )


def _suppression(decoder: Decoder, places: Fields, inherited: SuppressionSettings) -> SuppressionSettings:
    def step(name: str, inherited: Share) -> Share:
        return either(decoder.share(places[name], SMALLEST_STEP, hint=_NO_STEP), inherited)

    def threshold(name: str, inherited: Share) -> Share:
        return either(decoder.share(places[name], NOTHING), inherited)

    stop = decoder.choice(places["onAgentStop"], OnAgentStop)
    return SuppressionSettings(
        enabled=either(decoder.flag(places["enabled"]), inherited.enabled),
        isolation=either(decoder.choice(places["isolation"], Isolation), inherited.isolation),
        mode=either(decoder.choice(places["mode"], SuppressionMode), inherited.mode),
        adjust_step=step("adjustStep", inherited.adjust_step),
        restore_on_stop=inherited.restore_on_stop if stop is None else stop is OnAgentStop.RESTORE,
        high=threshold("highThreshold", inherited.high),
        low=threshold("lowThreshold", inherited.low),
        recover=threshold("recoverThreshold", inherited.recover),
        quota_step=step("adjustQuotaStep", inherited.quota_step),
        pods_a_cycle=either(
            decoder.whole(places["adjustPodNum"], 1, MOST_PODS_A_CYCLE), inherited.pods_a_cycle
        ),
    )


def _unwrap(
    decoder: Decoder, places: Fields, inherited: SuppressionSettings
) -> tuple[Fields, SuppressionSettings]:
    """Return the members of ``cpuSuppression``, and what they inherit with the mode that they mean."""
    around = places[_AROUND]
    beside = [name for name in SUPPRESSION_MEMBERS if not places[name].is_empty]
    if beside:
        decoder.error(around, f"move {', '.join(beside)} into {_AROUND}, or write all values without it")
    inner = decoder.fields(around, (*SUPPRESSION_MEMBERS, "nodeConfigs"))
    if not inner["nodeConfigs"].is_empty:
        decoder.error(inner["nodeConfigs"], f"move nodeConfigs out of {_AROUND}, and write it beside")
    if not inner["mode"].is_empty:
        decoder.warn(around, f"read as {_AROUND} with mode")
        return inner, inherited
    mode = inherited.mode
    of_slice = [name for name in _SLICE_MEMBERS if not inner[name].is_empty]
    of_pods = [name for name in _POD_MEMBERS if not inner[name].is_empty]
    if of_slice and of_pods:
        both = f"{of_slice[0]} belongs to {SuppressionMode.BESTEFFORT_QUOTA}, {of_pods[0]} to "
        decoder.error(inner[of_pods[0]], f"{both}{SuppressionMode.PER_POD_QUOTA}: write mode")
        return inner, inherited
    if of_slice or of_pods:
        mode = SuppressionMode.PER_POD_QUOTA if of_pods else SuppressionMode.BESTEFFORT_QUOTA
    decoder.warn(around, f"read as {_AROUND} without mode: mode is {mode}")
    return inner, replace(inherited, mode=mode)


def _of_volcano(decoder: Decoder, places: Fields, inherited: SuppressionSettings) -> SuppressionSettings:
    around = places[_VOLCANO]
    written = [name for name in (*SUPPRESSION_MEMBERS, _AROUND) if not places[name].is_empty]
    beside = [name for name in written if name not in _BESIDE_VOLCANO]
    if beside:
        decoder.error(around, f"write {_VOLCANO} or {', '.join(beside)}: together they contradict each other")
    inner = decoder.fields(around, ("enable", *_VOLCANO_MEMBERS))
    decoder.warn(around, f"read as Volcano's: mode is {SuppressionMode.BESTEFFORT_QUOTA}")
    for name, instead in _VOLCANO_MEMBERS.items():
        if not inner[name].is_empty:
            decoder.warn(inner[name], f"not honored: {instead}")
    stop = decoder.choice(places["onAgentStop"], OnAgentStop)
    return replace(
        inherited,
        enabled=either(decoder.flag(inner["enable"]), False),
        isolation=either(decoder.choice(places["isolation"], Isolation), inherited.isolation),
        mode=SuppressionMode.BESTEFFORT_QUOTA,
        restore_on_stop=inherited.restore_on_stop if stop is None else stop is OnAgentStop.RESTORE,
    )


def _check_mode(
    decoder: Decoder, places: Fields, mode: SuppressionMode, modes: Collection[SuppressionMode]
) -> None:
    """Warn of values that no node uses, since they belong to the other mode."""
    for other, members in (
        (SuppressionMode.BESTEFFORT_QUOTA, _SLICE_MEMBERS),
        (SuppressionMode.PER_POD_QUOTA, _POD_MEMBERS),
    ):
        for name in members if other not in modes else ():
            if not places[name].is_empty:
                decoder.warn(
                    places[name], f'has no effect with mode {mode}: write "mode": "{other}", or leave it out'
                )


def _check_thresholds(decoder: Decoder, places: Fields, settings: SuppressionSettings) -> None:
    """Report thresholds that do not rise, at one written here; warn of one that is 0."""
    written = [name for name in _THRESHOLDS if places[name].value is not None]
    if not written:
        return
    values = {name: getattr(settings, field) for name, field in _THRESHOLDS.items()}
    wrong = [pair for pair in pairwise(_THRESHOLDS) if values[pair[0]] >= values[pair[1]]]
    if wrong:
        low, high = wrong[0]
        culprit = next((name for name in (high, low) if name in written), written[0])
        side, other = ("above", low) if culprit == high else ("below", high)
        origin = "" if other in written else ", not written here"
        decoder.error(
            places[culprit],
            f"{values[culprit]} must be {side} {other} ({values[other]}{origin}): thresholds rise, "
            f"{' < '.join(_THRESHOLDS)}",
        )
    elif settings.recover == NOTHING and "recoverThreshold" in written:
        message = "0.00: no utilization is below it, so no pod's quota is ever raised again"
        decoder.warn(places["recoverThreshold"], message)
