"""The virtual machines that offline pods are held back in: 2 CPUs, cgroup v2; with stated load, and busy."""

from __future__ import annotations

from dataclasses import replace

from node.machines import Machine

MACHINE = Machine(
    name="suppression",
    qemu_model="Skylake-Server",
    model="Intel(R) Xeon(R) Platinum 8269CY CPU @ 2.50GHz",
    vendor="GenuineIntel",
    sockets=1,
    cores=2,
    threads=1,
    numa=((1024, "0-1"),),
    caches=("0-1",),
    guest="node.guest.suppression",
)
LOADED = replace(MACHINE, guest="node.guest.busy_pods")
OPTIONS = ("option 1", "option 2")
