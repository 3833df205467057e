"""Reason codes of nodes: configuration, normalization, amplification, and what is written to cgroups."""

from __future__ import annotations

from corewise.vocabulary.reasons.codes import Reason, ReasonText, warning

NORMALIZATION = {
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
    Reason.ENABLE_LABEL_INVALID: warning(
        "The label that enables normalization is not a bool string; the node's annotations stay as they are.",
        'Set node.koordinator.sh/cpu-normalization-enabled to "true" or "false", or remove it.',
    ),
    Reason.CPU_FACTS_MISSING: warning(
        "The node's NodeResourceTopology states no CPU model; the node's annotations stay as they are.",
        "Run the agent on the node, or annotate its NodeResourceTopology with "
        "node.koordinator.sh/cpu-basic-info.",
    ),
    Reason.CPU_FACTS_MALFORMED: warning(
        "The annotation with the node's CPU facts cannot be read; the node's annotations stay as they are.",
        "Correct node.koordinator.sh/cpu-basic-info on the NodeResourceTopology, or restart the agent "
        "that writes it.",
    ),
    Reason.UNKNOWN_CPU_MODEL: warning(
        "ratioModel has no entry for this CPU model and there is no defaultRatio; the node's annotations "
        "stay as they are.",
        "Add the model, spelled exactly as the node reports it, to ratioModel (key cpu-normalization-config "
        "of the ConfigMap slo-controller-config), or set defaultRatio there.",
    ),
    Reason.RATIO_FIELD_MISSING: warning(
        "ratioModel knows this CPU model, but not for its HT and turbo setting, and there is no "
        "defaultRatio; the node's annotations stay as they are.",
        "Add the missing ratio to the model's entry in ratioModel (key cpu-normalization-config of the "
        "ConfigMap slo-controller-config), or set defaultRatio there.",
    ),
    Reason.RATIO_OUT_OF_RANGE: warning(
        "The normalization ratio found is outside 1.00..5.00; it is not clamped, and the node's annotations "
        "stay as they are.",
        "Correct the ratio. The slowest CPU model of the cluster is the baseline, with ratio 1.00.",
    ),
    Reason.NORMALIZATION_RATIO_INVALID: warning(
        "The normalization ratio annotated on the node cannot be read; the last good one is kept.",
        "Remove the annotation node.koordinator.sh/cpu-normalization-ratio; the manager writes it anew.",
    ),
}

CONFIGURATION = {
    Reason.CONFIG_INVALID: warning(
        "A key of the ConfigMap slo-controller-config has errors; the last good one is kept.",
        "Run corewise config check on the ConfigMap: it lists every error with line and column.",
    ),
    Reason.CONFIG_APPLIED: ReasonText("The configuration was read without errors and is applied."),
    Reason.CONFLICTING_NODE_CONFIGS: warning(
        "More than one nodeConfigs entry selects the same node; the first of them is used.",
        "Make the selectors exclude each other.",
    ),
}


RATIO = {
    Reason.AMPLIFICATION_RATIO_INVALID: warning(
        "An amplification ratio cannot be read; these resources keep their ratios.",
        'Write a JSON object of decimal numbers with two places, such as {"cpu":1.50}.',
    ),
    Reason.AMPLIFICATION_RATIO_OUT_OF_RANGE: warning(
        "An amplification ratio is above the largest allowed; this resource keeps its ratio.",
        "Lower the original ratio, or raise the limit of the manager.",
    ),
    Reason.AMPLIFICATION_RESOURCE_REFUSED: warning(
        "Only cpu and memory can be amplified: of other resources kubelet copies the stored, amplified "
        "capacity back into allocatable, which would double. The other entries of the map count.",
        "Remove the resource from the ratio.",
    ),
    Reason.AMPLIFICATION_ORIGINAL_BELOW_ONE: warning(
        "An original amplification ratio is below 1.00; this resource stays as it is, the others go on.",
        "Write a ratio of at least 1.00, or remove the entry.",
    ),
    Reason.NORMALIZATION_UNDECIDED: warning(
        "The normalization ratio of the node could not be decided, so its cpu entry stays as it is too.",
        "See the node's normalization reason: corewise explain node NAME.",
    ),
    Reason.ORIGINAL_ADOPTED: ReasonText(
        "A ratio that a user had annotated was taken as the node's original ratio and moved to the "
        "-original annotation."
    ),
    Reason.ORIGINAL_NEEDED: warning(
        "Removing the -original annotation alone was refused: it says that the ratio annotation is "
        "corewise's product, which would then count as the user's own ratio and be multiplied again.",
        "Remove node.koordinator.sh/resource-amplification-ratio in the same write, or set "
        "node.corewise.io/resource-amplification-ratio-original to {}, which is: no ratio of your own.",
    ),
    Reason.KOORDINATOR_WEBHOOK_PRESENT: warning(
        "Koordinator's own node webhook is installed; two webhooks would amplify twice, so nothing is "
        "amplified.",
        "Remove nodes from Koordinator's mutating webhook configuration, or leave amplification to it.",
    ),
}

SAFETY = {
    Reason.UNSAFE_DECREASE_HELD_BACK: warning(
        "A lower amplification ratio is due, but the pods of the node would no longer fit; the old ratio "
        "stays until they do.",
        "Drain pods from the node, or annotate it with "
        'node.corewise.io/allow-unsafe-amplification-change: "true".',
    ),
    Reason.UNSAFE_DECREASE_REFUSED: warning(
        "Somebody's change of the amplification ratio was refused: the pods of the node would no longer fit.",
        "Use the smallest safe ratio that the message names, drain pods, or annotate the node with "
        'node.corewise.io/allow-unsafe-amplification-change: "true".',
    ),
    Reason.UNSAFE_DECREASE_ALLOWED: warning(
        "A change after which pods no longer fit was let through because the node's annotation allows it.",
        "Expect kubelet to reject or evict pods; remove the annotation afterwards.",
    ),
    Reason.RAISE_ON_BUSY_NODE: warning(
        "The ratio of a node was raised while its real CPU usage is above 60 %; it is applied all the same.",
        "Amplify idle nodes only, or lower the ratio again.",
    ),
}

STATUS = {
    Reason.RATIOS_WRITTEN: ReasonText("The node's normalization and amplification ratios were written."),
    Reason.STATUS_TOUCHED: ReasonText(
        "An empty status patch was sent: no webhook had applied the ratio when it was written."
    ),
    Reason.STATUS_REPAIRED: ReasonText(
        "The node's status was not what ratio and record say; raw amounts were written and amplified anew."
    ),
    Reason.STATUS_CHANGE_UNDONE: warning(
        "A writer other than the node's kubelet set an amplified amount; the stored amount was kept.",
        "Leave cpu and memory of amplified nodes to kubelet, or remove the ratio first.",
    ),
    Reason.RECORD_UNUSABLE: warning(
        "The record of what was amplified cannot be read; amplified amounts stay until they can be "
        "computed anew.",
        "Nothing: the manager repairs the node. If it cannot, see RawUnknown.",
    ),
    Reason.RAW_UNKNOWN: warning(
        "The node's raw amounts are known neither from its annotations nor from its NodeResourceTopology; "
        "nothing is repaired until kubelet states them.",
        "Run the agent on the node. If that does not help within a minute, remove the annotations that "
        "the message names: kubelet then states the amounts within 10 seconds.",
    ),
    Reason.RAW_EQUALS_AMPLIFIED: ReasonText(
        "The machine's raw capacity now equals the amplified amount in status; raw amounts were written anew."
    ),
}


WHOSE = {
    Reason.MIRROR_POD_INVALID: warning(
        "A pod states that it is the mirror of a static pod, and not as kubelet does: somebody else wrote "
        "the annotation. The agent writes nothing for the pod.",
        "Delete the pod, and find out who created it. A static pod's manifest must not state a uid.",
    ),
    Reason.CGROUP_CONTESTED: warning(
        "Two pods of the API state the UID of one cgroup. The agent writes to it for neither of them.",
        "Delete the pod that kubelet did not create; the log names both.",
    ),
}

QUOTAS = {
    Reason.QUOTA_NORMALIZED: ReasonText(
        "The cgroup has kubelet's quota divided by the node's normalization ratio."
    ),
    Reason.QUOTA_RESTORED: ReasonText("Nobody bounds the cgroup any more: kubelet's quota was put back."),
    Reason.QUOTA_BOUNDED_BY_PARENT: ReasonText(
        "On cgroup v1 a cgroup cannot have more than its parent, and the parent has less than the "
        "quota needs."
    ),
    Reason.QUOTA_DRIFT_REPAIRED: ReasonText(
        "Somebody else had changed the quota of a cgroup that is bounded; the bound was put back.",
        "Find out who else writes the quotas of this node's cgroups, if this comes again and again.",
    ),
}

SETTINGS = {
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
