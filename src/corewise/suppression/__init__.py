"""Suppression: how much of a node offline pods may use, and how they get there gently. All of it pure.

``offer`` computes it from one interval's usage, ``history`` smooths it over time, ``publication`` says when
the Node is told. ``slice_quota`` moves the one quota of all offline pods (option 1), ``pod_quotas`` the quota
of each (option 2). ``batch_limits`` is what an offline pod's own requests and limits mean to the kernel.
"""
