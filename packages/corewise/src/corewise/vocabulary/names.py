"""Every label, annotation, resource and configuration key of corewise: one table, behind docs/reference.

Foreign names (``koordinator.sh``) are those that users of Koordinator already have; corewise keeps their
meaning. Code refers to a name by its constant, never by its text. Metrics are in
:mod:`corewise.vocabulary.metrics`, reason codes in :mod:`corewise.vocabulary.reasons`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

# Node
NORMALIZATION_ENABLED = "node.koordinator.sh/cpu-normalization-enabled"
NORMALIZATION_RATIO = "node.koordinator.sh/cpu-normalization-ratio"
AMPLIFICATION_RATIO = "node.koordinator.sh/resource-amplification-ratio"
WORKLOAD_RATIOS = "node.corewise.io/workload-ratios"
RAW_CAPACITY = "node.koordinator.sh/raw-capacity"
RAW_ALLOCATABLE = "node.koordinator.sh/raw-allocatable"
AMPLIFIED = "node.corewise.io/amplified"
RECORD_GENERATION = "node.corewise.io/record-generation"
AMPLIFY_CAPACITY = "node.corewise.io/amplify-capacity"
AMPLIFICATION_PROBE = "node.corewise.io/amplification-probe"
OWNED_CPUS = "node.corewise.io/owned-cpus"
OWNED_MILLI_CPU = "node.corewise.io/owned-milli-cpu"
OWNED_REQUESTS = "node.corewise.io/owned-request-milli-cpu"
AMPLIFICATION_ORIGINAL = "node.corewise.io/resource-amplification-ratio-original"
ALLOW_UNSAFE_CHANGE = "node.corewise.io/allow-unsafe-amplification-change"
OVERSUBSCRIPTION = "volcano.sh/oversubscription"
OFFLINE_REPORT = "node.corewise.io/oversubscription"
OFFLINE_SHORTFALL = "OfflineShortfall"
SLOW_CPU = "SlowCPU"
NUMA_POLICY = "node.koordinator.sh/numa-topology-policy"
CPU_BIND_POLICY = "node.koordinator.sh/cpu-bind-policy"
RESERVATION = "node.koordinator.sh/reservation"
MEMORY_BANDWIDTH = "node.corewise.io/memory-bandwidth"

# NodeResourceTopology
CPU_BASIC_INFO = "node.koordinator.sh/cpu-basic-info"
MACHINE_RAW_CAPACITY = "node.corewise.io/raw-capacity"
MACHINE_RAW_ALLOCATABLE = "node.corewise.io/raw-allocatable"
CPU_RATIO_APPLIED = "node.koordinator.sh/cpu-amplification-ratio-applied"
CPU_TOPOLOGY = "node.koordinator.sh/cpu-topology"
INTERFERENCE_REPORT = "node.corewise.io/interference"
CPU_EVALUATION = "node.corewise.io/cpu-evaluation"
POD_CPUS = "node.koordinator.sh/pod-cpu-allocs"
CPU_MANAGER_POLICY = "kubelet.koordinator.sh/cpu-manager-policy"

# Pod
QOS_CLASS = "koordinator.sh/qosClass"
QOS_LEVEL = "volcano.sh/qos-level"
PRIORITY_CLASS = "koordinator.sh/priority-class"
SUB_PRIORITY = "koordinator.sh/priority"
# Pod, and as a label Namespace
NORMALIZE_CPUSET = "node.corewise.io/normalize-cpuset"
RESOURCE_STATUS = "scheduling.koordinator.sh/resource-status"
RESOURCE_SPEC = "scheduling.koordinator.sh/resource-spec"
NUMA_SPEC = "scheduling.koordinator.sh/numa-topology-spec"
CLAIM_EXPIRED = "scheduling.corewise.io/claim-expired"
OWNED_CPU_COUNT = "scheduling.corewise.io/owned-cpu-count"
RESTRICTED_QOS_NAMESPACES = "corewise.io/restricted-qos-namespaces"
LARGEST_RATIO = "corewise.io/largest-amplification-ratio"
STATIC_POD = "kubernetes.io/config.mirror"
STATIC_POD_HASH = "kubernetes.io/config.hash"
STATIC_POD_SOURCE = "kubernetes.io/config.source"
SIMULATED_LOAD = "local.corewise.io/load"
SIMULATED_MEMORY_USE = "local.corewise.io/memory-use"

# The manager: field manager of its writes, component of its Events, name of its Lease
MANAGER_COMPONENT = "corewise-manager"
# The programs, their Leases and Secrets
SYSTEM_NAMESPACE = "corewise-system"

# ConfigMap
CONFIG_NAME = "slo-controller-config"
CONFIG_NAMESPACE = SYSTEM_NAMESPACE
NORMALIZATION_KEY = "cpu-normalization-config"
AMPLIFICATION_KEY = "resource-amplification-config"
OVERSUBSCRIPTION_KEY = "oversubscription-config"
SUPPRESSION_KEY = "cpu-suppression-config"
RESOURCE_QOS_KEY = "resource-qos-config"
RESOURCE_THRESHOLD_KEY = "resource-threshold-config"
HONORED_EVICTION = (
    *("enable", "memoryEvictThresholdPercent", "memoryEvictLowerPercent"),
    *("cpuEvictBESatisfactionLowerPercent", "cpuEvictBESatisfactionUpperPercent"),
    *("cpuEvictBEUsageThresholdPercent", "cpuEvictTimeWindowSeconds"),
)
"""The members of Koordinator's ``resource-threshold-config`` that are honored."""

BATCH_CPU = "kubernetes.io/batch-cpu"
BATCH_MEMORY = "kubernetes.io/batch-memory"
OWNED_CPUS_RESOURCE = "corewise.io/owned-cpus"
INTERFERENCE_RESOURCE = "corewise.io/interference"


def recorded_raw(field: str, resource: str) -> str:
    """Return the Node annotation of a recorded raw amount, such as node.corewise.io/raw-capacity-cpu."""
    return f"node.corewise.io/raw-{field}-{resource}"


def recorded_applied(field: str, resource: str) -> str:
    """Return the Node annotation of the amplified amount that was made of it."""
    return f"node.corewise.io/applied-{field}-{resource}"


class NameKind(Enum):
    """The kind of thing that a name names."""

    LABEL = "label"
    ANNOTATION = "annotation"
    CONDITION = "condition"
    RESOURCE = "resource"
    CONFIG_KEY = "ConfigMap key"


@dataclass(frozen=True, slots=True)
class Name:
    """One row of the reference: where a name stands, its value's form, who writes it, what it means."""

    name: str
    kind: NameKind
    on: str
    value: str
    written_by: str
    meaning: str


def code_list(members: Sequence[str]) -> str:
    """Return names as a sentence of a page lists them."""
    *first, last = (f"`{each}`" for each in members)
    return f"{', '.join(first)} and {last}"


_NODE = "Node"
_TOPOLOGY = "NodeResourceTopology"
_POD = "Pod"
_CONFIG_MAP = f"ConfigMap {CONFIG_NAME}"

TABLE: tuple[Name, ...] = (
    Name(
        NORMALIZATION_ENABLED,
        NameKind.LABEL,
        _NODE,
        "bool string: `true`, `false`, and what else Go's ParseBool takes",
        "user",
        "Enables or disables normalization of the node; wins over `enable` of the configuration.",
    ),
    Name(
        NORMALIZATION_RATIO,
        NameKind.ANNOTATION,
        _NODE,
        'decimal with two places, `"1.20"`, 1.00 to 5.00',
        "manager",
        "How much faster one CPU of the node is than the baseline CPU of the cluster. `1.00` if disabled.",
    ),
    Name(
        WORKLOAD_RATIOS,
        NameKind.ANNOTATION,
        _NODE,
        'JSON, `[{"name":"vector","selector":{"matchExpressions":[...]},"ratio":"1.20"}]`, or absent',
        "manager",
        "The `workloadRatios` of the configuration that have a ratio for the node's CPU: quotas of a pod "
        "that an entry selects are divided by this ratio instead.",
    ),
    Name(
        AMPLIFICATION_RATIO,
        NameKind.ANNOTATION,
        _NODE,
        'JSON, `{"cpu":1.50,"memory":1.20}`, at least 1.00',
        "manager; user",
        "The amplification ratios that are applied. For cpu it includes the normalization ratio. A value "
        "that a user writes before the manager does is taken as the node's original ratio.",
    ),
    Name(
        AMPLIFICATION_ORIGINAL,
        NameKind.ANNOTATION,
        _NODE,
        'JSON, `{"cpu":1.50}` or `{}`',
        "manager; user",
        "The user's own ratio, which normalization multiplies. Present whenever the manager owns the "
        "annotation of the applied ratio; change it here.",
    ),
    Name(
        RAW_CAPACITY,
        NameKind.ANNOTATION,
        _NODE,
        'JSON ResourceList, `{"cpu":"48","memory":"196608Mi"}`',
        "webhook",
        "The raw amounts of the amplified resources in capacity.",
    ),
    Name(
        RAW_ALLOCATABLE,
        NameKind.ANNOTATION,
        _NODE,
        'JSON ResourceList, `{"cpu":"47","memory":"192512Mi"}`',
        "webhook",
        "The raw amounts of the amplified resources in allocatable.",
    ),
    Name(
        AMPLIFIED,
        NameKind.ANNOTATION,
        _NODE,
        "JSON",
        "removed",
        "The record of earlier versions. It is no longer read, and removed in the first write of the status.",
    ),
    *(
        Name(
            recorded_raw(field, resource),
            NameKind.ANNOTATION,
            _NODE,
            f"quantity, `{example}`",
            "policy; webhook",
            f"The record: the raw {resource} of {field}. It stays until status is raw again.",
        )
        for field in ("capacity", "allocatable")
        for resource, example in (("cpu", "48"), ("memory", "192512Mi"))
    ),
    *(
        Name(
            recorded_applied(field, resource),
            NameKind.ANNOTATION,
            _NODE,
            f"quantity, `{example}`",
            "policy; webhook",
            f"The record: the {resource} of {field} that was written to status, made of the raw amount.",
        )
        for field in ("capacity", "allocatable")
        for resource, example in (("cpu", "72"), ("memory", "231014Mi"))
    ),
    Name(
        RECORD_GENERATION,
        NameKind.ANNOTATION,
        _NODE,
        "whole number",
        "policy; webhook",
        "Grows with every change of the record. The agent's report states which one it has seen, so that the "
        "manager knows which of the two is newer.",
    ),
    Name(
        AMPLIFICATION_PROBE,
        NameKind.ANNOTATION,
        _NODE,
        "any text",
        "manager",
        "Only in dry runs that show the manager whether the policy works, or is in a file of the API server: "
        "the webhook leaves them alone.",
    ),
    Name(
        AMPLIFY_CAPACITY,
        NameKind.ANNOTATION,
        _NODE,
        '`"false"`, or absent',
        "manager",
        "Whether capacity is amplified too, as `amplifyCapacity` of the configuration says.",
    ),
    Name(
        OWNED_CPUS,
        NameKind.ANNOTATION,
        _NODE,
        'JSON, `{"<pod uid>":{"pod":"ns/name","cpus":"0-3","bind":"5f0c9a1e"}}`',
        "scheduler",
        "The ledger: which pod owns which CPUs of the node. Written by compare and swap. `bind` names the "
        "attempt to bind the pod that wrote the entry last. `request`: the CPUs that the pod requests, where "
        "it owns fewer (normalized).",
    ),
    Name(
        OWNED_MILLI_CPU,
        NameKind.ANNOTATION,
        _NODE,
        '`"4000"`',
        "scheduler",
        "1000 x the CPUs in the ledger. Allocatable cpu is lower by what they cost beyond their requests.",
    ),
    Name(
        OWNED_REQUESTS,
        NameKind.ANNOTATION,
        _NODE,
        '`"9000"`',
        "scheduler",
        "1000 x the CPUs that the pods in the ledger request, where that is more than they own (normalized). "
        "Absent: as many as they own.",
    ),
    Name(
        ALLOW_UNSAFE_CHANGE,
        NameKind.ANNOTATION,
        _NODE,
        '`"true"`',
        "user",
        "Lets a ratio be lowered or removed although the node's pods no longer fit then.",
    ),
    Name(
        OVERSUBSCRIPTION,
        NameKind.LABEL,
        _NODE,
        "`true` or `false`",
        "user",
        "Whether the node offers to offline pods what online pods leave idle. Absent is `false`; any other "
        "value changes nothing and is reported.",
    ),
    Name(
        OFFLINE_REPORT,
        NameKind.ANNOTATION,
        _NODE,
        'JSON, `{"time":"...","state":"fresh","offeredMilli":12000,...}`',
        "agent",
        "What the offer was computed from and what came of it, in physical milli-CPU and bytes: for "
        "`corewise top` and `corewise explain suppression`. No decision depends on it.",
    ),
    Name(
        OFFLINE_SHORTFALL,
        NameKind.CONDITION,
        _NODE,
        "`True`; absent if there is none",
        "agent",
        "Less is offered than the offline pods on the node request; both amounts are in its message.",
    ),
    Name(
        SLOW_CPU,
        NameKind.CONDITION,
        _NODE,
        "`True`; absent if it is not",
        "manager",
        "The node is more than 5 % slower than other nodes with its CPU model and settings, by the scores "
        "that agents measure.",
    ),
    Name(
        NUMA_POLICY,
        NameKind.LABEL,
        _NODE,
        "`None`, `BestEffort`, `Restricted` or `SingleNUMANode`",
        "user",
        "On which NUMA nodes of the node a pod may be placed, as kubelet's topology manager defines it.",
    ),
    Name(
        CPU_BIND_POLICY,
        NameKind.LABEL,
        _NODE,
        "`FullPCPUsOnly`",
        "user",
        "The node gives out whole cores only, as with kubelet's `full-pcpus-only`. No other value is served.",
    ),
    Name(
        RESERVATION,
        NameKind.ANNOTATION,
        _NODE,
        'JSON, `{"reservedCPUs":"0-5"}` or `{"resources":{"cpu":"4"}}`',
        "user",
        "CPUs that no pod may own. `resources.cpu` alone reserves the first CPUs, core by core. Amounts are "
        "not subtracted from allocatable. While it cannot be read, the node gives no CPUs to pods.",
    ),
    Name(
        MEMORY_BANDWIDTH,
        NameKind.ANNOTATION,
        _NODE,
        'amount with its unit, `"107GB/s"`',
        "user",
        "What the node's memory can move, as interference-aware scheduling counts it. It wins over the "
        "scheduler's configuration and over what is measured.",
    ),
    Name(
        CPU_BASIC_INFO,
        NameKind.ANNOTATION,
        _TOPOLOGY,
        'JSON, `{"cpuModel":"...","hyperThreadEnabled":true,"turboEnabled":true,"catL3CbmMask":"...",'
        '"vendorID":"..."}`',
        "agent",
        "CPU facts of the node. What is absent is false or unknown.",
    ),
    Name(
        MACHINE_RAW_CAPACITY,
        NameKind.ANNOTATION,
        _TOPOLOGY,
        'JSON amounts, boot and generation, `{"cpu":"48","memory":"192Gi","bootID":"...","generation":"7"}`',
        "agent",
        "The machine's raw CPUs and memory, as kubelet computes them, the boot in which they were read, and "
        "the Node's `record-generation` before that. Without `bootID` the report does not count as one of "
        "the current boot, with another generation not as one newer than the record.",
    ),
    Name(
        MACHINE_RAW_ALLOCATABLE,
        NameKind.ANNOTATION,
        _TOPOLOGY,
        'JSON ResourceList, `{"cpu":"47","memory":"192512Mi"}`',
        "agent",
        "What kubelet leaves of the raw capacity, by its configuration file. Absent if that cannot be read.",
    ),
    Name(
        CPU_RATIO_APPLIED,
        NameKind.ANNOTATION,
        _TOPOLOGY,
        'decimal with two places, `"1.50"`',
        "agent",
        "The ratio by which CPU in the zones of this object is amplified, so that no reader doubles it.",
    ),
    Name(
        CPU_TOPOLOGY,
        NameKind.ANNOTATION,
        _TOPOLOGY,
        'JSON, `{"detail":[{"id":0,"core":0,"socket":0,"node":0},...]}`',
        "agent",
        "How the node's online CPUs are arranged. CPUSet pods are placed only on nodes that state it.",
    ),
    Name(
        CPU_MANAGER_POLICY,
        NameKind.ANNOTATION,
        _TOPOLOGY,
        'JSON, `{"policy":"static","options":{...},"reservedCPUs":"0-1"}`',
        "agent",
        "The CPU manager policy of the node's kubelet. With `static`, Guaranteed pods own their whole CPUs. "
        "`reservedCPUs` (`reservedSystemCPUs` of kubelet's configuration file) are never given to a pod.",
    ),
    Name(
        INTERFERENCE_REPORT,
        NameKind.ANNOTATION,
        _TOPOLOGY,
        'JSON, `{"time":"...","watched":12,"pods":[...]}`',
        "agent",
        "Pods that wait for CPUs, and who makes them wait: `corewise explain interference`.",
    ),
    Name(
        CPU_EVALUATION,
        NameKind.ANNOTATION,
        _TOPOLOGY,
        'JSON, `{"cpuModel":"...","score":184233,"runs":30,...}`',
        "agent",
        "How fast the node's CPUs are, measured by the agent: `corewise config suggest`.",
    ),
    Name(
        POD_CPUS,
        NameKind.ANNOTATION,
        _TOPOLOGY,
        'JSON, `[{"namespace":"...","name":"...","uid":"...","cpuset":"0-3","managedByKubelet":true},...]`',
        "agent",
        "Who owns which CPUs of the node: by the scheduler, or, `managedByKubelet`, by kubelet's static "
        "policy. Absent until a pod owns some; `[]` once none does.",
    ),
    Name(
        QOS_CLASS,
        NameKind.LABEL,
        _POD,
        "`LSE`, `LSR`, `LS`, `BE` or `SYSTEM`",
        "user",
        "QoS class. LSE and LSR own CPUs (CPUSet pods); BE is offline.",
    ),
    Name(
        QOS_LEVEL,
        NameKind.ANNOTATION,
        _POD,
        "whole number, or Volcano's names of them: `LC`, `HLS`, `LS`, `BE`",
        "user",
        "Volcano's QoS level. Below 0, or `BE`, marks the pod as offline.",
    ),
    Name(
        PRIORITY_CLASS,
        NameKind.LABEL,
        _POD,
        "`koord-prod`, `koord-mid`, `koord-batch` or `koord-free`",
        "user",
        "Koordinator's priority class; it wins over the pod's priority. `koord-batch` marks the pod as "
        "offline.",
    ),
    Name(
        SUB_PRIORITY,
        NameKind.LABEL,
        _POD,
        '`"5500"`',
        "webhook; user",
        "Koordinator's priority within a priority class, from `koordinatorPriority` of a "
        "ClusterColocationProfile. corewise itself does not read it.",
    ),
    Name(
        RESOURCE_STATUS,
        NameKind.ANNOTATION,
        _POD,
        'JSON, `{"cpuset":"0-3","numaNodeResources":[{"node":0,"resources":{"cpu":"4"}}]}`',
        "scheduler",
        "The CPUs a CPUSet pod owns; on a node with a NUMA topology policy, the pod's requests by NUMA node. "
        "`requestedCPUs`: how many the pod requests, where it owns fewer (normalized).",
    ),
    Name(
        NORMALIZE_CPUSET,
        NameKind.ANNOTATION,
        _POD,
        '`"true"` or `"false"`',
        "user; policy; webhook",
        "Whether the CPUs that the pod requests are normalized: it owns as many physical CPUs as do that "
        "work on its node. Absent is `false`. Policy or webhook write it to new pods of a namespace with the "
        "label of this name.",
    ),
    Name(
        NORMALIZE_CPUSET,
        NameKind.LABEL,
        "Namespace",
        "`true` or `false`",
        "user",
        "Whether CPUs that new pods of the namespace own are normalized. The pod's annotation of this name "
        "wins over it; it wins over `normalizeCPUSet` of the scheduler's file. Any other value counts as "
        "absent and is reported.",
    ),
    Name(
        OWNED_CPU_COUNT,
        NameKind.ANNOTATION,
        _POD,
        '`"4"`',
        "scheduler",
        "How many CPUs a pod owns whose CPUs are normalized. For its containers, by the downward API: no "
        "decision depends on it.",
    ),
    Name(
        RESTRICTED_QOS_NAMESPACES,
        NameKind.ANNOTATION,
        "MutatingAdmissionPolicyBinding, MutatingWebhookConfiguration",
        'JSON, `["kube-system"]`',
        "scheduler",
        "The namespaces whose pods may be LSE or SYSTEM, on what the scheduler installs as "
        "`corewise-owned-cpus`. Commands and the web page judge pods by it.",
    ),
    Name(
        LARGEST_RATIO,
        NameKind.ANNOTATION,
        "MutatingWebhookConfiguration",
        'decimal, `"10.00"`',
        "manager",
        "The manager's option `--largest-amplification`, on `corewise-mutating` and `corewise-pods`. "
        "Commands and the web page judge ratios by it; without it, by 10.00.",
    ),
    Name(
        CLAIM_EXPIRED,
        NameKind.ANNOTATION,
        _POD,
        'time, `"2026-01-31T12:00:00Z"`',
        "scheduler",
        "When the CPUs that a Node's ledger kept for the pod were given back: it was not bound in time. The "
        "write makes every Binding fail that an earlier attempt may still send.",
    ),
    Name(
        RESOURCE_SPEC,
        NameKind.ANNOTATION,
        _POD,
        'JSON, `{"preferredCPUBindPolicy":"FullPCPUs","preferredCPUExclusivePolicy":"PCPULevel"}`',
        "user",
        "How a CPUSet pod wants its CPUs placed: `FullPCPUs` (default) or `SpreadByPCPUs`; with "
        "`requiredCPUBindPolicy` it fits nowhere else. Exclusive: `None`, `PCPULevel`, `NUMANodeLevel`.",
    ),
    Name(
        NUMA_SPEC,
        NameKind.ANNOTATION,
        _POD,
        'JSON, `{"numaTopologyPolicy":"SingleNUMANode"}`',
        "user",
        "The pod's NUMA topology policy. A node that states another one refuses the pod.",
    ),
    Name(
        STATIC_POD,
        NameKind.ANNOTATION,
        _POD,
        "UID: 32 hexadecimal digits",
        "kubelet",
        "Marks the mirror of a static pod, and states the UID in its cgroup's name. The agent accepts it "
        "only in the form that kubelet writes; see the agent's page.",
    ),
    Name(
        STATIC_POD_HASH,
        NameKind.ANNOTATION,
        _POD,
        f"as `{STATIC_POD}`",
        "kubelet",
        "The UID of a static pod, once more: the agent accepts either only if both agree.",
    ),
    Name(
        STATIC_POD_SOURCE,
        NameKind.ANNOTATION,
        _POD,
        "`file`, `http` or `api`",
        "kubelet",
        "Where kubelet read the pod. Static pods come from `file` or `http`.",
    ),
    Name(
        SIMULATED_LOAD,
        NameKind.ANNOTATION,
        _POD,
        "see the local cluster",
        "user",
        "What the pod does in the local cluster (`corewise up`). It means nothing elsewhere.",
    ),
    Name(
        SIMULATED_MEMORY_USE,
        NameKind.ANNOTATION,
        _POD,
        "`bandwidth=3600M,llc=64Mi,cacheSensitivity=0.4,memoryBound=0.2`",
        "user",
        "How the pod uses memory bandwidth and cache in the local cluster. It means nothing elsewhere.",
    ),
    Name(
        NORMALIZATION_KEY,
        NameKind.CONFIG_KEY,
        _CONFIG_MAP,
        "JSON: `enable`, `ratioModel`, `defaultRatio`, `workloadRatios`, `nodeConfigs`",
        "user",
        "How much faster each CPU model is than the baseline, and for some workloads alone; 1.00 to 5.00.",
    ),
    Name(
        AMPLIFICATION_KEY,
        NameKind.CONFIG_KEY,
        _CONFIG_MAP,
        "JSON: `enable`, `resourceAmplificationRatio`, `amplifyCapacity`, `nodeConfigs`",
        "user",
        "The original amplification ratios of cpu and memory; 1.00 to 10.00.",
    ),
    Name(
        OVERSUBSCRIPTION_KEY,
        NameKind.CONFIG_KEY,
        _CONFIG_MAP,
        "JSON: `ratio`, `intervalSeconds`, `nodeConfigs`",
        "user",
        "Which part of what online pods leave idle is offered (0.00 to 1.00, default 0.60), and how often it "
        "is computed (1 to 60 seconds, default 10).",
    ),
    Name(
        SUPPRESSION_KEY,
        NameKind.CONFIG_KEY,
        _CONFIG_MAP,
        "JSON: `enabled`, `isolation`, `mode`, `adjustStep`, `onAgentStop`, `highThreshold`, "
        "`lowThreshold`, `recoverThreshold`, `adjustQuotaStep`, `adjustPodNum`, `nodeConfigs`",
        "user",
        "How offline pods are held back: `besteffort-quota` (default) or `per-pod-quota`. Without the key "
        "they are not held back.",
    ),
    Name(
        RESOURCE_QOS_KEY,
        NameKind.CONFIG_KEY,
        _CONFIG_MAP,
        "JSON: `clusterStrategy`, `nodeStrategies`",
        "user",
        "Koordinator's. Of it `beClass.resctrlQOS` is honored: how much last-level cache and memory "
        "bandwidth offline pods may use.",
    ),
    Name(
        RESOURCE_THRESHOLD_KEY,
        NameKind.CONFIG_KEY,
        _CONFIG_MAP,
        "JSON: `clusterStrategy`, `nodeStrategies`",
        "user",
        f"Koordinator's. Of it {code_list(HONORED_EVICTION)} are honored; `evictCooldownSeconds` and "
        "`evictDryRun` are added: when offline pods are evicted. None is, unless `enable` is true and a "
        "threshold is written.",
    ),
    Name(
        BATCH_CPU,
        NameKind.RESOURCE,
        "Node, Pod",
        "milli-CPU, whole number",
        "agent on Nodes; user on Pods",
        "CPU that online pods leave idle, which offline pods request.",
    ),
    Name(
        OWNED_CPUS_RESOURCE,
        NameKind.RESOURCE,
        "Pod",
        "whole number of CPUs",
        "policy; webhook",
        "How many CPUs a pod is to own. kube-scheduler calls the extender for pods that request it alone.",
    ),
    Name(
        INTERFERENCE_RESOURCE,
        NameKind.RESOURCE,
        "Pod",
        "0",
        "policy; webhook",
        "Marks a pod whose profile has something at stake: kube-scheduler asks about interference for these "
        "alone. The amount is 0, so that every scheduler and kubelet has room for it.",
    ),
    Name(
        BATCH_MEMORY,
        NameKind.RESOURCE,
        "Node, Pod",
        "bytes",
        "agent on Nodes; user on Pods",
        "Memory that online pods leave idle, which offline pods request.",
    ),
)

POD_ANNOTATIONS = frozenset(row.name for row in TABLE if row.on == _POD and row.kind is NameKind.ANNOTATION)
"""All that corewise reads of a pod's annotations."""
NODE_NAMES = frozenset(row.name for row in TABLE if row.on == _NODE)
"""Labels and annotations of nodes that mean something."""
NODE_CONDITIONS = frozenset(row.name for row in TABLE if row.on == _NODE and row.kind is NameKind.CONDITION)
