"""The kinds the server has: where each is served, what may be done with it, and how its writes are treated.

Built-in kinds are one table. Custom ones come from CustomResourceDefinitions (:mod:`.definitions`). A kind
that is served under several groups or versions is stored once, under ``storage``.

Source: the registry strategies under k8s.io/kubernetes/pkg/registry (``AllowUnconditionalUpdate``,
``AllowCreateOnUpdate``, ``ReturnDeletedObject``, generation), and ``kubectl api-resources`` of a real
cluster.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True)
class ResourceInfo:
    """One served resource.

    ``status`` says that status is written through the subresource only. ``generation`` names the top-level
    fields whose change counts as a new generation; ``None`` means that the kind has none.
    """

    group: str
    version: str
    plural: str
    singular: str
    kind: str
    namespaced: bool
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    generation: tuple[str, ...] | None = None
    unconditional_update: bool = True
    create_on_update: bool = False
    returns_deleted: bool = False
    custom: bool = False
    storage: str = field(default="", compare=False)
    printer_columns: tuple[Mapping[str, Any], ...] = field(default=(), compare=False)

    @cached_property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def group_resource(self) -> str:
        """``nodes``, ``leases.coordination.k8s.io``: how messages name the resource."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @cached_property
    def storage_key(self) -> str:
        return self.storage or self.group_resource

    @property
    def has_status(self) -> bool:
        return "status" in self.subresources

    def kind_of(self, subresource: str) -> SubresourceKind:
        """Return the kind that a subresource takes and returns."""
        plain = SubresourceKind(self.group, self.version, self.kind, ("get", "patch", "update"))
        return SUBRESOURCE_KINDS.get((self.storage_key, subresource), plain)

    @cached_property
    def list_kind(self) -> str:
        return f"{self.kind}List"


@dataclass(frozen=True, slots=True)
class SubresourceKind:
    """The kind that a subresource takes, which may be another than its resource's, and its verbs."""

    group: str
    version: str
    kind: str
    verbs: tuple[str, ...]


SUBRESOURCE_KINDS: Mapping[tuple[str, str], SubresourceKind] = {
    ("pods", "binding"): SubresourceKind("", "v1", "Binding", ("create",)),
    ("pods", "eviction"): SubresourceKind("policy", "v1", "Eviction", ("create",)),
    ("pods", "log"): SubresourceKind("", "v1", "Pod", ("get",)),
    **{
        ("pods", name): SubresourceKind("", "v1", kind, ("create", "get"))
        for name, kind in (
            ("exec", "PodExecOptions"),
            ("attach", "PodAttachOptions"),
            ("portforward", "PodPortForwardOptions"),
        )
    },
    ("namespaces", "finalize"): SubresourceKind("", "v1", "Namespace", ("update",)),
    **{
        (f"{workload}.apps", "scale"): SubresourceKind(
            "autoscaling", "v1", "Scale", ("get", "patch", "update")
        )
        for workload in ("deployments", "replicasets")
    },
    ("serviceaccounts", "token"): SubresourceKind("authentication.k8s.io", "v1", "TokenRequest", ("create",)),
}
"""Storage key and subresource -> its kind, where that is not the resource's own."""


def _core(plural: str, kind: str, *, namespaced: bool = True, **more: Any) -> ResourceInfo:
    return _kind("", plural, kind, namespaced=namespaced, **more)


def _kind(group: str, plural: str, kind: str, *, namespaced: bool = True, **more: Any) -> ResourceInfo:
    return ResourceInfo(group, "v1", plural, kind.lower(), kind, namespaced, **more)


_ADMISSION = "admissionregistration.k8s.io"
_RBAC = "rbac.authorization.k8s.io"
_WEBHOOKS: dict[str, Any] = {
    "namespaced": False,
    "generation": ("webhooks",),
    "unconditional_update": False,
    "categories": ("api-extensions",),
}
_WORKLOAD: dict[str, Any] = {"generation": ("spec",), "subresources": ("status",), "categories": ("all",)}
_SCALED = {**_WORKLOAD, "subresources": ("status", "scale")}
_PODS = ("log", "status", "binding", "eviction", "exec", "attach", "portforward", "ephemeralcontainers")

BUILT_IN: tuple[ResourceInfo, ...] = (
    _core("namespaces", "Namespace", namespaced=False, short_names=("ns",),
          subresources=("status", "finalize"),
          verbs=("create", "delete", "get", "list", "patch", "update", "watch")),
    _core("nodes", "Node", namespaced=False, short_names=("no",), subresources=("status",)),
    _core("pods", "Pod", short_names=("po",), categories=("all",), subresources=_PODS, generation=("spec",),
          returns_deleted=True),
    _core("configmaps", "ConfigMap", short_names=("cm",)),
    _core("secrets", "Secret"),
    _core("services", "Service", short_names=("svc",), categories=("all",), subresources=("status",),
          returns_deleted=True),
    _core("serviceaccounts", "ServiceAccount", short_names=("sa",), subresources=("token",),
          returns_deleted=True),
    _core("events", "Event", short_names=("ev",), create_on_update=True),
    _kind("events.k8s.io", "events", "Event", short_names=("ev",), create_on_update=True, storage="events"),
    _kind("apps", "deployments", "Deployment", short_names=("deploy",), **_SCALED),
    _kind("apps", "replicasets", "ReplicaSet", short_names=("rs",), **_SCALED),
    _kind("batch", "jobs", "Job", **_WORKLOAD),
    _kind("apps", "daemonsets", "DaemonSet", short_names=("ds",), **_WORKLOAD),
    ResourceInfo("autoscaling", "v2", "horizontalpodautoscalers", "horizontalpodautoscaler",
                 "HorizontalPodAutoscaler", namespaced=True, short_names=("hpa",), categories=("all",),
                 subresources=("status",)),
    _kind("policy", "poddisruptionbudgets", "PodDisruptionBudget", short_names=("pdb",), generation=("spec",),
          subresources=("status",)),
    _kind("coordination.k8s.io", "leases", "Lease", create_on_update=True, unconditional_update=False),
    _kind("scheduling.k8s.io", "priorityclasses", "PriorityClass", namespaced=False, short_names=("pc",)),
    _kind(_RBAC, "roles", "Role", create_on_update=True),
    _kind(_RBAC, "rolebindings", "RoleBinding", create_on_update=True),
    _kind(_RBAC, "clusterroles", "ClusterRole", namespaced=False, create_on_update=True),
    _kind(_RBAC, "clusterrolebindings", "ClusterRoleBinding", namespaced=False, create_on_update=True),
    _kind(_ADMISSION, "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", **_WEBHOOKS),
    _kind(_ADMISSION, "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", **_WEBHOOKS),
    _kind(_ADMISSION, "mutatingadmissionpolicies", "MutatingAdmissionPolicy",
          **{**_WEBHOOKS, "generation": ("spec",)}),
    _kind(_ADMISSION, "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding",
          **{**_WEBHOOKS, "generation": ("spec",)}),
    _kind(_ADMISSION, "validatingadmissionpolicies", "ValidatingAdmissionPolicy", subresources=("status",),
          **{**_WEBHOOKS, "generation": ("spec",)}),
    _kind(_ADMISSION, "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding",
          **{**_WEBHOOKS, "generation": ("spec",)}),
    _kind("networking.k8s.io", "networkpolicies", "NetworkPolicy", short_names=("netpol",),
          generation=("spec",)),
    _kind("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False,
          short_names=("crd", "crds"), categories=("api-extensions",), subresources=("status",),
          generation=("spec",), unconditional_update=False),
    _kind("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False,
          verbs=("create",)),
    _kind("authorization.k8s.io", "selfsubjectrulesreviews", "SelfSubjectRulesReview", namespaced=False,
          verbs=("create",)),
    _kind("authorization.k8s.io", "localsubjectaccessreviews", "LocalSubjectAccessReview", verbs=("create",)),
    _kind("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview", namespaced=False,
          verbs=("create",)),
    _kind("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview", namespaced=False,
          verbs=("create",)),
    _kind("authentication.k8s.io", "tokenreviews", "TokenReview", namespaced=False, verbs=("create",)),
)  # fmt: skip


class Registry:
    """The resources served now: the built-in kinds, and the custom ones that definitions added."""

    def __init__(self, built_in: Iterable[ResourceInfo] = BUILT_IN, *, without: Collection[str] = ()) -> None:
        """``without`` names resources that are left out, as a server of an older version does."""
        self._built_in = tuple(each for each in built_in if each.plural not in without)
        self._by_path = {(each.group, each.version, each.plural): each for each in self._built_in}
        self._custom: dict[str, tuple[ResourceInfo, ...]] = {}

    def groups(self) -> dict[str, set[str]]:
        """Return the versions of each group."""
        groups: dict[str, set[str]] = {}
        for each in self:
            groups.setdefault(each.group, set()).add(each.version)
        return groups

    def __iter__(self) -> Iterator[ResourceInfo]:
        return iter(self._by_path.values())

    def find(self, group: str, version: str, plural: str) -> ResourceInfo | None:
        return self._by_path.get((group, version, plural))

    def of_storage(self, storage: str) -> ResourceInfo | None:
        """Return the resource whose form is the stored one (the first served version)."""
        return next((each for each in self if each.storage_key == storage and not each.storage), None)

    def of_kind(self, group: str, kind: str) -> ResourceInfo | None:
        return next((each for each in self if (each.group, each.kind) == (group, kind)), None)

    def define(self, definition: str, resources: Iterable[ResourceInfo]) -> None:
        """Serve the resources of a definition from now on, instead of those it brought before."""
        self.withdraw(definition)
        self._custom[definition] = tuple(resources)
        for each in self._custom[definition]:
            self._by_path[each.group, each.version, each.plural] = each

    def withdraw(self, definition: str) -> None:
        """Stop serving a definition."""
        for each in self._custom.pop(definition, ()):
            self._by_path.pop((each.group, each.version, each.plural), None)
