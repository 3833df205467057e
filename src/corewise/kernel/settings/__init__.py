"""The one writer of weights, CPU sets, memory nodes and memory limits, and undoing; beside that of quotas.

API for the agent (synchronous; the same journal as the quotas', with ``files`` and ``journal`` from there)::

    settings = SettingWriter(files, journal, now=time.time)           # kernel.settings.writer
    report = settings.reconcile(SettingOwner.BATCH, actions)          # the owner's whole wanted state
    report = settings.apply(actions)                                  # some of it, at once
    report = settings.restore()                                       # everything back to its base
    settings.applied(cgroup, Setting.CPUSET) -> str | None            # what an owner wants, also from before

``actions`` are ``WriteSetting`` values, at most one for a setting of a cgroup, whose owner is the only one.
Report: as that of the quotas, but ``failed`` and ``drifted`` go by file ("/kubepods/…/cpu.weight"). Nothing
raises but JournalError and bugs.
"""
