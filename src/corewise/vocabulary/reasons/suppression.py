"""Reason codes: what is offered to offline pods, and what holds them back."""

from __future__ import annotations

from corewise.vocabulary.reasons.codes import Reason, ReasonText, warning

OFFER = {
    Reason.OFFER_FROM_IDLE: ReasonText(
        "Offline pods are offered the ratio of what online work leaves idle of the node's allocatable CPU."
    ),
    Reason.OFFER_LESS_PINNED: ReasonText(
        "CPUSet pods use less than they request. Their CPUs cannot be lent, so what they request counts, and "
        "the offer is that much smaller."
    ),
    Reason.OFFER_NOTHING_IDLE: ReasonText(
        "Online work, with what CPUSet pods request, takes all of the node's allocatable CPU: nothing is "
        "offered, and offline pods keep the smallest quota."
    ),
    Reason.OFFER_RATIO_ZERO: ReasonText(
        "The ratio of oversubscription is 0.00, so nothing is offered.",
        "Raise ratio in the key oversubscription-config of the ConfigMap slo-controller-config, if offline "
        "pods are meant to run on the node.",
    ),
    Reason.OFFER_FROZEN: warning(
        "Three or more samples of usage are missing in a row: the last offer stays.",
        "See the agent's log for why usage cannot be read. After 15 minutes without a sample nothing is "
        "offered any more.",
    ),
    Reason.OFFER_WITHDRAWN: warning(
        "There was no sample of usage for 15 minutes: nothing is offered until there is one.",
        "See the agent's log for why usage cannot be read.",
    ),
    Reason.OVERSUBSCRIPTION_OFF: ReasonText(
        "The node's label does not turn oversubscription on: nothing is offered, and nothing is suppressed.",
        'Label the node volcano.sh/oversubscription: "true" if offline pods are meant to run on it.',
    ),
    Reason.OVERSUBSCRIPTION_LABEL_INVALID: warning(
        "The label that turns oversubscription on is neither true nor false; the previous setting is kept.",
        'Set volcano.sh/oversubscription to "true" or "false", or remove it.',
    ),
    Reason.SAMPLE_MISSED: warning(
        "Usage could not be measured in one interval. What is missing is not zero: the offer stays.",
        "Nothing, if it is one. The message tells what could not be read, or made no sense.",
    ),
}

SUPPRESSION = {
    Reason.SUPPRESSION_OFF: ReasonText(
        "Suppression is not configured, or disabled, for the node: offline pods have the quotas of kubelet.",
        "Set the key cpu-suppression-config of the ConfigMap slo-controller-config to {} to turn it on.",
    ),
    Reason.SUPPRESSION_AT_TARGET: ReasonText("The quota of all offline pods is the amount offered."),
    Reason.SUPPRESSION_AT_FLOOR: ReasonText(
        "Nothing, or next to nothing, is offered: all offline pods together have the smallest quota, 1000 us "
        "of each period."
    ),
    Reason.SUPPRESSION_STEPPED_DOWN: ReasonText(
        "The quota of all offline pods is above the amount offered and came down by one step (adjustStep)."
    ),
    Reason.SUPPRESSION_STEPPED_UP: ReasonText(
        "The quota of all offline pods is below the amount offered and went up by one step (adjustStep)."
    ),
    Reason.SUPPRESSION_FAST: ReasonText(
        "The quota of all offline pods came down to the amount offered at once, as fastSuppress asks."
    ),
    Reason.SLICE_MISSING: warning(
        "The node has no cgroup of BestEffort pods, so there is nothing to hold back.",
        "Nothing, if kubelet has just started: it is looked for again at each interval. Else see whether the "
        "agent finds kubelet's cgroups: corewise agent --help.",
    ),
    Reason.SLICE_UNREADABLE: warning(
        "The quota of the cgroup of BestEffort pods cannot be read or written; it stays as it is.",
        "See what the message names. It is tried again at each interval.",
    ),
    Reason.UTILIZATION_HIGH: ReasonText(
        "The node's CPU utilization rose above highThreshold and is not below lowThreshold yet: quotas of "
        "offline pods are lowered, the least suppressed first."
    ),
    Reason.UTILIZATION_LOW: ReasonText(
        "The node's CPU utilization fell below recoverThreshold and is not above lowThreshold yet: quotas of "
        "offline pods are raised, the most suppressed first."
    ),
    Reason.UTILIZATION_BETWEEN: ReasonText(
        "The node's CPU utilization calls for no change of offline pods' quotas."
    ),
    Reason.NOTHING_ADJUSTABLE: ReasonText(
        "Offline pods' quotas should change, but every one is at its end: at 10 % of the limit, at the "
        "limit, or without a limit."
    ),
    Reason.BATCH_LIMIT_APPLIED: ReasonText(
        "The cgroup has the weight, quota or memory limit that the offline pod's kubernetes.io/batch-cpu and "
        "kubernetes.io/batch-memory ask for; kubelet knows neither."
    ),
    Reason.BATCH_AMOUNT_TINY: warning(
        "An offline pod asks for less than 1 % of a CPU. kubernetes.io/batch-cpu counts in thousandths of a "
        "CPU: 8 CPUs are 8000.",
        "Write the amount in thousandths in the pod's kubernetes.io/batch-cpu.",
    ),
}
