"""Pinning on a node: pods run on the CPUs that they own, all others on those that nobody owns.

- :mod:`division`: who owns which CPUs, by what the pods' annotations claim, and what is shared;
- :mod:`cpu_sets`: what each cgroup is to have;
- :mod:`keeper`: brings cgroups there, again and again, and back;
- :mod:`ledger_report`: who owns what, as the NodeResourceTopology tells it;
- :mod:`exposing`: the metrics.
"""
