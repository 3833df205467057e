"""RBAC: roles, bindings and how a request is held against them.

A rule allows a request when verb, group, resource and, if the rule gives any, resource name all match.
A subresource is a resource of its own (``nodes/status``; ``*/status`` for that of every resource); ``*``
matches everything. A rule with resourceNames never matches a create or a list, since these name nothing.
A ClusterRole with an aggregationRule has the rules of the roles it selects.

Source: https://kubernetes.io/docs/reference/access-authn-authz/rbac/
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kubedouble.authentication import SERVICE_ACCOUNT_PREFIX, User
from kubedouble.selectors import label_selector, satisfies
from kubedouble.store import Object


@dataclass(frozen=True, slots=True)
class Access:
    """The access that a request needs: a verb on a resource, or, with no resource, on a URL path."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    field_selector: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """One PolicyRule, its lists as sets."""

    verbs: frozenset[str]
    groups: frozenset[str]
    resources: frozenset[str]
    names: frozenset[str]
    urls: tuple[str, ...]

    @classmethod
    def of(cls, rule: Mapping[str, Any]) -> Rule:
        """From the JSON of a role."""
        return cls(
            frozenset(rule.get("verbs") or ()),
            frozenset(rule.get("apiGroups") or ()),
            frozenset(rule.get("resources") or ()),
            frozenset(rule.get("resourceNames") or ()),
            tuple(rule.get("nonResourceURLs") or ()),
        )

    def allows(self, access: Access) -> bool:
        """Whether this rule grants the access."""
        if not includes(self.verbs, access.verb):
            return False
        if not access.resource:
            return any(
                access.path.startswith(url.rstrip("*")) if url.endswith("*") else access.path == url
                for url in self.urls
            )
        return (
            includes(self.groups, access.group)
            and self._allows_resource(access)
            and (not self.names or access.name in self.names)
        )

    def _allows_resource(self, access: Access) -> bool:
        if not access.subresource:
            return includes(self.resources, access.resource)
        return (
            includes(self.resources, f"{access.resource}/{access.subresource}")
            or f"*/{access.subresource}" in self.resources
        )


def includes(values: Collection[str], value: str) -> bool:
    """Whether a list of a rule has a value; ``*`` is every value."""
    return "*" in values or value in values


@dataclass(frozen=True, slots=True)
class _Binding:
    namespace: str
    role: tuple[str, str, str]
    """Kind, namespace and name of the role."""
    users: frozenset[str]
    groups: frozenset[str]

    @classmethod
    def of(cls, binding: Object) -> _Binding:
        namespace = binding["metadata"].get("namespace", "")
        reference = binding["roleRef"]
        role_namespace = namespace if reference["kind"] == "Role" else ""
        subjects = binding.get("subjects") or ()
        return cls(
            namespace,
            (reference["kind"], role_namespace, reference["name"]),
            frozenset(_users(subjects, namespace)),
            frozenset(subject["name"] for subject in subjects if subject["kind"] == "Group"),
        )

    def binds(self, user: User) -> bool:
        return user.name in self.users or not self.groups.isdisjoint(user.groups)


def _users(subjects: Iterable[Mapping[str, Any]], namespace: str) -> Iterator[str]:
    for subject in subjects:
        if subject["kind"] == "User":
            yield subject["name"]
        elif subject["kind"] == "ServiceAccount":
            yield f"{SERVICE_ACCOUNT_PREFIX}{subject.get('namespace') or namespace}:{subject['name']}"


class Policy:
    """All roles and bindings of one moment."""

    def __init__(
        self,
        cluster_roles: Collection[Object],
        cluster_role_bindings: Iterable[Object],
        roles: Iterable[Object],
        role_bindings: Iterable[Object],
    ) -> None:
        self._roles: dict[tuple[str, str, str], tuple[Rule, ...]] = {}
        for role in cluster_roles:
            rules = tuple(Rule.of(rule) for rule in _rules(role, cluster_roles))
            self._roles["ClusterRole", "", role["metadata"]["name"]] = rules
        for role in roles:
            key = ("Role", role["metadata"]["namespace"], role["metadata"]["name"])
            self._roles[key] = tuple(Rule.of(rule) for rule in role.get("rules") or ())
        self._bindings = [_Binding.of(item) for item in (*cluster_role_bindings, *role_bindings)]

    def rules(self, user: User, namespace: str) -> Iterator[Rule | str]:
        """Return the rules for a user in a namespace ("": the cluster), or the fault of one."""
        for binding in self._bindings:
            if binding.namespace not in {"", namespace} or not binding.binds(user):
                continue
            if (rules := self._roles.get(binding.role)) is not None:
                yield from rules
            else:
                kind, _, name = binding.role
                yield f'{kind.lower()}.rbac.authorization.k8s.io "{name}" not found'

    def judge(self, user: User, access: Access) -> tuple[bool, str]:
        """Whether a rule grants the access; if none does, which bound roles are missing."""
        missing = []
        for rule in self.rules(user, access.namespace):
            if isinstance(rule, str):
                missing.append(rule)
            elif rule.allows(access):
                return True, ""
        listed = ", ".join(missing) if len(missing) == 1 else f"[{', '.join(missing)}]"
        return False, f"RBAC: {listed}" if missing else ""


def _rules(role: Object, cluster_roles: Iterable[Object]) -> Iterator[Mapping[str, Any]]:
    selectors = (role.get("aggregationRule") or {}).get("clusterRoleSelectors")
    if not selectors:
        yield from role.get("rules") or ()
        return
    wanted = [label_selector(selector) for selector in selectors]
    for other in cluster_roles:
        labels = other["metadata"].get("labels") or {}
        if other is not role and any(satisfies(labels, requirements) for requirements in wanted):
            yield from other.get("rules") or ()
