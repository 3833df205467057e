"""May this user do that? RBAC and the node authorizer decide; reviews answer questions about it.

In the order of ``--authorization-mode=Node,RBAC``: members of ``system:masters`` may do everything; a kubelet
is authorized by :mod:`.node_access`, then, like everybody, by the roles bound to it. Nothing denies: what no
rule allows is refused. Roles are compiled once for each state of the four RBAC kinds.

Reviews (``kubectl auth can-i``, ``kubectl auth whoami``, token reviews) are not stored: the answer is the
question with its ``status`` filled in.

Left out: escalation prevention (whoever may write roles may write any role) and the ``escalate`` and ``bind``
verbs that go with it.

Source: https://kubernetes.io/docs/reference/access-authn-authz/rbac/,
https://kubernetes.io/docs/reference/kubernetes-api/authorization-resources/
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kubedouble.authentication import Authenticator, User
from kubedouble.errors import StatusError, denied
from kubedouble.node_access import authorize_node
from kubedouble.rbac import Access, Policy, Rule
from kubedouble.store import Reader, resource_versions

RBAC_GROUP = "rbac.authorization.k8s.io"
MASTERS = "system:masters"
_PLURALS = ("clusterroles", "clusterrolebindings", "roles", "rolebindings")
_EVERYTHING = Rule(frozenset("*"), frozenset("*"), frozenset("*"), frozenset(), ())
_EVERY_URL = Rule(frozenset("*"), frozenset(), frozenset(), frozenset(), ("*",))


@dataclass(frozen=True, slots=True)
class Decision:
    """Allowed or not, and the reason (empty for a plain refusal)."""

    allowed: bool
    reason: str = ""


class Authorizer:
    """Decides requests by the objects in the store."""

    def __init__(self, reader: Reader, *, enabled: bool = True) -> None:
        self._reader = reader
        self._enabled = enabled
        self._policy = Policy((), (), (), ())
        self._compiled_from: tuple[tuple[str, ...], ...] = ()

    def decide(self, user: User, access: Access) -> Decision:
        """Decide one request: of a resource or of a URL path."""
        if not self._enabled or MASTERS in user.groups:
            return Decision(allowed=True)
        verdict, node_reason = authorize_node(user, access, self._reader)
        if verdict:
            return Decision(allowed=True)
        granted, rbac_reason = self.policy().judge(user, access)
        if granted:
            return Decision(allowed=True, reason=rbac_reason)
        return Decision(allowed=False, reason=node_reason or rbac_reason)

    def require(self, user: User, access: Access) -> None:
        """Raise the StatusError 403 that kube-apiserver answers, unless the access is allowed."""
        decision = self.decide(user, access)
        if not decision.allowed:
            raise forbidden(user, access, decision.reason)

    def policy(self) -> Policy:
        """The roles and bindings now stored, compiled."""
        kinds = [tuple(self._reader.list(RBAC_GROUP, plural)) for plural in _PLURALS]
        state = tuple(resource_versions(objects) for objects in kinds)
        if state != self._compiled_from:
            self._policy, self._compiled_from = Policy(*kinds), state
        return self._policy


def forbidden(user: User, access: Access, reason: str = "") -> StatusError:
    """The refusal, worded as kube-apiserver words it."""
    what = f'User "{user.name}" cannot {access.verb} '
    if access.resource:
        resource = "/".join(part for part in (access.resource, access.subresource) if part)
        place = f'in the namespace "{access.namespace}"' if access.namespace else "at the cluster scope"
        what += f'resource "{resource}" in API group "{access.group}" {place}'
    else:
        what += f'path "{access.path}"'
    message = f"{what}: {reason}" if reason else what
    if not access.resource:
        return StatusError(403, "Forbidden", f"forbidden: {message}", {})
    return denied(access.group, access.resource, access.name, message)


class AccessReviews:
    """Answers reviews with the rules that hold now."""

    def __init__(self, authorizer: Authorizer, authenticator: Authenticator) -> None:
        self._authorizer = authorizer
        self._authenticator = authenticator

    def answer(
        self, kind: str, body: Mapping[str, Any], user: User, *, namespace: str, now: datetime
    ) -> dict[str, Any]:
        """The review object to return for one that a user posted; ``namespace`` is that of the URL."""
        spec = body.get("spec") or {}
        return {"metadata": {}, **body, "status": self._status(kind, spec, user, namespace, now)}

    def _status(
        self, kind: str, spec: Mapping[str, Any], user: User, namespace: str, now: datetime
    ) -> dict[str, Any]:
        match kind:
            case "SelfSubjectAccessReview":
                return self._access(spec, user)
            case "SubjectAccessReview" | "LocalSubjectAccessReview":
                return self._access(_in_namespace(spec, namespace), _subject(spec))
            case "SelfSubjectRulesReview":
                return self._rules(user, spec.get("namespace", ""))
            case "SelfSubjectReview":
                return {"userInfo": user.info()}
            case "TokenReview":
                owner = self._authenticator.tokens.user(spec.get("token", ""), now)
                if owner is None:
                    return {"authenticated": False, "user": {}, "error": "invalid bearer token"}
                return {"authenticated": True, "user": owner.info()}
            case _:
                raise StatusError(404, "NotFound", "the server could not find the requested resource", {})

    def _access(self, spec: Mapping[str, Any], user: User) -> dict[str, Any]:
        decision = self._authorizer.decide(user, _access_of(spec))
        status: dict[str, Any] = {"allowed": decision.allowed}
        return {**status, "reason": decision.reason} if decision.reason else status

    def _rules(self, user: User, namespace: str) -> dict[str, Any]:
        found = [_EVERYTHING, _EVERY_URL] if MASTERS in user.groups else []
        found += [each for each in self._authorizer.policy().rules(user, namespace) if isinstance(each, Rule)]
        return {
            "resourceRules": [_resource_rule(rule) for rule in found if rule.resources],
            "nonResourceRules": [
                {"verbs": sorted(rule.verbs), "nonResourceURLs": list(rule.urls)}
                for rule in found
                if rule.urls
            ],
            "incomplete": False,
        }


def _in_namespace(spec: Mapping[str, Any], namespace: str) -> Mapping[str, Any]:
    if not namespace or "resourceAttributes" not in spec:
        return spec
    return {**spec, "resourceAttributes": {**spec["resourceAttributes"], "namespace": namespace}}


def _subject(spec: Mapping[str, Any]) -> User:
    extra = {key: tuple(values) for key, values in (spec.get("extra") or {}).items()}
    return User(spec.get("user", ""), tuple(spec.get("groups") or ()), spec.get("uid", ""), extra)


def _access_of(spec: Mapping[str, Any]) -> Access:
    if urls := spec.get("nonResourceAttributes"):
        return Access(urls.get("verb", ""), path=urls.get("path", ""))
    wanted = spec.get("resourceAttributes")
    if not wanted:
        message = (
            "spec.resourceAttributes: Invalid value: null: "
            "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        )
        raise StatusError(422, "Invalid", message)
    return Access(
        wanted.get("verb", ""),
        wanted.get("group", ""),
        wanted.get("resource", ""),
        wanted.get("subresource", ""),
        wanted.get("namespace", ""),
        wanted.get("name", ""),
    )


def _resource_rule(rule: Rule) -> dict[str, Any]:
    listed = {
        "verbs": rule.verbs,
        "apiGroups": rule.groups,
        "resources": rule.resources,
        "resourceNames": rule.names,
    }
    return {key: sorted(values) for key, values in listed.items() if values}
