"""A Placement that fails in the ways that Placements fail: down, 401, 403, 409 again and again."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from corewise_openstack.openstack.errors import (
    ConcurrentUpdate,
    PlacementDown,
    PlacementError,
    PlacementForbidden,
    PlacementUnauthorized,
)
from corewise_openstack.openstack.placement_client import PlacementClient
from corewise_openstack.openstack.placement_http import PlacementTransport
from placement_world import client_of_placement

Fault = Callable[[str, str], PlacementError | None]
"""Says of a method and a path what goes wrong, if anything does."""


class Faulty:
    """A transport in front of the real one. ``after`` is called with each request that was answered."""

    def __init__(self, fault: Fault | None = None) -> None:
        self._real = client_of_placement().transport
        self.fault = fault
        self.after: Callable[[str, str], object] = lambda _method, _path: None
        self.asked: list[str] = []

    @property
    def version(self) -> tuple[int, int]:
        return self._real.version

    def send(
        self, method: str, path: str, body: bytes | None = None, *, version: tuple[int, int] | None = None
    ) -> bytes:
        self.asked.append(f"{method} {path.partition('?')[0]}")
        error = self.fault(method, path) if self.fault else None
        if error is not None:
            raise error
        answer = self._real.send(method, path, body, version=version)
        self.after(method, path)
        return answer

    def client(self) -> PlacementClient:
        return PlacementClient(cast("PlacementTransport", self))

    @property
    def writes(self) -> list[str]:
        """The requests that were to change something."""
        return [each for each in self.asked if not each.startswith("GET")]


def down(_method: str, _path: str) -> PlacementError:
    return PlacementDown("GET /: connection refused")


def unauthorized(method: str, path: str) -> PlacementError:
    return PlacementUnauthorized("the token is not valid", status=401, request=f"{method} {path}")


def forbidden(method: str, path: str) -> PlacementError:
    return PlacementForbidden("not allowed", status=403, request=f"{method} {path}")


def storm(method: str, path: str) -> PlacementError | None:
    """Somebody else wrote first, each time that something is to be written."""
    if method == "GET":
        return None
    return ConcurrentUpdate("somebody else wrote first", status=409, request=f"{method} {path}")


def on_writes(fault: Fault) -> Fault:
    """Let reading succeed."""
    return lambda method, path: None if method == "GET" else fault(method, path)
