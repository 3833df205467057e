"""Admission: everything that may change or refuse a write after it is authorized.

Order, as in kube-apiserver: built-in controllers (NamespaceLifecycle, NodeRestriction), mutating webhooks one
after the other, then, on the final object, validating policies, and validating webhooks all at once. After a
change by a mutating webhook, those before it with ``reinvocationPolicy: IfNeeded`` are called once more.

Source: https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/,
k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle/admission.go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from kubedouble.admission_matching import MUTATING, VALIDATING, Attributes
from kubedouble.admission_policies import Policies
from kubedouble.errors import StatusError
from kubedouble.node_access import restrict_node
from kubedouble.store import Object, Reader
from kubedouble.webhooks import Dispatcher, Encoded, Hook, Hooks, Normalize

_IMMORTAL = frozenset({"default", "kube-system", "kube-public"})


def check_namespace(attributes: Attributes, reader: Reader) -> None:
    """Raise StatusError 404 or 403 where the namespace does not allow the write."""
    if attributes.group == "" and attributes.resource == "namespaces":
        if attributes.operation == "DELETE" and attributes.name in _IMMORTAL:
            raise attributes.forbidden("this namespace may not be deleted")
        return
    if not attributes.namespace or attributes.operation == "DELETE":
        return
    name = attributes.namespace
    namespace = reader.get("", "namespaces", "", name)
    if namespace is None:
        raise StatusError(
            404, "NotFound", f'namespaces "{name}" not found', {"name": name, "kind": "namespaces"}
        )
    if attributes.operation == "CREATE" and "deletionTimestamp" in namespace["metadata"]:
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {name} is being terminated",
            "field": "metadata.namespace",
        }
        why = f"unable to create new content in namespace {name} because it is being terminated"
        raise attributes.forbidden(why, causes=[cause])


class Admission:
    """Runs the admission chain with the configurations in the store."""

    def __init__(
        self,
        reader: Reader,
        *,
        normalize: Normalize = lambda _attributes, obj, _before: obj,
        services: Mapping[str, str] | None = None,
    ) -> None:
        """``services`` maps ``namespace/name`` to the base URL at which that service is to be found."""
        self._reader = reader
        self._mutating = Hooks(reader, MUTATING)
        self._validating = Hooks(reader, VALIDATING)
        self._policies = Policies(reader)
        self._dispatcher = Dispatcher(normalize, services)

    async def close(self) -> None:
        """Close the connections to webhooks."""
        await self._dispatcher.close()

    async def mutate(
        self, attributes: Attributes, obj: Object | None, old: Object | None
    ) -> tuple[Object | None, list[str]]:
        """Run built-in controllers and mutating webhooks.

        ``obj`` is None for a deletion, ``old`` for a creation.
        Returns the object as they leave it (the argument itself is not changed) and warnings for the client.
        Raises StatusError when one refuses.
        """
        check_namespace(attributes, self._reader)
        restrict_node(attributes, obj, old, self._reader)
        hooks = self._mutating.all(attributes)
        if not hooks:
            return obj, []
        current, before = Encoded(obj), Encoded(old)
        warnings: list[str] = []
        called, again = set[str](), set[str]()

        async def call(hook: Hook) -> None:
            nonlocal current
            if not hook.matching.concerns(attributes, current.value, old, self._reader):
                return
            changed, said = await self._dispatcher.ask_to_change(hook, attributes, current, before)
            warnings.extend(said)
            if changed is not current:
                current = changed
                again.update(called)
                called.clear()
            if hook.reinvoked:
                called.add(hook.uid)

        try:
            for hook in hooks:
                await call(hook)
            for hook in [hook for hook in hooks if hook.uid in again]:
                await call(hook)
        except StatusError as refusal:
            refusal.warnings = tuple(_unique([*warnings, *refusal.warnings]))
            raise
        return current.value, _unique(warnings)

    async def validate(self, attributes: Attributes, obj: Object | None, old: Object | None) -> list[str]:
        """Run validating policies and webhooks on the final object; returns warnings for the client.

        Raises StatusError when one refuses; if several do, that of the first.
        """
        warnings = self._policies.validate(attributes, obj, old)
        concerned = [
            hook
            for hook in self._validating.all(attributes)
            if hook.matching.concerns(attributes, obj, old, self._reader)
        ]
        new, stored = Encoded(obj), Encoded(old)
        calls = (self._dispatcher.ask_to_approve(hook, attributes, new, stored) for hook in concerned)
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
            warnings.extend(outcome)
        return _unique(warnings)


def _unique(warnings: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(warnings))
