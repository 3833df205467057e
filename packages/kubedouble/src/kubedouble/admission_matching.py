"""A write as admission sees it, and which writes a webhook, a policy or its binding concerns.

A rule names operations, groups, versions and resources; ``nodes`` does not cover ``nodes/status``,
``nodes/*`` covers both, ``*/*`` everything. namespaceSelector exempts objects by labels of their namespace
and never exempts cluster-scoped ones; objectSelector looks at the new and the old object, and one of them is
enough.

matchPolicy needs no code: except for Event, every kind is served in one group and version, so that Exact and
Equivalent are the same.

Source: https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kubedouble.authentication import User
from kubedouble.errors import StatusError, denied
from kubedouble.rbac import includes
from kubedouble.selectors import Requirement, label_selector, satisfies
from kubedouble.store import Object, Reader

ADMISSION_GROUP = "admissionregistration.k8s.io"
MUTATING = "mutatingwebhookconfigurations"
VALIDATING = "validatingwebhookconfigurations"

_EXEMPT = frozenset(
    {
        MUTATING,
        VALIDATING,
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
    }
)


@dataclass(frozen=True, slots=True)
class Attributes:
    """A write as admission sees it.

    ``operation`` is CREATE, UPDATE (PUT and PATCH both) or DELETE. ``kind_group`` and ``kind_version`` are
    the group and version of ``kind`` where it is not the resource's own, as for the Eviction of
    ``pods/eviction``. ``name`` is empty when it is still to be generated.
    """

    user: User
    operation: str
    group: str
    version: str
    resource: str
    kind: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    dry_run: bool = False
    options: Mapping[str, Any] | None = None
    kind_group: str | None = None
    kind_version: str | None = None

    @property
    def group_kind_version(self) -> dict[str, str]:
        group = self.group if self.kind_group is None else self.kind_group
        version = self.version if self.kind_version is None else self.kind_version
        return {"group": group, "version": version, "kind": self.kind}

    @property
    def group_version_resource(self) -> dict[str, str]:
        return {"group": self.group, "version": self.version, "resource": self.resource}

    def forbidden(self, why: str, **details: Any) -> StatusError:
        """The refusal of a built-in admission controller, worded as kube-apiserver words it."""
        return denied(self.group, self.resource, self.name, why, **details)


def is_exempt(attributes: Attributes) -> bool:
    """Whether a write concerns no webhook and no policy, so that a bad one can always be removed."""
    return attributes.group == ADMISSION_GROUP and attributes.resource in _EXEMPT


def described(attributes: Attributes) -> dict[str, Any]:
    """Describe a request, without its objects: ``request`` of admission policies."""
    request: dict[str, Any] = {
        "kind": attributes.group_kind_version,
        "resource": attributes.group_version_resource,
        "requestKind": attributes.group_kind_version,
        "requestResource": attributes.group_version_resource,
        "operation": attributes.operation,
        "userInfo": attributes.user.info(),
        "dryRun": attributes.dry_run,
        "options": attributes.options,
    }
    if attributes.subresource:
        request["subResource"] = request["requestSubResource"] = attributes.subresource
    if attributes.name:
        request["name"] = attributes.name
    if attributes.namespace:
        request["namespace"] = attributes.namespace
    return request


@dataclass(frozen=True, slots=True)
class _Rule:
    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: frozenset[tuple[str, str]]
    scope: str
    names: frozenset[str]

    @classmethod
    def of(cls, rule: Mapping[str, Any]) -> _Rule:
        pairs = (resource.partition("/") for resource in rule["resources"])
        return cls(
            frozenset(rule["operations"]),
            frozenset(rule["apiGroups"]),
            frozenset(rule["apiVersions"]),
            frozenset((resource, subresource) for resource, _, subresource in pairs),
            rule.get("scope") or "*",
            frozenset(rule.get("resourceNames") or ()),
        )

    def matches(self, attributes: Attributes) -> bool:
        return (
            includes(self.operations, attributes.operation)
            and includes(self.groups, attributes.group)
            and includes(self.versions, attributes.version)
            and any(
                resource in {"*", attributes.resource} and subresource in {"*", attributes.subresource}
                for resource, subresource in self.resources
            )
            and self.scope in {"*", _scope(attributes)}
            and (not self.names or attributes.name in self.names)
        )


def _scope(attributes: Attributes) -> str:
    is_namespace = attributes.group == "" and attributes.resource == "namespaces"
    return "Namespaced" if attributes.namespace and not is_namespace else "Cluster"


@dataclass(frozen=True, slots=True)
class Matching:
    """The writes that a webhook, a policy or its binding selects. No ``rules`` (None) select every write."""

    rules: tuple[_Rule, ...] | None
    namespaces: tuple[Requirement, ...]
    objects: tuple[Requirement, ...]
    excluded: tuple[_Rule, ...] = ()

    @classmethod
    def of_webhook(cls, webhook: Mapping[str, Any]) -> Matching:
        """From one entry of a configuration's ``webhooks``."""
        rules = tuple(_Rule.of(rule) for rule in webhook.get("rules") or ())
        namespaces = label_selector(webhook.get("namespaceSelector"))
        return cls(rules, namespaces, label_selector(webhook.get("objectSelector")))

    @classmethod
    def of_match_resources(cls, resources: Mapping[str, Any]) -> Matching:
        """From a policy's ``matchConstraints`` or a binding's ``matchResources``."""
        return cls(
            tuple(_Rule.of(rule) for rule in resources.get("resourceRules") or ()) or None,
            label_selector(resources.get("namespaceSelector")),
            label_selector(resources.get("objectSelector")),
            tuple(_Rule.of(rule) for rule in resources.get("excludeResourceRules") or ()),
        )

    def concerns(
        self, attributes: Attributes, obj: Object | None, old: Object | None, reader: Reader
    ) -> bool:
        """Whether the rules and selectors want this write (conditions aside)."""
        present = (each for each in (obj, old) if each is not None)
        return (
            (self.rules is None or any(rule.matches(attributes) for rule in self.rules))
            and not any(rule.matches(attributes) for rule in self.excluded)
            and (not self.objects or any(satisfies(_labels(each), self.objects) for each in present))
            and self._selects_namespace(attributes, obj, reader)
        )

    def _selects_namespace(self, attributes: Attributes, obj: Object | None, reader: Reader) -> bool:
        if not self.namespaces:
            return True
        is_namespace = attributes.group == "" and attributes.resource == "namespaces"
        if not attributes.namespace and not is_namespace:
            return True
        if is_namespace and obj is not None and not attributes.subresource:
            return satisfies(_labels(obj), self.namespaces)
        stored = reader.get("", "namespaces", "", attributes.name if is_namespace else attributes.namespace)
        return stored is not None and satisfies(_labels(stored), self.namespaces)


def _labels(obj: Object) -> Mapping[str, str]:
    labels: Mapping[str, str] = (obj.get("metadata") or {}).get("labels") or {}
    return labels
