"""Plugins of third parties: Python packages that are installed beside corewise and name them in an entry
point.

    [project.entry-points."corewise.scheduling.plugins"]
    prefer-ssd = "prefer_ssd:PreferSSD"

The value is called without arguments and returns a plugin (:mod:`corewise.engine.framework`). Every
installed plugin is active, in the order of the entry points' names; uninstall a package to turn its plugin
off. The plugins of corewise itself are no entry points: an engine without them, or with them in another
order, would be wrong.

The engine is pure, so plugins are loaded here, once when a program or command starts, and handed to
``assemble``.
"""

from __future__ import annotations

from importlib.metadata import entry_points

from corewise.engine import Plugin
from corewise.engine.assembly import BUILT_IN
from corewise.engine.framework import Accounts, Filter, Reserve, Score
from corewise.service.options import OptionsError

GROUP = "corewise.scheduling.plugins"


class PluginError(OptionsError):
    """An installed plugin cannot be used; the message names it and says why."""


def load_plugins() -> tuple[Plugin, ...]:
    """Return the installed plugins.

    Raises:
        PluginError: if one cannot be loaded, or is not a plugin.
    """
    plugins: list[Plugin] = []
    taken = set(BUILT_IN)
    for entry in sorted(entry_points(group=GROUP), key=lambda each: each.name):
        where = f"scheduling plugin {entry.name} ({entry.value})"
        try:
            plugin = entry.load()()
        except (ImportError, AttributeError) as error:
            raise PluginError(f"{where} cannot be loaded: {error}") from error
        if not isinstance(getattr(plugin, "name", None), str):
            raise PluginError(f"{where} has no name")
        if plugin.name in taken:
            raise PluginError(f"{where}: there is another plugin with the name {plugin.name}")
        if not isinstance(plugin, Filter | Score | Reserve | Accounts):
            raise PluginError(f"{where} has none of the methods filter, score, reserve and account")
        if hasattr(plugin, "score") and not isinstance(plugin, Score):
            raise PluginError(f"{where} has the method score, but no weight")
        taken.add(plugin.name)
        plugins.append(plugin)
    return tuple(plugins)
