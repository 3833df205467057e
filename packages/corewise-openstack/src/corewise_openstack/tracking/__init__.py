"""CPU tracking: the dedicated and shared CPUs that a compute host offers, and those that a guest needs.

- :mod:`options`: from nova.conf and the host's CPUs to the CPUs behind VCPU and PCPU, or to all that is
  wrong: ``check_options(HostOptions.of(values), HostFacts.of(host), guests, compat) -> Checked``;
- :mod:`inventory`: ``offer(settings, facts, provider) -> Offer``, and the next write that Placement needs:
  ``next_write(provider, offer) -> WriteInventories | WriteTraits | None``;
- :mod:`flavor`, :mod:`request`: ``translate(flavor, image, compat=...) -> GuestRequest | Finding``;
  ``str(request.query)`` is sent to Placement, ``request.cpus``
  (:class:`corewise_openstack.vocabulary.guests.GuestCPUs`) is placed by ``pinning``;
- :mod:`reshape`: ``plan_reshape(use, guests, settings, offer, topology, compat)`` gives a ReshapePlan, a
  Finding, or None if there is nothing to do.

Everything is a value, and nothing here knows Placement's HTTP, libvirt or a file.
"""

from corewise_openstack.tracking.flavor import NO_IMAGE, Flavor, Image
from corewise_openstack.tracking.inventory import HostOffer, next_write, offer
from corewise_openstack.tracking.options import (
    Checked,
    Compat,
    HostedGuest,
    HostFacts,
    HostOptions,
    HostSettings,
    OptionProblem,
    check_options,
)
from corewise_openstack.tracking.request import (
    DEFAULT_LIMIT,
    GuestRequest,
    Membership,
    PlacementQuery,
    RequestGroup,
    translate,
)
from corewise_openstack.tracking.reshape import (
    GuestMove,
    ReshapePlan,
    plan_reshape,
)

__all__ = [
    "DEFAULT_LIMIT",
    "NO_IMAGE",
    "Checked",
    "Compat",
    "Flavor",
    "GuestMove",
    "GuestRequest",
    "HostFacts",
    "HostOffer",
    "HostOptions",
    "HostSettings",
    "HostedGuest",
    "Image",
    "Membership",
    "OptionProblem",
    "PlacementQuery",
    "RequestGroup",
    "ReshapePlan",
    "check_options",
    "next_write",
    "offer",
    "plan_reshape",
    "translate",
]
