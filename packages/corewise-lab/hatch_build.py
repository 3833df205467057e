"""Build hook: takes in the manifests of ``deploy/``, which the local cluster applies.

They are beside the packages in a clone, and in the package itself in an sdist.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class TakeManifests(BuildHookInterface[Any]):
    """Adds ``deploy`` to an sdist, and to a wheel as package data."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build an sdist or a wheel ("standard"); an editable install finds them in the clone."""
        root = Path(self.root)
        inside = root / "deploy"
        manifests = inside if inside.is_dir() else root.parents[1] / "deploy"
        if version != "editable":
            target = "deploy" if self.target_name == "sdist" else "corewise_lab/deploy"
            build_data["force_include"][str(manifests)] = target
