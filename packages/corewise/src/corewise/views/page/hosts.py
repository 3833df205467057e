"""The page's view of OpenStack hosts, which corewise-openstack implements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class HostTable(Protocol):
    """Rows and documents of compute hosts. Each call may read files and Placement."""

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each host, in the order of their names; one that cannot be used says why."""

    def document(self, name: str) -> dict[str, Any] | None:
        """Return the owner of each CPU of a host, and the effect of its upgrade; None if unknown."""

    def try_flavor(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the host that would take a guest, or the hosts that each demand eliminates.

        Nothing is claimed.

        Raises:
            ValueError: if the flavor cannot be tried; the text says why.
        """
