from __future__ import annotations

from collections.abc import Iterator

import pytest

from corewise_openstack.openstack.placement_client import PlacementClient
from placement_world import client_of_placement, emptied


@pytest.fixture
def placement() -> Iterator[PlacementClient]:
    """A client of the real Placement, which has no providers yet."""
    client = emptied(client_of_placement())
    yield client
    emptied(client)
