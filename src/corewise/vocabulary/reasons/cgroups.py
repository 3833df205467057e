"""Reason codes: what is written to cgroups, and put right."""

from __future__ import annotations

from corewise.vocabulary.reasons.codes import Reason
from corewise.vocabulary.reasons.text import ReasonText, warning

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
        "On cgroup v1 a cgroup cannot have more than its parent, and the parent has less than was asked for."
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
