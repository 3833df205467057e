"""Which webhooks a write concerns: webhook configurations, compiled; the rules are those of policies too.

Webhooks are called in the order of their configurations' names, and within one in the order written. A
rule names operations, groups, versions and resources; ``nodes`` does not cover ``nodes/status``, ``nodes/*``
covers both, ``*/*`` everything. namespaceSelector exempts objects by the labels of their namespace and never
exempts cluster-scoped ones; objectSelector looks at the new and the old object, and one of them is enough.

matchPolicy needs no code: but for Event, every kind is served in one group and version here, so that Exact
and Equivalent are the same. matchConditions are CEL, which nothing here evaluates: a webhook that has some
fails by its failurePolicy, as one whose conditions cannot be evaluated does in Kubernetes.

Source: https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from posixpath import normpath
from typing import Any
from urllib.parse import urlsplit

from corewise.vocabulary.selectors import LabelSelector
from kubedouble.admission_review import Attributes
from kubedouble.label_selectors import label_selector
from kubedouble.reading import Object, Reader, resource_versions

ADMISSION_GROUP = "admissionregistration.k8s.io"
MUTATING = "mutatingwebhookconfigurations"
VALIDATING = "validatingwebhookconfigurations"

_EXEMPT = frozenset(
    {MUTATING, VALIDATING, "validatingadmissionpolicies", "validatingadmissionpolicybindings"}
)


def is_exempt(attributes: Attributes) -> bool:
    """Whether a write concerns no webhook and no policy, so that a bad one can always be removed."""
    return attributes.group == ADMISSION_GROUP and attributes.resource in _EXEMPT


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a webhook listens and whose certificate it must show ("" trusts the system's CAs)."""

    url: str
    server_name: str
    ca_pem: str
    service: str = ""
    """``namespace/name`` of the service the URL stands for, if it stands for one."""

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Endpoint:
        """From a webhook's clientConfig."""
        ca_pem = b64decode(config.get("caBundle") or "").decode("ascii", "backslashreplace")
        service = config.get("service")
        if not service:
            parts = urlsplit(config["url"])
            return cls(f"{parts.scheme}://{parts.netloc}{_cleaned(parts.path)}", "", ca_pem)
        host = f"{service['name']}.{service['namespace']}.svc"
        url = f"https://{host}:{service.get('port') or 443}{_cleaned(service.get('path') or '')}"
        return cls(url, host, ca_pem, f"{service['namespace']}/{service['name']}")


def _cleaned(path: str) -> str:
    """The path that is called: as path.Join of Go has it, without a slash at the end or twice."""
    return "/" + normpath(f"/{path}").lstrip("/")


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
            _has(self.operations, attributes.operation)
            and _has(self.groups, attributes.group)
            and _has(self.versions, attributes.version)
            and self._matches_resource(attributes)
            and self.scope in {"*", _scope(attributes)}
            and (not self.names or attributes.name in self.names)
        )

    def _matches_resource(self, attributes: Attributes) -> bool:
        return any(
            resource in {"*", attributes.resource} and subresource in {"*", attributes.subresource}
            for resource, subresource in self.resources
        )


def _has(values: Collection[str], value: str) -> bool:
    return "*" in values or value in values


def _scope(attributes: Attributes) -> str:
    is_namespace = attributes.group == "" and attributes.resource == "namespaces"
    return "Namespaced" if attributes.namespace and not is_namespace else "Cluster"


@dataclass(frozen=True, slots=True)
class Matching:
    """Which writes a webhook, a policy or its binding wants. No ``rules`` at all (None) want every write."""

    rules: tuple[_Rule, ...] | None
    namespaces: LabelSelector
    objects: LabelSelector
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
        return (
            (self.rules is None or any(rule.matches(attributes) for rule in self.rules))
            and not any(rule.matches(attributes) for rule in self.excluded)
            and self._selects_object(obj, old)
            and self._selects_namespace(attributes, obj, reader)
        )

    def _selects_object(self, obj: Object | None, old: Object | None) -> bool:
        if not self.objects.requirements:
            return True
        return any(self.objects.matches(_labels(each)) for each in (obj, old) if each is not None)

    def _selects_namespace(self, attributes: Attributes, obj: Object | None, reader: Reader) -> bool:
        if not self.namespaces.requirements:
            return True
        is_namespace = attributes.group == "" and attributes.resource == "namespaces"
        if not attributes.namespace and not is_namespace:
            return True
        if is_namespace and obj is not None and not attributes.subresource:
            return self.namespaces.matches(_labels(obj))
        stored = reader.get("", "namespaces", "", attributes.name if is_namespace else attributes.namespace)
        return stored is not None and self.namespaces.matches(_labels(stored))


@dataclass(frozen=True, slots=True)
class Hook:
    """One webhook of one configuration."""

    uid: str
    name: str
    endpoint: Endpoint
    matching: Matching
    conditions: tuple[str, ...]
    ignores_failure: bool
    has_side_effects: bool
    reinvoked: bool
    timeout_seconds: int

    @classmethod
    def of(cls, configuration: str, index: int, webhook: Mapping[str, Any]) -> Hook:
        """From one entry of a configuration's ``webhooks``."""
        return cls(
            uid=f"{configuration}/{webhook['name']}/{index}",
            name=webhook["name"],
            endpoint=Endpoint.of(webhook["clientConfig"]),
            matching=Matching.of_webhook(webhook),
            conditions=tuple(condition["name"] for condition in webhook.get("matchConditions") or ()),
            ignores_failure=webhook.get("failurePolicy") == "Ignore",
            has_side_effects=webhook.get("sideEffects") not in {"None", "NoneOnDryRun"},
            reinvoked=webhook.get("reinvocationPolicy") == "IfNeeded",
            timeout_seconds=webhook.get("timeoutSeconds") or 10,
        )


def _labels(obj: Object) -> Mapping[str, str]:
    labels: Mapping[str, str] = (obj.get("metadata") or {}).get("labels") or {}
    return labels


class Hooks:
    """The webhooks of one kind, compiled anew when a configuration of that kind changes."""

    def __init__(self, reader: Reader, plural: str) -> None:
        self._reader = reader
        self._plural = plural
        self._hooks: tuple[Hook, ...] = ()
        self._compiled_from: tuple[str, ...] = ()

    def all(self, attributes: Attributes) -> tuple[Hook, ...]:
        """Every webhook, in order, that may be called for a write: none for webhook configurations."""
        if is_exempt(attributes):
            return ()
        configurations = tuple(self._reader.list(ADMISSION_GROUP, self._plural))
        state = resource_versions(configurations)
        if state != self._compiled_from:
            ordered = sorted(configurations, key=lambda item: str(item["metadata"]["name"]))
            self._hooks = tuple(
                Hook.of(item["metadata"]["name"], index, webhook)
                for item in ordered
                for index, webhook in enumerate(item.get("webhooks") or ())
            )
            self._compiled_from = state
        return self._hooks
