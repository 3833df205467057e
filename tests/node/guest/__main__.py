"""Runs inside a virtual machine: observes, and writes what it saw to the file named by its argument.

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

LONGEST = 240


def main(report: Report) -> None:
    """Observe everything, in an order in which nothing disturbs what follows."""
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
    report.add("end", value=True)


if __name__ == "__main__":
    signal.alarm(LONGEST)
    told = Report(Path(sys.argv[1]))
    try:
        main(told)
    except BaseException:
        told.add("failure", traceback.format_exc())
        raise
