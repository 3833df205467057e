"""The agent's last report on its node's offline pods: the annotation ``node.corewise.io/oversubscription``.

It is a report for people and commands; no decision depends on it. CPU is in physical milli-CPU, memory in
bytes. ``offered_milli`` is smoothed over ``samples`` samples, ``raw_offer_milli`` is the last sample's; both
are before the normalization ratio that the Node's ``kubernetes.io/batch-cpu`` is multiplied by. Keys that
this version does not know are ignored, and absent ones have their defaults.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from corewise.vocabulary.errors import UNREADABLE

LONGEST_CURVE = 30
"""How many samples ``online`` and ``offline`` hold at most."""


class OfferState(StrEnum):
    """The reliability of the offer.

    Fresh: the last samples are there. Frozen: three or more are missing in a row, and the amount stays.
    Withdrawn: there was none for 15 minutes, and nothing is offered.
    """

    FRESH = "fresh"
    FROZEN = "frozen"
    WITHDRAWN = "withdrawn"


class MemoryReport(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Memory in bytes; what is used is the working set."""

    allocatable: int
    online: int
    offline: int
    offered: int


class SuppressionReport(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """The limits on offline pods. ``reason`` is a reason code, ``why`` the sentence with the numbers.

    The quota of the slice, its target and the largest step are None in the mode of one quota for each pod;
    ``task`` is empty in the other. ``repaired`` counts since the agent's start.
    """

    mode: str
    reason: str
    why: str
    quota_milli: int | None = None
    target_milli: int | None = None
    step_milli: int | None = None
    task: str = ""
    repaired: int = 0


class ShortfallReport(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The requests of offline pods for ``kubernetes.io/batch-cpu`` and ``batch-memory``."""

    batch_cpu: int = msgspec.field(name="batchCPU")
    batch_memory: int


class ResctrlReport(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """The cache and memory bandwidth that offline pods may use, or the reason why they are not limited.

    ``reason`` is a reason code, ``why`` the sentence. ``schemata`` is what limits them, as the kernel writes
    it; ``tasks`` the number of their tasks.
    """

    reason: str
    why: str
    schemata: str = ""
    tasks: int = 0


class IsolationReport(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """The way offline pods are kept from the CPUs that online work wants, beside any quota.

    ``reason`` is a reason code, ``why`` the sentence, ``pods`` the number of pods that are idle.
    """

    reason: str
    why: str
    pods: int = 0


class EvictionReport(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """Whether an offline pod is evicted, and why or why not.

    ``reason`` is a reason code, ``why`` the sentence with the numbers. ``pressure`` is what is short
    ("memory", "cpu"), empty if nothing is. ``next`` is the pod that would go first, ``order`` what put it
    there. ``last`` says which pod went last, when and why, since the agent's start.
    """

    reason: str
    why: str
    pressure: str = ""
    next: str = ""
    order: str = ""
    last: str = ""
    dry_run: bool = False


class OfflineReport(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """The inputs of the offer, the offer, and what came of it.

    ``time`` is RFC 3339, of the last sample. ``allocatable_milli`` is at most the CPUs online.
    ``pinned_milli`` is what CPUSet pods request beyond what they use. ``missing`` samples are counted in a
    row. ``online`` and ``offline`` are the last samples in milli-CPU, oldest first. ``limited_by`` is the
    reason code of the bound that holds. ``shortfall``: there is one where less is offered than offline pods
    on the node request, which is published instead.
    """

    time: str
    interval_seconds: int
    state: OfferState
    ratio: str
    normalization_ratio: str
    allocatable_milli: int
    node_milli: int
    online_milli: int
    offline_milli: int
    pinned_milli: int
    offered_milli: int
    raw_offer_milli: int
    memory: MemoryReport
    samples: int = 0
    missing: int = 0
    native_best_effort: int = 0
    offline_pods: int = 0
    limited_by: str = ""
    suppression: SuppressionReport | None = None
    shortfall: ShortfallReport | None = None
    resctrl: ResctrlReport | None = None
    eviction: EvictionReport | None = None
    isolation: IsolationReport | None = None
    online: list[int] = msgspec.field(default_factory=list)
    offline: list[int] = msgspec.field(default_factory=list)

    def encode(self) -> str:
        """Return the annotation's text. Of longer curves the newest samples are kept."""
        online, offline = self.online[-LONGEST_CURVE:], self.offline[-LONGEST_CURVE:]
        return msgspec.json.encode(msgspec.structs.replace(self, online=online, offline=offline)).decode()


_DECODER = msgspec.json.Decoder(OfflineReport)


def decode(text: str) -> OfflineReport | None:
    """Read the annotation; None if it is not a report, whatever else it is."""
    try:
        return _DECODER.decode(text)
    except UNREADABLE:
        return None
