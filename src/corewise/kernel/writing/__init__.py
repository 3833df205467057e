"""What the writers of quotas and of settings share: one journal, the pen that keeps it, the report.

A write is entered in the journal before it happens, and before the first write to a file stands what comes
back one day. Whoever is killed at any point leaves a journal from which the next process goes on.
"""
