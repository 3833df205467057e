"""May this user do that: RBAC, the node authorizer, and what a refusal says.

In the order of ``--authorization-mode=Node,RBAC``: members of ``system:masters`` may do everything; a kubelet
is judged by `node_authorization`, then, like everybody, by the roles bound to it. Nothing denies: what no
one allows is refused. Roles are compiled once for each state of the four RBAC kinds.

Left out: escalation prevention (whoever may write roles may write any role) and the ``escalate`` and ``bind``
verbs that go with it.

Source: https://kubernetes.io/docs/reference/access-authn-authz/rbac/
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kubedouble.authentication import User
from kubedouble.errors import StatusError
from kubedouble.node_authorization import authorize_node
from kubedouble.rbac import Access, Policy
from kubedouble.reading import Reader, resource_versions

RBAC_GROUP = "rbac.authorization.k8s.io"
MASTERS = "system:masters"


@dataclass(frozen=True, slots=True)
class Decision:
    """Allowed or not, and what there is to say about it (empty for a plain refusal)."""

    allowed: bool
    reason: str = ""


class Authorizer:
    """Decides requests by the objects in the store."""

    def __init__(self, reader: Reader, *, enabled: bool = True) -> None:
        self._reader = reader
        self._enabled = enabled
        self._policy = Policy((), (), (), ())
        self._compiled_from: tuple[tuple[str, ...], ...] = ()

    def allowed(
        self,
        user: User,
        verb: str,
        *,
        group: str = "",
        resource: str = "",
        subresource: str = "",
        namespace: str = "",
        name: str = "",
        path: str = "",
        field_selector: str = "",
    ) -> Decision:
        """Decide one request: of a resource, or, without ``resource``, of a URL path."""
        access = Access(verb, group, resource, subresource, namespace, name, path, field_selector)
        return self.decide(user, access)

    def decide(self, user: User, access: Access) -> Decision:
        """Like `allowed`, for an access that is already put together."""
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


_PLURALS = ("clusterroles", "clusterrolebindings", "roles", "rolebindings")


def forbidden(user: User, access: Access, reason: str = "") -> StatusError:
    """The refusal, worded as kube-apiserver words it."""
    message = ": ".join(part for part in (_what_is_refused(user, access), reason) if part)
    if not access.resource:
        return StatusError(403, "Forbidden", f"forbidden: {message}", {})
    qualified = ".".join(part for part in (access.resource, access.group) if part)
    subject = f'{qualified} "{access.name}"' if access.name else qualified
    details = {"name": access.name, "group": access.group, "kind": access.resource}
    return StatusError(
        403,
        "Forbidden",
        f"{subject} is forbidden: {message}",
        {key: value for key, value in details.items() if value},
    )


def _what_is_refused(user: User, access: Access) -> str:
    return " ".join(_words(user, access))


def _words(user: User, access: Access) -> Iterator[str]:
    yield f'User "{user.name}" cannot {access.verb}'
    if not access.resource:
        yield f'path "{access.path}"'
        return
    resource = "/".join(part for part in (access.resource, access.subresource) if part)
    yield f'resource "{resource}" in API group "{access.group}"'
    yield f'in the namespace "{access.namespace}"' if access.namespace else "at the cluster scope"
