"""Control groups: where kubelet's are (``layout``), opened safely (``files``), CPU and memory ``resources``.

A cgroup is named by its path below the mount of its controller, as /proc/PID/cgroup has it
("/kubepods.slice/kubepods-burstable.slice/…"), the same for v1 and v2.
"""
