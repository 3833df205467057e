"""Which CPUs of a host nova-compute gives to its own guests, so that corewise gives none of them.

Nova's fit sees only Nova's guests, and knows no ledger. So of a host on which nova-compute runs, corewise
gives no CPU that Nova's options name: it checks and explains. It may place guests there only if it has CPUs
of its own, in a configuration of its own, that are disjoint from Nova's.

The agent leaves Nova's CPUs in the host's directory (``beside-nova``), so that every command which reads the
directory knows of them. A host without that file belongs to corewise alone. Placement is a second witness:
nova-compute marks its providers with a trait, and nothing is claimed from those.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from corewise.topology import CPUSet
from corewise.vocabulary.reasons import Reason
from corewise_openstack.compute.errors import ComputeError
from corewise_openstack.openstack.errors import ProviderAwaited
from corewise_openstack.tracking import HostSettings
from corewise_openstack.vocabulary.placement import NOVA_TRAITS, Provider

MARK = "beside-nova"
"""The file in a host's directory; it holds Nova's CPUs, as a set."""


class NovaGivesCPUs(ComputeError):  # noqa: N818 - named after what it is
    """Guests were to get CPUs that nova-compute gives to its own; nothing was changed."""

    reason = Reason.NOVA_GIVES_CPUS


class ProviderOfNova(ComputeError):  # noqa: N818 - named after what it is
    """The host was said to be corewise's alone, and Placement says that nova-compute runs on it."""

    reason = Reason.PROVIDER_OF_NOVA


def given_cpus(settings: HostSettings) -> CPUSet:
    """Return the CPUs that guests get of a host."""
    return settings.dedicated | settings.shared | settings.pinnable


def refuse_cpus_of_nova(host: str, settings: HostSettings, nova: CPUSet | None) -> None:
    """Refuse to give CPUs that Nova gives; ``nova`` is None on a host without nova-compute.

    Raises:
        NovaGivesCPUs: if there is such a CPU.
    """
    both = nova and given_cpus(settings) & nova
    if both:
        raise NovaGivesCPUs(
            f"nova-compute runs on host {host} and gives CPUs {both} to its own guests, without asking the "
            "ledger: corewise gives none of them",
            hint=Reason.NOVA_GIVES_CPUS.fix,
        )


def refuse_provider_of_nova(name: str, traits: AbstractSet[str]) -> None:
    """Refuse to use a provider that nova-compute has made.

    Raises:
        ProviderOfNova: if it has a trait of Nova's.
    """
    if not NOVA_TRAITS.isdisjoint(traits):
        found = sorted(NOVA_TRAITS & traits)
        raise ProviderOfNova(
            f"provider {name} belongs to nova-compute (trait {', '.join(found)}): corewise does not write it",
            hint=Reason.PROVIDER_OF_NOVA.fix,
        )


def made_by_nova(name: str, found: Provider | None) -> Provider:
    """Return the provider that nova-compute has made.

    Raises:
        ProviderAwaited: if there is none, or it is somebody else's: that one keeps Nova's from being made.
    """
    if found is None:
        raise ProviderAwaited(
            f"waiting for nova-compute to create the provider {name}, the host's name in libvirt",
            hint="openstack resource provider list shows the providers; --host names another one",
        )
    if not NOVA_TRAITS & found.traits:
        raise ProviderAwaited(
            f"provider {name} has no trait of nova-compute ({' or '.join(sorted(NOVA_TRAITS))}), so Nova did "
            "not make it, and cannot make its own while this one has the name",
            hint=f"if nova-compute runs: openstack resource provider delete {found.uuid}; "
            "if it does not, run the agent without --beside-nova",
        )
    return found
