"""Counters of memory controllers, described by the kernel in /sys and counted by perf_event_open(2)."""
