"""Hardware counters by perf_event_open(2): groups of events, each on one CPU, read together and scaled.

Needs CAP_PERFMON (or perf_event_paranoid below 1), a seccomp profile that allows the call, and a processor,
or a hypervisor, that counts.
"""
