"""Questions about identity and permission: ``kubectl auth can-i``, ``kubectl auth whoami``, token reviews.

Nothing of these is stored; the answer is the question with its ``status`` filled in.

Source: https://kubernetes.io/docs/reference/kubernetes-api/authorization-resources/
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from kubedouble.authentication import Authenticator, User
from kubedouble.authorization import MASTERS, Authorizer
from kubedouble.errors import StatusError
from kubedouble.rbac import Access, Rule

_EVERYTHING = Rule(frozenset("*"), frozenset("*"), frozenset("*"), frozenset(), ())
_EVERY_URL = Rule(frozenset("*"), frozenset(), frozenset(), frozenset(), ("*",))


class AccessReviews:
    """Answers reviews with the rules now in force."""

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
                return self._token(spec.get("token", ""), now)
            case _:
                raise StatusError(404, "NotFound", "the server could not find the requested resource", {})

    def _access(self, spec: Mapping[str, Any], user: User) -> dict[str, Any]:
        decision = self._authorizer.decide(user, _access_of(spec))
        status: dict[str, Any] = {"allowed": decision.allowed}
        return {**status, "reason": decision.reason} if decision.reason else status

    def _rules(self, user: User, namespace: str) -> dict[str, Any]:
        found = [each for each in self._all_rules(user, namespace) if isinstance(each, Rule)]
        return {
            "resourceRules": [_resource_rule(rule) for rule in found if rule.resources],
            "nonResourceRules": [
                {"verbs": sorted(rule.verbs), "nonResourceURLs": list(rule.urls)}
                for rule in found
                if rule.urls
            ],
            "incomplete": False,
        }

    def _all_rules(self, user: User, namespace: str) -> Iterator[Rule | str]:
        if MASTERS in user.groups:
            yield _EVERYTHING
            yield _EVERY_URL
        yield from self._authorizer.policy().rules(user, namespace)

    def _token(self, token: str, now: datetime) -> dict[str, Any]:
        user = self._authenticator.tokens.user(token, now)
        if user is None:
            return {"authenticated": False, "user": {}, "error": "invalid bearer token"}
        return {"authenticated": True, "user": user.info()}


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
