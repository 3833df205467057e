"""Reason codes: one enum, one meaning, the same in events, metrics, logs, CLI output and docs/reference.

Every verdict carries one. A verdict that leaves things as they are because something is missing or wrong is a
warning: it becomes a Warning Event on the object it is about, and its ``fix`` tells what to do.
"""

from __future__ import annotations

from enum import StrEnum, unique
from typing import Self, TypeAlias

_Row: TypeAlias = tuple[str, str, str, bool]


def _info(code: str, meaning: str, fix: str = "") -> _Row:
    return code, meaning, fix, False


def _warning(code: str, meaning: str, fix: str) -> _Row:
    return code, meaning, fix, True


@unique
class Reason(StrEnum):
    """The reason something was decided, done or refused; ``fix`` is empty where nothing has to be done."""

    meaning: str
    fix: str
    warning: bool

    def __new__(
        cls,
        code: str,
        meaning: str = "",
        fix: str = "",
        warning: bool = False,  # noqa: FBT001, FBT002 - one value of the row
    ) -> Self:
        member = str.__new__(cls, code)
        member._value_ = code
        member.meaning, member.fix, member.warning = meaning, fix, warning
        return member

    # normalization: which ratio
    RATIO_FROM_MODEL = _info(
        "RatioFromModel",
        "The normalization ratio is the one that ratioModel gives for this CPU model, HT and turbo setting.",
    )
    RATIO_FROM_DEFAULT = _info(
        "RatioFromDefault",
        "ratioModel has no ratio for this CPU model, HT and turbo setting; defaultRatio is used.",
        "Add the model to ratioModel if defaultRatio is not right for it.",
    )
    NORMALIZATION_DISABLED = _info(
        "NormalizationDisabled",
        "Neither the node's label nor its strategy enables normalization: the ratio is 1.00, written out.",
    )
    ENABLE_LABEL_INVALID = _warning(
        "EnableLabelInvalid",
        "The label that enables normalization is not a bool string; the node's annotations stay as they are.",
        'Set node.koordinator.sh/cpu-normalization-enabled to "true" or "false", or remove it.',
    )
    CPU_FACTS_MISSING = _warning(
        "CPUFactsMissing",
        "The node's NodeResourceTopology states no CPU model; the node's annotations stay as they are.",
        "Run the agent on the node, or annotate its NodeResourceTopology with "
        "node.koordinator.sh/cpu-basic-info.",
    )
    CPU_FACTS_MALFORMED = _warning(
        "CPUFactsMalformed",
        "The annotation with the node's CPU facts cannot be read; the node's annotations stay as they are.",
        "Correct node.koordinator.sh/cpu-basic-info on the NodeResourceTopology, or restart the agent "
        "that writes it.",
    )
    UNKNOWN_CPU_MODEL = _warning(
        "UnknownCPUModel",
        "ratioModel has no entry for this CPU model and there is no defaultRatio; the node's annotations "
        "stay as they are.",
        "Add the model, spelled exactly as the node reports it, to ratioModel (key cpu-normalization-config "
        "of the ConfigMap slo-controller-config), or set defaultRatio there.",
    )
    RATIO_FIELD_MISSING = _warning(
        "RatioFieldMissing",
        "ratioModel knows this CPU model, but not for its HT and turbo setting, and there is no "
        "defaultRatio; the node's annotations stay as they are.",
        "Add the missing ratio to the model's entry in ratioModel (key cpu-normalization-config of the "
        "ConfigMap slo-controller-config), or set defaultRatio there.",
    )
    RATIO_OUT_OF_RANGE = _warning(
        "RatioOutOfRange",
        "The normalization ratio found is outside 1.00..5.00; it is not clamped, and the node's annotations "
        "stay as they are.",
        "Correct the ratio. The slowest CPU model of the cluster is the baseline, with ratio 1.00.",
    )
    NODE_SLOWER_THAN_PEERS = _warning(
        "NodeSlowerThanPeers",
        "The node is more than 5 % slower than other nodes with its CPU model and settings, by its last "
        "scores. Its pods get less compute than they request.",
        "Look for heat (thermal throttling), a power limit, a frequency governor, or a busy host below the "
        "virtual machine: docs/operate/runbooks.md. The condition SlowCPU ends by itself.",
    )
    MODEL_RATIO_OFF = _warning(
        "ModelRatioOff",
        "The normalization ratio configured for a CPU model differs by more than 5 % from the one that its "
        "nodes measured. Nothing is changed.",
        "Compare them with: corewise config suggest --cluster. Then correct ratioModel (key "
        "cpu-normalization-config of the ConfigMap slo-controller-config), or keep your own ratio. Nodes "
        "with hyper-threading and nodes without are not compared with each other.",
    )

    # evaluation: a node measures its own CPUs
    EVALUATION_NODE_BUSY = _info(
        "EvaluationNodeBusy",
        "The node was too busy to measure its CPUs: too much of them was in use in the last minute, or tasks "
        "waited for one. The agent looks again in the node's next slot.",
        "If the node is never idle, drain it and measure it by hand: corewise calibrate.",
    )
    EVALUATION_POD_STARTING = _info(
        "EvaluationPodStarting",
        "A pod is starting on the node. The agent looks again in the node's next slot.",
    )
    EVALUATION_NO_IDLE_CORE = _info(
        "EvaluationNoIdleCore",
        "No core may be measured: each is in use, is that of CPU 0, is owned by a pod, or is outside of the "
        "agent's CPU set.",
        "If pods own all cores, drain the node and measure it by hand: corewise calibrate.",
    )
    EVALUATION_INTERRUPTED = _info(
        "EvaluationInterrupted",
        "Other work wanted the CPU while it was measured, or the node became busy: the run ended at once "
        "and does not count.",
    )
    EVALUATION_STEAL_TIME = _info(
        "EvaluationStealTime",
        "The node is a virtual machine, and its hypervisor gives CPU time to others: a score would be that "
        "of the neighbors.",
        "Use dedicated hosts or instances, or measure a machine of the same kind that is alone on its host.",
    )
    EVALUATION_THERMAL_THROTTLING = _info(
        "EvaluationThermalThrottling",
        "The processor is slowed down because it is too hot: a score would be that of the cooling.",
        "Check fans, airflow and thermal paste; see thermal_throttle in /sys/devices/system/cpu/cpu*/.",
    )
    EVALUATION_CGROUP_THROTTLED = _info(
        "EvaluationCgroupThrottled",
        "The CPU limit of the agent's container held the measurement back, so the run does not count.",
        "Remove limits.cpu from the agent's container (agent.resources of the chart).",
    )
    EVALUATION_CORES_DIFFER = _info(
        "EvaluationCoresDiffer",
        "The node has cores of several kinds, so the score of one says nothing about the others.",
        "Set this model's ratio by hand: docs/guides/normalization.md.",
    )
    EVALUATION_MODEL_UNKNOWN = _info(
        "EvaluationModelUnknown",
        "The kernel does not name the CPU model, so a score would be of nothing.",
        "Check that /proc/cpuinfo of the node has a model name, and what the hypervisor passes on.",
    )
    EVALUATION_MEMORY_MISSING = _info(
        "EvaluationMemoryMissing",
        "The measurement needs 120 MiB, and the node or the agent's memory limit does not have them.",
        "Raise limits.memory of the agent's container; the chart does with agent.evaluate.enabled.",
    )
    EVALUATION_FAILED = _info(
        "EvaluationFailed",
        "The agent could not start the child process that measures; the message says why.",
        "If the program idle_start is missing, install corewise where there is a C compiler (cc).",
    )

    # interference on a node, while it happens
    ANTAGONIST_NAMED = _warning(
        "AntagonistNamed",
        "The pod waits for CPUs, and one neighbor on its node explains most of that: it uses more than it "
        "requests.",
        "Limit the neighbor's CPU, raise the pod's request (its weight), or move one of them: "
        "docs/operate/slow-pod.md.",
    )
    ANTAGONIST_OUTSIDE_PODS = _warning(
        "AntagonistOutsidePods",
        "The pod waits for CPUs, and processes outside pods (daemons, kernel threads) explain most of that.",
        "Find the process on the node (top), and limit it or reserve CPUs for it: kubelet's systemReserved.",
    )
    NO_SINGLE_ANTAGONIST = _info(
        "NoSingleAntagonist",
        "The pod waits for CPUs, and no neighbor explains enough of that, or the likely one stays within its "
        "request: the node is full.",
        "Move pods off the node, or raise their requests to what they use.",
    )
    OWN_QUOTA_THROTTLES = _info(
        "OwnQuotaThrottles",
        "The pod's own CPU limit, or the quota of offline pods, keeps it from running; no neighbor does.",
        "Raise or remove the CPU limit; of an offline pod see corewise explain suppression NODE.",
    )
    OWN_THREADS_WAIT = _info(
        "OwnThreadsWait",
        "The pod's threads wait for one another: more of them want to run than it has CPUs.",
        "Run fewer threads, or give the pod more CPUs.",
    )
    WAITS_LITTLE = _info(
        "WaitsLittle",
        "The pod gets a CPU nearly whenever it wants one.",
    )
    TOO_FEW_SAMPLES = _info(
        "TooFewSamples",
        "The agent has watched the pod for too short a time to say anything.",
    )
    CPU_WAIT_UNKNOWN = _info(
        "CPUWaitUnknown",
        "The kernel does not tell how long this pod waits for a CPU.",
        "With cgroup v2 boot Linux 5.13 or later with psi=1. With v1 set the sysctl "
        "kernel.sched_schedstats to 1, or let the agent see the node's process IDs (hostPID).",
    )

    # configuration
    CONFIG_INVALID = _warning(
        "ConfigInvalid",
        "A key of the ConfigMap slo-controller-config has errors. Of normalization and amplification, "
        "entries without errors are applied, and what the others are meant for stays as it is. "
        "Of the other keys, and of a text that is no JSON, the last good one stays in force.",
        "To list every error with its line and column: kubectl -n corewise-system get configmap "
        "slo-controller-config -o yaml | corewise config check -",
    )
    CONFIG_APPLIED = _info(
        "ConfigApplied",
        "The configuration was read without errors and is applied.",
    )
    CONFLICTING_NODE_CONFIGS = _warning(
        "ConflictingNodeConfigs",
        "More than one nodeConfigs entry selects the same node; the first of them is used.",
        "Make the selectors exclude each other.",
    )

    # amplification: which ratio
    AMPLIFICATION_RATIO_INVALID = _warning(
        "AmplificationRatioInvalid",
        "An amplification ratio cannot be read; these resources keep their ratios.",
        'Write a JSON object of decimal numbers with two places, such as {"cpu":1.50}.',
    )
    AMPLIFICATION_RATIO_OUT_OF_RANGE = _warning(
        "AmplificationRatioOutOfRange",
        "An amplification ratio is above the largest allowed; this resource keeps its ratio.",
        "Lower the original ratio, or raise the limit of the manager.",
    )
    AMPLIFICATION_RESOURCE_REFUSED = _warning(
        "AmplificationResourceRefused",
        "Only cpu and memory can be amplified: of other resources kubelet copies the stored, amplified "
        "capacity back into allocatable, which would double. The other entries of the map count.",
        "Remove the resource from the ratio.",
    )
    AMPLIFICATION_ORIGINAL_BELOW_ONE = _warning(
        "AmplificationOriginalBelowOne",
        "An original amplification ratio is below 1.00; this resource stays as it is, the others are "
        "amplified.",
        "Write a ratio of at least 1.00, or remove the entry.",
    )
    NORMALIZATION_UNDECIDED = _warning(
        "NormalizationUndecided",
        "The normalization ratio of the node could not be decided, so its cpu entry stays as it is too.",
        "See the node's normalization reason: corewise explain node NAME.",
    )
    ORIGINAL_ADOPTED = _info(
        "OriginalAdopted",
        "A ratio that a user had annotated was taken as the node's original ratio and moved to the "
        "-original annotation; one that Koordinator wrote was divided by the normalization ratio first.",
    )
    RATIO_OVERRULED = _warning(
        "RatioOverruled",
        "A user's ratio annotation was replaced: the manager computes the ratio of this node, from the "
        "user's original ratio, configuration and normalization.",
        "Set node.corewise.io/resource-amplification-ratio-original instead.",
    )
    ORIGINAL_NEEDED = _warning(
        "OriginalNeeded",
        "Removing the -original annotation alone was refused: without it, the ratio annotation that "
        "corewise computed would count as the user's own ratio.",
        "Set node.corewise.io/resource-amplification-ratio-original to {}, which means: "
        "no ratio of your own.",
    )
    KOORDINATOR_WEBHOOK_PRESENT = _warning(
        "KoordinatorWebhookPresent",
        "Koordinator's own node webhook is installed; two webhooks would amplify twice, so nothing is "
        "amplified.",
        "Start koord-manager with --feature-gates=NodeMutatingWebhook=false, or leave amplification to it.",
    )

    # amplification: is a change safe
    UNSAFE_DECREASE_HELD_BACK = _warning(
        "UnsafeDecreaseHeldBack",
        "A lower amplification ratio is due, but the pods of the node would no longer fit; the old ratio "
        "stays until they do.",
        "Drain pods from the node, or annotate it with "
        'node.corewise.io/allow-unsafe-amplification-change: "true".',
    )
    UNSAFE_DECREASE_REFUSED = _warning(
        "UnsafeDecreaseRefused",
        "A change of the amplification ratio was refused: the pods of the node would no longer fit.",
        "Use the smallest safe ratio that the message names, drain pods, or annotate the node with "
        'node.corewise.io/allow-unsafe-amplification-change: "true".',
    )
    UNSAFE_DECREASE_ALLOWED = _warning(
        "UnsafeDecreaseAllowed",
        "A change after which pods no longer fit was let through because the node's annotation allows it.",
        "Expect kubelet to reject or evict pods; remove the annotation afterwards.",
    )
    RAISE_ON_BUSY_NODE = _warning(
        "RaiseOnBusyNode",
        "The ratio of a node was raised while its real CPU usage is above 60 %; it is applied all the same.",
        "Amplify idle nodes only, or lower the ratio again.",
    )

    # amplification: node status
    RATIOS_WRITTEN = _info(
        "RatiosWritten",
        "The node's normalization and amplification ratios were written.",
    )
    STATUS_TOUCHED = _info(
        "StatusTouched",
        "An empty status patch was sent: no webhook had applied the ratio when it was written.",
    )
    STATUS_REPAIRED = _info(
        "StatusRepaired",
        "The node's status was not what ratio and record say; raw amounts were written and amplified again.",
    )
    STATUS_CHANGE_UNDONE = _warning(
        "StatusChangeUndone",
        "A writer other than the node's kubelet set an amplified amount; the stored amount was kept.",
        "Leave cpu and memory of amplified nodes to kubelet, or remove the ratio first.",
    )
    RECORD_UNUSABLE = _warning(
        "RecordUnusable",
        "The record of what was amplified cannot be read; amplified amounts stay until they can be "
        "computed again.",
        "Nothing: the manager repairs the node. If it cannot, see RawUnknown.",
    )
    RAW_UNKNOWN = _warning(
        "RawUnknown",
        "The node's raw amounts are known neither from its annotations nor from its NodeResourceTopology; "
        "nothing is repaired until kubelet states them.",
        "Run the agent on the node. If that does not help within a minute, remove the annotations that "
        "the message names: kubelet then states the amounts within 10 seconds.",
    )
    RAW_EQUALS_AMPLIFIED = _info(
        "RawEqualsAmplified",
        "The machine's raw capacity now equals the amplified amount in status; raw amounts were written "
        "again.",
    )

    # whose a cgroup is
    MIRROR_POD_INVALID = _warning(
        "MirrorPodInvalid",
        "A pod is annotated as the mirror of a static pod, but not the way kubelet does it: somebody else "
        "wrote the annotation. The agent writes nothing for the pod.",
        "Delete the pod, and find out who created it. A static pod's manifest must not state a uid.",
    )
    CGROUP_CONTESTED = _warning(
        "CgroupContested",
        "Two pods of the API state the UID of one cgroup. The agent writes to it for neither of them.",
        "Delete the pod that kubelet did not create; the log names both.",
    )

    # quotas of cgroups
    QUOTA_NORMALIZED = _info(
        "QuotaNormalized",
        "The cgroup has kubelet's quota divided by the node's normalization ratio.",
    )
    QUOTA_LIFTED = _info(
        "QuotaLifted",
        "The pod owns CPUs, which bound it: the cgroup has no quota, so that the kernel does not throttle "
        "the pod on its own CPUs.",
    )
    QUOTA_RESTORED = _info(
        "QuotaRestored",
        "The cgroup is no longer bounded: kubelet's quota was put back.",
    )
    QUOTA_BOUNDED_BY_PARENT = _info(
        "QuotaBoundedByParent",
        "On cgroup v1 a cgroup cannot have more than its parent, and the parent has less than the "
        "quota needs.",
    )
    QUOTA_NOT_OF_LIMIT = _warning(
        "QuotaNotOfLimit",
        "Kubelet's quota is not the one that the pod's limits give: a ResourceClaim brings CPU, or the "
        "cgroup had more than its limit when the agent first saw it. The agent leaves the quota alone.",
        "If no claim brings CPU: find out who raised the quota. A raised quota is divided once it is back at "
        "its limit.",
    )
    QUOTA_DRIFT_REPAIRED = _info(
        "QuotaDriftRepaired",
        "Somebody else had changed the quota of a cgroup that is bounded; the bound was put back.",
        "Find out who else writes the quotas of this node's cgroups, if this comes again and again.",
    )

    # weights, CPU sets and memory limits of cgroups
    SETTING_RESTORED = _info(
        "SettingRestored",
        "corewise no longer sets this: the previous value was put back.",
    )
    SETTING_BOUNDED_BY_PARENT = _info(
        "SettingBoundedByParent",
        "On cgroup v1 the CPUs and memory nodes of a cgroup are among its parent's, and the parent has "
        "fewer than the cgroup had before; they come back with the parent's.",
    )
    SETTING_DRIFT_REPAIRED = _info(
        "SettingDriftRepaired",
        "Somebody else had changed a weight, CPU set or memory limit that corewise sets; it was put back.",
        "Find out who else writes to this node's cgroups, if this comes again and again.",
    )

    # oversubscription: what is offered to offline pods
    OFFER_FROM_IDLE = _info(
        "OfferFromIdle",
        "Offline pods are offered the ratio of what online work leaves idle of the node's allocatable CPU.",
    )
    OFFER_LESS_PINNED = _info(
        "OfferLessPinned",
        "CPUSet pods use less than they request. Their CPUs cannot be lent, so what they request counts, and "
        "the offer is that much smaller.",
    )
    OFFER_NOTHING_IDLE = _info(
        "OfferNothingIdle",
        "Online work, with what CPUSet pods request, takes all of the node's allocatable CPU: nothing is "
        "offered, and offline pods keep the smallest quota.",
    )
    OFFER_RATIO_ZERO = _info(
        "OfferRatioZero",
        "The ratio of oversubscription is 0.00, so nothing is offered.",
        "Raise ratio in the key oversubscription-config of the ConfigMap slo-controller-config, if offline "
        "pods are meant to run on the node.",
    )
    OFFER_FROZEN = _warning(
        "OfferFrozen",
        "Three or more samples of usage are missing in a row: the last offer stays.",
        "See the agent's log for why usage cannot be read. After 15 minutes without a sample nothing is "
        "offered any more.",
    )
    OFFER_WITHDRAWN = _warning(
        "OfferWithdrawn",
        "There was no sample of usage for 15 minutes: nothing is offered until there is one.",
        "See the agent's log for why usage cannot be read.",
    )
    OFFER_REPORT_OLD = _warning(
        "OfferReportOld",
        "The node's agent has not reported its measurements and its offer for several intervals; what was "
        "applied last stays.",
        "See that corewise agent runs on the node, and its log.",
    )
    OFFER_REPORT_MISSING = _warning(
        "OfferReportMissing",
        "The node's label turns oversubscription on, and its agent reports nothing.",
        "See that corewise agent runs on the node, and its log.",
    )
    OFFER_REPORT_UNREADABLE = _warning(
        "OfferReportUnreadable",
        "The report of the node's agent cannot be read; it may be another version's.",
        "Run the same version of corewise everywhere.",
    )
    OFFER_BELOW_REQUESTS = _warning(
        "OfferBelowRequests",
        "Less is offered than the offline pods on the node request. What they request stays published, since "
        "a kubelet that restarts would fail pods that no longer fit; so no further offline pods are "
        "scheduled there, and suppression holds those that run to the offer.",
        "It usually clears: the Node's condition OfflineShortfall ends when the offer is enough or pods have "
        "ended. If it stays, delete some of the offline pods, so that they run elsewhere.",
    )
    OVERSUBSCRIPTION_OFF = _info(
        "OversubscriptionOff",
        "The node's label does not turn oversubscription on: nothing is offered, and no quota bounds all "
        "offline pods together. Isolation and per-pod-quota need no label.",
        'Label the node volcano.sh/oversubscription: "true" if it is to offer CPU to offline pods.',
    )
    OVERSUBSCRIPTION_LABEL_INVALID = _warning(
        "OversubscriptionLabelInvalid",
        "The label that turns oversubscription on is neither true nor false; the previous setting is kept.",
        'Set volcano.sh/oversubscription to "true" or "false", or remove it.',
    )
    SAMPLE_MISSED = _warning(
        "SampleMissed",
        "Usage could not be measured in one interval. A missing value is not zero: the offer stays.",
        "Ignore it if it happens once. The message says what could not be read, or made no sense.",
    )

    # suppression: one quota for all offline pods
    SUPPRESSION_OFF = _info(
        "SuppressionOff",
        "Suppression is not configured, or disabled, for the node: offline pods have the quotas of kubelet.",
        "Set the key cpu-suppression-config of the ConfigMap slo-controller-config to {} to turn it on.",
    )
    SUPPRESSION_AT_TARGET = _info(
        "SuppressionAtTarget",
        "The quota of all offline pods is the amount offered.",
    )
    SUPPRESSION_AT_FLOOR = _info(
        "SuppressionAtFloor",
        "Nothing, or next to nothing, is offered: all offline pods together have the smallest quota, 1 % of "
        "a CPU.",
    )
    SUPPRESSION_STEPPED_DOWN = _info(
        "SuppressionSteppedDown",
        "The quota of all offline pods is above the amount offered and came down by one step (adjustStep).",
    )
    SUPPRESSION_STEPPED_UP = _info(
        "SuppressionSteppedUp",
        "The quota of all offline pods is below the amount offered and went up by one step (adjustStep).",
    )
    SLICE_MISSING = _warning(
        "SliceMissing",
        "The node has no cgroup of BestEffort pods, so there is nothing to hold back.",
        "Ignore it if kubelet has just started: the agent looks for it again at each interval. Otherwise "
        "check whether it finds kubelet's cgroups: corewise agent --help.",
    )
    SLICE_UNREADABLE = _warning(
        "SliceUnreadable",
        "The quota of the cgroup of BestEffort pods cannot be read or written; it stays as it is.",
        "Check that the agent is root and /sys/fs/cgroup is writable. It tries again at each interval.",
    )

    # suppression: a quota for each offline pod
    UTILIZATION_HIGH = _info(
        "UtilizationHigh",
        "The node's CPU utilization rose above highThreshold and is not below lowThreshold yet: quotas of "
        "offline pods are lowered, the least suppressed first.",
    )
    UTILIZATION_LOW = _info(
        "UtilizationLow",
        "The node's CPU utilization fell below recoverThreshold and is not above lowThreshold yet: quotas of "
        "offline pods are raised, the most suppressed first.",
    )
    UTILIZATION_BETWEEN = _info(
        "UtilizationBetween",
        "The node's CPU utilization calls for no change of offline pods' quotas.",
    )
    NOTHING_ADJUSTABLE = _info(
        "NothingAdjustable",
        "Offline pods' quotas should change, but every one is at its end: at 10 % of the limit, at the "
        "limit, or without a limit.",
    )

    # offline pods' own limits
    OFFLINE_POD_ONLINE = _warning(
        "OfflinePodOnline",
        "The pod should be offline, by a mark or a profile, and requests cpu or memory: it counts as online, "
        "and nothing suppresses it. No manager translated it when it was created.",
        "Delete the pod, and have its Job or Deployment create it again.",
    )
    BATCH_LIMIT_APPLIED = _info(
        "BatchLimitApplied",
        "The cgroup has the weight, quota or memory limit that the offline pod's kubernetes.io/batch-cpu and "
        "kubernetes.io/batch-memory ask for; kubelet knows neither.",
    )
    OFFLINE_POD_IDLE = _info(
        "OfflinePodIdle",
        "The offline pod's cgroup has cpu.idle: a CPU that runs nothing else counts as idle when online work "
        "is woken. Idle pods share equally what is left, each up to its limit.",
    )
    ISOLATION_UNSUPPORTED = _info(
        "IsolationUnsupported",
        "The node's kernel has no cpu.idle, so offline pods are kept apart from online work by kubelet's "
        "weights alone.",
        "Use Linux 5.15 or newer, or set isolation to weights for this node.",
    )
    BATCH_AMOUNT_TINY = _warning(
        "BatchAmountTiny",
        "An offline pod asks for less than 1 % of a CPU. kubernetes.io/batch-cpu counts in thousandths of a "
        "CPU: 8 CPUs are 8000.",
        "Write the amount in thousandths in the pod's kubernetes.io/batch-cpu.",
    )

    # eviction of offline pods
    EVICTED_FOR_MEMORY = _warning(
        "EvictedForMemory",
        "The node's memory in use rose above memoryEvictThresholdPercent and is not below "
        "memoryEvictLowerPercent yet: one offline pod is evicted, the lowest priority first, then the "
        "youngest.",
        "Nothing: the pod's controller creates it again. If it happens often, lower the ratio of "
        "oversubscription, or the memory that offline pods use.",
    )
    EVICTED_FOR_CPU_TIME = _warning(
        "EvictedForCPUTime",
        "Offline pods have had less than cpuEvictBESatisfactionLowerPercent of the CPU that they request for "
        "cpuEvictTimeWindowSeconds, and used it up: one of them is evicted, the lowest priority first, then "
        "the youngest.",
        "Nothing: the pod's controller creates it again, and the scheduler looks for a node with more batch "
        "CPU.",
    )
    EVICTION_NOT_NEEDED = _info(
        "EvictionNotNeeded",
        "Neither memory nor the CPU of offline pods has crossed a threshold: no offline pod is evicted.",
    )
    EVICTION_COOLING_DOWN = _info(
        "EvictionCoolingDown",
        "An offline pod was evicted a short time ago, or the agent has just started: the next one goes when "
        "the cooldown is over.",
    )
    EVICTION_POD_TERMINATING = _info(
        "EvictionPodTerminating",
        "An offline pod of the node is being deleted: no other one is evicted until it is gone, for at most "
        "two minutes.",
        "If it stays for long, look at its finalizers and terminationGracePeriodSeconds.",
    )
    EVICTION_NO_SAMPLE = _info(
        "EvictionNoSample",
        "The node's usage could not be measured, or the sample is too old: no offline pod is evicted.",
    )
    EVICTION_NO_CANDIDATE = _info(
        "EvictionNoCandidate",
        "A threshold is crossed, and no offline pod can be evicted: none runs, or those that run are static, "
        "of a DaemonSet or system-critical, or request no CPU where CPU is short.",
        "Online pods and daemons use the memory: corewise explain node says how much. Move some of them.",
    )
    EVICTION_REFUSED = _info(
        "EvictionRefused",
        "A threshold is crossed, and the API server refused to evict every offline pod that could go.",
        "The message says why. For a PodDisruptionBudget, raise maxUnavailable. For a missing permission, "
        "install the chart with agent.eviction.enabled=true.",
    )

    # offline pods' cache and memory bandwidth
    RESCTRL_LIMITED = _info(
        "ResctrlLimited",
        "The tasks of offline pods are in the resctrl group corewise-offline, which limits how much of the "
        "last-level cache and of memory bandwidth they use.",
    )
    RESCTRL_RELEASED = _info(
        "ResctrlReleased",
        "The resctrl group of offline pods is removed; their tasks are in the root group again.",
    )
    RESCTRL_CAT_MISSING = _info(
        "ResctrlCATMissing",
        "Cache allocation (CAT) is unavailable: resctrl is mounted, and has no info/L3/cbm_mask.",
        "Check whether the processor has it (flag cat_l3 in /proc/cpuinfo), and rdt= on the kernel's command "
        "line; or set catRangeStartPercent 0 and catRangeEndPercent 100.",
    )
    RESCTRL_MBA_MISSING = _info(
        "ResctrlMBAMissing",
        "Memory bandwidth allocation (MBA) is unavailable: resctrl is mounted, and has no info/MB.",
        "Check whether the processor has it (flag mba in /proc/cpuinfo), and rdt= on the kernel's command "
        "line; or set mbaPercent 100.",
    )
    RESCTRL_MBPS = _info(
        "ResctrlMBps",
        "resctrl is mounted with the option mba_MBps: limits are in MB/s, and have no largest value that a "
        "percentage could be taken of.",
        "Mount resctrl without mba_MBps, or set mbaPercent 100.",
    )
    RESCTRL_CACHE_TAKEN = _info(
        "ResctrlCacheTaken",
        "Others have the ways of the range to themselves (exclusive or pseudo-locked).",
        "Choose another range: bit_usage in /sys/fs/resctrl/info/L3 shows which ways are taken.",
    )
    RESCTRL_FOREIGN_GROUPS = _info(
        "ResctrlForeignGroups",
        "Another program has resctrl groups on the node, so nothing is limited there: tasks are in one group "
        "only, and the other program would move them back.",
        "Leave resctrl to one of the two: stop the other program and remove its groups with rmdir, or set "
        "enable to false for this node.",
    )
    RESCTRL_CLOSIDS_USED = _info(
        "ResctrlCLOSIDsUsed",
        "The processor has no class of service (CLOSID) left for a resctrl group.",
        "Remove unused groups below /sys/fs/resctrl. Without the mount option cdp there are twice as many.",
    )
    RESCTRL_READ_ONLY = _info(
        "ResctrlReadOnly",
        "The agent cannot write to /sys/fs/resctrl.",
        "Set agent.resctrl.enabled=true in the chart: it mounts /sys/fs/resctrl into the agent's container.",
    )
    RESCTRL_TASKS_HIDDEN = _info(
        "ResctrlTasksHidden",
        "Offline pods run, and the agent sees none of their process IDs, so it cannot limit them.",
        "Set agent.resctrl.enabled=true in the chart: it shows the agent the node's process IDs (hostPID).",
    )
    RESCTRL_REFUSED = _info(
        "ResctrlRefused",
        "The kernel refused a change of the resctrl group of offline pods.",
        "Read the message: it quotes info/last_cmd_status, where the kernel says why.",
    )

    # pinning: which CPUs
    NOT_ENOUGH_CPUS = _info(
        "NotEnoughCPUs",
        "Fewer CPUs are free than the workload must own.",
    )
    NOT_WHOLE_CORES = _info(
        "NotWholeCores",
        "Enough CPUs may be free, but not as whole cores, which the workload requires.",
        "Request a multiple of the threads of a core, or prefer FullPCPUs instead of requiring it.",
    )
    NOT_ENOUGH_CORES = _info(
        "NotEnoughCores",
        "Enough CPUs may be free, but not each on a core of its own, which the workload requires.",
        "Prefer SpreadByPCPUs instead of requiring it.",
    )
    CPUS_TAKEN = _warning(
        "CPUsTaken",
        "A workload claims CPUs that another one holds; the earlier claim counts.",
        "Delete one of the two pods, so that it is placed again.",
    )
    CPUS_UNKNOWN = _warning(
        "CPUsUnknown",
        "A workload claims CPUs that its node does not have; the claim has no effect.",
        "Delete the pod, so that it is placed again.",
    )

    # pinning: on the node
    CPUS_OWNED = _info(
        "CPUsOwned",
        "The pod runs on the CPUs that it was given as its own, and nowhere else.",
    )
    CPUS_SHARED = _info(
        "CPUsShared",
        "The pod owns no CPUs: it runs on those of its node that no pod owns.",
    )
    CPUS_RESERVED = _warning(
        "CPUsReserved",
        "A pod claims CPUs that kubelet reserves for the system; they stay shared.",
        "Delete the pod, so that it is placed again.",
    )
    CPUS_OFFLINE = _warning(
        "CPUsOffline",
        "All CPUs that a pod owns are offline: it runs on the shared ones for the time being.",
        "Bring the CPUs online, or delete the pod, so that it is placed again.",
    )
    CPUS_MANAGED_BY_KUBELET = _warning(
        "CPUsManagedByKubelet",
        "The node's kubelet keeps CPU sets itself (CPU manager policy static), so the agent writes none: "
        "two writers would undo each other's work.",
        "Run kubelet with cpuManagerPolicy none, or keep pods with QoS class LSE or LSR off the node.",
    )
    SHARED_POOL_EMPTY = _warning(
        "SharedPoolEmpty",
        "No CPU would be left for the pods that own none: a pod is not given the last CPU that they share.",
        "Let kubelet reserve CPUs (reservedSystemCPUs): those are never given away, and always shared.",
    )
    QOS_CLASS_NOT_ALLOWED = _warning(
        "QoSClassNotAllowed",
        "The pod states QoS class LSE or SYSTEM in a namespace where it is not allowed. An LSE pod is not "
        "placed (Event NoNodeSuits). If the pod already runs, it counts as a pod without a class and gets an "
        "Event with this reason.",
        "Use QoS class LSR, or allow the namespace with --restricted-qos-namespace, on the agents and on the "
        "scheduler.",
    )
    CLAIM_WITHOUT_CLASS = _warning(
        "ClaimWithoutClass",
        "The pod claims CPUs and is neither LSR nor LSE: the scheduler did not give them. The claim has "
        "no effect.",
        "Remove the annotation scheduling.koordinator.sh/resource-status, and find out who wrote it.",
    )
    CLAIM_NOT_REQUESTED = _warning(
        "ClaimNotRequested",
        "The pod claims another number of CPUs than it requests, or than it was given for its request; the "
        "claim has no effect. Either somebody wrote the annotation, or the pod was resized after it was "
        "bound.",
        "Delete the pod, so that it is placed again.",
    )

    # measuring: why the agent has no value of what work on a node fights over
    RESCTRL_UNSUPPORTED = _info(
        "ResctrlUnsupported",
        "The node's kernel or processor has no resctrl: there is no /sys/fs/resctrl.",
        "Nothing to do in a virtual machine; elsewhere check whether the processor has RDT, PQoS or MPAM.",
    )
    RESCTRL_NOT_MOUNTED = _info(
        "ResctrlNotMounted",
        "The node has resctrl, but it is not mounted.",
        "On the node: mount -t resctrl resctrl /sys/fs/resctrl.",
    )
    RESCTRL_EVENT_MISSING = _info(
        "ResctrlEventMissing",
        "resctrl is mounted, and the processor does not monitor this: info/L3_MON/mon_features does not "
        "list the event.",
    )
    RESCTRL_NO_VALUE = _info(
        "ResctrlNoValue",
        "The kernel has no value just now for at least one group and cache (Unavailable, Error, Unassigned), "
        "so the sum over the node is not known.",
        "If it persists: use fewer monitoring groups, or assign a counter to each (mbm_L3_assignments).",
    )
    UNCORE_NO_VALUE = _info(
        "UncoreNoValue",
        "A memory controller's counters did not run since the last reading, so the sum is unknown.",
        "Find out what else uses uncore_imc: perf, pcm.",
    )
    PERF_NOT_PERMITTED = _info(
        "PerfNotPermitted",
        "The kernel does not allow the agent to count hardware events.",
        "Give the agent CAP_PERFMON, and leave perf_event_open out of its seccomp profile.",
    )
    PERF_EVENT_MISSING = _info(
        "PerfEventMissing",
        "The kernel shows no counter of the processor for these events.",
        "In a virtual machine, enable performance counters in its hypervisor.",
    )
    PERF_FAILED = _info(
        "PerfFailed",
        "perf_event_open failed for another reason; see the agent's log.",
        "EMFILE: raise the limit of open files; two are needed for each CPU.",
    )
    PERF_NO_VALUE = _info(
        "PerfNoValue",
        "The counters ran on no CPU since the last reading: something else uses them all the time.",
        "Find out what else counts: perf, pcm, a profiler, the NMI watchdog.",
    )
    OTHER_KERNEL = _info(
        "OtherKernel",
        "The files below --root belong to another kernel than the one the agent runs on, so what only a "
        "running kernel can tell is not measured.",
    )
    LATENCY_PROBE_NOT_BUILT = _info(
        "LatencyProbeNotBuilt",
        "The package was installed without its helper in C: there was no C compiler, or the processor is of "
        "another kind.",
        "Install corewise where there is a C compiler (cc), on x86-64 or arm64.",
    )
    LATENCY_PROBE_OFF = _info(
        "LatencyProbeOff",
        "Probing is turned off (--no-latency-probe).",
    )
    LATENCY_PROBE_FAILED = _info(
        "LatencyProbeFailed",
        "The last probe failed on every NUMA node; see the agent's log.",
    )
    LATENCY_NOT_YET = _info(
        "LatencyNotYet",
        "No probe has finished yet, or the last one is too old to count.",
    )
    MEMORY_CHANNELS_UNKNOWN = _info(
        "MemoryChannelsUnknown",
        "Which memory channels have modules is unknown: no EDAC driver is loaded.",
        "Load the processor's EDAC driver, or state the capacity: node annotation, or the scheduler's "
        "configuration.",
    )
    MEMORY_SPEED_UNKNOWN = _info(
        "MemorySpeedUnknown",
        "The firmware does not report the speed of the memory modules (SMBIOS type 17).",
        "State the capacity: node annotation, or the scheduler's configuration.",
    )
    CACHE_SIZE_UNKNOWN = _info(
        "CacheSizeUnknown",
        "The kernel does not report the size of every last-level cache, as in many virtual machines.",
    )
    HOST_FILE_UNREADABLE = _info(
        "HostFileUnreadable",
        "A file of /proc that holds this value cannot be read; see the agent's log.",
        "Check the agent's mount of /proc, and --root.",
    )

    # scheduling: what is wrong with a pod
    CPUS_NOT_INTEGER = _warning(
        "CPUsNotInteger",
        "The requested CPUs must be integer: the pod must own CPUs (QoS class LSE or LSR), and CPUs are "
        "owned whole.",
        "Request a whole number of CPUs, or use QoS class LS.",
    )
    RESOURCE_SPEC_INVALID = _warning(
        "ResourceSpecInvalid",
        "The annotation that says how the pod wants its CPUs cannot be read; the pod fits nowhere.",
        "Correct scheduling.koordinator.sh/resource-spec, scheduling.koordinator.sh/numa-topology-spec or "
        "node.corewise.io/normalize-cpuset.",
    )
    NORMALIZE_LABEL_INVALID = _warning(
        "NormalizeLabelInvalid",
        "The label by which a namespace normalizes the CPUs that its new pods own is neither true nor false; "
        "it counts as absent.",
        "Set the label node.corewise.io/normalize-cpuset of the namespace to true or false, or remove it.",
    )
    NORMALIZATION_RATIO_INVALID = _warning(
        "NormalizationRatioInvalid",
        "The Node's normalization ratio cannot be read, so no pod whose CPUs are normalized is placed there. "
        "Those already there stay.",
        "Have the manager write node.koordinator.sh/cpu-normalization-ratio again, or correct it.",
    )
    CONSTRAINED_BURST_NOT_SERVED = _warning(
        "ConstrainedBurstNotServed",
        "The pod owns CPUs and requests Koordinator's CPU bind policy ConstrainedBurst, which corewise does "
        "not have, so no node fits.",
        "Use FullPCPUs or SpreadByPCPUs in scheduling.koordinator.sh/resource-spec, or QoS class LS, whose "
        "pods share the CPUs that no pod owns.",
    )
    BIND_POLICY_CONFLICT = _warning(
        "BindPolicyConflict",
        "The node gives whole cores only, and the pod requires the CPU bind policy SpreadByPCPUs.",
        "Prefer SpreadByPCPUs instead of requiring it, or select nodes that give single threads.",
    )
    RESOURCE_STATUS_INVALID = _warning(
        "ResourceStatusInvalid",
        "The annotation that says which CPUs a pod was given cannot be read; the pod counts by its requests.",
        "Delete the pod, so that it is placed again.",
    )
    CPU_TOPOLOGY_INVALID = _warning(
        "CPUTopologyInvalid",
        "The annotation that says how a node's CPUs are arranged cannot be read; it gives out no CPUs.",
        "Restart the agent of the node, which writes it.",
    )
    NODE_RESERVATION_INVALID = _warning(
        "NodeReservationInvalid",
        "The Node's annotation that reserves CPUs cannot be read, so corewise does not know which CPUs are "
        "reserved, and places no pods that own CPUs on the node. Those already there stay.",
        "Correct node.koordinator.sh/reservation on the Node, or remove it.",
    )
    NAME_NOT_SERVED = _warning(
        "NameNotServed",
        "A Node has a label or an annotation of Koordinator or Volcano that corewise does not honor; the "
        "message says what corewise does instead.",
        "Remove the label or the annotation. corewise config check --cluster lists all such names.",
    )
    AMOUNT_TOO_LARGE = _warning(
        "AmountTooLarge",
        "A pod or a node states an amount that cannot be read or that no machine has. An unbound pod fits "
        "nowhere; a bound one fills its node, and the agent leaves its quotas alone. A node's amount counts "
        "as the largest one.",
        "Correct the amount, or delete the pod.",
    )

    # scheduling: why a node does not suit a pod
    AMPLIFIED_CPU_INSUFFICIENT = _info(
        "AmplifiedCPUInsufficient",
        "The node's amplified CPU does not suffice: CPUs that CPUSet pods own count amplified.",
    )
    RESOURCE_INSUFFICIENT = _info(
        "ResourceInsufficient",
        "What the pod requests is more than the node has left.",
    )
    CPUS_TOO_SCATTERED = _info(
        "CPUsTooScattered",
        "The node has the CPUs that the pod needs, but their list is too long for the annotation of the pod "
        "or of the node.",
        "Request fewer CPUs, or require FullPCPUs.",
    )
    OWNED_CPUS_DAMAGED = _warning(
        "OwnedCPUsDamaged",
        "The ledger of owned CPUs on the node cannot be read, gives a CPU to two pods, or contradicts "
        "owned-milli-cpu. Pods that own CPUs are not bound to the node until it is repaired.",
        "Run the scheduler: its leader repairs the ledger from what is readable and from the bound pods.",
    )
    OWNED_CPUS_REPAIRED = _warning(
        "OwnedCPUsRepaired",
        "The scheduler has rewritten a damaged ledger of owned CPUs, from what was readable of it and "
        "from the pods bound to the node.",
        "Find out who else writes node.corewise.io/owned-cpus.",
    )
    NODE_CHANGING = _info(
        "NodeChanging",
        "Others kept changing the Node while CPUs were being entered in its ledger; the pod is tried again.",
    )
    OWNED_LATE = _warning(
        "OwnedLate",
        "The pod owns CPUs and was bound without the scheduler: it was entered in the node's ledger, and got "
        "its CPUs, after that.",
        "Bind pods that own CPUs with a kube-scheduler that has the extender.",
    )
    CLAIM_EXPIRED = _info(
        "ClaimExpired",
        "The node's ledger kept CPUs for the pod, which was not bound in time. The CPUs are free again.",
    )
    BINDING_FAILED = _info(
        "BindingFailed",
        "The API server refused the Binding, or did not answer in time; the pod is tried again.",
    )
    POD_CHANGED = _info(
        "PodChanged",
        "The pod was deleted, bound elsewhere, or kept changing while it was being bound.",
    )
    CPU_TOPOLOGY_UNKNOWN = _info(
        "CPUTopologyUnknown",
        "The pod must own CPUs, and the node's CPU topology is not reported.",
        "Run the agent on the node.",
    )
    NUMA_POLICY_CONFLICT = _info(
        "NUMAPolicyConflict",
        "The pod and the node state different NUMA topology policies.",
        "Remove the policy from the pod, or select nodes of that policy.",
    )
    NUMA_POLICY_UNKNOWN = _warning(
        "NUMAPolicyUnknown",
        "A NUMA topology policy is none of None, BestEffort, Restricted, SingleNUMANode; it counts as None.",
        "Correct the label node.koordinator.sh/numa-topology-policy.",
    )
    NUMA_ZONES_UNUSABLE = _info(
        "NUMAZonesUnusable",
        "A NUMA topology policy applies, but the node's NodeResourceTopology states no usable zones, or more "
        "than 8 with CPUs, which is too many for BestEffort and Restricted.",
        "Run the agent on the node. With more than 8 zones use SingleNUMANode or None.",
    )
    NUMA_NOT_ALIGNED = _info(
        "NUMANotAligned",
        "The node has room, but not within as few NUMA nodes as its NUMA topology policy demands.",
    )
    NODE_NAME_MISMATCH = _info(
        "NodeNameMismatch",
        "The pod names another node.",
    )
    NODE_UNSCHEDULABLE = _info(
        "NodeUnschedulable",
        "The node is cordoned.",
    )
    TAINT_NOT_TOLERATED = _info(
        "TaintNotTolerated",
        "The node has a taint that the pod does not tolerate.",
    )
    NODE_AFFINITY_MISMATCH = _info(
        "NodeAffinityMismatch",
        "The node's labels are not those that the pod selects.",
    )
    PLUGIN_REFUSED = _info(
        "PluginRefused",
        "A plugin of a third party that is installed beside corewise refuses the node.",
        "Its message says why; the plugin's documentation says what to do.",
    )
    NODE_UNKNOWN = _info(
        "NodeUnknown",
        "The scheduler knows no node of this name, or does not know it yet.",
    )
    NO_NODE_SUITS = _warning(
        "NoNodeSuits",
        "None of the nodes that kube-scheduler asked about has the CPUs that the pod needs; the Event counts "
        "them by cause.",
        "See each node's numbers with: corewise explain pod NAMESPACE/NAME.",
    )

    # interference: what the filter and the profiles say
    MEMORY_BANDWIDTH_INSUFFICIENT = _info(
        "MemoryBandwidthInsufficient",
        "Free memory bandwidth, less that of pods just placed, is not above overprovisioning x the pod's "
        "profile.",
    )
    MEMORY_AVAILABLE_INSUFFICIENT = _info(
        "MemoryAvailableInsufficient",
        "Available memory, less that of pods just placed, is not above overprovisioning x the pod's profile; "
        "where no profile states its memory, not above its request.",
    )
    PRESSURE_UNKNOWN = _info(
        "PressureUnknown",
        "The node's memory bandwidth or memory is unknown, and missing.filter is fail.",
        "To see which series are missing: corewise check metrics.",
    )
    PROFILE_CONFLICT = _warning(
        "ProfileConflict",
        "Two profiles match the pod, so its use is unknown; it fits no node.",
        "Make the profiles' selectors exclude each other, or correct the pod's labels.",
    )
    PROFILE_UNPLACEABLE = _warning(
        "ProfileUnplaceable",
        "A profile needs more free memory bandwidth than the largest node has: its pods fit no node.",
        "Correct the profile, the overprovisioning, or the capacity rules.",
    )
    MEMORY_BANDWIDTH_INVALID = _warning(
        "MemoryBandwidthInvalid",
        "The annotation with the node's memory bandwidth cannot be read; it counts as absent.",
        "Write node.corewise.io/memory-bandwidth as an amount with its unit, such as 107GB/s.",
    )

    # interference: what a history says
    TOO_FEW_RUNS = _info(
        "TooFewRuns",
        "What slows a type of workload down is unknown: too few of its runs were observed.",
        "Use a longer history (with --prometheus: a longer --range), or run the type as a Job more often.",
    )
    PRESSURE_NEVER_VARIED = _info(
        "PressureNeverVaried",
        "What slows a type of workload down is unknown: its pods met the same pressure wherever they ran.",
        "Use a range in which nodes differed, or run the type on a busy node and on an idle one.",
    )

    # tracking: configuration of a host
    CPU_SET_MALFORMED = _warning(
        "CPUSetMalformed",
        "An option that names host CPUs cannot be read; the agent does not start.",
        "Write a list of CPUs and ranges; ^ excludes: 0-7,^2,^4-5.",
    )
    CPU_SET_LEAVES_NOTHING = _warning(
        "CPUSetLeavesNothing",
        "An option that names host CPUs excludes every CPU that it names; the agent does not start.",
        "Name at least one CPU, or remove the option.",
    )
    CPU_SETS_OVERLAP = _warning(
        "CPUSetsOverlap",
        "A CPU is both dedicated and shared: it would be promised twice. The agent does not start.",
        "Take the CPUs out of [compute] cpu_dedicated_set or out of [compute] cpu_shared_set.",
    )
    CPUS_NOT_PRESENT = _warning(
        "CPUsNotPresent",
        "An option names CPUs that the host does not have; the agent does not start.",
        "Take these CPUs out of the option.",
    )
    CPUS_NOT_ONLINE = _warning(
        "CPUsNotOnline",
        "An option names CPUs that are offline; the agent does not start.",
        "Bring these CPUs online, or take them out of the option. Dedicated CPUs may be offline only with "
        "[libvirt] cpu_power_management.",
    )
    ALLOCATION_RATIO_INVALID = _warning(
        "AllocationRatioInvalid",
        "The ratio by which shared CPUs are overcommitted cannot be used; the agent does not start.",
        "Write a decimal number above 0, such as 8.0, or remove the option.",
    )
    POWER_MANAGEMENT_INVALID = _warning(
        "PowerManagementInvalid",
        "cpu_power_management is neither true nor false; the agent does not start.",
        "Write true or false.",
    )
    RESERVED_CPUS_INVALID = _warning(
        "ReservedCPUsInvalid",
        "reserved_host_cpus is not a number of CPUs that the host can reserve; the agent does not start.",
        "Remove the option, and leave CPUs for the host out of cpu_shared_set and cpu_dedicated_set.",
    )
    RESERVED_CPUS_FORBIDDEN = _warning(
        "ReservedCPUsForbidden",
        "reserved_host_cpus beside a new option is an error in Nova; the agent does not start.",
        "Unset reserved_host_cpus: CPUs in neither set are reserved for the host.",
    )
    RESERVED_CPUS_IGNORED = _warning(
        "ReservedCPUsIgnored",
        "reserved_host_cpus has no effect beside cpu_dedicated_set or cpu_shared_set.",
        "Unset reserved_host_cpus: CPUs in neither set are reserved for the host.",
    )
    RESERVED_CPUS_DEPRECATED = _warning(
        "ReservedCPUsDeprecated",
        "reserved_host_cpus is deprecated: it counts CPUs and names none.",
        "Set [compute] cpu_shared_set or cpu_dedicated_set to all CPUs but those for the host.",
    )
    PIN_SET_FORBIDDEN = _warning(
        "PinSetForbidden",
        "vcpu_pin_set beside [compute] cpu_dedicated_set is an error in Nova; the agent does not start.",
        "Unset vcpu_pin_set.",
    )
    PIN_SET_IGNORED = _warning(
        "PinSetIgnored",
        "vcpu_pin_set has no effect: cpu_dedicated_set and cpu_shared_set name the CPUs.",
        "Unset vcpu_pin_set.",
    )
    PIN_SET_DEPRECATED = _warning(
        "PinSetDeprecated",
        "vcpu_pin_set is deprecated: its CPUs serve guests with dedicated and with shared CPUs alike.",
        "Unset it, and set [compute] cpu_dedicated_set, cpu_shared_set or both.",
    )
    SHARED_SET_FOR_EMULATOR_ONLY = _warning(
        "SharedSetForEmulatorOnly",
        "While vcpu_pin_set is set, cpu_shared_set serves emulator threads only and counts for no inventory.",
        "Unset vcpu_pin_set, and set [compute] cpu_dedicated_set, cpu_shared_set or both.",
    )
    GUEST_NEEDS_SHARED_CPUS = _warning(
        "GuestNeedsSharedCPUs",
        "A guest on the host shares CPUs, and the options leave none to share; the agent does not start.",
        "Set [compute] cpu_shared_set, or move the guest away.",
    )
    GUEST_NEEDS_DEDICATED_CPUS = _warning(
        "GuestNeedsDedicatedCPUs",
        "A guest on the host is pinned, and the options leave no dedicated CPUs; the agent does not start.",
        "Set [compute] cpu_dedicated_set, or move the guest away.",
    )
    GUEST_NEEDS_BOTH_KINDS = _warning(
        "GuestNeedsBothKinds",
        "A guest on the host has dedicated and shared CPUs, and the options name only one kind; the agent "
        "does not start.",
        "Set both [compute] cpu_dedicated_set and cpu_shared_set, or move the guest away.",
    )
    GUEST_PINNED_OUTSIDE = _warning(
        "GuestPinnedOutside",
        "A guest on the host is pinned to CPUs that are not in cpu_dedicated_set.",
        "Add them to [compute] cpu_dedicated_set, or migrate or rebuild the guest.",
    )

    # tracking: what a host offers
    INVENTORY_REPORTED = _info(
        "InventoryReported",
        "The host's VCPU and PCPU differed from its inventories in Placement; the inventories were updated.",
    )
    TRAIT_REPORTED = _info(
        "TraitReported",
        "Whether the host has hyperthreads differed from its traits in Placement; the traits were updated.",
    )

    # tracking: from flavor and image to a query
    FLAVOR_INVALID = _info(
        "FlavorInvalid",
        "The flavor's vcpus, ram or disk is not an amount that a guest can have.",
        "Create the flavor again with whole numbers, vcpus at least 1.",
    )
    CPU_POLICY_UNKNOWN = _info(
        "CPUPolicyUnknown",
        "hw:cpu_policy or hw_cpu_policy has an unknown value.",
        "Write shared, dedicated or mixed.",
    )
    CPU_POLICY_CONFLICT = _info(
        "CPUPolicyConflict",
        "The image asks for more dedicated CPUs than the flavor allows.",
        "Use a flavor with the image's CPU policy, or remove hw_cpu_policy from the image.",
    )
    CPU_POLICY_WITH_RESOURCES = _info(
        "CPUPolicyWithResources",
        "A CPU policy and an explicit amount of VCPU or PCPU both say how many CPUs of which kind.",
        "Keep one of them.",
    )
    MIXED_CPU_RESOURCES = _info(
        "MixedCPUResources",
        "VCPU and PCPU cannot be requested explicitly in the same request.",
        "Request one of them, or use hw:cpu_policy=mixed with hw:cpu_dedicated_mask.",
    )
    PCPU_COUNT_MISMATCH = _info(
        "PCPUCountMismatch",
        "The number of PCPU requested is not the flavor's vcpus (plus one where emulator threads are "
        "isolated).",
        "Make the two equal.",
    )
    VCPU_COUNT_MISMATCH = _warning(
        "VCPUCountMismatch",
        "The number of VCPU requested is not the flavor's vcpus; Placement counts the number requested.",
        "Make the two equal.",
    )
    NO_CPU_REQUESTED = _info(
        "NoCPURequested",
        "The flavor takes every CPU class out of the request; such a guest cannot be placed.",
        "Remove resources:VCPU=0 or resources:PCPU=0 from the flavor.",
    )
    THREAD_POLICY_UNKNOWN = _info(
        "ThreadPolicyUnknown",
        "hw:cpu_thread_policy or hw_cpu_thread_policy has an unknown value.",
        "Write prefer, isolate or require.",
    )
    THREAD_POLICY_CONFLICT = _info(
        "ThreadPolicyConflict",
        "Flavor and image ask for different CPU thread policies.",
        "Remove hw_cpu_thread_policy from the image, or use another flavor.",
    )
    THREAD_POLICY_WITHOUT_PINNING = _info(
        "ThreadPolicyWithoutPinning",
        "A CPU thread policy says how dedicated CPUs share cores, and the guest has none.",
        "Set hw:cpu_policy=dedicated, or remove the thread policy.",
    )
    THREAD_POLICY_WITH_TRAIT = _info(
        "ThreadPolicyWithTrait",
        "A CPU thread policy and the trait HW_CPU_HYPERTHREADING both say what to do with hyperthreads.",
        "Keep one of them.",
    )
    TRAIT_WITHOUT_PINNING = _info(
        "TraitWithoutPinning",
        "The trait HW_CPU_HYPERTHREADING says how dedicated CPUs share cores, and the guest has none.",
        "Set hw:cpu_policy=dedicated or resources:PCPU, or remove the trait.",
    )
    TRAIT_INVALID = _info(
        "TraitInvalid",
        "A trait's name is not valid, or the trait is neither required nor forbidden.",
        "Write trait:NAME=required or trait:NAME=forbidden, NAME in capitals, digits and _.",
    )
    TRAIT_CONFLICT = _info(
        "TraitConflict",
        "The same trait is required and forbidden.",
        "Remove it from the flavor or from the image.",
    )
    DEDICATED_MASK_MALFORMED = _info(
        "DedicatedMaskMalformed",
        "hw:cpu_dedicated_mask cannot be read.",
        "Write guest CPUs such as 0-2, or those that are not dedicated such as ^3.",
    )
    DEDICATED_MASK_EMPTY = _info(
        "DedicatedMaskEmpty",
        "hw:cpu_dedicated_mask leaves no dedicated CPU.",
        "Name at least one guest CPU, or use hw:cpu_policy=shared.",
    )
    DEDICATED_MASK_FULL = _info(
        "DedicatedMaskFull",
        "hw:cpu_dedicated_mask leaves no shared CPU.",
        "Leave at least one guest CPU out, or use hw:cpu_policy=dedicated.",
    )
    DEDICATED_MASK_OUTSIDE = _info(
        "DedicatedMaskOutside",
        "hw:cpu_dedicated_mask names guest CPUs that the flavor does not have.",
        "Name CPUs from 0 to vcpus - 1.",
    )
    DEDICATED_MASK_WITHOUT_MIXED = _info(
        "DedicatedMaskWithoutMixed",
        "hw:cpu_dedicated_mask counts only with hw:cpu_policy=mixed.",
        "Set hw:cpu_policy=mixed, or remove the mask.",
    )
    MIXED_WITHOUT_MASK = _info(
        "MixedWithoutMask",
        "hw:cpu_policy=mixed needs to know which guest CPUs are dedicated.",
        "Set hw:cpu_dedicated_mask, or hw:cpu_realtime=yes and hw:cpu_realtime_mask.",
    )
    MIXED_WITH_TWO_MASKS = _info(
        "MixedWithTwoMasks",
        "hw:cpu_dedicated_mask and a realtime mask both name the dedicated CPUs of a mixed guest.",
        "Keep one of them.",
    )
    REALTIME_MASK_INVALID = _info(
        "RealtimeMaskInvalid",
        "The realtime mask cannot be read, names CPUs that the flavor does not have, or leaves no "
        "CPU on one side.",
        "Name at least one guest CPU and leave one out; hw:emulator_threads_policy allows naming all.",
    )
    REALTIME_WITHOUT_PINNING = _info(
        "RealtimeWithoutPinning",
        "Realtime CPUs must be dedicated, and the guest has none.",
        "Set hw:cpu_policy=dedicated or mixed, or remove hw:cpu_realtime.",
    )
    EMULATOR_POLICY_UNKNOWN = _info(
        "EmulatorPolicyUnknown",
        "hw:emulator_threads_policy has an unknown value.",
        "Write share or isolate.",
    )
    EMULATOR_POLICY_WITHOUT_PINNING = _info(
        "EmulatorPolicyWithoutPinning",
        "Isolated emulator threads take a dedicated CPU, and the guest has none.",
        "Set hw:cpu_policy=dedicated, or remove hw:emulator_threads_policy.",
    )
    RESOURCE_AMOUNT_INVALID = _info(
        "ResourceAmountInvalid",
        "An amount of a resource is not a whole number from 0 to 2147483647.",
        "Correct the amount in the flavor.",
    )
    RESOURCE_CLASS_UNKNOWN = _warning(
        "ResourceClassUnknown",
        "A resource class is neither a standard one nor begins with CUSTOM_; it is not requested.",
        "Correct its name in the flavor.",
    )
    EXTRA_SPEC_UNSERVED = _warning(
        "ExtraSpecUnserved",
        "An extra spec or image property about CPUs, memory pages or NUMA is not served.",
        "Remove it, or accept what the message says is not guaranteed; --strict refuses such guests.",
    )
    EXTRA_SPEC_UNKNOWN = _warning(
        "ExtraSpecUnknown",
        "Nova knows no extra spec or image property of this name; it looks like one about CPUs or NUMA.",
        "Correct its name, or remove it; --strict refuses such guests.",
    )
    GROUP_POLICY_INVALID = _info(
        "GroupPolicyInvalid",
        "group_policy has an unknown value.",
        "Write none or isolate.",
    )
    GROUP_POLICY_ASSUMED = _warning(
        "GroupPolicyAssumed",
        "There are several groups of resources and no group_policy; Placement demands one, and none is sent.",
        "Set group_policy to none or isolate in the flavor.",
    )
    GROUP_WITHOUT_RESOURCES = _info(
        "GroupWithoutResources",
        "A group names traits or aggregates, and no resources; Placement refuses such a query.",
        "Add resources to the group, or move its traits to another one.",
    )
    GUEST_NUMA_INVALID = _info(
        "GuestNUMAInvalid",
        "The guest's NUMA nodes do not add up to its CPUs and memory, or cannot be read.",
        "Correct hw:numa_nodes, hw:numa_cpus.N and hw:numa_mem.N; every node needs both or none.",
    )

    # tracking: whether a host can take a guest
    DEDICATED_CPUS_INSUFFICIENT = _info(
        "DedicatedCPUsInsufficient",
        "The host has fewer free dedicated CPUs than the guest needs.",
    )
    SHARED_CPUS_INSUFFICIENT = _info(
        "SharedCPUsInsufficient",
        "The host has no shared CPUs, or a NUMA node of it has fewer than the guest's node has CPUs.",
    )
    HYPER_THREADS_MISSING = _info(
        "HyperThreadsMissing",
        "The guest requires hyperthread siblings, and the host has none.",
    )
    HYPER_THREADS_PRESENT = _info(
        "HyperThreadsPresent",
        "The guest must not share cores, and the host has hyperthreads: its dedicated CPUs are threads.",
    )
    THREAD_POLICY_UNMET = _info(
        "ThreadPolicyUnmet",
        "Enough dedicated CPUs are free, but not on cores as the guest's thread policy demands.",
    )
    NUMA_NODES_INSUFFICIENT = _info(
        "NUMANodesInsufficient",
        "The guest has more NUMA nodes than the host.",
    )
    NUMA_NODES_UNFIT = _info(
        "NUMANodesUnfit",
        "Enough CPUs are free, but the guest's NUMA nodes do not each fit on a NUMA node of the host.",
    )
    NUMA_MEMORY_INSUFFICIENT = _info(
        "NUMAMemoryInsufficient",
        "CPUs are free, but no NUMA node of the host with enough of them has the memory.",
    )
    GUEST_ALREADY_PINNED = _info(
        "GuestAlreadyPinned",
        "A guest of this name holds CPUs of the host already.",
        "Unpin it first.",
    )

    # tracking: upgrade of a host
    GUESTS_RESHAPED = _info(
        "GuestsReshaped",
        "Pinned guests of the host held VCPU; in one request they were given PCPU instead.",
    )
    RESHAPE_EXCEEDS_INVENTORY = _warning(
        "ReshapeExceedsInventory",
        "The pinned guests of the host need more PCPU than cpu_dedicated_set offers; nothing was changed.",
        "Add CPUs to [compute] cpu_dedicated_set, or move guests away.",
    )
    RESHAPE_AMOUNT_UNEXPECTED = _warning(
        "ReshapeAmountUnexpected",
        "A pinned guest holds another amount of VCPU than it has CPUs; the reshape goes by what it holds.",
        "Look at its allocations: openstack resource provider allocation show UUID.",
    )

    # moves: what keeps a guest from another host or size
    GUEST_MOVING = _info(
        "GuestMoving",
        "The guest is being moved: it has a claim on two hosts, or two claims on one.",
        "Finish it with corewise compute confirm GUEST, or undo it with corewise compute revert GUEST.",
    )
    GUEST_NOT_MOVING = _info(
        "GuestNotMoving",
        "The guest is not being moved: there is nothing to confirm or to revert.",
        "See where it is with corewise compute status; corewise compute move GUEST --to HOST begins a move.",
    )
    MOVE_REFUSED = _info(
        "MoveRefused",
        "An agent did not record a step of a move: it concerns other guests, or CPUs that are not free.",
        "Run the command again; if that does not help, see the ledger with corewise compute status.",
    )
    SOURCE_ALIVE = _info(
        "SourceAlive",
        "The agent of the guest's host still reports, so the guest may still run there.",
        "Move the guest with corewise compute move, or stop the host for good first.",
    )
    GUEST_TIED_TO_PROVIDER = _info(
        "GuestTiedToProvider",
        "The guest holds resources of another provider than its host's, such as a device or shared storage, "
        "and the move would need other ones.",
        "Delete the guest and schedule it on another host: corewise compute delete GUEST, corewise compute "
        "schedule --flavor F.",
    )
    PLACEMENT_NOT_NAMED = _info(
        "PlacementNotNamed",
        "The guest holds a claim in a Placement, and the command names none, or another one.",
        "Name the Placement in which the guest was scheduled: --os-cloud NAME, --placement-from-config "
        "--config FILE, --placement-url URL or --placement-db FILE.",
    )
    REBUILD_CHANGES_CLAIM = _info(
        "RebuildChangesClaim",
        "With the new image the guest would hold other CPUs or resources; a rebuild keeps what it holds.",
        "Resize it instead: corewise compute resize GUEST --flavor F --image I.",
    )
    HOST_LACKS_TRAIT = _info(
        "HostLacksTrait",
        "The host's provider lacks a trait that the guest's flavor or image requires, or has one that it "
        "forbids.",
        "Choose a host that suits; those with a trait: openstack --os-placement-api-version 1.18 resource "
        "provider list --required TRAIT.",
    )

    # compute: what the program cannot do
    FILE_UNUSABLE = _info(
        "FileUnusable",
        "A file that was named cannot be read, or is not what it should be.",
    )
    LEDGER_UNUSABLE = _warning(
        "LedgerUnusable",
        "The ledger of a host cannot be read or written; nothing was changed.",
        "Create its directory, and let this user write there.",
    )
    LEDGER_DAMAGED = _warning(
        "LedgerDamaged",
        "The ledger of a host is not what was written: cut off, or changed. Nothing is guessed from it.",
        "Put a good copy in its place (ledger.json.1 is the one before the last change).",
    )
    LEDGER_BUSY = _warning(
        "LedgerBusy",
        "Another process has held the ledger of a host for too long.",
        "End that process, or wait for it.",
    )
    AGENT_UNREACHABLE = _warning(
        "AgentUnreachable",
        "The agent of a host, which has its ledger, does not answer; the host gets no guests meanwhile.",
        "See whether corewise compute run --listen runs there, and whether a firewall lets its port through.",
    )
    AGENT_UNTRUSTED = _warning(
        "AgentUntrusted",
        "The agent of a host and its caller do not accept each other's certificates; nothing was done.",
        "Have one authority sign both, and name it with --cacert here and with --client-ca there.",
    )
    AGENT_INCOMPATIBLE = _warning(
        "AgentIncompatible",
        "The agent of a host speaks another version of the API for ledgers; nothing was done.",
        "Run the same version of corewise on both sides.",
    )
    GUEST_UNKNOWN = _info(
        "GuestUnknown",
        "No host that was asked has this guest.",
    )
    GUEST_EXISTS = _info(
        "GuestExists",
        "A guest of this UUID has a host already.",
        "Delete it first, or choose another UUID.",
    )
    GUEST_ADOPTED = _info(
        "GuestAdopted",
        "libvirt has a domain that the ledger did not have; it was entered with the CPUs it is pinned to.",
    )
    GUEST_APPLIED = _info(
        "GuestApplied",
        "The agent (--apply) has written the CPUs that were chosen for a guest into its domain.",
    )
    GUEST_REPINNED = _warning(
        "GuestRepinned",
        "The domain of a guest was pinned to other CPUs than the ledger had; the ledger has these now.",
        "If this was not intended: corewise compute status shows who holds which CPU.",
    )
    GUEST_UNPINNED = _info(
        "GuestUnpinned",
        "The domain of a guest is no longer pinned to all CPUs that the ledger had; the rest is free again.",
    )
    GUEST_GONE = _info(
        "GuestGone",
        "The domain of a guest has been gone for longer than --forget-after; its CPUs are free again.",
    )
    GUEST_UNAPPLIED = _warning(
        "GuestUnapplied",
        "The domain of a guest is not pinned to the CPUs that the ledger has for it, so it runs on others.",
        "Write them into the domain: corewise compute apply GUEST.",
    )
    DOMAIN_CHANGED = _info(
        "DomainChanged",
        "Somebody else has changed a domain since corewise wrote it; an undo leaves that as it is.",
        "Look at the domain with virsh dumpxml, and set what the command names by hand.",
    )
    PINS_HALF_WRITTEN = _warning(
        "PinsHalfWritten",
        "A program died while it wrote the pins of a domain; the ledger does not follow it meanwhile.",
        "Finish it with corewise compute apply GUEST --write, or take it back with --undo.",
    )
    GUEST_KEEPS_PCPU = _warning(
        "GuestKeepsPcpu",
        "A guest is no longer pinned, but Placement does not let it hold VCPU instead of PCPU; so it keeps "
        "its CPUs in the ledger.",
        "Add shared CPUs to the host, pin the guest again, or remove it.",
    )
    HOST_DISABLED = _info(
        "HostDisabled",
        "The host's provider has the trait COMPUTE_STATUS_DISABLED: its compute service is disabled in Nova.",
        "Enable it with: openstack compute service set --enable HOST nova-compute.",
    )
    HOST_SILENT = _info(
        "HostSilent",
        "The agent of the host has not reported for longer than --host-timeout, so the host may be down.",
        "Start corewise compute run there, or look into its log.",
    )
    HOST_UNKNOWN = _info(
        "HostUnknown",
        "Placement offers a host whose topology is unknown, so its free CPUs are unknown too.",
        "Run corewise compute run on it, into a directory below --hosts, or name it with --agent.",
    )
    HOST_OUTSIDE_AGGREGATES = _info(
        "HostOutsideAggregates",
        "The host is not in an aggregate that the guest demands: of its availability zone, or of its flavor.",
        "Choose a host of such an aggregate, or add the host to one.",
    )
    AGGREGATE_UNKNOWN = _info(
        "AggregateUnknown",
        "The file of host aggregates has none with this name, availability zone or property.",
        "List them with openstack aggregate list --long. Write the file again after changes.",
    )
    CPUS_PROMISED_TWICE = _warning(
        "CPUsPromisedTwice",
        "The ledger gives a CPU to two guests, or a CPU that the host does not have; no guest is placed "
        "there.",
        "See who they are with corewise compute status, and move one of them away.",
    )
    NO_VALID_HOST = _info(
        "NoValidHost",
        "No host can take the guest; the counts say how many hosts each demand eliminated.",
        "Free CPUs, or request less of what eliminates most hosts.",
    )
    CLAIM_LOST = _info(
        "ClaimLost",
        "Between the query and the claim somebody else took what the host had left; the next host is tried.",
    )
    OPENSTACK_UNUSABLE = _warning(
        "OpenStackUnusable",
        "What is needed to reach OpenStack is missing: credentials, or a configuration file.",
        "Name a cloud or the endpoint, or correct the configuration file.",
    )
    LIBVIRT_UNUSABLE = _warning(
        "LibvirtUnusable",
        "libvirt does not answer, or refuses; what was last written is kept.",
        "See whether libvirtd runs, and whether this user may connect.",
    )
    PLACEMENT_DOWN = _warning(
        "PlacementDown",
        "Placement does not answer; what was last written is kept.",
        "See whether Placement runs, and whether its endpoint is right.",
    )
    PLACEMENT_UNAUTHORIZED = _warning(
        "PlacementUnauthorized",
        "Placement does not accept the credentials (401).",
        "Renew the password or token.",
    )
    PLACEMENT_FORBIDDEN = _warning(
        "PlacementForbidden",
        "Placement knows the user and does not allow what was asked (403).",
        "Give the user the role admin, and service for a reshape, in the project of the services.",
    )
    PLACEMENT_UNTRUSTED = _warning(
        "PlacementUntrusted",
        "The certificate of Placement or Keystone is of an authority that is not trusted; nothing is sent.",
        "Name the file with that authority's certificate: cafile in [placement] of nova.conf, or cacert in "
        "clouds.yaml.",
    )
    PROVIDER_AWAITED = _info(
        "ProviderAwaited",
        "Beside Nova (--beside-nova), nova-compute has not created the provider of this host yet.",
        "Start nova-compute on the host, or name its provider with --host.",
    )
    NOVA_GIVES_CPUS = _info(
        "NovaGivesCPUs",
        "nova-compute runs on the host and gives these CPUs to its own guests; it reads no ledger.",
        "Let Nova place the guest, or give corewise CPUs that no set of Nova's names: --beside-nova "
        "/etc/nova/nova.conf --config OWN.conf --host OWN-NAME.",
    )
    PROVIDER_OF_NOVA = _info(
        "ProviderOfNova",
        "nova-compute has created this provider, and the host is not run as one beside Nova.",
        "Run the agent with --beside-nova /etc/nova/nova.conf. If Nova has left the host, remove the trait: "
        "openstack resource provider trait delete UUID.",
    )
    PLACEMENT_NOT_FOUND = _info(
        "PlacementNotFound",
        "Placement has no such provider.",
        "Run corewise compute run on the host: it makes one.",
    )
    PLACEMENT_CONFLICT = _warning(
        "PlacementConflict",
        "Somebody else writes the same provider or consumer, again and again (409); nothing was changed.",
        "Find out who else writes it, then run the command once more.",
    )
    PLACEMENT_REFUSED = _info(
        "PlacementRefused",
        "Placement refused the request; nothing was changed.",
    )
    TRAIT_UNKNOWN = _info(
        "TraitUnknown",
        "The request names a trait that Placement does not know.",
        "Correct the name, or create the trait: names of your own begin with CUSTOM_.",
    )
