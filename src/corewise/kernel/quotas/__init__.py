"""The one writer of CPU quotas, and undoing; the journal is that of :mod:`corewise.kernel.writing`.

API for the agent (all synchronous; a cycle over 330 cgroups takes milliseconds)::

    layout  = find_layout(root)                                  # kernel.cgroups.layout: v1 or v2, mounts
    pods    = find_pod_cgroups(files, cgroup_root)               # kernel.cgroups.pods: driver, prefix
    cgroup  = pods.pod(uid, QOSClass.BURSTABLE)                  # str; UnsafeName if the UID is not plain
    cgroup  = pods.container(uid, QOSClass.BURSTABLE, "containerd://…")
    cgroup  = pods.qos(QOSClass.BEST_EFFORT)
    files   = CgroupFiles(layout)                                # kernel.cgroups.files
    read_bandwidth(files, cgroup) -> Bandwidth(quota | None, period)      # kernel.cgroups.cpu
    read_usage(files, cgroup) -> nanoseconds of CPU time

    with Journal.open(state_dir, boot=…) as journal:             # kernel.writing.journal; or JournalHeld
        writer = QuotaWriter(files, journal, now=time.time)      # kernel.quotas.writer; loads the ledger
        report = writer.reconcile(QuotaOwner.NORMALIZATION, actions)   # the owner's whole wanted state
        report = writer.apply(actions)                           # some of it, at once (one pod, from NRI)
        report = writer.restore()                                # everything back to its base
        writer.applied(cgroup, present) -> quota | None          # the last one applied, whoever wrote since

``actions`` are ``WriteQuota`` values. ``reconcile`` releases what the owner no longer names (back to base,
then forgotten). Report: ``written`` (cgroup, file, old, new), ``drifted`` (cgroups), ``failed`` {cgroup:
KernelError}, ``gone`` (cgroups), ``foreign_periods`` {cgroup: period read}: recompute for these and apply
again. Nothing raises but JournalError and bugs: an error of one cgroup stands in the report.
"""
