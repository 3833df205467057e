"""What a test of one kubelet has shown: the record, as JSON, and the table that is made of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from experiments.kubelet_rewrites.observing import Rewrite

_HEAD = ("WHEN", "CGROUP", "FILE", "WRITTEN BY", "AFTER", "VALUE")


class Kubelet(msgspec.Struct, frozen=True):
    """The kubelet, and what it runs on."""

    version: str
    runtime: str
    kernel: str
    system: str
    cgroups: str
    driver: str
    cpus: int


class Step(msgspec.Struct, frozen=True):
    """One step: what was done, for how many seconds files were watched, and what was rewritten.

    ``note`` says why the step was not, or not wholly, done.
    """

    name: str
    seconds: float
    rewrites: list[Rewrite]
    note: str = ""


class Record(msgspec.Struct, frozen=True):
    """All steps; ``marked`` and ``unmarked`` are files by cgroup. ``writers``: whether writers were named."""

    kubelet: Kubelet
    writers: bool
    steps: list[Step]
    marked: list[tuple[str, str]]
    unmarked: dict[str, str]

    def kept(self) -> list[tuple[str, str]]:
        """Return the files that kept their marks in all steps, as long as their cgroups existed."""
        found = (each for step in self.steps for each in step.rewrites if not each.new)
        rewritten = {(each.cgroup, each.file) for each in found}
        return [each for each in self.marked if each not in rewritten]


def table(record: Record) -> str:
    """Write a record for readers."""
    kubelet = record.kubelet
    cgroups = f"cgroup {kubelet.cgroups} ({kubelet.driver})"
    machine = f"Linux {kubelet.kernel}, {kubelet.cpus} CPUs, {kubelet.system}"
    lines = [f"kubelet {kubelet.version}, {kubelet.runtime}, {cgroups}, {machine}", ""]
    rows = [_HEAD, *(row for step in record.steps for row in _rows(step))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines += [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    lines += ["", *(f"{step.name}: {step.note}" for step in record.steps if step.note)]
    if not record.writers:
        lines.append("Writers are not known: this kernel refuses fanotify.")
    lines += _listed("Not rewritten in any step", (f"{cgroup} {file}" for cgroup, file in record.kept()))
    lines += _listed("Not marked", (f"{about}: {why}" for about, why in sorted(record.unmarked.items())))
    return "\n".join(lines).rstrip() + "\n"


def _rows(step: Step) -> Iterator[tuple[str, ...]]:
    """Yield the rewrites of a step, those of one file together."""
    grouped: dict[tuple[str, str, str, str], list[str]] = {}
    for each in step.rewrites:
        by = "new cgroup" if each.new else each.by or "unknown"
        key = each.cgroup, each.file, by, each.value
        grouped.setdefault(key, []).append(f"{each.after:.1f}")
    for (cgroup, file, by, value), times in grouped.items():
        yield step.name, cgroup, file, by, f"{', '.join(times)} s", value
    if not grouped:
        yield step.name, "nothing is rewritten", "", "", f"{step.seconds:.0f} s", ""


def _listed(title: str, texts: Iterable[str]) -> list[str]:
    found = list(texts)
    return [f"{title}:", *(f"  {each}" for each in found)] if found else []
