"""How long one read from memory takes, measured: no counter tells. Needs no privilege, in a VM neither."""
