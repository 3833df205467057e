"""Whatever is sent, the answer is an object, or a Status that says what is wrong; never a crash."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from multidict import CIMultiDict

from kubedouble import deletion, listing, writing
from kubedouble.authentication import User
from kubedouble.bootstrap import bootstrap
from kubedouble.cluster import Cluster, Reply, utc_now
from kubedouble.definitions import serve_definitions
from kubedouble.errors import StatusError
from kubedouble.requests import Call, parse
from kubedouble.resources import Registry
from kubedouble.store import Store
from kubedouble.subresources import bind, evict, issue_token, review
from kubedouble.writing import BUILT_IN_TYPES

ADMIN = User("admin", ("system:masters",))
PATHS = {
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/namespaces/default/pods",
    "ConfigMap": "/api/v1/namespaces/default/configmaps",
    "Secret": "/api/v1/namespaces/default/secrets",
    "Service": "/api/v1/namespaces/default/services",
    "Namespace": "/api/v1/namespaces",
    "Event": "/apis/events.k8s.io/v1/namespaces/default/events",
    "Lease": "/apis/coordination.k8s.io/v1/namespaces/default/leases",
    "Deployment": "/apis/apps/v1/namespaces/default/deployments",
    "ReplicaSet": "/apis/apps/v1/namespaces/default/replicasets",
    "Job": "/apis/batch/v1/namespaces/default/jobs",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "SelfSubjectAccessReview": "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
}
_WORDS = """
    metadata name namespace labels annotations finalizers ownerReferences spec status capacity cpu
    conditions type lastHeartbeatTime taints key effect containers image resources requests nodeName
    data stringData rules verbs subjects roleRef kind group names plural versions schema openAPIV3Schema
    properties storage served scope resourceVersion uid generateName managedFields deletionTimestamp
    target selector template holderIdentity renewTime regarding note resourceAttributes $patch
    $retainKeys ports addresses images nodeInfo manager fieldsV1 dryRun preconditions deleteOptions
"""
WORDS = st.sampled_from(_WORDS.split())
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 2**63), st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8), st.sampled_from(["a", "500m", "16Gi", "1e3", "2024-01-01T00:00:00Z", "Pod"]),
)  # fmt: skip
JSON = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(WORDS | st.text(max_size=6), inner, max_size=4)
    ),
    max_leaves=16,
)
OBJECTS = st.dictionaries(WORDS, JSON, max_size=4)


def cluster() -> Cluster:
    store, registry = Store(), Registry()
    serve_definitions(store, registry, utc_now)
    made = Cluster(store, registry)
    bootstrap(made)
    return made


def answer(
    target: Cluster, handler: Any, method: str, path: str, body: Any, **headers: str
) -> Reply | StatusError:
    """Send one request past routing, as an administrator."""
    info = parse(method, path, {})
    resource = target.registry.find(info.group, info.version, info.plural)
    assert resource
    query = (
        {"fieldManager": "fuzz"} if headers.get("Content-Type", "").startswith("application/apply") else {}
    )
    call = Call(info, resource, ADMIN, query, CIMultiDict(headers), utc_now(), msgspec.json.encode(body))
    try:
        reply: Reply = asyncio.run(handler(target, call))
    except StatusError as refused:
        return refused
    return reply


def acceptable(outcome: Reply | StatusError) -> bool:
    """An answer, or a refusal with a message; what a strategic merge cannot do is a 500 in Kubernetes too."""
    return isinstance(outcome, Reply) or (400 <= outcome.code <= 500 and bool(outcome.message))


@pytest.mark.parametrize("kind", PATHS)
@settings(max_examples=25, deadline=None)
@given(obj=OBJECTS, metadata=OBJECTS)
def test_any_object_is_created_or_refused(kind: str, obj: Any, metadata: Any) -> None:
    body = {**obj, "kind": kind, "metadata": {"name": "a", **metadata}}
    handler = review if kind.endswith("Review") else writing.create
    assert acceptable(answer(cluster(), handler, "POST", PATHS[kind], body))


NODE = {
    "metadata": {"name": "a", "labels": {"x": "y"}},
    "status": {
        "capacity": {"cpu": "4"},
        "conditions": [{"type": "Ready", "status": "True"}],
        "images": [{"names": ["x"], "sizeBytes": 1}],
    },
}
POD = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "main", "image": "x"}]}}
STORED = {"Node": NODE, "Pod": POD}


@pytest.mark.parametrize("media_type", BUILT_IN_TYPES)
@pytest.mark.parametrize("path", [PATHS["Node"] + "/a", PATHS["Node"] + "/a/status", PATHS["Pod"] + "/a"])
@settings(max_examples=25, deadline=None)
@given(patch=st.one_of(OBJECTS, JSON))
def test_any_patch_is_applied_or_refused(media_type: str, path: str, patch: Any) -> None:
    target = cluster()
    for kind, body in STORED.items():
        assert isinstance(answer(target, writing.create, "POST", PATHS[kind], body), Reply)
    kind = "Pod" if "pods" in path else "Node"
    outcome = answer(target, writing.patch, "PATCH", path, patch, **{"Content-Type": media_type})
    assert acceptable(outcome)
    again = answer(
        target, writing.patch, "PATCH", path, {}, **{"Content-Type": "application/merge-patch+json"}
    )
    version = target.store.version
    assert isinstance(again, Reply)
    assert version == target.store.version
    assert isinstance(
        answer(
            target,
            writing.patch,
            "PATCH",
            PATHS[kind] + "/a",
            {},
            **{"Content-Type": "application/merge-patch+json"},
        ),
        Reply,
    )


OPERATIONS = st.lists(
    st.fixed_dictionaries(
        {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"])},
        optional={
            "path": st.lists(WORDS | st.sampled_from(["0", "-", ""]), max_size=4).map(
                lambda parts: "/" + "/".join(parts)
            ),
            "from": st.lists(WORDS, max_size=3).map(lambda parts: "/" + "/".join(parts)),
            "value": JSON,
        },
    ),
    max_size=4,
)


@settings(max_examples=60, deadline=None)
@given(operations=OPERATIONS)
def test_any_json_patch_is_applied_or_refused(operations: Any) -> None:
    target = cluster()
    answer(target, writing.create, "POST", PATHS["Node"], NODE)
    path, media_type = PATHS["Node"] + "/a/status", "application/json-patch+json"
    assert acceptable(
        answer(target, writing.patch, "PATCH", path, operations, **{"Content-Type": media_type})
    )


@pytest.mark.parametrize(
    ("handler", "method", "path"),
    [
        (bind, "POST", "/api/v1/namespaces/default/pods/a/binding"),
        (evict, "POST", "/api/v1/namespaces/default/pods/a/eviction"),
        (issue_token, "POST", "/api/v1/namespaces/default/serviceaccounts/a/token"),
        (deletion.delete, "DELETE", "/api/v1/namespaces/default/pods/a"),
        (deletion.delete_collection, "DELETE", "/api/v1/nodes"),
        (deletion.delete, "DELETE", "/api/v1/namespaces/default"),
    ],
)
@settings(max_examples=25, deadline=None)
@given(body=OBJECTS)
def test_any_operation_body_is_accepted_or_refused(handler: Any, method: str, path: str, body: Any) -> None:
    target = cluster()
    answer(target, writing.create, "POST", PATHS["Node"], NODE)
    answer(target, writing.create, "POST", PATHS["Pod"], POD)
    account = {"metadata": {"name": "a"}}
    answer(target, writing.create, "POST", "/api/v1/namespaces/default/serviceaccounts", account)
    assert acceptable(answer(target, handler, method, path, body))


@settings(max_examples=60, deadline=None)
@given(token=st.text(max_size=30) | st.binary(max_size=20).map(bytes.hex))
def test_any_continue_token_is_taken_or_refused(token: str) -> None:
    target = cluster()
    info = parse("GET", "/api/v1/nodes", {})
    resource = target.registry.find("", "v1", "nodes")
    assert resource
    call = Call(info, resource, ADMIN, {"continue": token, "limit": "1"}, CIMultiDict(), utc_now())
    try:
        asyncio.run(listing.list_objects(target, call))
    except StatusError as refused:
        code = refused.code
    else:
        code = 200
    assert code in {200, 400, 410}
