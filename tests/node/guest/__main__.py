"""Runs inside a virtual machine: observes, and writes what it saw to the file named by its argument.

    python -m node.guest FILE [agent]

With ``agent`` the agent runs there as a program, too.

It ends within LONGEST seconds, whatever happens, and with it the virtual machine.
"""

from __future__ import annotations

import signal
import sys
import traceback
from pathlib import Path

from corewise.kernel.cgroups.files import CgroupFiles
from corewise.kernel.cgroups.layout import find_layout
from node.guest import hardware, hybrid, loads, pods, settings, writing
from node.guest.records import Report

LONGEST = 1140


def main(report: Report, *, with_agent: bool) -> None:
    """Observe everything, in an order in which nothing disturbs what follows."""
    hardware.bring_up()
    hardware.observe(report)
    hybrid.observe(report)
    with CgroupFiles(find_layout()) as files:
        for tree in pods.TREES:
            pods.make(tree)
            pods.tell_names(report, tree, files)
            writing.change_ratios(report, tree, files)
        tree = pods.TREES[0]
        loads.measure(report, tree, files)
        writing.die(report, tree, files)
        settings.observe(report, tree, files)
        writing.meet_faults(report, tree, files)
        writing.ask_kernel(report, tree)
    if with_agent:
        # Under emulation, to import these takes half a minute.
        from node.guest import pinning, program  # noqa: PLC0415

        pinning.observe(report, pods.TREES[0])
        program.observe(report)
    report.add("end", value=True)


if __name__ == "__main__":
    signal.alarm(LONGEST)
    told = Report(Path(sys.argv[1]))
    try:
        main(told, with_agent="agent" in sys.argv[2:])
    except BaseException:
        told.add("failure", traceback.format_exc())
        raise
