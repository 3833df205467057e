"""Reason codes: one enum, one meaning, the same in events, metrics, logs, CLI output and docs/reference.md.

Every verdict carries one. A verdict that leaves things as they are for want of something (``warning=True``)
becomes a Warning Event on the object it is about, with ``fix`` telling what to do; the others tell how
a good result came about.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType


class Reason(StrEnum):
    """Why something was decided, done or refused."""

    # normalization: which ratio
    RATIO_FROM_MODEL = "RatioFromModel"
    RATIO_FROM_DEFAULT = "RatioFromDefault"
    NORMALIZATION_DISABLED = "NormalizationDisabled"
    ENABLE_LABEL_INVALID = "EnableLabelInvalid"
    CPU_FACTS_MISSING = "CPUFactsMissing"
    CPU_FACTS_MALFORMED = "CPUFactsMalformed"
    UNKNOWN_CPU_MODEL = "UnknownCPUModel"
    RATIO_FIELD_MISSING = "RatioFieldMissing"
    RATIO_OUT_OF_RANGE = "RatioOutOfRange"
    NORMALIZATION_RATIO_INVALID = "NormalizationRatioInvalid"

    # configuration
    CONFIG_INVALID = "ConfigInvalid"
    CONFIG_APPLIED = "ConfigApplied"
    CONFLICTING_NODE_CONFIGS = "ConflictingNodeConfigs"

    # amplification: which ratio
    AMPLIFICATION_RATIO_INVALID = "AmplificationRatioInvalid"
    AMPLIFICATION_RATIO_OUT_OF_RANGE = "AmplificationRatioOutOfRange"
    AMPLIFICATION_RESOURCE_REFUSED = "AmplificationResourceRefused"
    AMPLIFICATION_ORIGINAL_BELOW_ONE = "AmplificationOriginalBelowOne"
    NORMALIZATION_UNDECIDED = "NormalizationUndecided"
    ORIGINAL_ADOPTED = "OriginalAdopted"
    ORIGINAL_NEEDED = "OriginalNeeded"
    KOORDINATOR_WEBHOOK_PRESENT = "KoordinatorWebhookPresent"

    # amplification: is a change safe
    UNSAFE_DECREASE_HELD_BACK = "UnsafeDecreaseHeldBack"
    UNSAFE_DECREASE_REFUSED = "UnsafeDecreaseRefused"
    UNSAFE_DECREASE_ALLOWED = "UnsafeDecreaseAllowed"
    RAISE_ON_BUSY_NODE = "RaiseOnBusyNode"

    # amplification: node status
    RATIOS_WRITTEN = "RatiosWritten"
    STATUS_TOUCHED = "StatusTouched"
    STATUS_REPAIRED = "StatusRepaired"
    STATUS_CHANGE_UNDONE = "StatusChangeUndone"
    RECORD_UNUSABLE = "RecordUnusable"
    RAW_UNKNOWN = "RawUnknown"
    RAW_EQUALS_AMPLIFIED = "RawEqualsAmplified"

    # quotas of cgroups
    QUOTA_NORMALIZED = "QuotaNormalized"
    QUOTA_RESTORED = "QuotaRestored"
    QUOTA_BOUNDED_BY_PARENT = "QuotaBoundedByParent"
    QUOTA_DRIFT_REPAIRED = "QuotaDriftRepaired"

    # weights, CPU sets and memory limits of cgroups
    SETTING_RESTORED = "SettingRestored"
    SETTING_BOUNDED_BY_PARENT = "SettingBoundedByParent"
    SETTING_DRIFT_REPAIRED = "SettingDriftRepaired"

    # oversubscription: what is offered to offline pods
    OFFER_FROM_IDLE = "OfferFromIdle"
    OFFER_LESS_PINNED = "OfferLessPinned"
    OFFER_NOTHING_IDLE = "OfferNothingIdle"
    OFFER_RATIO_ZERO = "OfferRatioZero"
    OFFER_FROZEN = "OfferFrozen"
    OFFER_WITHDRAWN = "OfferWithdrawn"
    OVERSUBSCRIPTION_OFF = "OversubscriptionOff"
    OVERSUBSCRIPTION_LABEL_INVALID = "OversubscriptionLabelInvalid"
    SAMPLE_MISSED = "SampleMissed"

    # suppression: one quota for all offline pods
    SUPPRESSION_OFF = "SuppressionOff"
    SUPPRESSION_AT_TARGET = "SuppressionAtTarget"
    SUPPRESSION_AT_FLOOR = "SuppressionAtFloor"
    SUPPRESSION_STEPPED_DOWN = "SuppressionSteppedDown"
    SUPPRESSION_STEPPED_UP = "SuppressionSteppedUp"
    SUPPRESSION_FAST = "SuppressionFast"
    SLICE_MISSING = "SliceMissing"
    SLICE_UNREADABLE = "SliceUnreadable"

    # suppression: a quota for each offline pod
    UTILIZATION_HIGH = "UtilizationHigh"
    UTILIZATION_LOW = "UtilizationLow"
    UTILIZATION_BETWEEN = "UtilizationBetween"
    NOTHING_ADJUSTABLE = "NothingAdjustable"

    # offline pods' own limits
    BATCH_LIMIT_APPLIED = "BatchLimitApplied"
    BATCH_AMOUNT_TINY = "BatchAmountTiny"
    # pinning: which CPUs
    NOT_ENOUGH_CPUS = "NotEnoughCPUs"
    NOT_WHOLE_CORES = "NotWholeCores"
    NOT_ENOUGH_CORES = "NotEnoughCores"
    CPUS_TAKEN = "CPUsTaken"
    CPUS_UNKNOWN = "CPUsUnknown"

    # pinning: on the node
    CPUS_OWNED = "CPUsOwned"
    CPUS_SHARED = "CPUsShared"
    CPUS_RESERVED = "CPUsReserved"
    CPUS_OFFLINE = "CPUsOffline"
    CPUS_MANAGED_BY_KUBELET = "CPUsManagedByKubelet"
    SHARED_POOL_EMPTY = "SharedPoolEmpty"

    # measuring: why the agent has no value of what work on a node fights over
    RESCTRL_UNSUPPORTED = "ResctrlUnsupported"
    RESCTRL_NOT_MOUNTED = "ResctrlNotMounted"
    RESCTRL_EVENT_MISSING = "ResctrlEventMissing"
    RESCTRL_NO_VALUE = "ResctrlNoValue"
    UNCORE_NO_VALUE = "UncoreNoValue"
    PERF_NOT_PERMITTED = "PerfNotPermitted"
    PERF_EVENT_MISSING = "PerfEventMissing"
    PERF_FAILED = "PerfFailed"
    PERF_NO_VALUE = "PerfNoValue"
    OTHER_KERNEL = "OtherKernel"
    LATENCY_PROBE_NOT_BUILT = "LatencyProbeNotBuilt"
    LATENCY_PROBE_OFF = "LatencyProbeOff"
    LATENCY_PROBE_FAILED = "LatencyProbeFailed"
    LATENCY_NOT_YET = "LatencyNotYet"
    MEMORY_CHANNELS_UNKNOWN = "MemoryChannelsUnknown"
    MEMORY_SPEED_UNKNOWN = "MemorySpeedUnknown"
    CACHE_SIZE_UNKNOWN = "CacheSizeUnknown"
    HOST_FILE_UNREADABLE = "HostFileUnreadable"

    # scheduling: what is wrong with a pod
    CPUS_NOT_INTEGER = "CPUsNotInteger"
    RESOURCE_SPEC_INVALID = "ResourceSpecInvalid"
    BIND_POLICY_CONFLICT = "BindPolicyConflict"
    RESOURCE_STATUS_INVALID = "ResourceStatusInvalid"
    CPU_TOPOLOGY_INVALID = "CPUTopologyInvalid"

    # scheduling: why a node does not suit a pod
    AMPLIFIED_CPU_INSUFFICIENT = "AmplifiedCPUInsufficient"
    RESOURCE_INSUFFICIENT = "ResourceInsufficient"
    CPU_TOPOLOGY_UNKNOWN = "CPUTopologyUnknown"
    NUMA_POLICY_CONFLICT = "NUMAPolicyConflict"
    NUMA_POLICY_UNKNOWN = "NUMAPolicyUnknown"
    NUMA_ZONES_UNUSABLE = "NUMAZonesUnusable"
    NUMA_NOT_ALIGNED = "NUMANotAligned"
    NODE_NAME_MISMATCH = "NodeNameMismatch"
    NODE_UNSCHEDULABLE = "NodeUnschedulable"
    TAINT_NOT_TOLERATED = "TaintNotTolerated"
    NODE_AFFINITY_MISMATCH = "NodeAffinityMismatch"
    NODE_UNKNOWN = "NodeUnknown"
    NO_NODE_SUITS = "NoNodeSuits"

    # interference: what the filter and the profiles say
    MEMORY_BANDWIDTH_INSUFFICIENT = "MemoryBandwidthInsufficient"
    MEMORY_AVAILABLE_INSUFFICIENT = "MemoryAvailableInsufficient"
    PRESSURE_UNKNOWN = "PressureUnknown"
    PROFILE_CONFLICT = "ProfileConflict"
    PROFILE_UNPLACEABLE = "ProfileUnplaceable"
    MEMORY_BANDWIDTH_INVALID = "MemoryBandwidthInvalid"

    # interference: what a history says
    TOO_FEW_RUNS = "TooFewRuns"
    PRESSURE_NEVER_VARIED = "PressureNeverVaried"

    # tracking: configuration of a host
    CPU_SET_MALFORMED = "CPUSetMalformed"
    CPU_SET_LEAVES_NOTHING = "CPUSetLeavesNothing"
    CPU_SETS_OVERLAP = "CPUSetsOverlap"
    CPUS_NOT_PRESENT = "CPUsNotPresent"
    CPUS_NOT_ONLINE = "CPUsNotOnline"
    ALLOCATION_RATIO_INVALID = "AllocationRatioInvalid"
    POWER_MANAGEMENT_INVALID = "PowerManagementInvalid"
    RESERVED_CPUS_INVALID = "ReservedCPUsInvalid"
    RESERVED_CPUS_FORBIDDEN = "ReservedCPUsForbidden"
    RESERVED_CPUS_IGNORED = "ReservedCPUsIgnored"
    RESERVED_CPUS_DEPRECATED = "ReservedCPUsDeprecated"
    PIN_SET_FORBIDDEN = "PinSetForbidden"
    PIN_SET_IGNORED = "PinSetIgnored"
    PIN_SET_DEPRECATED = "PinSetDeprecated"
    SHARED_SET_FOR_EMULATOR_ONLY = "SharedSetForEmulatorOnly"
    GUEST_NEEDS_SHARED_CPUS = "GuestNeedsSharedCPUs"
    GUEST_NEEDS_DEDICATED_CPUS = "GuestNeedsDedicatedCPUs"
    GUEST_NEEDS_BOTH_KINDS = "GuestNeedsBothKinds"
    GUEST_PINNED_OUTSIDE = "GuestPinnedOutside"

    # tracking: what a host offers
    INVENTORY_REPORTED = "InventoryReported"
    TRAIT_REPORTED = "TraitReported"

    # tracking: from flavor and image to a query
    FLAVOR_INVALID = "FlavorInvalid"
    CPU_POLICY_UNKNOWN = "CPUPolicyUnknown"
    CPU_POLICY_CONFLICT = "CPUPolicyConflict"
    CPU_POLICY_WITH_RESOURCES = "CPUPolicyWithResources"
    MIXED_CPU_RESOURCES = "MixedCPUResources"
    PCPU_COUNT_MISMATCH = "PCPUCountMismatch"
    VCPU_COUNT_MISMATCH = "VCPUCountMismatch"
    NO_CPU_REQUESTED = "NoCPURequested"
    THREAD_POLICY_UNKNOWN = "ThreadPolicyUnknown"
    THREAD_POLICY_CONFLICT = "ThreadPolicyConflict"
    THREAD_POLICY_WITHOUT_PINNING = "ThreadPolicyWithoutPinning"
    THREAD_POLICY_WITH_TRAIT = "ThreadPolicyWithTrait"
    TRAIT_WITHOUT_PINNING = "TraitWithoutPinning"
    TRAIT_INVALID = "TraitInvalid"
    TRAIT_CONFLICT = "TraitConflict"
    DEDICATED_MASK_MALFORMED = "DedicatedMaskMalformed"
    DEDICATED_MASK_EMPTY = "DedicatedMaskEmpty"
    DEDICATED_MASK_FULL = "DedicatedMaskFull"
    DEDICATED_MASK_OUTSIDE = "DedicatedMaskOutside"
    DEDICATED_MASK_WITHOUT_MIXED = "DedicatedMaskWithoutMixed"
    MIXED_WITHOUT_MASK = "MixedWithoutMask"
    MIXED_WITH_TWO_MASKS = "MixedWithTwoMasks"
    REALTIME_MASK_INVALID = "RealtimeMaskInvalid"
    REALTIME_WITHOUT_PINNING = "RealtimeWithoutPinning"
    EMULATOR_POLICY_UNKNOWN = "EmulatorPolicyUnknown"
    EMULATOR_POLICY_WITHOUT_PINNING = "EmulatorPolicyWithoutPinning"
    RESOURCE_AMOUNT_INVALID = "ResourceAmountInvalid"
    RESOURCE_CLASS_UNKNOWN = "ResourceClassUnknown"
    GROUP_POLICY_INVALID = "GroupPolicyInvalid"
    GROUP_POLICY_ASSUMED = "GroupPolicyAssumed"
    GROUP_WITHOUT_RESOURCES = "GroupWithoutResources"
    GUEST_NUMA_INVALID = "GuestNUMAInvalid"

    # tracking: whether a host can take a guest
    DEDICATED_CPUS_INSUFFICIENT = "DedicatedCPUsInsufficient"
    SHARED_CPUS_INSUFFICIENT = "SharedCPUsInsufficient"
    HYPER_THREADS_MISSING = "HyperThreadsMissing"
    HYPER_THREADS_PRESENT = "HyperThreadsPresent"
    THREAD_POLICY_UNMET = "ThreadPolicyUnmet"
    NUMA_NODES_INSUFFICIENT = "NUMANodesInsufficient"
    NUMA_NODES_UNFIT = "NUMANodesUnfit"
    NUMA_MEMORY_INSUFFICIENT = "NUMAMemoryInsufficient"
    GUEST_ALREADY_PINNED = "GuestAlreadyPinned"

    # tracking: upgrade of a host
    GUESTS_RESHAPED = "GuestsReshaped"
    RESHAPE_EXCEEDS_INVENTORY = "ReshapeExceedsInventory"
    RESHAPE_AMOUNT_UNEXPECTED = "ReshapeAmountUnexpected"

    # compute: what the program cannot do
    FILE_UNUSABLE = "FileUnusable"
    LEDGER_UNUSABLE = "LedgerUnusable"
    LEDGER_DAMAGED = "LedgerDamaged"
    LEDGER_BUSY = "LedgerBusy"
    GUEST_UNKNOWN = "GuestUnknown"
    GUEST_EXISTS = "GuestExists"
    HOST_UNKNOWN = "HostUnknown"
    CPUS_PROMISED_TWICE = "CPUsPromisedTwice"
    NO_VALID_HOST = "NoValidHost"
    CLAIM_LOST = "ClaimLost"
    OPENSTACK_UNUSABLE = "OpenStackUnusable"
    LIBVIRT_UNUSABLE = "LibvirtUnusable"
    PLACEMENT_DOWN = "PlacementDown"
    PLACEMENT_UNAUTHORIZED = "PlacementUnauthorized"
    PLACEMENT_FORBIDDEN = "PlacementForbidden"
    PLACEMENT_NOT_FOUND = "PlacementNotFound"
    PLACEMENT_CONFLICT = "PlacementConflict"
    PLACEMENT_REFUSED = "PlacementRefused"
    TRAIT_UNKNOWN = "TraitUnknown"

    @property
    def text(self) -> ReasonText:
        """What the code means, what to do about it, and whether it is a warning."""
        return REASONS[self]


@dataclass(frozen=True, slots=True)
class ReasonText:
    """One row of the reference. ``fix`` is empty where nothing is to be done."""

    meaning: str
    fix: str = ""
    warning: bool = False


def _warning(meaning: str, fix: str) -> ReasonText:
    return ReasonText(meaning, fix, warning=True)


_NORMALIZATION = {
    Reason.RATIO_FROM_MODEL: ReasonText(
        "The normalization ratio is the one that ratioModel gives for this CPU model, HT and turbo setting."
    ),
    Reason.RATIO_FROM_DEFAULT: ReasonText(
        "ratioModel has no ratio for this CPU model, HT and turbo setting; defaultRatio is used.",
        "Add the model to ratioModel if defaultRatio is not right for it.",
    ),
    Reason.NORMALIZATION_DISABLED: ReasonText(
        "Neither the node's label nor its strategy enables normalization: the ratio is 1.00, written out."
    ),
    Reason.ENABLE_LABEL_INVALID: _warning(
        "The label that enables normalization is not a bool string; the node's annotations stay as they are.",
        'Set node.koordinator.sh/cpu-normalization-enabled to "true" or "false", or remove it.',
    ),
    Reason.CPU_FACTS_MISSING: _warning(
        "The node's NodeResourceTopology states no CPU model; the node's annotations stay as they are.",
        "Run the agent on the node, or annotate its NodeResourceTopology with "
        "node.koordinator.sh/cpu-basic-info.",
    ),
    Reason.CPU_FACTS_MALFORMED: _warning(
        "The annotation with the node's CPU facts cannot be read; the node's annotations stay as they are.",
        "Correct node.koordinator.sh/cpu-basic-info on the NodeResourceTopology, or restart the agent "
        "that writes it.",
    ),
    Reason.UNKNOWN_CPU_MODEL: _warning(
        "ratioModel has no entry for this CPU model and there is no defaultRatio; the node's annotations "
        "stay as they are.",
        "Add the model, spelled exactly as the node reports it, to ratioModel (key cpu-normalization-config "
        "of the ConfigMap slo-controller-config), or set defaultRatio there.",
    ),
    Reason.RATIO_FIELD_MISSING: _warning(
        "ratioModel knows this CPU model, but not for its HT and turbo setting, and there is no "
        "defaultRatio; the node's annotations stay as they are.",
        "Add the missing ratio to the model's entry in ratioModel (key cpu-normalization-config of the "
        "ConfigMap slo-controller-config), or set defaultRatio there.",
    ),
    Reason.RATIO_OUT_OF_RANGE: _warning(
        "The normalization ratio found is outside 1.00..5.00; it is not clamped, and the node's annotations "
        "stay as they are.",
        "Correct the ratio. The slowest CPU model of the cluster is the baseline, with ratio 1.00.",
    ),
    Reason.NORMALIZATION_RATIO_INVALID: _warning(
        "The normalization ratio annotated on the node cannot be read; the last good one stays in force.",
        "Remove the annotation node.koordinator.sh/cpu-normalization-ratio; the manager writes it anew.",
    ),
}

_CONFIGURATION = {
    Reason.CONFIG_INVALID: _warning(
        "A key of the ConfigMap slo-controller-config has errors; the last good one stays in force.",
        "Run corewise config check on the ConfigMap: it lists every error with line and column.",
    ),
    Reason.CONFIG_APPLIED: ReasonText("The configuration was read without errors and is in force."),
    Reason.CONFLICTING_NODE_CONFIGS: _warning(
        "More than one nodeConfigs entry selects the same node; the first of them is used.",
        "Make the selectors exclude each other.",
    ),
}

_RATIO = {
    Reason.AMPLIFICATION_RATIO_INVALID: _warning(
        "An amplification ratio cannot be read; what is in force for these resources stays.",
        'Write a JSON object of decimal numbers with two places, such as {"cpu":1.50}.',
    ),
    Reason.AMPLIFICATION_RATIO_OUT_OF_RANGE: _warning(
        "An amplification ratio is above the largest allowed; what is in force for this resource stays.",
        "Lower the original ratio, or raise the limit of the manager.",
    ),
    Reason.AMPLIFICATION_RESOURCE_REFUSED: _warning(
        "Only cpu and memory can be amplified: of other resources kubelet copies the stored, amplified "
        "capacity back into allocatable, which would double. The other entries of the map count.",
        "Remove the resource from the ratio.",
    ),
    Reason.AMPLIFICATION_ORIGINAL_BELOW_ONE: _warning(
        "An original amplification ratio is below 1.00; this resource stays as it is, the others go on.",
        "Write a ratio of at least 1.00, or remove the entry.",
    ),
    Reason.NORMALIZATION_UNDECIDED: _warning(
        "The normalization ratio of the node could not be decided, so its cpu entry stays as it is too.",
        "See the node's normalization reason: corewise explain node NAME.",
    ),
    Reason.ORIGINAL_ADOPTED: ReasonText(
        "A ratio that a user had annotated was taken as the node's original ratio and moved to the "
        "-original annotation."
    ),
    Reason.ORIGINAL_NEEDED: _warning(
        "Removing the -original annotation alone was refused: it says that the ratio annotation is "
        "corewise's product, which would then count as the user's own ratio and be multiplied again.",
        "Remove node.koordinator.sh/resource-amplification-ratio in the same write, or set "
        "node.corewise.io/resource-amplification-ratio-original to {}, which is: no ratio of your own.",
    ),
    Reason.KOORDINATOR_WEBHOOK_PRESENT: _warning(
        "Koordinator's own node webhook is installed; two webhooks would amplify twice, so nothing is "
        "amplified.",
        "Remove nodes from Koordinator's mutating webhook configuration, or leave amplification to it.",
    ),
}

_SAFETY = {
    Reason.UNSAFE_DECREASE_HELD_BACK: _warning(
        "A lower amplification ratio is due, but the pods of the node would no longer fit; the old ratio "
        "stays until they do.",
        "Drain pods from the node, or annotate it with "
        'node.corewise.io/allow-unsafe-amplification-change: "true".',
    ),
    Reason.UNSAFE_DECREASE_REFUSED: _warning(
        "Somebody's change of the amplification ratio was refused: the pods of the node would no longer fit.",
        "Use the smallest safe ratio that the message names, drain pods, or annotate the node with "
        'node.corewise.io/allow-unsafe-amplification-change: "true".',
    ),
    Reason.UNSAFE_DECREASE_ALLOWED: _warning(
        "A change after which pods no longer fit was let through because the node's annotation allows it.",
        "Expect kubelet to reject or evict pods; remove the annotation afterwards.",
    ),
    Reason.RAISE_ON_BUSY_NODE: _warning(
        "The ratio of a node was raised while its real CPU usage is above 60 %; it is applied all the same.",
        "Amplify idle nodes only, or lower the ratio again.",
    ),
}

_STATUS = {
    Reason.RATIOS_WRITTEN: ReasonText("The node's normalization and amplification ratios were written."),
    Reason.STATUS_TOUCHED: ReasonText(
        "An empty status patch was sent: no webhook had applied the ratio when it was written."
    ),
    Reason.STATUS_REPAIRED: ReasonText(
        "The node's status was not what ratio and record say; raw amounts were written and amplified anew."
    ),
    Reason.STATUS_CHANGE_UNDONE: _warning(
        "A writer other than the node's kubelet set an amplified amount; the stored amount was kept.",
        "Leave cpu and memory of amplified nodes to kubelet, or remove the ratio first.",
    ),
    Reason.RECORD_UNUSABLE: _warning(
        "The record of what was amplified cannot be read; amplified amounts stay until they can be "
        "computed anew.",
        "Nothing: the manager repairs the node. If it cannot, see RawUnknown.",
    ),
    Reason.RAW_UNKNOWN: _warning(
        "The node's raw amounts are known neither from its annotations nor from its NodeResourceTopology; "
        "nothing is repaired until kubelet states them.",
        "Run the agent on the node. If that does not help within a minute, remove the annotations that "
        "the message names: kubelet then states the amounts within 10 seconds.",
    ),
    Reason.RAW_EQUALS_AMPLIFIED: ReasonText(
        "The machine's raw capacity now equals the amplified amount in status; raw amounts were written anew."
    ),
}

_QUOTAS = {
    Reason.QUOTA_NORMALIZED: ReasonText(
        "The cgroup has kubelet's quota divided by the node's normalization ratio."
    ),
    Reason.QUOTA_RESTORED: ReasonText("Nobody bounds the cgroup any more: kubelet's quota was put back."),
    Reason.QUOTA_BOUNDED_BY_PARENT: ReasonText(
        "On cgroup v1 a cgroup cannot have more than its parent, and the parent has less than was asked for."
    ),
    Reason.QUOTA_DRIFT_REPAIRED: ReasonText(
        "Somebody else had changed the quota of a cgroup that is bounded; the bound was put back.",
        "Find out who else writes the quotas of this node's cgroups, if this comes again and again.",
    ),
}

_OFFER = {
    Reason.OFFER_FROM_IDLE: ReasonText(
        "Offline pods are offered the ratio of what online work leaves idle of the node's allocatable CPU."
    ),
    Reason.OFFER_LESS_PINNED: ReasonText(
        "CPUSet pods use less than they request. Their CPUs cannot be lent, so what they request counts, and "
        "the offer is that much smaller."
    ),
    Reason.OFFER_NOTHING_IDLE: ReasonText(
        "Online work, with what CPUSet pods request, takes all of the node's allocatable CPU: nothing is "
        "offered, and offline pods keep the smallest quota."
    ),
    Reason.OFFER_RATIO_ZERO: ReasonText(
        "The ratio of oversubscription is 0.00, so nothing is offered.",
        "Raise ratio in the key oversubscription-config of the ConfigMap slo-controller-config, if offline "
        "pods are meant to run on the node.",
    ),
    Reason.OFFER_FROZEN: _warning(
        "Three or more samples of usage are missing in a row: the last offer stays.",
        "See the agent's log for why usage cannot be read. After 15 minutes without a sample nothing is "
        "offered any more.",
    ),
    Reason.OFFER_WITHDRAWN: _warning(
        "There was no sample of usage for 15 minutes: nothing is offered until there is one.",
        "See the agent's log for why usage cannot be read.",
    ),
    Reason.OVERSUBSCRIPTION_OFF: ReasonText(
        "The node's label does not turn oversubscription on: nothing is offered, and nothing is suppressed.",
        'Label the node volcano.sh/oversubscription: "true" if offline pods are meant to run on it.',
    ),
    Reason.OVERSUBSCRIPTION_LABEL_INVALID: _warning(
        "The label that turns oversubscription on is neither true nor false; what was in force stays.",
        'Set volcano.sh/oversubscription to "true" or "false", or remove it.',
    ),
    Reason.SAMPLE_MISSED: _warning(
        "Usage could not be measured in one interval. What is missing is not zero: the offer stays.",
        "Nothing, if it is one. The message tells what could not be read, or made no sense.",
    ),
}

_SUPPRESSION = {
    Reason.SUPPRESSION_OFF: ReasonText(
        "Suppression is not configured, or disabled, for the node: offline pods have the quotas of kubelet.",
        "Set the key cpu-suppression-config of the ConfigMap slo-controller-config to {} to turn it on.",
    ),
    Reason.SUPPRESSION_AT_TARGET: ReasonText("The quota of all offline pods is the amount offered."),
    Reason.SUPPRESSION_AT_FLOOR: ReasonText(
        "Nothing, or next to nothing, is offered: all offline pods together have the smallest quota, 1000 us "
        "of each period."
    ),
    Reason.SUPPRESSION_STEPPED_DOWN: ReasonText(
        "The quota of all offline pods is above the amount offered and came down by one step (adjustStep)."
    ),
    Reason.SUPPRESSION_STEPPED_UP: ReasonText(
        "The quota of all offline pods is below the amount offered and went up by one step (adjustStep)."
    ),
    Reason.SUPPRESSION_FAST: ReasonText(
        "The quota of all offline pods came down to the amount offered at once, as fastSuppress asks."
    ),
    Reason.SLICE_MISSING: _warning(
        "The node has no cgroup of BestEffort pods, so there is nothing to hold back.",
        "Nothing, if kubelet has just started: it is looked for again at each interval. Else see whether the "
        "agent finds kubelet's cgroups: corewise agent --help.",
    ),
    Reason.SLICE_UNREADABLE: _warning(
        "The quota of the cgroup of BestEffort pods cannot be read or written; it stays as it is.",
        "See what the message names. It is tried again at each interval.",
    ),
    Reason.UTILIZATION_HIGH: ReasonText(
        "The node's CPU utilization rose above highThreshold and is not below lowThreshold yet: quotas of "
        "offline pods are lowered, the least suppressed first."
    ),
    Reason.UTILIZATION_LOW: ReasonText(
        "The node's CPU utilization fell below recoverThreshold and is not above lowThreshold yet: quotas of "
        "offline pods are raised, the most suppressed first."
    ),
    Reason.UTILIZATION_BETWEEN: ReasonText(
        "The node's CPU utilization calls for no change of offline pods' quotas."
    ),
    Reason.NOTHING_ADJUSTABLE: ReasonText(
        "Offline pods' quotas should change, but every one is at its end: at 10 % of the limit, at the "
        "limit, or without a limit."
    ),
    Reason.BATCH_LIMIT_APPLIED: ReasonText(
        "The cgroup has the weight, quota or memory limit that the offline pod's kubernetes.io/batch-cpu and "
        "kubernetes.io/batch-memory ask for; kubelet knows neither."
    ),
    Reason.BATCH_AMOUNT_TINY: _warning(
        "An offline pod asks for less than 1 % of a CPU. kubernetes.io/batch-cpu counts in thousandths of a "
        "CPU: 8 CPUs are 8000.",
        "Write the amount in thousandths in the pod's kubernetes.io/batch-cpu.",
    ),
}

_SETTINGS = {
    Reason.SETTING_RESTORED: ReasonText("Nobody sets this any more: what was there before was put back."),
    Reason.SETTING_BOUNDED_BY_PARENT: ReasonText(
        "On cgroup v1 the CPUs and memory nodes of a cgroup are among its parent's, and the parent has fewer "
        "than were there before; they come back with the parent's."
    ),
    Reason.SETTING_DRIFT_REPAIRED: ReasonText(
        "Somebody else had changed a weight, CPU set or memory limit that corewise sets; it was put back.",
        "Find out who else writes to this node's cgroups, if this comes again and again.",
    ),
}

_PINNING = {
    Reason.NOT_ENOUGH_CPUS: ReasonText("Fewer CPUs are free than the workload is to own."),
    Reason.NOT_WHOLE_CORES: ReasonText(
        "Enough CPUs may be free, but not as whole cores, which the workload requires.",
        "Request a multiple of the threads of a core, or prefer FullPCPUs instead of requiring it.",
    ),
    Reason.NOT_ENOUGH_CORES: ReasonText(
        "Enough CPUs may be free, but not each on a core of its own, which the workload requires.",
        "Prefer SpreadByPCPUs instead of requiring it.",
    ),
    Reason.CPUS_TAKEN: _warning(
        "A workload says that CPUs are its own which another one holds; the earlier claim counts.",
        "Delete one of the two pods, so that it is placed anew.",
    ),
    Reason.CPUS_UNKNOWN: _warning(
        "A workload says that CPUs are its own which its machine has not; they count for nothing.",
        "Delete the pod, so that it is placed anew.",
    ),
    Reason.CPUS_OWNED: ReasonText("The pod runs on the CPUs that it was given as its own, and nowhere else."),
    Reason.CPUS_SHARED: ReasonText("The pod owns no CPUs: it runs on those of its node that no pod owns."),
    Reason.CPUS_RESERVED: _warning(
        "A pod says that CPUs are its own which kubelet reserves for the system; they stay shared.",
        "Delete the pod, so that it is placed anew.",
    ),
    Reason.CPUS_OFFLINE: _warning(
        "All CPUs that a pod owns are offline: it runs on the shared ones for the time being.",
        "Bring the CPUs online, or delete the pod, so that it is placed anew.",
    ),
    Reason.CPUS_MANAGED_BY_KUBELET: _warning(
        "The node's kubelet keeps CPU sets itself (CPU manager policy static), so the agent writes none: two "
        "who write them would undo each other's work.",
        "Run kubelet with cpuManagerPolicy none, or keep pods with QoS class LSE or LSR off the node.",
    ),
    Reason.SHARED_POOL_EMPTY: _warning(
        "Every CPU of the node is owned. Pods that own none must run somewhere, and run on all of them.",
        "Let kubelet reserve CPUs (reservedSystemCPUs): those are never given away.",
    ),
}

_SCHEDULING = {
    Reason.CPUS_NOT_INTEGER: _warning(
        "The requested CPUs must be integer: the pod is to own CPUs (QoS class LSE or LSR), and CPUs are "
        "owned whole.",
        "Request a whole number of CPUs, or use QoS class LS.",
    ),
    Reason.RESOURCE_SPEC_INVALID: _warning(
        "The annotation that says how the pod wants its CPUs cannot be read; the pod fits nowhere.",
        "Correct scheduling.koordinator.sh/resource-spec or scheduling.koordinator.sh/numa-topology-spec.",
    ),
    Reason.BIND_POLICY_CONFLICT: _warning(
        "The pod requires one CPU bind policy and prefers another.",
        "State one of requiredCPUBindPolicy and preferredCPUBindPolicy.",
    ),
    Reason.RESOURCE_STATUS_INVALID: _warning(
        "The annotation that says which CPUs a pod was given cannot be read; the pod counts by its requests.",
        "Delete the pod, so that it is placed anew.",
    ),
    Reason.CPU_TOPOLOGY_INVALID: _warning(
        "The annotation that says how a node's CPUs are arranged cannot be read; it gives out no CPUs.",
        "Restart the agent of the node, which writes it.",
    ),
    Reason.AMPLIFIED_CPU_INSUFFICIENT: ReasonText(
        "The node's amplified CPU does not suffice: CPUs that CPUSet pods own count amplified."
    ),
    Reason.RESOURCE_INSUFFICIENT: ReasonText("What the pod requests is more than the node has left."),
    Reason.CPU_TOPOLOGY_UNKNOWN: ReasonText(
        "The pod is to own CPUs, and nobody has stated how the node's CPUs are arranged.",
        "Run the agent on the node.",
    ),
    Reason.NUMA_POLICY_CONFLICT: ReasonText(
        "The pod and the node state different NUMA topology policies.",
        "Remove the policy from the pod, or select nodes of that policy.",
    ),
    Reason.NUMA_POLICY_UNKNOWN: _warning(
        "A NUMA topology policy is none of None, BestEffort, Restricted, SingleNUMANode; it counts as None.",
        "Correct the label node.koordinator.sh/numa-topology-policy.",
    ),
    Reason.NUMA_ZONES_UNUSABLE: ReasonText(
        "The node has a NUMA topology policy, but its NodeResourceTopology states no usable zones.",
        "Run the agent on the node.",
    ),
    Reason.NUMA_NOT_ALIGNED: ReasonText(
        "The node has room, but not within as few NUMA nodes as its NUMA topology policy demands."
    ),
    Reason.NODE_NAME_MISMATCH: ReasonText("The pod names another node."),
    Reason.NODE_UNSCHEDULABLE: ReasonText("The node is cordoned."),
    Reason.TAINT_NOT_TOLERATED: ReasonText("The node has a taint that the pod does not tolerate."),
    Reason.NODE_AFFINITY_MISMATCH: ReasonText("The node's labels are not those that the pod selects."),
    Reason.NODE_UNKNOWN: ReasonText("The scheduler knows no node of this name, or does not know it yet."),
    Reason.NO_NODE_SUITS: _warning(
        "None of the nodes that kube-scheduler asked about has the CPUs that the pod needs; the Event counts "
        "them by cause.",
        "See each node's numbers with: corewise explain pod NAMESPACE/NAME.",
    ),
}

_MEASURING = {
    Reason.RESCTRL_UNSUPPORTED: ReasonText(
        "The node's kernel or processor has no resctrl: there is no /sys/fs/resctrl.",
        "Nothing to do in a virtual machine; elsewhere see whether the processor has RDT, PQoS or MPAM.",
    ),
    Reason.RESCTRL_NOT_MOUNTED: ReasonText(
        "The node has resctrl and nobody has mounted it.",
        "On the node: mount -t resctrl resctrl /sys/fs/resctrl.",
    ),
    Reason.RESCTRL_EVENT_MISSING: ReasonText(
        "resctrl is mounted, and the processor does not monitor this: info/L3_MON/mon_features has not the "
        "event."
    ),
    Reason.RESCTRL_NO_VALUE: ReasonText(
        "The kernel has no value just now for at least one group and cache (Unavailable, Error, Unassigned), "
        "so the sum over the node is not known.",
        "If it stays so: fewer monitoring groups, or a counter assigned to each (mbm_L3_assignments).",
    ),
    Reason.UNCORE_NO_VALUE: ReasonText(
        "A memory controller's counters did not run since the last look, so the sum is not known.",
        "See who else counts on uncore_imc: perf, pcm.",
    ),
    Reason.PERF_NOT_PERMITTED: ReasonText(
        "The kernel does not let the agent count hardware events.",
        "Give the agent CAP_PERFMON, and leave perf_event_open out of its seccomp profile.",
    ),
    Reason.PERF_EVENT_MISSING: ReasonText(
        "The processor, as the kernel shows it, does not count these events.",
        "In a virtual machine, have its hypervisor give it performance counters.",
    ),
    Reason.PERF_FAILED: ReasonText(
        "perf_event_open failed for another reason; the agent's log has the error.",
        "EMFILE: raise the limit of open files; two are needed for each CPU.",
    ),
    Reason.PERF_NO_VALUE: ReasonText(
        "The counters ran on no CPU since the last look: others use them all the time.",
        "See who else counts: perf, pcm, a profiler, the NMI watchdog.",
    ),
    Reason.OTHER_KERNEL: ReasonText(
        "The files below --root are of another kernel than the one the agent runs on, so what only a running "
        "kernel can tell is not measured."
    ),
    Reason.LATENCY_PROBE_NOT_BUILT: ReasonText(
        "The package was installed without its helper in C: there was no C compiler, or the processor is of "
        "another kind.",
        "Install corewise where there is a C compiler (cc), on x86-64 or arm64.",
    ),
    Reason.LATENCY_PROBE_OFF: ReasonText("The agent was told not to probe (--no-latency-probe)."),
    Reason.LATENCY_PROBE_FAILED: ReasonText(
        "The last probe failed on every NUMA node; the agent's log has the error.",
    ),
    Reason.LATENCY_NOT_YET: ReasonText("No probe has ended yet, or the last one is too old to count."),
    Reason.MEMORY_CHANNELS_UNKNOWN: ReasonText(
        "Nobody tells which memory channels have modules: no EDAC driver is loaded.",
        "Load the processor's EDAC driver, or state the capacity: node annotation, or the scheduler's "
        "configuration.",
    ),
    Reason.MEMORY_SPEED_UNKNOWN: ReasonText(
        "The firmware does not tell how fast the memory modules run (SMBIOS type 17).",
        "State the capacity: node annotation, or the scheduler's configuration.",
    ),
    Reason.CACHE_SIZE_UNKNOWN: ReasonText(
        "The kernel does not tell the size of every last-level cache, as in many virtual machines.",
    ),
    Reason.HOST_FILE_UNREADABLE: ReasonText(
        "A file of /proc that tells this cannot be read; the agent's log has the error.",
        "See the agent's mount of /proc, and --root.",
    ),
}

_INTERFERENCE = {
    Reason.MEMORY_BANDWIDTH_INSUFFICIENT: ReasonText(
        "Free memory bandwidth, less that of pods just placed, is not above overprovisioning x the pod's "
        "profile."
    ),
    Reason.MEMORY_AVAILABLE_INSUFFICIENT: ReasonText(
        "Available memory, less that of pods just placed, is not above overprovisioning x the pod's profile."
    ),
    Reason.PRESSURE_UNKNOWN: ReasonText(
        "The node's memory bandwidth or memory is not known, and missing.filter is fail.",
        "See which series are missing with: corewise check metrics.",
    ),
    Reason.PROFILE_CONFLICT: _warning(
        "Two profiles match the pod, so nobody can say what it uses; it fits no node.",
        "Let the profiles' selectors exclude each other, or correct the pod's labels.",
    ),
    Reason.MEMORY_BANDWIDTH_INVALID: _warning(
        "The annotation that says what a node's memory can move cannot be read; it counts as absent.",
        "Write node.corewise.io/memory-bandwidth as an amount with its unit, such as 107GB/s.",
    ),
    Reason.PROFILE_UNPLACEABLE: _warning(
        "A profile needs more free memory bandwidth than the largest node has at all: its pods fit no node.",
        "Correct the profile, the overprovisioning, or the capacity rules.",
    ),
}

_ANALYSIS = {
    Reason.TOO_FEW_RUNS: ReasonText(
        "Nothing is said about what slows a type of workload down: too few of its runs were seen.",
        "Look at a longer time (--range), or give the type a Job that runs often.",
    ),
    Reason.PRESSURE_NEVER_VARIED: ReasonText(
        "Nothing is said about what slows a type of workload down: its pods met the same pressure wherever "
        "they ran.",
        "Look at a time in which nodes differed, or run the type on a busy node and on an idle one.",
    ),
}

_TRACKING_OPTIONS = {
    Reason.CPU_SET_MALFORMED: _warning(
        "An option that names host CPUs cannot be read; the agent does not start.",
        "Write a list of CPUs and ranges; ^ takes away: 0-7,^2,^4-5.",
    ),
    Reason.CPU_SET_LEAVES_NOTHING: _warning(
        "An option that names host CPUs takes away all that it names; the agent does not start.",
        "Name at least one CPU, or remove the option.",
    ),
    Reason.CPU_SETS_OVERLAP: _warning(
        "A CPU is both dedicated and shared: it would be promised twice. The agent does not start.",
        "Take the CPUs out of [compute] cpu_dedicated_set or out of [compute] cpu_shared_set.",
    ),
    Reason.CPUS_NOT_PRESENT: _warning(
        "An option names CPUs that the host has not; the agent does not start.",
        "Take these CPUs out of the option.",
    ),
    Reason.CPUS_NOT_ONLINE: _warning(
        "An option names CPUs that are offline; the agent does not start.",
        "Bring these CPUs online, or take them out of the option. Dedicated CPUs may be offline only with "
        "[libvirt] cpu_power_management.",
    ),
    Reason.ALLOCATION_RATIO_INVALID: _warning(
        "The ratio by which shared CPUs are overcommitted cannot be used; the agent does not start.",
        "Write a decimal number above 0, such as 8.0, or remove the option.",
    ),
    Reason.POWER_MANAGEMENT_INVALID: _warning(
        "cpu_power_management is neither true nor false; the agent does not start.",
        "Write true or false.",
    ),
    Reason.RESERVED_CPUS_INVALID: _warning(
        "reserved_host_cpus is no number of CPUs that the host could reserve; the agent does not start.",
        "Remove the option, and leave CPUs for the host out of cpu_shared_set and cpu_dedicated_set.",
    ),
    Reason.RESERVED_CPUS_FORBIDDEN: _warning(
        "reserved_host_cpus beside a new option is an error in Nova; the agent does not start.",
        "Unset reserved_host_cpus: CPUs in neither set are reserved for the host.",
    ),
    Reason.RESERVED_CPUS_IGNORED: _warning(
        "reserved_host_cpus has no effect beside cpu_dedicated_set or cpu_shared_set.",
        "Unset reserved_host_cpus: CPUs in neither set are reserved for the host.",
    ),
    Reason.RESERVED_CPUS_DEPRECATED: _warning(
        "reserved_host_cpus is deprecated: it counts CPUs and names none.",
        "Set [compute] cpu_shared_set or cpu_dedicated_set to all CPUs but those for the host.",
    ),
    Reason.PIN_SET_FORBIDDEN: _warning(
        "vcpu_pin_set beside [compute] cpu_dedicated_set is an error in Nova; the agent does not start.",
        "Unset vcpu_pin_set.",
    ),
    Reason.PIN_SET_IGNORED: _warning(
        "vcpu_pin_set has no effect: cpu_dedicated_set and cpu_shared_set name the CPUs.",
        "Unset vcpu_pin_set.",
    ),
    Reason.PIN_SET_DEPRECATED: _warning(
        "vcpu_pin_set is deprecated: its CPUs serve guests with dedicated and with shared CPUs alike.",
        "Unset it, and set [compute] cpu_dedicated_set, cpu_shared_set or both.",
    ),
    Reason.SHARED_SET_FOR_EMULATOR_ONLY: _warning(
        "While vcpu_pin_set is set, cpu_shared_set serves emulator threads only and counts for no inventory.",
        "Unset vcpu_pin_set, and set [compute] cpu_dedicated_set, cpu_shared_set or both.",
    ),
    Reason.GUEST_NEEDS_SHARED_CPUS: _warning(
        "A guest on the host shares CPUs, and the options leave none to share; the agent does not start.",
        "Set [compute] cpu_shared_set, or move the guest away.",
    ),
    Reason.GUEST_NEEDS_DEDICATED_CPUS: _warning(
        "A guest on the host is pinned, and the options leave no dedicated CPUs; the agent does not start.",
        "Set [compute] cpu_dedicated_set, or move the guest away.",
    ),
    Reason.GUEST_NEEDS_BOTH_KINDS: _warning(
        "A guest on the host has dedicated and shared CPUs, and the options name only one kind; the agent "
        "does not start.",
        "Set both [compute] cpu_dedicated_set and cpu_shared_set, or move the guest away.",
    ),
    Reason.GUEST_PINNED_OUTSIDE: _warning(
        "A guest on the host is pinned to CPUs that are not in cpu_dedicated_set.",
        "Add them to [compute] cpu_dedicated_set, or migrate or rebuild the guest.",
    ),
    Reason.INVENTORY_REPORTED: ReasonText(
        "What the host offers of VCPU and PCPU is not what Placement has, and was written there."
    ),
    Reason.TRAIT_REPORTED: ReasonText(
        "Whether the host has hyperthreads is not what Placement has, and was written there."
    ),
}

_TRACKING_REQUEST = {
    Reason.FLAVOR_INVALID: ReasonText(
        "The flavor's vcpus, ram or disk is no amount that a guest can have.",
        "Create the flavor anew with whole numbers, vcpus at least 1.",
    ),
    Reason.CPU_POLICY_UNKNOWN: ReasonText(
        "hw:cpu_policy or hw_cpu_policy has a value that means nothing.",
        "Write shared, dedicated or mixed.",
    ),
    Reason.CPU_POLICY_CONFLICT: ReasonText(
        "The image asks for more dedicated CPUs than the flavor allows.",
        "Use a flavor with the image's CPU policy, or remove hw_cpu_policy from the image.",
    ),
    Reason.CPU_POLICY_WITH_RESOURCES: ReasonText(
        "A CPU policy and an explicit amount of VCPU or PCPU both say how many CPUs of which kind.",
        "Keep one of them.",
    ),
    Reason.MIXED_CPU_RESOURCES: ReasonText(
        "VCPU and PCPU cannot be requested explicitly in the same request.",
        "Request one of them, or use hw:cpu_policy=mixed with hw:cpu_dedicated_mask.",
    ),
    Reason.PCPU_COUNT_MISMATCH: ReasonText(
        "The PCPU requested are not as many as the flavor has vcpus (and one more where emulator threads are "
        "isolated).",
        "Make the two equal.",
    ),
    Reason.VCPU_COUNT_MISMATCH: _warning(
        "The VCPU requested are not as many as the flavor has vcpus; what is requested counts in Placement.",
        "Make the two equal.",
    ),
    Reason.NO_CPU_REQUESTED: ReasonText(
        "The flavor takes every CPU class out of the request; such a guest cannot be placed.",
        "Remove resources:VCPU=0 or resources:PCPU=0 from the flavor.",
    ),
    Reason.THREAD_POLICY_UNKNOWN: ReasonText(
        "hw:cpu_thread_policy or hw_cpu_thread_policy has a value that means nothing.",
        "Write prefer, isolate or require.",
    ),
    Reason.THREAD_POLICY_CONFLICT: ReasonText(
        "Flavor and image ask for different CPU thread policies.",
        "Remove hw_cpu_thread_policy from the image, or use another flavor.",
    ),
    Reason.THREAD_POLICY_WITHOUT_PINNING: ReasonText(
        "A CPU thread policy says how dedicated CPUs lie on cores, and the guest has none.",
        "Set hw:cpu_policy=dedicated, or remove the thread policy.",
    ),
    Reason.THREAD_POLICY_WITH_TRAIT: ReasonText(
        "A CPU thread policy and the trait HW_CPU_HYPERTHREADING both say what to do with hyperthreads.",
        "Keep one of them.",
    ),
    Reason.TRAIT_WITHOUT_PINNING: ReasonText(
        "The trait HW_CPU_HYPERTHREADING says how dedicated CPUs lie on cores, and the guest has none.",
        "Set hw:cpu_policy=dedicated or resources:PCPU, or remove the trait.",
    ),
    Reason.TRAIT_INVALID: ReasonText(
        "A trait is named by no valid name, or is neither required nor forbidden.",
        "Write trait:NAME=required or trait:NAME=forbidden, NAME in capitals, digits and _.",
    ),
    Reason.TRAIT_CONFLICT: ReasonText(
        "The same trait is required and forbidden.",
        "Remove it from the flavor or from the image.",
    ),
    Reason.DEDICATED_MASK_MALFORMED: ReasonText(
        "hw:cpu_dedicated_mask cannot be read.",
        "Write guest CPUs such as 0-2, or those that are not dedicated such as ^3.",
    ),
    Reason.DEDICATED_MASK_EMPTY: ReasonText(
        "hw:cpu_dedicated_mask leaves no dedicated CPU.",
        "Name at least one guest CPU, or use hw:cpu_policy=shared.",
    ),
    Reason.DEDICATED_MASK_FULL: ReasonText(
        "hw:cpu_dedicated_mask leaves no shared CPU.",
        "Leave at least one guest CPU out, or use hw:cpu_policy=dedicated.",
    ),
    Reason.DEDICATED_MASK_OUTSIDE: ReasonText(
        "hw:cpu_dedicated_mask names guest CPUs that the flavor has not.",
        "Name CPUs from 0 to vcpus - 1.",
    ),
    Reason.DEDICATED_MASK_WITHOUT_MIXED: ReasonText(
        "hw:cpu_dedicated_mask counts only with hw:cpu_policy=mixed.",
        "Set hw:cpu_policy=mixed, or remove the mask.",
    ),
    Reason.MIXED_WITHOUT_MASK: ReasonText(
        "hw:cpu_policy=mixed needs to know which guest CPUs are dedicated.",
        "Set hw:cpu_dedicated_mask, or hw:cpu_realtime=yes and hw:cpu_realtime_mask.",
    ),
    Reason.MIXED_WITH_TWO_MASKS: ReasonText(
        "hw:cpu_dedicated_mask and a realtime mask both name the dedicated CPUs of a mixed guest.",
        "Keep one of them.",
    ),
    Reason.REALTIME_MASK_INVALID: ReasonText(
        "The realtime mask cannot be read, names CPUs that the flavor has not, or leaves no CPU on one side.",
        "Name at least one guest CPU and leave one out; hw:emulator_threads_policy allows to name all.",
    ),
    Reason.REALTIME_WITHOUT_PINNING: ReasonText(
        "Realtime CPUs must be dedicated, and the guest has none.",
        "Set hw:cpu_policy=dedicated or mixed, or remove hw:cpu_realtime.",
    ),
    Reason.EMULATOR_POLICY_UNKNOWN: ReasonText(
        "hw:emulator_threads_policy has a value that means nothing.",
        "Write share or isolate.",
    ),
    Reason.EMULATOR_POLICY_WITHOUT_PINNING: ReasonText(
        "Isolated emulator threads take a dedicated CPU, and the guest has none.",
        "Set hw:cpu_policy=dedicated, or remove hw:emulator_threads_policy.",
    ),
    Reason.RESOURCE_AMOUNT_INVALID: ReasonText(
        "An amount of a resource is not a whole number from 0 to 2147483647.",
        "Correct the amount in the flavor.",
    ),
    Reason.RESOURCE_CLASS_UNKNOWN: _warning(
        "A resource class is neither a standard one nor begins with CUSTOM_; it is not requested.",
        "Correct its name in the flavor.",
    ),
    Reason.GROUP_POLICY_INVALID: ReasonText(
        "group_policy has a value that means nothing.",
        "Write none or isolate.",
    ),
    Reason.GROUP_POLICY_ASSUMED: _warning(
        "There are several groups of resources and no group_policy; Placement demands one, and none is sent.",
        "Set group_policy to none or isolate in the flavor.",
    ),
    Reason.GROUP_WITHOUT_RESOURCES: ReasonText(
        "A group names traits and no resources; Placement refuses such a query.",
        "Add resources to the group, or move its traits to another one.",
    ),
    Reason.GUEST_NUMA_INVALID: ReasonText(
        "The guest's NUMA nodes do not add up to its CPUs and memory, or cannot be read.",
        "Correct hw:numa_nodes, hw:numa_cpus.N and hw:numa_mem.N; every node needs both or none.",
    ),
}

_TRACKING_HOSTS = {
    Reason.DEDICATED_CPUS_INSUFFICIENT: ReasonText(
        "The host has fewer free dedicated CPUs than the guest is to own."
    ),
    Reason.SHARED_CPUS_INSUFFICIENT: ReasonText(
        "The host has no shared CPUs, or a NUMA node of it has fewer than the guest's node has CPUs."
    ),
    Reason.HYPER_THREADS_MISSING: ReasonText(
        "The guest requires hyperthread siblings, and the host has none."
    ),
    Reason.HYPER_THREADS_PRESENT: ReasonText(
        "The guest must not share cores, and the host has hyperthreads: its dedicated CPUs are threads."
    ),
    Reason.THREAD_POLICY_UNMET: ReasonText(
        "Enough dedicated CPUs are free, but not on cores as the guest's thread policy demands."
    ),
    Reason.NUMA_NODES_INSUFFICIENT: ReasonText("The guest has more NUMA nodes than the host."),
    Reason.NUMA_NODES_UNFIT: ReasonText(
        "Enough CPUs are free, but they do not lie so that each NUMA node of the guest fits one of the host."
    ),
    Reason.NUMA_MEMORY_INSUFFICIENT: ReasonText(
        "CPUs are free, but no NUMA node of the host with enough of them has the memory."
    ),
    Reason.GUEST_ALREADY_PINNED: ReasonText(
        "A guest of this name holds CPUs of the host already.",
        "Unpin it first.",
    ),
    Reason.GUESTS_RESHAPED: ReasonText(
        "Pinned guests of the host held VCPU; in one request they were given PCPU instead."
    ),
    Reason.RESHAPE_EXCEEDS_INVENTORY: _warning(
        "The pinned guests of the host need more PCPU than cpu_dedicated_set offers; nothing was changed.",
        "Add CPUs to [compute] cpu_dedicated_set, or move guests away.",
    ),
    Reason.RESHAPE_AMOUNT_UNEXPECTED: _warning(
        "A pinned guest holds another amount of VCPU than it has CPUs; the reshape goes by what it holds.",
        "Look at its allocations: openstack resource provider allocation show UUID.",
    ),
}

_COMPUTE = {
    Reason.FILE_UNUSABLE: ReasonText(
        "A file that was named cannot be read, or is not what it should be.",
        "Correct what the message names.",
    ),
    Reason.LEDGER_UNUSABLE: _warning(
        "The ledger of a host cannot be read or written; nothing was changed.",
        "Make its directory, and let this user write there.",
    ),
    Reason.LEDGER_DAMAGED: _warning(
        "The ledger of a host is not what was written: cut off, or changed. Nothing is guessed from it.",
        "Put a good copy in its place (ledger.json.1 is the one before the last change).",
    ),
    Reason.LEDGER_BUSY: _warning(
        "Another process has held the ledger of a host for too long.",
        "End that process, or wait for it.",
    ),
    Reason.GUEST_UNKNOWN: ReasonText("No host that was asked has this guest."),
    Reason.GUEST_EXISTS: ReasonText(
        "A guest of this UUID has a host already.", "Delete it first, or choose another UUID."
    ),
    Reason.HOST_UNKNOWN: ReasonText(
        "Placement offers a host of which no topology is known, so nobody can say which CPUs are free there.",
        "Run corewise compute run on it, into a directory below --hosts.",
    ),
    Reason.CPUS_PROMISED_TWICE: _warning(
        "The ledger gives a CPU to two guests, or a CPU that the host has not; no guest is placed there.",
        "See who they are with corewise compute status, and move one of them away.",
    ),
    Reason.NO_VALID_HOST: ReasonText(
        "No host can take the guest; the counts say how many fell at which demand.",
        "Free CPUs, or ask for less where most hosts fell.",
    ),
    Reason.CLAIM_LOST: ReasonText(
        "Between the query and the claim somebody else took what the host had left; the next host is tried."
    ),
    Reason.OPENSTACK_UNUSABLE: _warning(
        "What is needed to reach OpenStack is missing: a package, credentials, a file of configuration.",
        "Do what the hint of the message says.",
    ),
    Reason.LIBVIRT_UNUSABLE: _warning(
        "libvirt does not answer, or refuses; what was last written stays in force.",
        "See whether libvirtd runs, and whether this user may connect.",
    ),
    Reason.PLACEMENT_DOWN: _warning(
        "Placement does not answer; what was last written stays in force.",
        "See whether Placement runs, and whether its endpoint is right.",
    ),
    Reason.PLACEMENT_UNAUTHORIZED: _warning(
        "Placement does not accept the credentials (401).", "Renew the password or token."
    ),
    Reason.PLACEMENT_FORBIDDEN: _warning(
        "Placement knows the user and does not allow what was asked (403).",
        "Give the user the role admin, and service for a reshape, in the project of the services.",
    ),
    Reason.PLACEMENT_NOT_FOUND: ReasonText(
        "Placement has no such provider.", "Run corewise compute run on the host: it makes one."
    ),
    Reason.PLACEMENT_CONFLICT: _warning(
        "Somebody else writes the same provider or consumer, again and again (409); nothing was changed.",
        "Find out who else writes it, then run the command once more.",
    ),
    Reason.PLACEMENT_REFUSED: ReasonText(
        "Placement refuses what it was asked; nothing was changed.", "Do what its message says."
    ),
    Reason.TRAIT_UNKNOWN: ReasonText(
        "The request names a trait that Placement has never heard of.",
        "Correct the name, or create the trait: names of your own begin with CUSTOM_.",
    ),
}

REASONS: Mapping[Reason, ReasonText] = MappingProxyType(
    {
        **_NORMALIZATION,
        **_CONFIGURATION,
        **_RATIO,
        **_SAFETY,
        **_STATUS,
        **_QUOTAS,
        **_SETTINGS,
        **_OFFER,
        **_SUPPRESSION,
        **_PINNING,
        **_SCHEDULING,
        **_MEASURING,
        **_INTERFERENCE,
        **_ANALYSIS,
        **_TRACKING_OPTIONS,
        **_TRACKING_REQUEST,
        **_TRACKING_HOSTS,
        **_COMPUTE,
    }
)
