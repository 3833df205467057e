"""Trees of /sys/bus/event_source/devices as kernels describe memory controllers.

Files, formats and event codes are those of arch/x86/events/intel/uncore_snbep.c (Skylake and Sapphire Rapids
servers) and Documentation/ABI/testing/sysfs-bus-event_source-devices-{format,events}.
"""

from __future__ import annotations

from pathlib import Path

from machine_trees import Tree

UNITS = "sys/bus/event_source/devices"
FORMAT = {"event": "config:0-7", "umask": "config:8-15", "edge": "config:18", "thresh": "config:24-31"}
SKYLAKE = {"cas_count_read": "event=0x04,umask=0x03", "cas_count_write": "event=0x04,umask=0x0c"}
SAPPHIRE_RAPIDS = {"cas_count_read": "event=0x05,umask=0xcf", "cas_count_write": "event=0x05,umask=0xf0"}
GRANITE_RAPIDS = {
    f"cas_count_{way}_sch{scheduler}": f"event=0x0{5 + scheduler},umask=0x{umask}"
    for way, umask in (("read", "cf"), ("write", "f0"))
    for scheduler in (0, 1)
}
READ_1, WRITE_1 = 0x0304, 0x0C04
"""The configuration words of Skylake's two events."""


def unit(tree: Tree, name: str, number: int, events: dict[str, str], cpus: str = "0,4") -> Tree:
    where = f"{UNITS}/{name}"
    tree.put(f"{where}/type", number).put(f"{where}/cpumask", cpus)
    for field, bits in FORMAT.items():
        tree.put(f"{where}/format/{field}", bits)
    tree.put(f"{where}/events/clockticks", "event=0x00,umask=0x00")
    for event, text in events.items():
        tree.put(f"{where}/events/{event}", text)
        tree.put(f"{where}/events/{event}.scale", "6.103515625e-5").put(f"{where}/events/{event}.unit", "MiB")
    return tree


def controllers(root: Path, events: dict[str, str], channels: int = 2) -> Tree:
    """Two sockets whose channels are counted on CPUs 0 and 4."""
    tree = Tree(root)
    for channel in range(channels):
        unit(tree, f"uncore_imc_{channel}", 20 + channel, events)
    free_running = f"{UNITS}/uncore_imc_free_running_0"
    tree.put(f"{free_running}/type", 40).put(f"{free_running}/cpumask", "0,4")
    return unit(tree, "uncore_cha_0", 50, {}).put(f"{UNITS}/cpu/type", 4)
