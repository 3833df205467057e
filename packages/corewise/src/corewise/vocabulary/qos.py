"""QoS classes, and which claims of pods to CPUs are accepted. Pure.

The label ``koordinator.sh/qosClass`` and the annotation ``scheduling.koordinator.sh/resource-status`` stand
on the pod, so its owner can write both. Scheduler and agent accept them by these rules:

- LSE and SYSTEM count only in namespaces where they are allowed; elsewhere the pod is as one without a class.
- A claim to CPUs needs class LSR or LSE, and names exactly as many CPUs as the pod requests; or fewer, where
  it states that request itself (normalized).

What a node's other claims leave is for the ledger: that no CPU has two owners, and that some stay shared.

The namespaces are an option of scheduler and agents. The scheduler writes them into the annotation
``corewise.io/restricted-qos-namespaces`` of what it installs, so that commands judge pods as it does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from corewise.quantities import MILLI
from corewise.vocabulary.cpu_annotations import ResourceStatus, asks_to_normalize
from corewise.vocabulary.errors import UNREADABLE
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.names import QOS_CLASS, RESTRICTED_QOS_NAMESPACES
from corewise.vocabulary.reasons import Reason

OWNERS_OF_CPUS = frozenset({"LSE", "LSR"})
SYSTEM_CRITICAL = 2_000_000_000
"""The priority of system-cluster-critical; system-node-critical is above. No user's class may be as high."""
EXEMPT_CLASSES = frozenset({"SYSTEM", "BE"})
"""Normalization leaves the quotas of their pods alone."""
RESTRICTED_CLASSES = frozenset({"LSE", "SYSTEM"})
"""They take more from a node's other pods than the pod's requests say."""
DEFAULT_NAMESPACES = ("kube-system",)


@dataclass(frozen=True, slots=True)
class QoSRules:
    """``namespaces`` are those whose pods may be LSE or SYSTEM; None is all of them."""

    namespaces: frozenset[str] | None = frozenset(DEFAULT_NAMESPACES)

    @classmethod
    def published(cls, annotations: Mapping[str, str]) -> QoSRules | None:
        """Return the rules that annotations state; None if they state none that can be read."""
        try:
            return cls(
                msgspec.json.decode(annotations[RESTRICTED_QOS_NAMESPACES], type=frozenset[str] | None)
            )
        except (KeyError, *UNREADABLE):
            return None

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations that state these rules."""
        listed = None if self.namespaces is None else sorted(self.namespaces)
        return {RESTRICTED_QOS_NAMESPACES: msgspec.json.encode(listed).decode()}

    def class_of(self, labels: Mapping[str, str], namespace: str) -> str:
        """Return the QoS class that counts for a pod; "" if it has none."""
        stated = labels.get(QOS_CLASS, "")
        return "" if self._is_refused(stated, namespace) else stated

    def class_problem(self, labels: Mapping[str, str], namespace: str) -> Finding | None:
        """Return the reason the class that a pod states does not count."""
        stated = labels.get(QOS_CLASS, "")
        if not self._is_refused(stated, namespace):
            return None
        message = (
            f"QoS class {stated} is not allowed in namespace {namespace}: use another class, or add it to "
            "--restricted-qos-namespace"
        )
        return Finding(Reason.QOS_CLASS_NOT_ALLOWED, message)

    def claim_problem(
        self, labels: Mapping[str, str], namespace: str, claim: ResourceStatus, request: int | None
    ) -> Finding | None:
        """Return the reason a pod's claim to CPUs is not accepted.

        ``request`` is the pod's in milli-CPU; None if it is not known yet: then any number of CPUs will do.
        """
        refused, cpus = self.class_problem(labels, namespace), claim.cpus
        if refused or not cpus:
            return refused if cpus else None
        stated = self.class_of(labels, namespace)
        if stated not in OWNERS_OF_CPUS:
            has = f"QoS class {stated[:40]!r}" if stated else "no QoS class"
            return Finding(Reason.CLAIM_WITHOUT_CLASS, f"CPUs {cpus}, and has {has}, not LSR or LSE")
        if request is not None and len(cpus) * MILLI + claim.surplus != request:
            message = f"CPUs {cpus}: {len(cpus)} CPUs, and it requests {request} milli-CPU"
            return Finding(Reason.CLAIM_NOT_REQUESTED, message)
        return None

    def _is_refused(self, stated: str, namespace: str) -> bool:
        allowed = self.namespaces
        return stated in RESTRICTED_CLASSES and allowed is not None and namespace not in allowed


DEFAULT_RULES = QoSRules()
ANY_NAMESPACE = QoSRules(None)


def normalizes_cpus(qos_class: str, annotations: Mapping[str, str]) -> bool:
    """Return whether the CPUs that a pod of this class owns are normalized ones."""
    return qos_class in OWNERS_OF_CPUS and asks_to_normalize(annotations)
