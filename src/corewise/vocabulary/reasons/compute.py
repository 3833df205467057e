"""Reason codes of OpenStack hosts: dedicated and shared CPUs, and what ``corewise compute`` cannot do."""

from __future__ import annotations

from corewise.vocabulary.reasons.codes import Reason, ReasonText, warning

TRACKING_OPTIONS = {
    Reason.CPU_SET_MALFORMED: warning(
        "An option that names host CPUs cannot be read; the agent does not start.",
        "Write a list of CPUs and ranges; ^ takes away: 0-7,^2,^4-5.",
    ),
    Reason.CPU_SET_LEAVES_NOTHING: warning(
        "An option that names host CPUs takes away all that it names; the agent does not start.",
        "Name at least one CPU, or remove the option.",
    ),
    Reason.CPU_SETS_OVERLAP: warning(
        "A CPU is both dedicated and shared: it would be promised twice. The agent does not start.",
        "Take the CPUs out of [compute] cpu_dedicated_set or out of [compute] cpu_shared_set.",
    ),
    Reason.CPUS_NOT_PRESENT: warning(
        "An option names CPUs that the host does not have; the agent does not start.",
        "Take these CPUs out of the option.",
    ),
    Reason.CPUS_NOT_ONLINE: warning(
        "An option names CPUs that are offline; the agent does not start.",
        "Bring these CPUs online, or take them out of the option. Dedicated CPUs may be offline only with "
        "[libvirt] cpu_power_management.",
    ),
    Reason.ALLOCATION_RATIO_INVALID: warning(
        "The ratio by which shared CPUs are overcommitted cannot be used; the agent does not start.",
        "Write a decimal number above 0, such as 8.0, or remove the option.",
    ),
    Reason.POWER_MANAGEMENT_INVALID: warning(
        "cpu_power_management is neither true nor false; the agent does not start.",
        "Write true or false.",
    ),
    Reason.RESERVED_CPUS_INVALID: warning(
        "reserved_host_cpus is no number of CPUs that the host could reserve; the agent does not start.",
        "Remove the option, and leave CPUs for the host out of cpu_shared_set and cpu_dedicated_set.",
    ),
    Reason.RESERVED_CPUS_FORBIDDEN: warning(
        "reserved_host_cpus beside a new option is an error in Nova; the agent does not start.",
        "Unset reserved_host_cpus: CPUs in neither set are reserved for the host.",
    ),
    Reason.RESERVED_CPUS_IGNORED: warning(
        "reserved_host_cpus has no effect beside cpu_dedicated_set or cpu_shared_set.",
        "Unset reserved_host_cpus: CPUs in neither set are reserved for the host.",
    ),
    Reason.RESERVED_CPUS_DEPRECATED: warning(
        "reserved_host_cpus is deprecated: it counts CPUs and names none.",
        "Set [compute] cpu_shared_set or cpu_dedicated_set to all CPUs but those for the host.",
    ),
    Reason.PIN_SET_FORBIDDEN: warning(
        "vcpu_pin_set beside [compute] cpu_dedicated_set is an error in Nova; the agent does not start.",
        "Unset vcpu_pin_set.",
    ),
    Reason.PIN_SET_IGNORED: warning(
        "vcpu_pin_set has no effect: cpu_dedicated_set and cpu_shared_set name the CPUs.",
        "Unset vcpu_pin_set.",
    ),
    Reason.PIN_SET_DEPRECATED: warning(
        "vcpu_pin_set is deprecated: its CPUs serve guests with dedicated and with shared CPUs alike.",
        "Unset it, and set [compute] cpu_dedicated_set, cpu_shared_set or both.",
    ),
    Reason.SHARED_SET_FOR_EMULATOR_ONLY: warning(
        "While vcpu_pin_set is set, cpu_shared_set serves emulator threads only and counts for no inventory.",
        "Unset vcpu_pin_set, and set [compute] cpu_dedicated_set, cpu_shared_set or both.",
    ),
    Reason.GUEST_NEEDS_SHARED_CPUS: warning(
        "A guest on the host shares CPUs, and the options leave none to share; the agent does not start.",
        "Set [compute] cpu_shared_set, or move the guest away.",
    ),
    Reason.GUEST_NEEDS_DEDICATED_CPUS: warning(
        "A guest on the host is pinned, and the options leave no dedicated CPUs; the agent does not start.",
        "Set [compute] cpu_dedicated_set, or move the guest away.",
    ),
    Reason.GUEST_NEEDS_BOTH_KINDS: warning(
        "A guest on the host has dedicated and shared CPUs, and the options name only one kind; the agent "
        "does not start.",
        "Set both [compute] cpu_dedicated_set and cpu_shared_set, or move the guest away.",
    ),
    Reason.GUEST_PINNED_OUTSIDE: warning(
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

TRACKING_REQUEST = {
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
    Reason.VCPU_COUNT_MISMATCH: warning(
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
        "hw:cpu_dedicated_mask names guest CPUs that the flavor does not have.",
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
        "The realtime mask cannot be read, names CPUs that the flavor does not have, or leaves no "
        "CPU on one side.",
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
    Reason.RESOURCE_CLASS_UNKNOWN: warning(
        "A resource class is neither a standard one nor begins with CUSTOM_; it is not requested.",
        "Correct its name in the flavor.",
    ),
    Reason.GROUP_POLICY_INVALID: ReasonText(
        "group_policy has a value that means nothing.",
        "Write none or isolate.",
    ),
    Reason.GROUP_POLICY_ASSUMED: warning(
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

TRACKING_HOSTS = {
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
    Reason.RESHAPE_EXCEEDS_INVENTORY: warning(
        "The pinned guests of the host need more PCPU than cpu_dedicated_set offers; nothing was changed.",
        "Add CPUs to [compute] cpu_dedicated_set, or move guests away.",
    ),
    Reason.RESHAPE_AMOUNT_UNEXPECTED: warning(
        "A pinned guest holds another amount of VCPU than it has CPUs; the reshape goes by what it holds.",
        "Look at its allocations: openstack resource provider allocation show UUID.",
    ),
}


COMPUTE = {
    Reason.FILE_UNUSABLE: ReasonText(
        "A file that was named cannot be read, or is not what it should be.",
        "Correct what the message names.",
    ),
    Reason.LEDGER_UNUSABLE: warning(
        "The ledger of a host cannot be read or written; nothing was changed.",
        "Make its directory, and let this user write there.",
    ),
    Reason.LEDGER_DAMAGED: warning(
        "The ledger of a host is not what was written: cut off, or changed. Nothing is guessed from it.",
        "Put a good copy in its place (ledger.json.1 is the one before the last change).",
    ),
    Reason.LEDGER_BUSY: warning(
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
    Reason.CPUS_PROMISED_TWICE: warning(
        "The ledger gives a CPU to two guests, or a CPU that the host does not have; no guest is placed "
        "there.",
        "See who they are with corewise compute status, and move one of them away.",
    ),
    Reason.NO_VALID_HOST: ReasonText(
        "No host can take the guest; the counts say how many hosts each demand eliminated.",
        "Free CPUs, or request less of what eliminates most hosts.",
    ),
    Reason.CLAIM_LOST: ReasonText(
        "Between the query and the claim somebody else took what the host had left; the next host is tried."
    ),
    Reason.OPENSTACK_UNUSABLE: warning(
        "What is needed to reach OpenStack is missing: a package, credentials, a file of configuration.",
        "Do what the hint of the message says.",
    ),
    Reason.LIBVIRT_UNUSABLE: warning(
        "libvirt does not answer, or refuses; what was last written is kept.",
        "See whether libvirtd runs, and whether this user may connect.",
    ),
    Reason.PLACEMENT_DOWN: warning(
        "Placement does not answer; what was last written is kept.",
        "See whether Placement runs, and whether its endpoint is right.",
    ),
    Reason.PLACEMENT_UNAUTHORIZED: warning(
        "Placement does not accept the credentials (401).", "Renew the password or token."
    ),
    Reason.PLACEMENT_FORBIDDEN: warning(
        "Placement knows the user and does not allow what was asked (403).",
        "Give the user the role admin, and service for a reshape, in the project of the services.",
    ),
    Reason.PLACEMENT_NOT_FOUND: ReasonText(
        "Placement has no such provider.", "Run corewise compute run on the host: it makes one."
    ),
    Reason.PLACEMENT_CONFLICT: warning(
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
