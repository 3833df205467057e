"""Field numbers of the kinds that are read from protobuf bodies (`protobuf_bodies`).

They are what ``kubectl create`` of namespaces, ConfigMaps, Secrets, service accounts, tokens, roles and
bindings, ``kubectl auth`` and ``kubectl drain`` send.

Source: generated.proto beside each API in k8s.io/api, k8s.io/apimachinery/pkg/{apis/meta/v1,runtime}.
"""

from __future__ import annotations

from collections.abc import Mapping

_LABELS = "map string"

Message = Mapping[int, tuple[str, "str | Message"]]
"""Field number -> JSON name and type.

A type is a message, or a word: string, bytes, int, bool, time, or one of ``list X`` and ``map X``; ``?``
after a word marks a pointer. A name ending in ``[]`` is a list of messages.
"""

_TYPE_META: Message = {1: ("apiVersion", "string"), 2: ("kind", "string")}
UNKNOWN: Message = {1: ("typeMeta", _TYPE_META), 2: ("raw", "raw")}
_OWNER: Message = {
    1: ("kind", "string"),
    3: ("name", "string"),
    4: ("uid", "string"),
    5: ("apiVersion", "string"),
    6: ("controller", "bool?"),
    7: ("blockOwnerDeletion", "bool?"),
}
_META: Message = {
    1: ("name", "string"),
    2: ("generateName", "string"),
    3: ("namespace", "string"),
    5: ("uid", "string"),
    6: ("resourceVersion", "string"),
    7: ("generation", "int"),
    8: ("creationTimestamp", "time"),
    11: ("labels", _LABELS),
    12: ("annotations", _LABELS),
    13: ("ownerReferences[]", _OWNER),
    14: ("finalizers", "list string"),
}
_REFERENCE: Message = {1: ("name", "string")}
_RULE: Message = {
    1: ("verbs", "list string"),
    2: ("apiGroups", "list string"),
    3: ("resources", "list string"),
    4: ("resourceNames", "list string"),
    5: ("nonResourceURLs", "list string"),
}
_SUBJECT: Message = {
    1: ("kind", "string"),
    2: ("apiGroup", "string"),
    3: ("name", "string"),
    4: ("namespace", "string"),
}
_ROLE_REF: Message = {1: ("apiGroup", "string"), 2: ("kind", "string"), 3: ("name", "string")}
_ROLE: Message = {1: ("metadata", _META), 2: ("rules[]", _RULE)}
_BINDING: Message = {1: ("metadata", _META), 2: ("subjects[]", _SUBJECT), 3: ("roleRef", _ROLE_REF)}
_RESOURCE_ATTRIBUTES: Message = {
    1: ("namespace", "string"),
    2: ("verb", "string"),
    3: ("group", "string"),
    4: ("version", "string"),
    5: ("resource", "string"),
    6: ("subresource", "string"),
    7: ("name", "string"),
}
_URL_ATTRIBUTES: Message = {1: ("path", "string"), 2: ("verb", "string")}
_ACCESS: Message = {
    1: ("resourceAttributes", _RESOURCE_ATTRIBUTES),
    2: ("nonResourceAttributes", _URL_ATTRIBUTES),
    3: ("user", "string"),
    4: ("groups", "list string"),
    6: ("uid", "string"),
}
_DELETE_OPTIONS: Message = {
    1: ("gracePeriodSeconds", "int?"),
    2: ("preconditions", {1: ("uid", "string?"), 2: ("resourceVersion", "string?")}),
    3: ("orphanDependents", "bool?"),
    4: ("propagationPolicy", "string?"),
    5: ("dryRun", "list string"),
}
_BOUND_OBJECT: Message = {
    1: ("kind", "string"),
    2: ("apiVersion", "string"),
    3: ("name", "string"),
    4: ("uid", "string"),
}
_TOKEN_SPEC: Message = {
    1: ("audiences", "list string"),
    3: ("boundObjectRef", _BOUND_OBJECT),
    4: ("expirationSeconds", "int?"),
}
_ACCOUNT: Message = {
    1: ("metadata", _META),
    3: ("imagePullSecrets[]", _REFERENCE),
    4: ("automountServiceAccountToken", "bool?"),
}
_CONFIG_MAP: Message = {
    1: ("metadata", _META),
    2: ("data", _LABELS),
    3: ("binaryData", "map bytes"),
    4: ("immutable", "bool?"),
}
_SECRET: Message = {
    1: ("metadata", _META),
    2: ("data", "map bytes"),
    3: ("type", "string"),
    4: ("stringData", _LABELS),
    5: ("immutable", "bool?"),
}
_KINDS: Mapping[tuple[str, str], Message] = {
    ("v1", "Namespace"): {1: ("metadata", _META)},
    ("v1", "ConfigMap"): _CONFIG_MAP,
    ("v1", "Secret"): _SECRET,
    ("v1", "ServiceAccount"): _ACCOUNT,
    ("policy/v1", "Eviction"): {1: ("metadata", _META), 2: ("deleteOptions", _DELETE_OPTIONS)},
    ("rbac.authorization.k8s.io/v1", "Role"): _ROLE,
    ("rbac.authorization.k8s.io/v1", "ClusterRole"): _ROLE,
    ("rbac.authorization.k8s.io/v1", "RoleBinding"): _BINDING,
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"): _BINDING,
    ("authorization.k8s.io/v1", "SelfSubjectAccessReview"): {1: ("metadata", _META), 2: ("spec", _ACCESS)},
    ("authorization.k8s.io/v1", "SubjectAccessReview"): {1: ("metadata", _META), 2: ("spec", _ACCESS)},
    ("authorization.k8s.io/v1", "SelfSubjectRulesReview"): {
        1: ("metadata", _META),
        2: ("spec", {1: ("namespace", "string")}),
    },
    ("authentication.k8s.io/v1", "SelfSubjectReview"): {1: ("metadata", _META)},
    ("authentication.k8s.io/v1", "TokenRequest"): {1: ("metadata", _META), 2: ("spec", _TOKEN_SPEC)},
}


def message_of(api_version: str, kind: str) -> Message | None:
    """The table of a kind; DeleteOptions go by the version of what they delete."""
    return _DELETE_OPTIONS if kind == "DeleteOptions" else _KINDS.get((api_version, kind))
