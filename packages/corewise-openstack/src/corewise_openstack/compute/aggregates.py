"""Host aggregates: which hosts an availability zone, a flavor, or the operator leaves to a guest.

A guest may go to a host that is in one of some aggregates, or in none of them (:class:`Membership`):

- those of its availability zone. As in Nova, the zone ``nova`` has the hosts that are in no other;
- for each extra spec ``aggregate_instance_extra_specs:KEY`` of its flavor, those whose property ``KEY``
  matches. A property may list values, separated by commas; one of them has to match. The spec may begin with
  an operator, such as ``>=`` or ``<or>`` (:mod:`oslo_utils.specs_matcher`);
- those that the operator names, and none of those that he excludes.

So hosts for pinned guests are kept apart from those for shared ones: by an aggregate with the property
``pinned = true`` and flavors that ask for it, and another with ``pinned = false``.

Aggregates are read from a file: what ``openstack aggregate list --long -f json`` or ``openstack aggregate
show -f json`` prints. Placement knows which provider is in which aggregate, by their UUIDs; without a
Placement the hosts that the file names count.

Sources: Nova's filters ``AvailabilityZoneFilter`` and ``AggregateInstanceExtraSpecsFilter``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from corewise.config.decoding import Decoder, Parsed, Place, did_you_mean
from corewise.config.json_text import Items, read_json
from corewise_openstack.compute.errors import AggregateUnknown
from corewise_openstack.compute.ledger import HostDemands
from corewise_openstack.tracking import Membership

DEFAULT_ZONE = "nova"
_KEYS = ("id", "uuid", "name", "availability_zone", "properties", "hosts")
_OTHER_KEYS = ("created_at", "deleted_at", "updated_at", "is_deleted")


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A host aggregate; "" for what it does not have."""

    name: str
    uuid: str = ""
    zone: str = ""
    hosts: frozenset[str] = frozenset()
    properties: Mapping[str, str] | None = None

    def values(self, key: str) -> Sequence[str]:
        """Return the values of a property."""
        stated = (self.properties or {}).get(key, "")
        return [value.strip() for value in stated.split(",") if value.strip()]


def memberships(
    demands: HostDemands,
    aggregates: Sequence[Aggregate],
    named: Sequence[str] = (),
    excluded: Sequence[str] = (),
) -> Iterator[Membership]:
    """Yield the memberships that a host needs; ``named`` and ``excluded`` are names or UUIDs of aggregates.

    Raises:
        AggregateUnknown: if no aggregate is meant.
    """
    if demands.zone:
        zoned = [each for each in aggregates if each.zone]
        meant = [each for each in zoned if each.zone == demands.zone]
        demand = f"availability zone {demands.zone}"
        if not meant and demands.zone != DEFAULT_ZONE:
            zones = sorted({each.zone for each in zoned} | {DEFAULT_ZONE})
            hint = f"there are {', '.join(zones)}"
            raise AggregateUnknown(f"no aggregate has {demand}{did_you_mean(demands.zone, zones)}", hint=hint)
        if meant or zoned:
            yield _membership(demand, meant or zoned, excluded=not meant)
    for key, wanted in sorted(demands.specs.items()):
        demand = f"aggregate_instance_extra_specs:{key} = {wanted}"
        meant = [each for each in aggregates if any(_matches(value, wanted) for value in each.values(key))]
        if not meant:
            values = sorted({value for each in aggregates for value in each.values(key)})
            have = f"its values are {', '.join(values)}" if values else "none has it"
            raise AggregateUnknown(
                f"no aggregate has a property for {demand}", hint=f"of property {key}: {have}"
            )
        yield _membership(demand, meant)
    if named:
        yield _membership("host aggregates", [_named(each, aggregates) for each in named])
    if excluded:
        yield _membership("host aggregates", [_named(each, aggregates) for each in excluded], excluded=True)


def _membership(demand: str, meant: Sequence[Aggregate], *, excluded: bool = False) -> Membership:
    hosts = frozenset[str]().union(*(each.hosts for each in meant))
    return Membership(demand, tuple(each.uuid for each in meant), hosts, excluded)


def _matches(value: str, wanted: str) -> bool:
    """Say whether a value of a property is what an extra spec asks for; one that is no number is none."""
    from oslo_utils.specs_matcher import match  # noqa: PLC0415 - slow to import

    try:
        return bool(match(value, wanted))
    except (ValueError, TypeError, SyntaxError):
        return False


def _named(name: str, aggregates: Sequence[Aggregate]) -> Aggregate:
    meant = [each for each in aggregates if name in {each.name, each.uuid}]
    if len(meant) != 1:
        what = "no aggregate is" if not meant else f"{len(meant)} aggregates are"
        names = [each.name for each in aggregates]
        raise AggregateUnknown(
            f"{what} called {name}{did_you_mean(name, names)}",
            hint=f"there are {', '.join(names)}" if names else "",
        )
    return meant[0]


def parse_aggregates(text: str, *, placement: bool) -> Parsed[tuple[Aggregate, ...]]:
    """Read aggregates; with a Placement each must have a UUID, and without one its hosts."""
    decoder = Decoder(read_json(text))
    root = decoder.root
    places = decoder.items(root) if isinstance(root.value, Items) else [root]
    found = tuple(_aggregate(decoder, place, placement=placement) for place in places)
    return decoder.finish(found)


def _aggregate(decoder: Decoder, place: Place, *, placement: bool) -> Aggregate:
    """Read one aggregate; lists of the client have titles such as "Availability Zone" for its keys."""
    titles = {key: key.replace("_", " ").title() for key in _KEYS} | {"id": "ID", "uuid": "UUID"}
    fields = decoder.fields(place, (*_KEYS, *titles.values(), *_OTHER_KEYS))

    def field(key: str) -> Place:
        return fields[key] if not fields[key].is_empty else fields[titles[key]]

    name = decoder.text(field("name"))
    if not name and decoder.is_complete:
        decoder.error(place, "has no name")
    needed = "uuid" if placement else "hosts"
    if field(needed).is_empty and decoder.is_complete:
        why = (
            "Placement identifies an aggregate by it"
            if placement
            else "without it, only Placement knows the hosts of an aggregate"
        )
        decoder.error(place, f"has no {needed}, and {why}")
    properties = {
        str(key.value): decoder.text(value) or "" for key, value in decoder.entries(field("properties"))
    }
    zone = decoder.text(field("availability_zone")) or properties.pop("availability_zone", "")
    hosts = frozenset(decoder.text(each) or "" for each in decoder.items(field("hosts")))
    return Aggregate(name or "", decoder.text(field("uuid")) or "", zone, hosts, properties)
