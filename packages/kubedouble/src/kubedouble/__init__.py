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

from kubedouble.server import LocalAPIServer, serve

__all__ = ["LocalAPIServer", "serve"]
