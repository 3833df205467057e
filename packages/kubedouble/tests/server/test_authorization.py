"""May this user do that: RBAC and the node authorizer, as tables of cases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from kubedouble.authentication import Authenticator, User
from kubedouble.authorization import AccessReviews, Authorizer
from kubedouble.bootstrap import bootstrap_objects
from kubedouble.errors import StatusError
from kubedouble.rbac import Access

RBAC = "rbac.authorization.k8s.io"
JOE = User("joe", ("team:a", "system:authenticated"))
KUBELET = User("system:node:n1", ("system:nodes", "system:authenticated"))


class Objects:
    """Some objects, each with a version of its own."""

    def __init__(self, *objects: Mapping[str, Any]) -> None:
        self._objects: list[dict[str, Any]] = []
        for item in objects:
            self.add(item)

    def add(self, item: Mapping[str, Any]) -> None:
        version = str(len(self._objects) + 1)
        self._objects.append({**item, "metadata": {**item["metadata"], "resourceVersion": version}})

    def get(self, group: str, resource: str, namespace: str, name: str) -> dict[str, Any] | None:
        for item in self.list(group, resource):
            metadata = item["metadata"]
            if (metadata.get("namespace", ""), metadata["name"]) == (namespace, name):
                return item
        return None

    def list(self, group: str, resource: str) -> Iterable[dict[str, Any]]:
        return [item for item in self._objects if item["kind"].lower() + "s" == resource]


def role(
    name: str, *rules: Mapping[str, Any], namespace: str = "", labels: Mapping[str, str] | None = None
) -> dict[str, Any]:
    metadata = {"name": name, "labels": labels or {}} | ({"namespace": namespace} if namespace else {})
    return {"kind": "Role" if namespace else "ClusterRole", "metadata": metadata, "rules": list(rules)}


def binding(
    role_name: str, *subjects: Mapping[str, str], namespace: str = "", kind: str = "ClusterRole"
) -> dict[str, Any]:
    metadata = {"name": role_name} | ({"namespace": namespace} if namespace else {})
    return {
        "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role_name},
        "subjects": list(subjects),
    }


def allow(verbs: str, resources: str, group: str = "", names: str = "") -> dict[str, Any]:
    rule: dict[str, Any] = {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split()}
    return rule | ({"resourceNames": names.split()} if names else {})


USER_JOE = {"kind": "User", "name": "joe"}


def may(authorizer: Authorizer, user: User, verb: str, resource: str, **more: str) -> bool:
    resource, _, subresource = resource.partition("/")
    return authorizer.decide(user, Access(verb, resource=resource, subresource=subresource, **more)).allowed


def granting(*rules: Mapping[str, Any]) -> Authorizer:
    return Authorizer(Objects(role("r", *rules), binding("r", USER_JOE)))


@pytest.mark.parametrize(
    ("rule", "verb", "resource", "more", "expected"),
    [
        (allow("get list", "nodes"), "get", "nodes", {"name": "n1"}, True),
        (allow("get list", "nodes"), "patch", "nodes", {"name": "n1"}, False),
        (allow("get", "nodes"), "get", "nodes/status", {}, False),
        (allow("get", "nodes/status"), "get", "nodes/status", {}, True),
        (allow("get", "nodes/status"), "get", "nodes", {}, False),
        (allow("get", "*/status"), "get", "nodes/status", {}, True),
        (allow("get", "*/status"), "get", "nodes", {}, False),
        (allow("get", "*"), "get", "nodes/status", {}, True),
        (allow("*", "nodes"), "deletecollection", "nodes", {}, True),
        (allow("get", "leases"), "get", "leases", {"group": "coordination.k8s.io"}, False),
        (
            allow("get", "leases", "coordination.k8s.io"),
            "get",
            "leases",
            {"group": "coordination.k8s.io"},
            True,
        ),
        (allow("get", "*", "*"), "get", "leases", {"group": "coordination.k8s.io"}, True),
        (allow("get", "configmaps", names="one two"), "get", "configmaps", {"name": "two"}, True),
        (allow("get", "configmaps", names="one"), "get", "configmaps", {"name": "three"}, False),
        (allow("create", "configmaps", names="one"), "create", "configmaps", {}, False),
        (allow("get", "nodes"), "get", "pods", {"namespace": "a"}, False),
        (allow("get", "pods"), "get", "pods", {"namespace": "a"}, True),
    ],
)
def test_a_rule_grants_exactly_what_it_says(
    rule: dict[str, Any], verb: str, resource: str, more: dict[str, str], expected: bool
) -> None:
    assert may(granting(rule), JOE, verb, resource, **more) is expected


@pytest.mark.parametrize(
    ("urls", "path", "expected"),
    [
        (["/metrics"], "/metrics", True),
        (["/metrics"], "/metrics/x", False),
        (["/healthz/*"], "/healthz/etcd", True),
        (["/healthz*"], "/healthz", True),
        (["*"], "/anything", True),
        ([], "/metrics", False),
    ],
)
def test_trailing_star_matches_paths(urls: list[str], path: str, expected: bool) -> None:
    authorizer = granting({"nonResourceURLs": urls, "verbs": ["get"]})
    assert authorizer.decide(JOE, Access("get", path=path)).allowed is expected


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        (USER_JOE, True),
        ({"kind": "User", "name": "jane"}, False),
        ({"kind": "Group", "name": "team:a"}, True),
        ({"kind": "Group", "name": "joe"}, False),
        ({"kind": "ServiceAccount", "name": "joe", "namespace": "ns"}, False),
    ],
)
def test_subjects_are_users_groups_and_service_accounts(subject: dict[str, str], expected: bool) -> None:
    authorizer = Authorizer(Objects(role("r", allow("get", "nodes")), binding("r", subject)))
    assert may(authorizer, JOE, "get", "nodes") is expected


def test_service_account_without_namespace_uses_the_bindings_namespace() -> None:
    subject = {"kind": "ServiceAccount", "name": "a"}
    authorizer = Authorizer(Objects(role("r", allow("get", "pods")), binding("r", subject, namespace="ns")))
    account = User("system:serviceaccount:ns:a")
    assert may(authorizer, account, "get", "pods", namespace="ns")


def test_role_binding_limits_cluster_role_to_its_namespace() -> None:
    authorizer = Authorizer(
        Objects(role("r", allow("get", "pods nodes")), binding("r", USER_JOE, namespace="a"))
    )
    assert may(authorizer, JOE, "get", "pods", namespace="a")
    assert not may(authorizer, JOE, "get", "pods", namespace="b")
    assert not may(authorizer, JOE, "get", "nodes")


def test_role_is_looked_up_in_its_bindings_namespace() -> None:
    other = role("r", allow("get", "pods"), namespace="b")
    authorizer = Authorizer(Objects(other, binding("r", USER_JOE, namespace="a", kind="Role")))
    decision = authorizer.decide(JOE, Access("get", resource="pods", namespace="a"))
    assert not decision.allowed
    assert decision.reason == f'RBAC: role.{RBAC} "r" not found'


def test_aggregated_role_has_rules_of_those_it_selects() -> None:
    aggregated = {
        **role("all"),
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"to": "all"}}]},
    }
    part = role("part", allow("get", "nodes"), labels={"to": "all"})
    authorizer = Authorizer(Objects(aggregated, part, binding("all", USER_JOE)))
    assert may(authorizer, JOE, "get", "nodes")


def test_a_changed_role_counts_at_once() -> None:
    objects = Objects(binding("r", USER_JOE))
    authorizer = Authorizer(objects)
    assert not may(authorizer, JOE, "get", "nodes")
    objects.add(role("r", allow("get", "nodes")))
    assert may(authorizer, JOE, "get", "nodes")


def test_masters_may_do_everything_and_authorization_is_optional() -> None:
    assert may(Authorizer(Objects()), User("admin", ("system:masters",)), "delete", "nodes")
    assert may(Authorizer(Objects(), enabled=False), JOE, "delete", "nodes")


@pytest.mark.parametrize(
    ("user", "verb", "path", "expected"),
    [
        (JOE, "get", "/apis/apps/v1", True),
        (JOE, "get", "/openapi/v3", True),
        (JOE, "get", "/metrics", False),
        (User("system:anonymous", ("system:unauthenticated",)), "get", "/livez", True),
        (User("system:anonymous", ("system:unauthenticated",)), "get", "/apis", False),
    ],
)
def test_bootstrap_roles_let_everybody_discover(user: User, verb: str, path: str, expected: bool) -> None:
    authorizer = Authorizer(Objects(*bootstrap_objects()))
    assert authorizer.decide(user, Access(verb, path=path)).allowed is expected


def a_pod(name: str, node: str, **spec: Any) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"nodeName": node, "containers": [{"name": "c", **spec}]},
    }


@pytest.mark.parametrize(
    ("verb", "resource", "more", "expected"),
    [
        ("get", "nodes", {"name": "n1"}, True),
        ("get", "nodes", {"name": "n2"}, False),
        ("list", "nodes", {}, False),
        ("watch", "nodes", {"field_selector": "metadata.name=n1"}, True),
        ("patch", "nodes/status", {"name": "n1"}, True),
        ("update", "nodes", {"name": "n1"}, True),
        ("create", "nodes", {}, True),
        ("delete", "nodes", {"name": "n1"}, False),
        ("get", "nodes/status", {"name": "n1"}, False),
        ("list", "pods", {"field_selector": "spec.nodeName=n1"}, True),
        ("list", "pods", {"field_selector": "spec.nodeName=n2"}, False),
        ("list", "pods", {}, False),
        ("get", "pods", {"namespace": "ns", "name": "mine"}, True),
        ("get", "pods", {"namespace": "ns", "name": "other"}, False),
        ("patch", "pods", {"namespace": "ns", "name": "mine"}, False),
        ("patch", "pods/status", {"namespace": "ns", "name": "mine"}, True),
        ("create", "pods/eviction", {"namespace": "ns", "name": "mine"}, True),
        ("create", "pods/binding", {"namespace": "ns", "name": "mine"}, False),
        ("get", "configmaps", {"namespace": "ns", "name": "used"}, True),
        ("get", "configmaps", {"namespace": "ns", "name": "unused"}, False),
        ("list", "configmaps", {"namespace": "ns"}, False),
        ("get", "secrets", {"namespace": "ns", "name": "used"}, False),
        ("patch", "configmaps", {"namespace": "ns", "name": "used"}, False),
        ("create", "events", {"namespace": "default"}, True),
        ("delete", "events", {"namespace": "default"}, False),
    ],
)
def test_a_kubelet_may_do_what_its_node_needs(
    verb: str, resource: str, more: dict[str, str], expected: bool
) -> None:
    mine = a_pod("mine", "n1", envFrom=[{"configMapRef": {"name": "used"}}])
    authorizer = Authorizer(Objects(mine, a_pod("other", "n2", envFrom=[{"secretRef": {"name": "used"}}])))
    assert may(authorizer, KUBELET, verb, resource, **more) is expected


@pytest.mark.parametrize(
    ("verb", "namespace", "name", "expected"),
    [
        ("patch", "kube-node-lease", "n1", True),
        ("create", "kube-node-lease", "", True),
        ("patch", "kube-node-lease", "n2", False),
        ("patch", "kube-system", "n1", False),
        ("list", "kube-node-lease", "", False),
    ],
)
def test_a_kubelet_holds_its_own_lease(verb: str, namespace: str, name: str, expected: bool) -> None:
    authorizer = Authorizer(Objects())
    access = {"group": "coordination.k8s.io", "namespace": namespace, "name": name}
    assert may(authorizer, KUBELET, verb, "leases", **access) is expected


def test_node_name_without_the_group_is_no_kubelet() -> None:
    stranger = User("system:node:n1", ("system:authenticated",))
    assert not may(Authorizer(Objects()), stranger, "patch", "nodes/status", name="n1")


def test_the_node_authorizers_reason_is_told() -> None:
    with pytest.raises(StatusError) as refusal:
        Authorizer(Objects()).require(KUBELET, Access("get", resource="nodes", name="n2"))
    assert refusal.value.message == (
        'nodes "n2" is forbidden: User "system:node:n1" cannot get resource "nodes" in API group "" '
        "at the cluster scope: node 'n1' cannot read 'n2', only its own Node object"
    )


@pytest.mark.parametrize(
    ("access", "message"),
    [
        (
            Access("patch", resource="nodes", name="n1"),
            (
                'nodes "n1" is forbidden: User "joe" cannot patch resource "nodes" in API group "" '
                "at the cluster scope"
            ),
        ),
        (
            Access("create", resource="pods", subresource="binding", namespace="a", name="p"),
            (
                'pods "p" is forbidden: User "joe" cannot create resource "pods/binding" in API group "" '
                'in the namespace "a"'
            ),
        ),
        (
            Access("list", "coordination.k8s.io", "leases"),
            (
                'leases.coordination.k8s.io is forbidden: User "joe" cannot list resource "leases" '
                'in API group "coordination.k8s.io" at the cluster scope'
            ),
        ),
        (Access("get", path="/metrics"), 'forbidden: User "joe" cannot get path "/metrics"'),
    ],
)
def test_a_refusal_is_worded_as_kubernetes_words_it(access: Access, message: str) -> None:
    with pytest.raises(StatusError) as refusal:
        Authorizer(Objects()).require(JOE, access)
    assert refusal.value.message == message
    assert (refusal.value.code, refusal.value.reason) == (403, "Forbidden")


@pytest.fixture
def reviews() -> AccessReviews:
    objects = Objects(role("r", allow("get", "nodes")), binding("r", USER_JOE))
    return AccessReviews(Authorizer(objects), Authenticator())


def ask(reviews: AccessReviews, kind: str, spec: Mapping[str, Any], user: User = JOE) -> dict[str, Any]:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    status: dict[str, Any] = reviews.answer(kind, {"spec": spec}, user, namespace="", now=now)["status"]
    return status


def test_access_reviews_answer_for_oneself_and_for_others(reviews: AccessReviews) -> None:
    spec = {"resourceAttributes": {"verb": "get", "resource": "nodes"}}
    assert ask(reviews, "SelfSubjectAccessReview", spec)["allowed"]
    assert not ask(reviews, "SelfSubjectAccessReview", spec, User("jane"))["allowed"]
    assert ask(reviews, "SubjectAccessReview", {**spec, "user": "joe"}, User("jane"))["allowed"]


def test_an_access_review_about_nothing_is_invalid(reviews: AccessReviews) -> None:
    with pytest.raises(StatusError) as refusal:
        ask(reviews, "SelfSubjectAccessReview", {})
    assert refusal.value.code == 422


def test_rules_reviews_list_what_holds(reviews: AccessReviews) -> None:
    status = ask(reviews, "SelfSubjectRulesReview", {"namespace": "default"})
    assert {"verbs": ["get"], "apiGroups": [""], "resources": ["nodes"]} in status["resourceRules"]


def test_token_reviews_know_unknown_tokens(reviews: AccessReviews) -> None:
    assert ask(reviews, "TokenReview", {"token": "x"})["authenticated"] is False
