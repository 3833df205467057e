"""Reason codes: what amplification decides: ratios, safe changes, node status."""

from __future__ import annotations

from corewise.vocabulary.reasons.codes import Reason
from corewise.vocabulary.reasons.text import ReasonText, warning

RATIO = {
    Reason.AMPLIFICATION_RATIO_INVALID: warning(
        "An amplification ratio cannot be read; what is in force for these resources stays.",
        'Write a JSON object of decimal numbers with two places, such as {"cpu":1.50}.',
    ),
    Reason.AMPLIFICATION_RATIO_OUT_OF_RANGE: warning(
        "An amplification ratio is above the largest allowed; what is in force for this resource stays.",
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
