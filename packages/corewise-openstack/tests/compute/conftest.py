from __future__ import annotations

from pathlib import Path

import pytest

from compute.agent_scene import Scene
from compute.compute_world import World
from compute.driver_domains import driver
from placement_world import client_of_placement, emptied


@pytest.fixture
def world(tmp_path: Path) -> World:
    """The real Placement, which has no providers yet, and a directory for hosts."""
    return World(tmp_path, emptied(client_of_placement()))


@pytest.fixture
def scene(tmp_path: Path, world: World) -> Scene:
    return Scene(tmp_path / "scene", world)


domains = pytest.fixture(driver, name="domains")
