"""Puts back what was in cgroups, from the journal alone: no API server, no agent, no runtime is asked.

What the journal holds is what agents have bounded or set in this boot and not released: quotas, weights, CPU
sets, memory limits. Each is written back to its base. An agent that runs meanwhile would do it all again, and
holds the journal: stop it first.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

from corewise.kernel.boot import read_boot_id
from corewise.kernel.cgroups.files import CgroupFiles
from corewise.kernel.cgroups.layout import find_layout
from corewise.kernel.quotas.writer import QuotaWriter
from corewise.kernel.settings.writer import SettingWriter
from corewise.kernel.writing.journal import Journal, damage_text
from corewise.kernel.writing.report import Report

_log = logging.getLogger(__name__)


def restore(root: Path, state_dir: Path, *, tell: Callable[[str], object] = _log.warning) -> Report:
    """Put everything back that the journal in ``state_dir`` holds; ``tell`` of damage to the journal.

    Raises:
        KernelError: if the journal is held or cannot be used, or there are no cgroups.
    """
    with (
        CgroupFiles(find_layout(root)) as files,
        Journal.open(state_dir, boot=read_boot_id(root), now=time.time) as journal,
    ):
        if damaged := journal.damage():
            tell(damage_text(damaged))
        report = QuotaWriter(files, journal, now=time.time).restore()
        report.add(SettingWriter(files, journal, now=time.time).restore())
        return report
