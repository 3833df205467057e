"""Reason codes: what normalization decides, and the configuration of the cluster."""

from __future__ import annotations

from corewise.vocabulary.reasons.codes import Reason
from corewise.vocabulary.reasons.text import ReasonText, warning

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
        "The normalization ratio annotated on the node cannot be read; the last good one stays in force.",
        "Remove the annotation node.koordinator.sh/cpu-normalization-ratio; the manager writes it anew.",
    ),
}

CONFIGURATION = {
    Reason.CONFIG_INVALID: warning(
        "A key of the ConfigMap slo-controller-config has errors; the last good one stays in force.",
        "Run corewise config check on the ConfigMap: it lists every error with line and column.",
    ),
    Reason.CONFIG_APPLIED: ReasonText("The configuration was read without errors and is in force."),
    Reason.CONFLICTING_NODE_CONFIGS: warning(
        "More than one nodeConfigs entry selects the same node; the first of them is used.",
        "Make the selectors exclude each other.",
    ),
}
