"""The writers of cgroups' quotas and settings and of a resctrl group; what they share: journal and report.

A write is entered in the journal before it happens, and before the first write to a file the journal has what
is to be restored one day. A process that is killed at any point leaves a journal from which the next goes on.
In order: ``entries`` and ``journal``; ``journaled_writer``; for quotas ``quota_claims`` and ``quota_writer``;
for settings ``setting_claims``, ``setting_plan`` and ``setting_writer``; for the group ``resctrl_writer``.
"""
