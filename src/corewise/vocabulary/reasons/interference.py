"""Reason codes: memory bandwidth and cache: what is not measured, what filter, profiles and histories say."""

from __future__ import annotations

from corewise.vocabulary.reasons.codes import Reason
from corewise.vocabulary.reasons.text import ReasonText, warning

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
