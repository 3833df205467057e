"""What a run had to endure and what became of it, as a table for a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from experiments.fault_soak.links import Fault, Link
from tools.bench.table import quantile


@dataclass(frozen=True, slots=True)
class Options:
    """How large the cluster is, how long faults last, by which seed they are drawn, and of which kinds."""

    nodes: int = 2
    seconds: float = 3600.0
    seed: int = 1
    faults: frozenset[Fault] = frozenset(Fault)


@dataclass
class Result:
    """What happened; ``problems`` is empty if nothing went wrong.

    ``done``: what users and evictors did. ``waits``: by kind of pods, the seconds that each waited for its
    node. ``settled_after``: the seconds from the last fault until everything was right.
    """

    options: Options
    links: Sequence[Link] = ()
    done: Counter[str] = field(default_factory=Counter)
    waits: Mapping[str, Sequence[float]] = field(default_factory=dict)
    node_versions: int = 0
    pod_versions: int = 0
    settled_after: float = 0.0
    problems: list[str] = field(default_factory=list)

    @property
    def struck(self) -> Counter[str]:
        """The faults of all links."""
        return sum((link.struck for link in self.links), Counter())

    def table(self) -> str:
        """Show the faults of each link, the waits of pods, and what was wrong."""
        options, done = self.options, sorted(self.done.items())
        happened = ", ".join(f"{number:,} {what}" for what, number in done)
        kinds = "" if options.faults == set(Fault) else f", {', '.join(sorted(options.faults))} alone"
        size = f"{options.nodes} nodes, {options.seconds / 60:g} minutes, seed {options.seed}"
        head = f"{size}{kinds}: {happened}."
        return "\n".join(
            [head, "", *self._of_links(), "", *self._of_waits(), "", self._verdict(), *self._of_problems()]
        )

    def _of_links(self) -> Iterator[str]:
        yield "| link | requests | faults |"
        yield "|---|---:|---:|"
        for link in self.links:
            yield f"| {link.name} | {link.passed:,} | {link.struck.total():,} |"
        faults = ", ".join(f"{number:,} {fault}" for fault, number in self.struck.most_common())
        yield from ("", f"Of the faults were: {faults}.")

    def _of_waits(self) -> Iterator[str]:
        yield "| pods | bound | median wait, s | 95 % | longest |"
        yield "|---|---:|---:|---:|---:|"
        for kind, waits in sorted(self.waits.items()):
            shown = " | ".join(f"{quantile([*waits], share):.1f}" for share in (0.5, 0.95, 1.0))
            yield f"| {kind} | {len(waits):,} | {shown} |"

    def _verdict(self) -> str:
        looked = f"{self.node_versions:,} versions of nodes and {self.pod_versions:,} of pods were judged"
        if self.problems:
            return f"{looked}; {len(self.problems)} things were wrong:"
        return f"{looked}; {self.settled_after:.0f} s after the last fault everything was right."

    def _of_problems(self) -> Iterator[str]:
        for problem in self.problems:
            yield f"- {problem}"
