"""The reason codes: one enum, in the order of capabilities, and the form of their texts.

What each code means stands beside, by capability.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class ReasonText:
    """One row of the reference. ``fix`` is empty where nothing is to be done."""

    meaning: str
    fix: str = ""
    warning: bool = False


def warning(meaning: str, fix: str) -> ReasonText:
    """Explain a code that becomes a Warning Event."""
    return ReasonText(meaning, fix, warning=True)


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

    # whose a cgroup is
    MIRROR_POD_INVALID = "MirrorPodInvalid"
    CGROUP_CONTESTED = "CgroupContested"

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
    QOS_CLASS_NOT_ALLOWED = "QoSClassNotAllowed"
    CLAIM_WITHOUT_CLASS = "ClaimWithoutClass"
    CLAIM_NOT_REQUESTED = "ClaimNotRequested"

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
    AMOUNT_TOO_LARGE = "AmountTooLarge"

    # scheduling: why a node does not suit a pod
    AMPLIFIED_CPU_INSUFFICIENT = "AmplifiedCPUInsufficient"
    RESOURCE_INSUFFICIENT = "ResourceInsufficient"
    CPUS_TOO_SCATTERED = "CPUsTooScattered"
    CPU_TOPOLOGY_UNKNOWN = "CPUTopologyUnknown"
    NUMA_POLICY_CONFLICT = "NUMAPolicyConflict"
    NUMA_POLICY_UNKNOWN = "NUMAPolicyUnknown"
    NUMA_ZONES_UNUSABLE = "NUMAZonesUnusable"
    NUMA_NOT_ALIGNED = "NUMANotAligned"
    NODE_NAME_MISMATCH = "NodeNameMismatch"
    NODE_UNSCHEDULABLE = "NodeUnschedulable"
    TAINT_NOT_TOLERATED = "TaintNotTolerated"
    NODE_AFFINITY_MISMATCH = "NodeAffinityMismatch"
    PLUGIN_REFUSED = "PluginRefused"
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
        from corewise.vocabulary.reasons import REASONS  # noqa: PLC0415 - the texts are kept by these codes

        return REASONS[self]
