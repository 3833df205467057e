"""The OpenStack hosts and guests that ``corewise up --scenario openstack`` shows.

The hosts are the document's (16 dedicated CPUs, 30 shared ones, overcommitted eight times), one like it
without hyperthreads, one that shares all its CPUs, and one from before: nothing says which of its CPUs are
dedicated. Linux numbers the first threads of all cores before the second ones, so core 1 of 24 has CPUs 1 and
25. The flavors are the document's examples 1, 2 and 3, as resources and as the policies of old.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from corewise.quantities import Bytes
from corewise.simulation.machines import Machine
from corewise.tracking import Flavor
from corewise.vocabulary.placement import HYPER_THREADING_TRAIT

_GIB = 1 << 30
_RAM_MB = 2048
OLD = "old"


@dataclass(frozen=True)
class SceneHost:
    """A host: its machine, and its nova.conf as text."""

    machine: Machine
    nova_conf: str

    @property
    def name(self) -> str:
        """What it is called, in Placement too."""
        return self.machine.name


@dataclass(frozen=True)
class SceneGuest:
    """A guest that is to be placed; ``form`` says in which words its flavor asks."""

    number: int
    flavor: Flavor
    form: str
    extra_specs: Mapping[str, str] = field(default_factory=dict)


def _host(name: str, cores: int, options: str, *, hyper_threading: bool = True) -> SceneHost:
    machine = Machine(
        name,
        None,
        cpus=cores * (2 if hyper_threading else 1),
        memory=Bytes(64 * _GIB),
        hyper_threading=hyper_threading,
        sockets=2,
    )
    return SceneHost(machine, options)


OLD_HOST = _host(OLD, 16, "")
NEW_HOSTS = (
    _host(
        "document",
        24,
        "[DEFAULT]\ncpu_allocation_ratio = 8.0\n"
        "[compute]\ncpu_dedicated_set = 1-8,25-32\ncpu_shared_set = 9-23,33-47\n",
    ),
    _host(
        "no-smt",
        24,
        "[compute]\ncpu_dedicated_set = 2-9,12-19\ncpu_shared_set = 10-11,20-23\n",
        hyper_threading=False,
    ),
    _host("shared", 12, "[compute]\ncpu_shared_set = 1-11,13-23\n"),
)

_NEW, _LEGACY = "resources", "hw:cpu_policy"
_EXAMPLES: Mapping[tuple[int, str], tuple[int, Mapping[str, str]]] = MappingProxyType(
    {
        (1, _NEW): (2, {"resources:VCPU": "2"}),
        (1, _LEGACY): (2, {}),
        (2, _NEW): (8, {"resources:PCPU": "8"}),
        (2, _LEGACY): (8, {"hw:cpu_policy": "dedicated"}),
        (3, _NEW): (8, {"resources:PCPU": "8", f"trait:{HYPER_THREADING_TRAIT}": "forbidden"}),
        (3, _LEGACY): (8, {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "isolate"}),
    }
)


def _guest(number: int, example: int, form: str) -> SceneGuest:
    vcpus, specs = _EXAMPLES[example, form]
    flavor = Flavor(f"example-{example}", vcpus, _RAM_MB, extra_specs=specs)
    return SceneGuest(number, flavor, form)


EARLY_GUESTS = (_guest(1, 1, _LEGACY), _guest(2, 2, _LEGACY), _guest(3, 3, _LEGACY))
"""Guests that come while the old host is the only one."""

LATER_GUESTS = (
    _guest(4, 1, _NEW),
    _guest(5, 1, _LEGACY),
    _guest(6, 3, _NEW),
    _guest(7, 3, _LEGACY),
    _guest(8, 2, _NEW),
    _guest(9, 2, _LEGACY),
    _guest(10, 2, _NEW),
)
"""The last of them finds no host any more."""
