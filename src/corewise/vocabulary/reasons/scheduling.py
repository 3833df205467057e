"""Reason codes: which CPUs a pod gets, and why a node does not suit it."""

from __future__ import annotations

from corewise.vocabulary.reasons.codes import Reason
from corewise.vocabulary.reasons.text import ReasonText, warning

PINNING = {
    Reason.NOT_ENOUGH_CPUS: ReasonText("Fewer CPUs are free than the workload is to own."),
    Reason.NOT_WHOLE_CORES: ReasonText(
        "Enough CPUs may be free, but not as whole cores, which the workload requires.",
        "Request a multiple of the threads of a core, or prefer FullPCPUs instead of requiring it.",
    ),
    Reason.NOT_ENOUGH_CORES: ReasonText(
        "Enough CPUs may be free, but not each on a core of its own, which the workload requires.",
        "Prefer SpreadByPCPUs instead of requiring it.",
    ),
    Reason.CPUS_TAKEN: warning(
        "A workload says that CPUs are its own which another one holds; the earlier claim counts.",
        "Delete one of the two pods, so that it is placed anew.",
    ),
    Reason.CPUS_UNKNOWN: warning(
        "A workload claims CPUs that its node does not have; the claim has no effect.",
        "Delete the pod, so that it is placed anew.",
    ),
    Reason.CPUS_OWNED: ReasonText("The pod runs on the CPUs that it was given as its own, and nowhere else."),
    Reason.CPUS_SHARED: ReasonText("The pod owns no CPUs: it runs on those of its node that no pod owns."),
    Reason.CPUS_RESERVED: warning(
        "A pod says that CPUs are its own which kubelet reserves for the system; they stay shared.",
        "Delete the pod, so that it is placed anew.",
    ),
    Reason.CPUS_OFFLINE: warning(
        "All CPUs that a pod owns are offline: it runs on the shared ones for the time being.",
        "Bring the CPUs online, or delete the pod, so that it is placed anew.",
    ),
    Reason.CPUS_MANAGED_BY_KUBELET: warning(
        "The node's kubelet keeps CPU sets itself (CPU manager policy static), so the agent writes none: two "
        "who write them would undo each other's work.",
        "Run kubelet with cpuManagerPolicy none, or keep pods with QoS class LSE or LSR off the node.",
    ),
    Reason.SHARED_POOL_EMPTY: warning(
        "No CPU would be left for the pods that own none: a pod is not given the last CPU that they share.",
        "Let kubelet reserve CPUs (reservedSystemCPUs): those are never given away, and always shared.",
    ),
    Reason.QOS_CLASS_NOT_ALLOWED: warning(
        "The pod states QoS class LSE or SYSTEM in a namespace that is not allowed it. An LSE pod is not "
        "placed; one that runs is treated as a pod without a class.",
        "Use QoS class LSR, or allow the namespace with --restricted-qos-namespace, of the agents and of the "
        "scheduler alike.",
    ),
    Reason.CLAIM_WITHOUT_CLASS: warning(
        "The pod claims CPUs and is neither LSR nor LSE: the binding gate did not give them. The claim "
        "counts for nothing.",
        "Remove the annotation scheduling.koordinator.sh/resource-status, and find out who wrote it.",
    ),
    Reason.CLAIM_NOT_REQUESTED: warning(
        "The pod claims another number of CPUs than it requests; the claim counts for nothing. Either "
        "somebody wrote the annotation, or the pod was resized after it was bound.",
        "Delete the pod, so that it is placed anew.",
    ),
}

SCHEDULING = {
    Reason.CPUS_NOT_INTEGER: warning(
        "The requested CPUs must be integer: the pod is to own CPUs (QoS class LSE or LSR), and CPUs are "
        "owned whole.",
        "Request a whole number of CPUs, or use QoS class LS.",
    ),
    Reason.RESOURCE_SPEC_INVALID: warning(
        "The annotation that says how the pod wants its CPUs cannot be read; the pod fits nowhere.",
        "Correct scheduling.koordinator.sh/resource-spec or scheduling.koordinator.sh/numa-topology-spec.",
    ),
    Reason.BIND_POLICY_CONFLICT: warning(
        "The pod requires one CPU bind policy and prefers another.",
        "State one of requiredCPUBindPolicy and preferredCPUBindPolicy.",
    ),
    Reason.RESOURCE_STATUS_INVALID: warning(
        "The annotation that says which CPUs a pod was given cannot be read; the pod counts by its requests.",
        "Delete the pod, so that it is placed anew.",
    ),
    Reason.CPU_TOPOLOGY_INVALID: warning(
        "The annotation that says how a node's CPUs are arranged cannot be read; it gives out no CPUs.",
        "Restart the agent of the node, which writes it.",
    ),
    Reason.AMOUNT_TOO_LARGE: warning(
        "A pod or a node states an amount that cannot be read or that no machine has. An unbound pod fits "
        "nowhere; a bound one fills its node, and the agent leaves its quotas alone. Of a node it counts as "
        "the largest amount.",
        "Correct the amount, or delete the pod.",
    ),
    Reason.AMPLIFIED_CPU_INSUFFICIENT: ReasonText(
        "The node's amplified CPU does not suffice: CPUs that CPUSet pods own count amplified."
    ),
    Reason.RESOURCE_INSUFFICIENT: ReasonText("What the pod requests is more than the node has left."),
    Reason.CPUS_TOO_SCATTERED: ReasonText(
        "The node has the CPUs that the pod is to own, but their list is too long for the pod's annotation.",
        "Request fewer CPUs, or require FullPCPUs.",
    ),
    Reason.CPU_TOPOLOGY_UNKNOWN: ReasonText(
        "The pod is to own CPUs, and nobody has stated how the node's CPUs are arranged.",
        "Run the agent on the node.",
    ),
    Reason.NUMA_POLICY_CONFLICT: ReasonText(
        "The pod and the node state different NUMA topology policies.",
        "Remove the policy from the pod, or select nodes of that policy.",
    ),
    Reason.NUMA_POLICY_UNKNOWN: warning(
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
    Reason.PLUGIN_REFUSED: ReasonText(
        "A plugin of a third party that is installed beside corewise refuses the node.",
        "Its message says why; the plugin's documentation says what to do.",
    ),
    Reason.NODE_UNKNOWN: ReasonText("The scheduler knows no node of this name, or does not know it yet."),
    Reason.NO_NODE_SUITS: warning(
        "None of the nodes that kube-scheduler asked about has the CPUs that the pod needs; the Event counts "
        "them by cause.",
        "See each node's numbers with: corewise explain pod NAMESPACE/NAME.",
    ),
}
