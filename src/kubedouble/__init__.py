"""A Kubernetes API server in memory, for trying, demonstrating and testing. It never claims to be more.

It behaves as kube-apiserver does in everything corewise relies on; ``tests/kube_contract`` says what that
is, and runs against both. The way of a request through the modules:

- :mod:`.server` listens; :mod:`.routes` asks :mod:`.authentication` and :mod:`.authorization`, and finds
  the handler; :mod:`.requests` reads what is asked for, :mod:`.forms` renders what is answered,
  :mod:`.errors` what is refused;
- reads: :mod:`.listing`, :mod:`.watching`, :mod:`.discovery`, :mod:`.openapi`, with :mod:`.selectors` and
  :mod:`.tables`;
- writes: :mod:`.writing` and :mod:`.deletion` take an object through :mod:`.patches`, :mod:`.shaping` (by
  :mod:`.schema`), :mod:`.metadata`, :mod:`.admission` (webhooks, and :mod:`.admission_policies`) and
  :mod:`.strategies` into the :mod:`.store`;
- around them: :mod:`.resources` (what is served), :mod:`.definitions` (custom kinds), :mod:`.subresources`,
  :mod:`.housekeeping` (what controllers do), :mod:`.state` (on disk), :mod:`.bootstrap` (what a cluster
  begins with).
"""

from kubedouble.server import LocalAPIServer, serve

__all__ = ["LocalAPIServer", "serve"]
