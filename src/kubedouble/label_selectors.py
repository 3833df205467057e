"""The metav1.LabelSelector of webhook configurations and aggregated roles, from JSON as it is stored.

Where it is absent or empty it matches everything, which is what those fields default to.

Source: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#resources-that-support-set-based-requirements
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from corewise.vocabulary.selectors import LabelSelector, Operator, Requirement


def label_selector(selector: Mapping[str, Any] | None) -> LabelSelector:
    """The selector that the JSON means; validation has seen to its operators."""
    parts = selector or {}
    labels = LabelSelector.of_labels(parts.get("matchLabels") or {})
    terms = tuple(
        Requirement(term["key"], Operator(term["operator"]), frozenset(term.get("values") or ()))
        for term in parts.get("matchExpressions") or ()
    )
    return LabelSelector(labels.requirements + terms)
