"""Suppression: how much of a node offline pods may use, and how they get there gently. All of it pure.

``offer`` computes the amount from one interval's usage, smooths it over time, and says when the Node shows
it. ``quotas`` moves the one quota of all offline pods (option 1), or the quota of each (option 2).
``batch_limits`` is what an offline pod's own requests and limits mean to the kernel. ``resctrl_limits``
computes how much last-level cache and memory bandwidth all offline pods get. ``eviction`` says which
offline pod has to go, if any.
"""
