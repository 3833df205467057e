"""A Kubernetes API server for tests and laptops, in pure Python, that stock kubectl takes for one.

It knows nothing of the programs that it is used with. ``README.md`` says what it does and what it does not;
``tests/kube_contract`` is written from what Kubernetes documents, and runs against both. A request passes:

- :mod:`.server` listens; :mod:`.routes` asks :mod:`.authentication` and :mod:`.authorization`, and finds
  the handler; :mod:`.requests` decodes the request, :mod:`.forms` encodes the answer, :mod:`.errors`
  a refusal;
- reads: :mod:`.listing`, :mod:`.watching`, :mod:`.discovery`, :mod:`.openapi`, with :mod:`.selectors` and
  :mod:`.tables`;
- writes: :mod:`.writing` and :mod:`.deletion` take an object through :mod:`.schema`, :mod:`.metadata`,
  :mod:`.admission` (webhooks, and :mod:`.admission_policies`) and :mod:`.strategies` into the :mod:`.store`;
- around them: :mod:`.resources` (the kinds), :mod:`.definitions` (custom kinds), :mod:`.subresources`,
  :mod:`.housekeeping` (what controllers do), :mod:`.state` (on disk), :mod:`.bootstrap` (the first objects).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kubedouble.server import ListenError, LocalAPIServer, serve
    from kubedouble.state import StateError
else:
    _MODULES = {"ListenError": "server", "LocalAPIServer": "server", "StateError": "state", "serve": "server"}

    def __getattr__(name: str) -> Any:
        """Import a name when it is used first: every run of pytest imports this package for its plugin."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


__all__ = ["ListenError", "LocalAPIServer", "StateError", "serve"]
