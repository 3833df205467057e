"""What ``corewise top`` says beside its table: nodes that are not in it, data not to be relied on (pure)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from corewise.cli.offline_reports import NodeReport, age_text, offer_problem
from corewise.cli.output import count, some
from corewise.vocabulary.names import CONFIG_NAME, OVERSUBSCRIPTION, SUPPRESSION_KEY


def remarks(nodes: Sequence[NodeReport], config_namespace: str) -> Iterable[str]:
    """Return one line for each thing that the table does not show, the most urgent first."""
    config = f"ConfigMap {config_namespace}/{CONFIG_NAME}"
    stale = _names(nodes, lambda node: node.stale)
    if stale:
        oldest = age_text(max((node.age or 0 for node in nodes if node.stale), default=0))
        yield (
            f"{_have(stale)} old data, up to {oldest}: {some(stale)} "
            "(is corewise agent running there? Until it is, quotas stay as they are)"
        )
    troubled = _names(nodes, lambda node: node.report is not None and bool(offer_problem(node.report)))
    if troubled:
        yield f"{_have(troubled)} no samples: {some(troubled)} (corewise explain suppression {troubled[0]})"
    unreadable = _names(nodes, lambda node: node.unreadable)
    if unreadable:
        yield f"{_have(unreadable)} a report that cannot be read: {some(unreadable)} (another version's?)"
    silent = _names(nodes, lambda node: node.labelled and node.report is None and not node.unreadable)
    if silent:
        yield (
            f"{_have(silent)} the label {OVERSUBSCRIPTION}=true and no report: {some(silent)} "
            "(is corewise agent running there?)"
        )
    free = _names(nodes, lambda node: node.report is not None and node.report.suppression is None)
    if free:
        yield (
            f"{_have(free)} no suppression: {some(free)} (turn it on: key {SUPPRESSION_KEY} of {config}, "
            "{} is enough)"
        )
    off = _names(nodes, lambda node: node.report is None and not node.labelled and not node.unreadable)
    if off:
        yield (
            f"{count(len(off), 'node')} not shown: oversubscription is off. Turn it on: "
            f"kubectl label node {off[0]} {OVERSUBSCRIPTION}=true, and key {SUPPRESSION_KEY} of {config}"
        )


def _names(nodes: Iterable[NodeReport], applies: Callable[[NodeReport], bool]) -> list[str]:
    return [node.name for node in nodes if applies(node)]


def _have(names: Sequence[str]) -> str:
    return f"{count(len(names), 'node')} {'has' if len(names) == 1 else 'have'}"
