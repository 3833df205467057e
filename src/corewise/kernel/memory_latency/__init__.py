"""How long one read from memory takes, measured: no counter tells, and no privilege is needed, in a VM neither."""
