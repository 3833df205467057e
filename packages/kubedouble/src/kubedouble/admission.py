"""Admission: everything that may change or refuse a write after it is authorized.

Order, as in kube-apiserver: built-in controllers (NamespaceLifecycle, NodeRestriction), mutating policies and
then mutating webhooks, one after the other; then, on the final object, validating policies, and validating
webhooks all at once. After a change by a mutating policy or webhook, those before it with
``reinvocationPolicy: IfNeeded`` are called once more.

Source: https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/,
k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle/admission.go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kubedouble.admission_matching import MUTATING, VALIDATING, Attributes
from kubedouble.errors import StatusError
from kubedouble.mutating_policies import Invocations, MutatingPolicies
from kubedouble.node_access import restrict_node
from kubedouble.store import Object, Reader
from kubedouble.validating_policies import ValidatingPolicies
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


@dataclass(slots=True)
class _Mutation:
    """The progress of one write: its object, and the webhooks to call once more."""

    attributes: Attributes
    current: Encoded
    old: Encoded
    warnings: list[str] = field(default_factory=list)
    called: set[str] = field(default_factory=set)
    again: set[str] = field(default_factory=set)

    def take(self, changed: Encoded) -> None:
        """Go on with a changed object: webhooks that were called before may be called again."""
        self.current = changed
        self.again |= self.called
        self.called.clear()


class Admission:
    """Runs the admission chain with the configurations in the store."""

    def __init__(
        self,
        reader: Reader,
        *,
        normalize: Normalize = lambda attributes, obj, before, *, strict=False: obj,  # noqa: ARG005
        services: Mapping[str, str] | None = None,
        mutating_policies: bool = True,
    ) -> None:
        """``services`` maps ``namespace/name`` to the base URL at which that service is to be found.

        ``mutating_policies`` is false where that kind is not served: stored ones do nothing then.
        """
        self._reader = reader
        self._mutating = Hooks(reader, MUTATING)
        self._validating = Hooks(reader, VALIDATING)
        self._mutating_policies = MutatingPolicies(reader, normalize) if mutating_policies else None
        self._validating_policies = ValidatingPolicies(reader)
        self._dispatcher = Dispatcher(normalize, services)

    def load_static(self, documents: Iterable[Object]) -> None:
        """Take mutating policies and bindings as from staticManifestsDir: the API does not show them."""
        if self._mutating_policies:
            self._mutating_policies.load_static(documents)

    async def show(self, certificate: str) -> None:
        """Show webhooks a client certificate from now on: a file with it and its key, as PEM; "" is none."""
        await self._dispatcher.show(certificate)

    async def close(self) -> None:
        """Close the connections to webhooks."""
        await self._dispatcher.close()

    async def mutate(
        self, attributes: Attributes, obj: Object | None, old: Object | None
    ) -> tuple[Object | None, list[str]]:
        """Run built-in controllers, mutating policies and mutating webhooks.

        ``obj`` is None for a deletion, ``old`` for a creation.
        Returns the object as they leave it (the argument itself is not changed) and warnings for the client.
        Raises StatusError when one refuses.
        """
        check_namespace(attributes, self._reader)
        restrict_node(attributes, obj, old, self._reader)
        hooks = self._mutating.all(attributes)
        policies = self._mutating_policies
        invocations = policies.concerned(attributes, obj, old) if policies else None
        if not hooks and not invocations:
            return obj, []
        mutation = _Mutation(attributes, Encoded(obj), Encoded(old))
        try:
            self._invoke(mutation, invocations)
            for hook in hooks:
                await self._call(mutation, hook)
            if mutation.current.value is not obj:
                self._invoke(mutation, invocations, again=True)
                for hook in [hook for hook in hooks if hook.uid in mutation.again]:
                    await self._call(mutation, hook)
        except StatusError as refusal:
            refusal.warnings = tuple(_unique([*mutation.warnings, *refusal.warnings]))
            raise
        return mutation.current.value, _unique(mutation.warnings)

    def _invoke(self, mutation: _Mutation, invocations: Invocations | None, *, again: bool = False) -> None:
        obj = mutation.current.value
        if self._mutating_policies and invocations and obj is not None:
            changed = self._mutating_policies.mutate(invocations, obj, again=again)
            if changed is not obj:
                mutation.take(Encoded(changed))

    async def _call(self, mutation: _Mutation, hook: Hook) -> None:
        attributes, obj, old = mutation.attributes, mutation.current, mutation.old
        if not hook.concerns(attributes, obj.value, old.value, self._reader):
            return
        changed, said = await self._dispatcher.ask_to_change(hook, attributes, obj, old)
        mutation.warnings.extend(said)
        if changed is not obj:
            mutation.take(changed)
        if hook.reinvoked:
            mutation.called.add(hook.uid)

    async def validate(self, attributes: Attributes, obj: Object | None, old: Object | None) -> list[str]:
        """Run validating policies and webhooks on the final object; returns warnings for the client.

        Raises StatusError when one refuses; if several do, that of the first.
        """
        warnings = self._validating_policies.validate(attributes, obj, old)
        concerned = [
            hook
            for hook in self._validating.all(attributes)
            if hook.concerns(attributes, obj, old, self._reader)
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
