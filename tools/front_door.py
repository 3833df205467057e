"""The project as a stranger meets it: README's commands and the first tutorials, and what they install.

    python3 -m tools.front_door

Run it in a fresh clone, before anything of development is installed: it begins with README's first command,
which makes the virtual environment. Clusters wait most of the time, so rows of steps run side by side. It
needs Python and make; what needs kubectl is left out where there is none of 1.31 or newer. What a step prints
is shown if it fails; the last line says how long each took.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tools import tutorial

ROOT = Path(__file__).parents[1]
PAGES = tuple(Path("docs/start", f"{name}.md") for name in ("cluster-admin", "batch-jobs", "openstack"))
"""The tutorials for users."""
_PATIENCE = 900.0
_STORY = "What one CPU in a request is worth"
_COREWISE = ".venv/bin/corewise"


@dataclass(frozen=True)
class Step:
    """A command to type, and the output it must print; ``{work}`` is a folder for all steps."""

    command: str
    shows: tuple[str, ...] = ()
    by_kubectl: bool = False


_RATIO = 'node.corewise.io/resource-amplification-ratio-original={"cpu":1.2}'
_TRY_IT = (
    f"{_COREWISE} nodes",
    f"{_COREWISE} explain node genoa-0",
    "kubectl get nodes",
    "kubectl get nodes,pods -A -o json > {work}/dump.json",
    "kubectl get nodes,pods,noderesourcetopologies,configmaps -A -o json > {work}/facts.json",
    f"kubectl annotate --overwrite node genoa-0 '{_RATIO}'",
    f"{_COREWISE} config starter --cluster > {{work}}/starter.yaml",
    f"{_COREWISE} uninstall --check || test $? = 1",  # 1: undo something first
)
"""README's commands for a second terminal, while the cluster of the first one runs."""

SECOND_TERMINAL = f"""
make up UP="" > {{work}}/up.log 2>&1 &
until grep -q 'export KUBECONFIG=' {{work}}/up.log || ! kill -0 $!; do sleep 1; done
eval "$(grep -o 'export KUBECONFIG=.*' {{work}}/up.log)"
{" && ".join(_TRY_IT)} || exit
kill $! && wait $!
! grep Traceback {{work}}/up.log"""
_WHEELS = """for each in packages/*; do
  (cd $each && ../../.venv/bin/python -m hatchling build --target wheel --directory {work}/dist) || exit
done"""
_ALONE = "python3 -m venv {work}/venv && {work}/venv/bin/pip install --quiet {work}/dist/corewise-*.whl"
STAGES = (
    ((Step('make up UP="--for 5s"', (_STORY, "one CPU is worth")),),),
    (
        (
            Step(f"{_COREWISE} up --scenario colocation --for 5s", ("offline pods",)),
            Step(f"{_COREWISE} up --scenario interference --for 5s", ("memory bandwidth",)),
            Step(f"{_COREWISE} up --scenario unknown-model --for 5s", ("UnknownCPUModel",)),
            Step(f"{_COREWISE} up --scenario outage --for 10s", ("all killed", "all run again")),
            Step(f"{_COREWISE} up --nodes 50 --for 5s", (_STORY, "50 nodes")),
            Step(f"{_COREWISE} up --state {{work}}/state --for 5s", (_STORY,)),
            Step(f"{_COREWISE} up --state {{work}}/state --for 5s", ("corewise was on from the start",)),
            Step(f"{_COREWISE} up --for 5s -o json | python3 -m json.tool", ('"spread": {',)),
        ),
        (
            Step(SECOND_TERMINAL, ("genoa-0", "normalization ratio"), by_kubectl=True),
            Step(f"{_COREWISE} up --from {{work}}/facts.json --for 5s", (_STORY,), by_kubectl=True),
            Step(
                f"{_COREWISE} up --from {{work}}/dump.json --for 5s",
                ("No CPU facts of", "cpuFacts:"),
                by_kubectl=True,
            ),
            *(Step(str(page), by_kubectl=True) for page in PAGES[:2]),
        ),
        (
            # corewise alone, then with the lab: commands of a distribution are there once it is installed.
            Step(_WHEELS),
            Step(_ALONE),
            Step("cd {work} && venv/bin/corewise topology", ("Shape:",)),
            Step("cd {work} && ! venv/bin/corewise up 2>&1", ("corewise up is part of corewise-lab",)),
            Step("{work}/venv/bin/pip install --quiet {work}/dist/{kubedouble,corewise_lab}-*.whl"),
            Step("cd {work} && venv/bin/corewise up --for 5s", (_STORY,)),
        ),
    ),
    (
        (
            Step("make openstack"),
            Step(f"{_COREWISE} up --scenario openstack --for 1s", ("Where the guests went",)),
            Step(str(PAGES[2])),
        ),
    ),
    ((Step("git diff --exit-code"),),),
)
"""Stages, one after the other. The rows of a stage run side by side, each step by step."""
STEPS = tuple(step for stage in STAGES for row in stage for step in row)


def main() -> None:
    """Run all steps and pages; exit with 1 if one of them does not do what it says."""
    os.chdir(ROOT)
    if Path(".venv").exists():
        sys.exit("front door: there is a .venv here already: run it in a fresh clone")
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    environment |= {"LANG": "C.UTF-8", "TERM": "dumb"}
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="front-door-") as folder:
        visit = _Visit(Path(folder), environment, has_kubectl=_has_kubectl())
        for stage in STAGES:
            with ThreadPoolExecutor(len(stage)) as rows:
                list(rows.map(visit.run, stage))
            if visit.failed == len(visit.took):
                break  # nothing works without the first step
    total = time.monotonic() - began
    each = ", ".join(f"{name} {seconds:.0f}" for name, seconds in visit.took)
    print(f"front door: {len(visit.took)} steps in {total:.0f} s, {visit.failed} failed: {each}")
    sys.exit(1 if visit.failed else 0)


def _has_kubectl() -> bool:
    printed, code = tutorial.shell("kubectl version --client -o json", ROOT, os.environ, patience=60.0)
    found = re.search(r'"minor": "(\d+)', printed)
    return code == 0 and found is not None and int(found[1]) >= 31


@dataclass
class _Visit:
    """The steps that were run: their names with their seconds, and how many failed."""

    work: Path
    environment: Mapping[str, str]
    has_kubectl: bool
    took: list[tuple[str, float]] = field(default_factory=list)
    failed: int = 0

    def run(self, row: Sequence[Step]) -> None:
        """Run a row of steps, one after the other."""
        for step in row:
            if step.by_kubectl and not self.has_kubectl:
                print(f"front door: no kubectl of 1.31 or newer, left out: {step.command}", flush=True)
                continue
            began = time.monotonic()
            problem = (_page if Path(step.command) in PAGES else _step)(step, self.work, self.environment)
            seconds = time.monotonic() - began
            name = (
                "README's commands for a second terminal" if step.command == SECOND_TERMINAL else step.command
            )
            how = "FAILED" if problem else "ok    "
            print(
                f"front door: {seconds:4.0f} s  {how}  {name}", *filter(None, [problem]), sep="\n", flush=True
            )
            self.took.append((name, seconds))
            self.failed += bool(problem)


def _step(step: Step, work: Path, environment: Mapping[str, str]) -> str:
    """Run a step; return what is wrong, empty if nothing is."""
    command = step.command.replace("{work}", str(work))
    printed, code = tutorial.shell(f"set -o pipefail; {command}", ROOT, environment, patience=_PATIENCE)
    missing = [each for each in step.shows if each not in printed]
    if code == 0 and not missing:
        return ""
    return f"{command}\nexit code {code}; not printed: {missing}\n{printed}"


def _page(step: Step, work: Path, environment: Mapping[str, str]) -> str:
    """Run a tutorial in this clone; return what is wrong."""
    page = Path(step.command)
    home = work / page.stem
    home.mkdir()
    done = tutorial.run(page, ROOT, {**environment, "TMPDIR": str(home)})
    return "\n".join(each.problem for each in done if each.problem)


if __name__ == "__main__":
    main()
