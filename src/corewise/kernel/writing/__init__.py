"""What the writers of quotas and of settings have in common: the journal, the pen that keeps it, the report."""
