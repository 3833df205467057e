"""corewise for OpenStack: dedicated and shared CPUs of compute hosts, tracked in Placement."""
