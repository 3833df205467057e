"""Reason codes of scheduling: CPUs of pods, unsuitable nodes, memory bandwidth and cache."""

from __future__ import annotations

from corewise.vocabulary.reasons.codes import Reason, ReasonText, warning

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


MEASURING = {
    Reason.RESCTRL_UNSUPPORTED: ReasonText(
        "The node's kernel or processor has no resctrl: there is no /sys/fs/resctrl.",
        "Nothing to do in a virtual machine; elsewhere check whether the processor has RDT, PQoS or MPAM.",
    ),
    Reason.RESCTRL_NOT_MOUNTED: ReasonText(
        "The node has resctrl, but it is not mounted.",
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
        "A memory controller's counters did not run since the last reading, so the sum is unknown.",
        "Find out what else uses uncore_imc: perf, pcm.",
    ),
    Reason.PERF_NOT_PERMITTED: ReasonText(
        "The kernel does not allow the agent to count hardware events.",
        "Give the agent CAP_PERFMON, and leave perf_event_open out of its seccomp profile.",
    ),
    Reason.PERF_EVENT_MISSING: ReasonText(
        "The processor, as the kernel shows it, does not count these events.",
        "In a virtual machine, enable performance counters in its hypervisor.",
    ),
    Reason.PERF_FAILED: ReasonText(
        "perf_event_open failed for another reason; see the agent's log.",
        "EMFILE: raise the limit of open files; two are needed for each CPU.",
    ),
    Reason.PERF_NO_VALUE: ReasonText(
        "The counters ran on no CPU since the last reading: something else uses them all the time.",
        "Find out what else counts: perf, pcm, a profiler, the NMI watchdog.",
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
    Reason.LATENCY_PROBE_OFF: ReasonText("Probing is turned off (--no-latency-probe)."),
    Reason.LATENCY_PROBE_FAILED: ReasonText(
        "The last probe failed on every NUMA node; see the agent's log.",
    ),
    Reason.LATENCY_NOT_YET: ReasonText("No probe has ended yet, or the last one is too old to count."),
    Reason.MEMORY_CHANNELS_UNKNOWN: ReasonText(
        "Which memory channels have modules is unknown: no EDAC driver is loaded.",
        "Load the processor's EDAC driver, or state the capacity: node annotation, or the scheduler's "
        "configuration.",
    ),
    Reason.MEMORY_SPEED_UNKNOWN: ReasonText(
        "The firmware does not report the speed of the memory modules (SMBIOS type 17).",
        "State the capacity: node annotation, or the scheduler's configuration.",
    ),
    Reason.CACHE_SIZE_UNKNOWN: ReasonText(
        "The kernel does not report the size of every last-level cache, as in many virtual machines.",
    ),
    Reason.HOST_FILE_UNREADABLE: ReasonText(
        "A file of /proc that holds this value cannot be read; see the agent's log.",
        "Check the agent's mount of /proc, and --root.",
    ),
}

INTERFERENCE = {
    Reason.MEMORY_BANDWIDTH_INSUFFICIENT: ReasonText(
        "Free memory bandwidth, less that of pods just placed, is not above overprovisioning x the pod's "
        "profile."
    ),
    Reason.MEMORY_AVAILABLE_INSUFFICIENT: ReasonText(
        "Available memory, less that of pods just placed, is not above overprovisioning x the pod's profile."
    ),
    Reason.PRESSURE_UNKNOWN: ReasonText(
        "The node's memory bandwidth or memory is unknown, and missing.filter is fail.",
        "To see which series are missing: corewise check metrics.",
    ),
    Reason.PROFILE_CONFLICT: warning(
        "Two profiles match the pod, so its use is unknown; it fits no node.",
        "Make the profiles' selectors exclude each other, or correct the pod's labels.",
    ),
    Reason.MEMORY_BANDWIDTH_INVALID: warning(
        "The annotation with the node's memory bandwidth cannot be read; it counts as absent.",
        "Write node.corewise.io/memory-bandwidth as an amount with its unit, such as 107GB/s.",
    ),
    Reason.PROFILE_UNPLACEABLE: warning(
        "A profile needs more free memory bandwidth than the largest node has: its pods fit no node.",
        "Correct the profile, the overprovisioning, or the capacity rules.",
    ),
}

ANALYSIS = {
    Reason.TOO_FEW_RUNS: ReasonText(
        "What slows a type of workload down is unknown: too few of its runs were observed.",
        "Use a longer range (--range), or run the type as a Job more often.",
    ),
    Reason.PRESSURE_NEVER_VARIED: ReasonText(
        "What slows a type of workload down is unknown: its pods met the same pressure wherever they ran.",
        "Use a range in which nodes differed, or run the type on a busy node and on an idle one.",
    ),
}
