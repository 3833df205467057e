"""Every name that users of Koordinator, Volcano and Nova know, and what becomes of it: one table.

From it come the warnings about names on Nodes and in the ConfigMap, what ``corewise config check --cluster``
lists, and the tables of the pages docs/coming-from-*.md. Extra specs of flavors are in
:mod:`corewise_openstack.tracking.extra_specs`.

A name that ends in ``*`` stands for all that begin so. A name of these projects that the table does not have
is not read either, nor is a key of one of their ConfigMaps.

Sources: Koordinator (apis/extension, apis/slo/v1alpha1, apis/configuration, pkg/scheduler/apis/config),
Volcano (pkg/agent/apis, pkg/agent/config/api, staging/src/volcano.sh/apis), Nova (nova/conf,
nova/scheduler).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Final

from corewise.vocabulary.cpu_annotations import Reservation, parse_reservation
from corewise.vocabulary.names import (
    AMPLIFICATION_KEY,
    AMPLIFICATION_RATIO,
    BATCH_CPU,
    BATCH_MEMORY,
    CONFIG_NAME,
    CONFIG_NAMESPACE,
    CPU_BASIC_INFO,
    CPU_BIND_POLICY,
    CPU_MANAGER_POLICY,
    CPU_RATIO_APPLIED,
    CPU_TOPOLOGY,
    HONORED_EVICTION,
    NORMALIZATION_ENABLED,
    NORMALIZATION_KEY,
    NORMALIZATION_RATIO,
    NUMA_POLICY,
    NUMA_SPEC,
    OVERSUBSCRIPTION,
    OVERSUBSCRIPTION_KEY,
    POD_CPUS,
    PRIORITY_CLASS,
    QOS_CLASS,
    QOS_LEVEL,
    RAW_ALLOCATABLE,
    RAW_CAPACITY,
    RESERVATION,
    RESOURCE_QOS_KEY,
    RESOURCE_SPEC,
    RESOURCE_STATUS,
    RESOURCE_THRESHOLD_KEY,
    SUB_PRIORITY,
    TABLE,
    NameKind,
    code_list,
)


class Project(Enum):
    """The project that a name belongs to."""

    KOORDINATOR = "Koordinator"
    VOLCANO = "Volcano"
    NOVA = "Nova"


class NamePlace(Enum):
    """Where a name stands."""

    NODE = "Node"
    TOPOLOGY = "NodeResourceTopology"
    POD = "Pod"
    """The name stands on Pods and in their templates."""
    NAMESPACE = "Namespace"
    PRIORITY_CLASS = "PriorityClass"
    RESOURCE = "resource"
    CONFIG = "ConfigMap"
    """The name is the ConfigMap's name and the key: ``slo-controller-config/colocation-config``."""
    OBJECT = "custom resource"
    """A kind, or a name on objects of one."""
    SCHEDULER = "scheduler"
    OPTION = "nova.conf"
    AGGREGATE = "host aggregate"


class Fate(Enum):
    """The treatment of a name by corewise."""

    HONORED = "honored"
    IN_PART = "honored in part"
    NOT_READ = "not read"


def _always(_: str) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class ForeignName:
    """A name, and what corewise does with it.

    ``instead``: what it does instead, or of an honored one what it means here. ``differs`` says for a value
    of a name that is honored in part whether it is one that is not. ``warned``: corewise warns of it where
    it reads the object.
    """

    name: str
    project: Project
    place: NamePlace
    fate: Fate
    instead: str
    differs: Callable[[str], bool] = _always
    warned: bool = False

    def names(self, other: str) -> bool:
        """Say whether this is the row of a name."""
        return other.startswith(self.name[:-1]) if self.name.endswith("*") else other == self.name

    def is_unserved(self, value: str) -> bool:
        """Say whether a value of the name means something else here than where it comes from."""
        return self.fate is Fate.NOT_READ or (self.fate is Fate.IN_PART and self.differs(value))


_DOMAINS: Final = {"koordinator.sh": Project.KOORDINATOR, "volcano.sh": Project.VOLCANO}
COLOCATION_SWITCH: Final = "koordinator.sh/enable-colocation"
"""A label like any other, which Koordinator's example profiles select."""
_UNKNOWN: Final = "corewise does not read it here"
_UNKNOWN_KEY: Final = "corewise does not know this key"


def _lowers_allocatable(reservation: str) -> bool:
    """Say whether Koordinator would take what is reserved from the node's allocatable; not if unreadable."""
    reserves = any(f'"{member}"' in reservation for member in ("resources", "reservedCPUs"))
    readable = isinstance(parse_reservation(reservation), Reservation)
    return reserves and readable and "ReservedCPUsOnly" not in reservation


def _honored(project: Project, place: NamePlace, rows: Mapping[str, str]) -> tuple[ForeignName, ...]:
    return tuple(ForeignName(name, project, place, Fate.HONORED, text) for name, text in rows.items())


def _unread(project: Project, place: NamePlace, instead: str, *names: str) -> tuple[ForeignName, ...]:
    return tuple(ForeignName(name, project, place, Fate.NOT_READ, instead) for name in names)


_KOORDINATOR_NODE: Final = (
    *_honored(
        Project.KOORDINATOR,
        NamePlace.NODE,
        {
            NORMALIZATION_ENABLED: "switches normalization on or off for the node",
            NORMALIZATION_RATIO: "the manager writes it",
            AMPLIFICATION_RATIO: "the manager writes it, and keeps an earlier ratio as the original",
            RAW_CAPACITY: "written together with the amplified status",
            RAW_ALLOCATABLE: "written together with the amplified status",
            NUMA_POLICY: "for pods that own CPUs; for all pods with `--pods all`",
        },
    ),
    ForeignName(
        RESERVATION,
        Project.KOORDINATOR,
        NamePlace.NODE,
        Fate.IN_PART,
        "no pod can own these CPUs. Allocatable stays as it is, and pods that share CPUs run on them: "
        "reserve amounts with kubelet's systemReserved",
        differs=_lowers_allocatable,
        warned=True,
    ),
    ForeignName(
        CPU_BIND_POLICY,
        Project.KOORDINATOR,
        NamePlace.NODE,
        Fate.IN_PART,
        "`FullPCPUsOnly` is honored. With `SpreadByPCPUs` each pod's own policy decides: state it in the "
        "pod's resource-spec",
        differs=lambda value: value not in {"", "None", "FullPCPUsOnly"},
        warned=True,
    ),
    ForeignName(
        "node.koordinator.sh/numa-allocate-strategy",
        Project.KOORDINATOR,
        NamePlace.NODE,
        Fate.NOT_READ,
        "CPUs come from the fullest NUMA node that has enough of them",
        warned=True,
    ),
    *_unread(
        Project.KOORDINATOR,
        NamePlace.NODE,
        "set `ratio` in oversubscription-config; its nodeConfigs set it for some nodes",
        "node.koordinator.sh/colocation-strategy",
        "node.koordinator.sh/cpu-reclaim-ratio",
        "node.koordinator.sh/memory-reclaim-ratio",
    ),
    *_unread(
        Project.KOORDINATOR,
        NamePlace.NODE,
        "no mid resources are offered",
        "node.koordinator.sh/mid-static-cpu-reserved-ratio",
        "node.koordinator.sh/mid-static-memory-reserved-ratio",
    ),
    *_unread(
        Project.KOORDINATOR,
        NamePlace.NODE,
        f"SYSTEM pods get no CPUs of their own: keep CPUs free of owners with `{RESERVATION}`",
        "node.koordinator.sh/system-qos-resource",
    ),
    *_unread(
        Project.KOORDINATOR,
        NamePlace.NODE,
        "NUMA zones have the amounts that the agent reports",
        "node.koordinator.sh/enable-numa-reservation",
    ),
    *_unread(
        Project.KOORDINATOR,
        NamePlace.NODE,
        "the whole offer goes to offline pods in Kubernetes",
        "node.koordinator.sh/originExtendedAllocatable",
        "node.koordinator.sh/thirdPartyAllocations",
    ),
    *_unread(
        Project.KOORDINATOR,
        NamePlace.NODE,
        "nodes are filtered by requests, memory bandwidth and cache, not by CPU use",
        "scheduling.koordinator.sh/usage-thresholds",
    ),
    *_unread(
        Project.KOORDINATOR,
        NamePlace.NODE,
        "network is not managed",
        "node.koordinator.sh/network-bandwidth",
    ),
    *_unread(
        Project.KOORDINATOR,
        NamePlace.NODE,
        "devices are left to device plugins and DRA",
        "node.koordinator.sh/gpu-*",
        "node.koordinator.sh/secondary-device-well-planned",
    ),
    *_honored(
        Project.KOORDINATOR,
        NamePlace.TOPOLOGY,
        {
            CPU_BASIC_INFO: "the agent writes it",
            CPU_TOPOLOGY: "the agent writes it",
            CPU_MANAGER_POLICY: "the agent writes it",
            POD_CPUS: "the agent writes it",
            CPU_RATIO_APPLIED: "the agent writes it; zones are not amplified twice",
        },
    ),
    *_unread(
        Project.KOORDINATOR,
        NamePlace.TOPOLOGY,
        "the agent works out which CPUs no pod owns",
        "node.koordinator.sh/cpu-shared-pools",
        "node.koordinator.sh/be-cpu-shared-pools",
    ),
    *_unread(Project.KOORDINATOR, NamePlace.TOPOLOGY, "set it on the Node, where it is read", RESERVATION),
)

_KOORDINATOR_POD: Final = (
    ForeignName(
        QOS_CLASS,
        Project.KOORDINATOR,
        NamePlace.POD,
        Fate.IN_PART,
        "LSE and SYSTEM count only in the namespaces of `--restricted-qos-namespace`",
        differs=lambda value: value in {"LSE", "SYSTEM"},
    ),
    ForeignName(
        PRIORITY_CLASS,
        Project.KOORDINATOR,
        NamePlace.POD,
        Fate.IN_PART,
        "`koord-batch` marks the pod as offline. `koord-mid` and `koord-free` change nothing",
        differs=lambda value: value in {"koord-mid", "koord-free"},
    ),
    ForeignName(
        RESOURCE_SPEC,
        Project.KOORDINATOR,
        NamePlace.POD,
        Fate.IN_PART,
        "`ConstrainedBurst` is refused if the pod owns CPUs (`ConstrainedBurstNotServed`). Otherwise it is "
        "not read, and the pod runs on all shared CPUs. `Default` means FullPCPUs",
        differs=lambda value: "ConstrainedBurst" in value,
    ),
    ForeignName(
        NUMA_SPEC,
        Project.KOORDINATOR,
        NamePlace.POD,
        Fate.IN_PART,
        "`numaTopologyPolicy` is honored. `singleNUMANodeExclusive` is not read: pods on one "
        "NUMA node and pods on several can share a node",
        differs=lambda value: "singleNUMANodeExclusive" in value,
    ),
    *_honored(
        Project.KOORDINATOR,
        NamePlace.POD,
        {RESOURCE_STATUS: "the scheduler writes it when it binds the pod"},
    ),
    *_unread(Project.KOORDINATOR, NamePlace.POD, "pods are ordered by spec.priority", SUB_PRIORITY),
    *_unread(
        Project.KOORDINATOR,
        NamePlace.POD,
        "the offline pod with the lowest priority goes first, then the youngest",
        "koordinator.sh/eviction-*",
        "koordinator.sh/evict-*",
        "koordinator.sh/job-created-by",
        "descheduler.koordinator.sh/*",
        "scheduling.koordinator.sh/eviction-cost",
        "scheduling.koordinator.sh/soft-eviction",
    ),
    *_unread(
        Project.KOORDINATOR,
        NamePlace.POD,
        "no burst is set; an existing one is scaled with the quota",
        "koordinator.sh/cpuBurst",
    ),
    *_unread(
        Project.KOORDINATOR,
        NamePlace.POD,
        "quotas (cpu-suppression-config), weights and memory limits hold offline pods back",
        "koordinator.sh/cpuQOS",
        "koordinator.sh/memoryQOS",
        "koordinator.sh/core-sched-*",
    ),
    *_unread(
        Project.KOORDINATOR,
        NamePlace.POD,
        "resource-qos-config limits cache and memory bandwidth of all offline pods together",
        "node.koordinator.sh/resctrl",
    ),
    *_unread(
        Project.KOORDINATOR,
        NamePlace.POD,
        "network and disks are not managed",
        "koordinator.sh/networkQOS",
        "koordinator.sh/netQoSClass",
        "koordinator.sh/blkioQOS",
    ),
    *_unread(
        Project.KOORDINATOR,
        NamePlace.POD,
        "kubelet sets it",
        "koordinator.sh/oom-score-adj",
        "koordinator.sh/oom-score-adj-spec",
    ),
    *_unread(
        Project.KOORDINATOR,
        NamePlace.POD,
        "the agent reads requests of batch resources from the pod's spec",
        "node.koordinator.sh/extended-resource-spec",
    ),
    *_unread(
        Project.KOORDINATOR,
        NamePlace.POD,
        "cpu and memory of offline pods become batch resources when the pod is created, and only then",
        "pod.koordinator.sh/replace-resources",
        "pod.koordinator.sh/mutating-update",
        "pod.koordinator.sh/skip-enhanced-validation",
    ),
    *_unread(
        Project.KOORDINATOR,
        NamePlace.POD,
        "pods are scheduled one by one: use another scheduler for gangs",
        "gang.scheduling.koordinator.sh/*",
        "scheduling.koordinator.sh/bind-gang-*",
        "scheduling.koordinator.sh/network-topology-selector",
        "pod-group.scheduling.sigs.k8s.io*",
    ),
    *_unread(
        Project.KOORDINATOR,
        NamePlace.POD,
        "use Kubernetes' ResourceQuota",
        "quota.scheduling.koordinator.sh/*",
    ),
    *_unread(
        Project.KOORDINATOR,
        NamePlace.POD,
        "nothing is reserved for future pods",
        "scheduling.koordinator.sh/reserv*",
        "scheduling.koordinator.sh/exact-match-reservation",
        "scheduling.koordinator.sh/operating-mode",
        "scheduling.koordinator.sh/pre-allocation-required",
        "scheduling.koordinator.sh/is-pre-allocation",
        "pod.koordinator.sh/is-pre-allocatable",
        "pod.koordinator.sh/pre-allocatable-priority",
    ),
    *_unread(
        Project.KOORDINATOR,
        NamePlace.POD,
        "devices are left to device plugins and DRA",
        "scheduling.koordinator.sh/device-*",
        "scheduling.koordinator.sh/gpu-*",
        "scheduling.koordinator.sh/bind-timestamp",
        "koordinator.sh/gpu-isolation-provider",
    ),
    *_unread(
        Project.KOORDINATOR,
        NamePlace.POD,
        "a pod counts by its requests, and by its interference profile until it has been measured",
        "scheduling.koordinator.sh/load-estimated-*",
    ),
    *_unread(
        Project.KOORDINATOR,
        NamePlace.POD,
        "kube-scheduler decides on preemption: set preemptionPolicy in a PriorityClass",
        "scheduling.koordinator.sh/preemption-policy",
        "scheduling.koordinator.sh/disable-preemptible",
    ),
    *_unread(
        Project.KOORDINATOR,
        NamePlace.POD,
        "spec.schedulerName decides",
        "scheduling.koordinator.sh/scheduler-name",
        "scheduling.koordinator.sh/scheduling-hint",
        "internal.scheduling.koordinator.sh/*",
    ),
    *_unread(
        Project.KOORDINATOR,
        NamePlace.POD,
        "`corewise explain pod` says why a pod is pending",
        "scheduling.koordinator.sh/questioned-object-key",
        "scheduling.koordinator.sh/topology-key-to-explain",
    ),
    *_unread(
        Project.KOORDINATOR,
        NamePlace.POD,
        "no counterpart",
        "koordinator.sh/binding-admission-bypass",
        "runtimeproxy.koordinator.sh/skip-hookserver",
    ),
    *_honored(
        Project.KOORDINATOR,
        NamePlace.POD,
        {COLOCATION_SWITCH: "where a ClusterColocationProfile selects it"},
    ),
)

_KOORDINATOR_OTHER: Final = (
    *_honored(
        Project.KOORDINATOR,
        NamePlace.NAMESPACE,
        {COLOCATION_SWITCH: "where a ClusterColocationProfile selects it"},
    ),
    *_unread(
        Project.KOORDINATOR,
        NamePlace.OBJECT,
        "the profile is applied all the same, with a warning",
        "config.koordinator.sh/*",
    ),
    *_honored(
        Project.KOORDINATOR,
        NamePlace.RESOURCE,
        {BATCH_CPU: "offered by the agent", BATCH_MEMORY: "offered by the agent"},
    ),
    *_unread(
        Project.KOORDINATOR,
        NamePlace.RESOURCE,
        "not offered: a pod that requests it stays pending",
        "kubernetes.io/mid-cpu",
        "kubernetes.io/mid-memory",
        "koordinator.sh/*",
    ),
    *_honored(
        Project.KOORDINATOR,
        NamePlace.CONFIG,
        {
            f"{CONFIG_NAME}/{NORMALIZATION_KEY}": "in namespace corewise-system, like all keys",
            f"{CONFIG_NAME}/{AMPLIFICATION_KEY}": "ratios of cpu and memory",
        },
    ),
    ForeignName(
        f"{CONFIG_NAME}/{RESOURCE_QOS_KEY}",
        Project.KOORDINATOR,
        NamePlace.CONFIG,
        Fate.IN_PART,
        "`beClass.resctrlQOS` is honored; `corewise config check` names every other member",
    ),
    ForeignName(
        f"{CONFIG_NAME}/{RESOURCE_THRESHOLD_KEY}",
        Project.KOORDINATOR,
        NamePlace.CONFIG,
        Fate.IN_PART,
        f"{code_list(HONORED_EVICTION)} are honored; `corewise config check` names every other member",
    ),
    *_unread(
        Project.KOORDINATOR,
        NamePlace.CONFIG,
        f"{OVERSUBSCRIPTION_KEY} says what is offered to offline pods",
        f"{CONFIG_NAME}/colocation-config",
    ),
    *_unread(
        Project.KOORDINATOR,
        NamePlace.CONFIG,
        "no burst is set; an existing one is scaled with the quota",
        f"{CONFIG_NAME}/cpu-burst-config",
    ),
    *_unread(
        Project.KOORDINATOR,
        NamePlace.CONFIG,
        "kernel settings of the host stay as they are",
        f"{CONFIG_NAME}/system-config",
    ),
    *_unread(
        Project.KOORDINATOR,
        NamePlace.CONFIG,
        "programs outside pods count as online, and are never held back",
        f"{CONFIG_NAME}/host-application-config",
    ),
    *_unread(
        Project.KOORDINATOR,
        NamePlace.CONFIG,
        "`corewise scheduler config` prints the extender for kube-scheduler's own configuration",
        "koord-scheduler-config/koord-scheduler-config",
    ),
    *_unread(
        Project.KOORDINATOR,
        NamePlace.CONFIG,
        "nothing is descheduled; the agents evict offline pods",
        "koord-descheduler-config/koord-descheduler-config",
    ),
    *_unread(
        Project.KOORDINATOR,
        NamePlace.CONFIG,
        "no counterpart",
        "koordlet-config/*",
        "pod-enhanced-validator-config/*",
    ),
    ForeignName(
        "ClusterColocationProfile",
        Project.KOORDINATOR,
        NamePlace.OBJECT,
        Fate.IN_PART,
        "every field of its spec is honored",
    ),
    *_unread(
        Project.KOORDINATOR,
        NamePlace.OBJECT,
        "agents read their settings from the ConfigMap, and report usage in their metrics",
        "NodeSLO",
        "NodeMetric",
    ),
    *_unread(
        Project.KOORDINATOR,
        NamePlace.OBJECT,
        "no counterpart",
        "Reservation",
        "Device",
        "ElasticQuota",
        "ElasticQuotaProfile",
        "PodGroup",
        "PodMigrationJob",
        "ClusterNetworkTopology",
        "Recommendation",
    ),
    ForeignName(
        "NodeNUMAResource",
        Project.KOORDINATOR,
        NamePlace.SCHEDULER,
        Fate.IN_PART,
        "`corewise scheduler` does this. Of its args, `defaultCPUBindPolicy` is always FullPCPUs, and "
        "`scoringStrategy` is `scoring` in the file of `--config`",
    ),
    ForeignName(
        "NodeResourcesFitPlus",
        Project.KOORDINATOR,
        NamePlace.SCHEDULER,
        Fate.NOT_READ,
        "kube-scheduler's plugin NodeResourcesFit does this; `corewise scheduler config` prints its weights",
    ),
    *_unread(
        Project.KOORDINATOR,
        NamePlace.SCHEDULER,
        "corewise's plugin Interference places pods by memory bandwidth, cache and latency",
        "LoadAwareScheduling",
    ),
    *_unread(
        Project.KOORDINATOR,
        NamePlace.SCHEDULER,
        "no counterpart; kube-scheduler's own plugins keep working",
        "Reservation",
        "ElasticQuota",
        "Coscheduling",
        "DeviceShare",
        "ScarceResourceAvoidance",
        "SchedulingHint",
    ),
)

_VOLCANO: Final = (
    *_honored(
        Project.VOLCANO,
        NamePlace.NODE,
        {OVERSUBSCRIPTION: "whether the node offers batch resources"},
    ),
    ForeignName(
        "volcano.sh/oversubscription-types",
        Project.VOLCANO,
        NamePlace.NODE,
        Fate.NOT_READ,
        "CPU and memory are both offered; to offer less, lower `ratio` in oversubscription-config",
        warned=True,
    ),
    *_unread(
        Project.VOLCANO,
        NamePlace.NODE,
        f"`{OVERSUBSCRIPTION}` alone lets offline pods in",
        "volcano.sh/colocation",
    ),
    *_unread(
        Project.VOLCANO,
        NamePlace.NODE,
        f"the offer is {BATCH_CPU} and {BATCH_MEMORY} in allocatable",
        "volcano.sh/oversubscription-cpu",
        "volcano.sh/oversubscription-memory",
    ),
    *_unread(
        Project.VOLCANO,
        NamePlace.NODE,
        "resource-threshold-config says when offline pods are evicted",
        "volcano.sh/evicting-*",
        "volcano.sh/oversubscription-evicting-*",
    ),
    *_unread(
        Project.VOLCANO,
        NamePlace.NODE,
        "the offer shrinks instead, and kube-scheduler stops placing offline pods",
        "volcano.sh/offline-job-evicting",
    ),
    *_unread(
        Project.VOLCANO,
        NamePlace.NODE,
        "in each key of the ConfigMap, nodeConfigs select nodes by any label",
        "colocation-policy",
        "volcano.sh/colocation-config*",
    ),
    *_unread(
        Project.VOLCANO,
        NamePlace.NODE,
        "network is not managed",
        "volcano.sh/network-bandwidth-rate",
    ),
    *_unread(
        Project.VOLCANO,
        NamePlace.NODE,
        "devices are left to device plugins and DRA",
        "volcano.sh/node-vgpu-*",
        "volcano.sh/gpu-*",
    ),
    *_unread(
        Project.VOLCANO,
        NamePlace.NODE,
        "kube-scheduler places pods: use node labels and affinity",
        "volcano.sh/nodegroup-name",
        "volcano.sh/revocable-zone",
        "volcano.sh/hypernode",
        "volcano.sh/hypercluster",
        "volcano.sh/tor",
        "node.volcano.sh/warmup",
    ),
    *_honored(
        Project.VOLCANO,
        NamePlace.POD,
        {QOS_LEVEL: "below 0, or `BE`, marks the pod as offline; all other levels are online alike"},
    ),
    ForeignName(
        "volcano.sh/preemptable",
        Project.VOLCANO,
        NamePlace.POD,
        Fate.NOT_READ,
        "kube-scheduler preempts by priority: `false` protects no pod, `true` offers none",
        warned=True,
    ),
    *_unread(
        Project.VOLCANO,
        NamePlace.POD,
        "no burst is set; an existing one is scaled with the quota",
        "volcano.sh/enable-quota-burst",
        "volcano.sh/quota-burst-time",
    ),
    *_unread(
        Project.VOLCANO,
        NamePlace.POD,
        "settings come from the ConfigMap only",
        "volcano.sh/colocation-config*",
    ),
    *_unread(
        Project.VOLCANO,
        NamePlace.POD,
        f"use `{NUMA_SPEC}`",
        "volcano.sh/numa-topology-policy",
        "volcano.sh/topology-decision",
    ),
    *_unread(
        Project.VOLCANO,
        NamePlace.POD,
        "a PodDisruptionBudget protects pods from eviction",
        "volcano.sh/jdb-*",
        "volcano.sh/cooldown-time",
        "volcano.sh/revocable-zone",
    ),
    *_unread(
        Project.VOLCANO,
        NamePlace.POD,
        "Volcano's own scheduler and controllers read these, and can run beside corewise",
        "volcano.sh/job-*",
        "volcano.sh/task-*",
        "volcano.sh/queue-name",
        "volcano.sh/resource-group",
        "volcano.sh/resource-strategy-*",
        "volcano.sh/scheduling-priority*",
        "volcano.sh/sla-waiting-time",
        "sla-waiting-time",
        "volcano.sh/partition-id",
        "volcano.sh/template-uid",
        "volcano.sh/createdBy*",
        "volcano.sh/cronjob-scheduled-timestamp",
        "volcano.sh/controller-out-of-sync",
        "scheduling.volcano.sh/*",
        "scheduling.k8s.io/group-name",
    ),
    *_unread(
        Project.VOLCANO,
        NamePlace.POD,
        "kube-scheduler places pods: use node labels and affinity",
        "volcano.sh/network-topology-*",
    ),
    *_unread(
        Project.VOLCANO,
        NamePlace.POD,
        "jobs are not forwarded to other clusters",
        "volcano.sh/forward-cluster",
        "volcano.sh/burst-name",
        "volcano.sh/silo-resource",
    ),
    *_unread(
        Project.VOLCANO,
        NamePlace.POD,
        "devices are left to device plugins and DRA",
        "volcano.sh/vgpu-*",
        "volcano.sh/gpu-*",
        "volcano.sh/devices-to-allocate",
        "volcano.sh/predicate-time",
        "volcano.sh/bind-*",
    ),
    *_unread(
        Project.VOLCANO,
        NamePlace.NAMESPACE,
        "queues are for Volcano's own scheduler, which may run beside corewise",
        "scheduling.volcano.sh/queue-name",
    ),
    *_honored(
        Project.VOLCANO,
        NamePlace.RESOURCE,
        {BATCH_CPU: "offered by the agent", BATCH_MEMORY: "offered by the agent"},
    ),
    *_unread(
        Project.VOLCANO,
        NamePlace.CONFIG,
        f"settings belong in {CONFIG_NAME} of namespace {CONFIG_NAMESPACE}. If you copy "
        "`cpuThrottlingConfig` into its key cpu-suppression-config, only `enable` is honored",
        "volcano-agent-configuration/colocation-config",
    ),
    *_unread(
        Project.VOLCANO,
        NamePlace.CONFIG,
        "kube-scheduler is configured as before",
        "volcano-scheduler-configmap/volcano-scheduler.conf",
        "volcano-agent-scheduler-configmap/agent-scheduler.conf",
    ),
    *_unread(
        Project.VOLCANO,
        NamePlace.CONFIG,
        "they are for Volcano's own controllers, which may run beside corewise",
        "volcano-admission-configmap/volcano-admission.conf",
        "volcano-controller-configmap/volcano-controller.conf",
        "volcano-sharding-configmap/sharding.yaml",
    ),
    *_unread(
        Project.VOLCANO,
        NamePlace.OBJECT,
        f"use oversubscription-config and cpu-suppression-config in {CONFIG_NAME}",
        "ColocationConfiguration",
    ),
    *_unread(
        Project.VOLCANO,
        NamePlace.OBJECT,
        "the agent writes NodeResourceTopology",
        "Numatopology",
    ),
    *_unread(
        Project.VOLCANO,
        NamePlace.OBJECT,
        "no counterpart; they keep working beside corewise",
        "Job",
        "Queue",
        "PodGroup",
        "HyperNode",
        "volcano.sh/hierarchy*",
        "volcano.sh/nodegroup-resource-limits",
        "volcano.sh/closed-by-parent",
        "volcano.sh/network-topology-source",
    ),
    *_unread(
        Project.VOLCANO,
        NamePlace.SCHEDULER,
        f"`corewise scheduler` does this, with `{NUMA_SPEC}`",
        "numaaware",
    ),
    *_unread(
        Project.VOLCANO,
        NamePlace.SCHEDULER,
        "corewise's plugin Interference places pods by memory bandwidth, cache and latency",
        "usage",
    ),
    *_unread(
        Project.VOLCANO,
        NamePlace.SCHEDULER,
        "no counterpart",
        "gang",
        "drf",
        "proportion",
        "capacity",
        "tdm",
        "rescheduling",
    ),
)

_NOVA: Final = (
    *_honored(
        Project.NOVA,
        NamePlace.OPTION,
        {
            "[compute] cpu_dedicated_set": "these CPUs are PCPU",
            "[compute] cpu_shared_set": "these CPUs are VCPU, and run emulator threads",
            "[DEFAULT] cpu_allocation_ratio": "ratio of VCPU; 0.0 means unset",
            "[DEFAULT] initial_cpu_allocation_ratio": "ratio of VCPU, for a host that is new to Placement",
            "[DEFAULT] reserved_host_memory_mb": "this memory is reserved, with `--standalone`",
            "[DEFAULT] host": "the name of the resource provider, unless `--host` is given",
        },
    ),
    ForeignName(
        "[libvirt] cpu_power_management",
        Project.NOVA,
        NamePlace.OPTION,
        Fate.IN_PART,
        "dedicated CPUs may be offline; corewise brings none online",
    ),
    ForeignName(
        "[DEFAULT] vcpu_pin_set",
        Project.NOVA,
        NamePlace.OPTION,
        Fate.IN_PART,
        "deprecated: its CPUs are PCPU and VCPU; ignored once both new options are set",
    ),
    ForeignName(
        "[DEFAULT] reserved_host_cpus",
        Project.NOVA,
        NamePlace.OPTION,
        Fate.IN_PART,
        "deprecated: counts only while neither new option is set",
    ),
    *_unread(
        Project.NOVA,
        NamePlace.OPTION,
        "memory is not overcommitted; `--disk-gb` says how much disk is offered",
        "[DEFAULT] ram_allocation_ratio",
        "[DEFAULT] initial_ram_allocation_ratio",
        "[DEFAULT] disk_allocation_ratio",
        "[DEFAULT] initial_disk_allocation_ratio",
        "[DEFAULT] reserved_host_disk_mb",
        "[DEFAULT] reserved_huge_pages",
    ),
    *_unread(
        Project.NOVA,
        NamePlace.OPTION,
        "no provider.yaml is read; its inventories and traits stay as Placement has them",
        "[compute] provider_config_location",
    ),
    *_unread(
        Project.NOVA,
        NamePlace.OPTION,
        "no governor is set, and no CPU is taken offline",
        "[libvirt] cpu_power_management_strategy",
        "[libvirt] cpu_power_governor_low",
        "[libvirt] cpu_power_governor_high",
    ),
    *_unread(
        Project.NOVA,
        NamePlace.OPTION,
        "the fallback is sent only where no host with PCPU can take the guest",
        "[workarounds] disable_fallback_pcpu_query",
    ),
    *_unread(
        Project.NOVA,
        NamePlace.OPTION,
        "a guest's CPU model stays as its libvirt domain has it",
        "[libvirt] cpu_mode",
        "[libvirt] cpu_models",
    ),
    *_unread(
        Project.NOVA,
        NamePlace.SCHEDULER,
        "hosts are weighed by free CPUs of the requested kind (`--pack` fills hosts up), and by `--scores`",
        "CPUWeigher",
        "RAMWeigher",
        "DiskWeigher",
        "MetricsWeigher",
        "IoOpsWeigher",
        "[filter_scheduler] *",
    ),
    *_honored(
        Project.NOVA,
        NamePlace.SCHEDULER,
        {
            "NUMATopologyFilter": "NUMA fit and thread policy, by the host's ledger",
            "AggregateInstanceExtraSpecsFilter": "with `--aggregates`",
            "AvailabilityZoneFilter": "`--zone`",
            "ComputeFilter": "a disabled or silent host gets no guest",
        },
    ),
    *_unread(
        Project.NOVA,
        NamePlace.SCHEDULER,
        "no counterpart",
        "ServerGroupAntiAffinityFilter",
        "ServerGroupAffinityFilter",
        "AggregateMultiTenancyIsolation",
        "PciPassthroughFilter",
        "ImagePropertiesFilter",
        "ComputeCapabilitiesFilter",
    ),
    *_honored(
        Project.NOVA,
        NamePlace.AGGREGATE,
        {"availability_zone": "`--zone`", "KEY": "`aggregate_instance_extra_specs:KEY`, with `--aggregates`"},
    ),
    *_unread(
        Project.NOVA,
        NamePlace.AGGREGATE,
        "tenants share hosts, and each host sets its own ratio",
        "filter_tenant_id",
        "cpu_allocation_ratio",
        "cpu_weight_multiplier",
    ),
)

FOREIGN_NAMES: Final = (*_KOORDINATOR_NODE, *_KOORDINATOR_POD, *_KOORDINATOR_OTHER, *_VOLCANO, *_NOVA)

_EXACT: Final = {(each.place, each.name): each for each in FOREIGN_NAMES}
_FAMILIES: Final = sorted(
    (each for each in FOREIGN_NAMES if each.name.endswith("*")), key=lambda each: -len(each.name)
)
_WARNED: Final = tuple(each for each in FOREIGN_NAMES if each.warned)

_OWNERS: Final = {
    each.name.partition("/")[0]: each.project for each in FOREIGN_NAMES if each.place is NamePlace.CONFIG
}
_OWN_KEYS: Final = frozenset(each.name for each in TABLE if each.kind is NameKind.CONFIG_KEY)
CONFIG_MAPS: Final = tuple(_OWNERS)
"""The names of their ConfigMaps."""
UNREAD_KEYS: Final = {
    each.name.partition("/")[2]: each.instead
    for each in FOREIGN_NAMES
    if each.name.startswith(f"{CONFIG_NAME}/") and each.fate is Fate.NOT_READ
}
"""Keys of the ConfigMap that corewise does not read, and what it does instead."""


def unserved_name(name: str, value: str, place: NamePlace) -> ForeignName | None:
    """Return the row of a name found on an object, if its value is not honored there."""
    row = _EXACT.get((place, name)) or _row_of_family(name, place)
    return row if row is not None and row.is_unserved(value) else None


def unserved_key(
    config_map: str, namespace: str, key: str, config_namespace: str = CONFIG_NAMESPACE
) -> ForeignName | None:
    """Return the row of a key of one of CONFIG_MAPS, if it is not honored there.

    ``config_namespace``: that of the ConfigMap which corewise reads.
    """
    name = f"{config_map}/{key}"
    unread = partial(ForeignName, name, _OWNERS[config_map], NamePlace.CONFIG, Fate.NOT_READ)
    if config_map == CONFIG_NAME and namespace != config_namespace:
        return unread(
            f"corewise reads the {CONFIG_NAME} of namespace {config_namespace}, which --config-namespace and "
            "the chart's config.namespace change"
        )
    row = _EXACT.get((NamePlace.CONFIG, name)) or _row_of_family(name, NamePlace.CONFIG)
    if row is None:
        return None if config_map == CONFIG_NAME and key in _OWN_KEYS else unread(_UNKNOWN_KEY)
    return row if row.is_unserved("") else None


def unserved_on(place: NamePlace, labels: Mapping[str, str], annotations: Mapping[str, str]) -> Iterator[str]:
    """Yield a warning for each name on a Node or a new pod that would silently mean nothing."""
    for row in _WARNED:
        value = labels.get(row.name, annotations.get(row.name))
        if row.place is place and value is not None and row.is_unserved(value):
            yield f"{row.name} of {row.project.value} is not honored: {row.instead}"


def _row_of_family(name: str, place: NamePlace) -> ForeignName | None:
    for row in _FAMILIES:
        if row.place is place and row.names(name):
            return row
    domain = name.partition("/")[0]
    for end, project in _DOMAINS.items():
        if domain == end or domain.endswith(f".{end}"):
            return ForeignName(name, project, place, Fate.NOT_READ, _UNKNOWN)
    return None
