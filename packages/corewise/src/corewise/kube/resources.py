"""Which resources there are: where each lies in the API, and the struct that its objects decode to.

A ``Resource`` is a value that is passed to every call of the client, so that the type checker knows what
comes back: ``await client.get(CONFIG_MAPS, "c", "ns")`` is a ``ConfigMap``.
"""

from __future__ import annotations

import builtins
from dataclasses import dataclass
from typing import Generic, TypeVar
from urllib.parse import quote

from corewise.kube.objects import (
    NO_META,
    ConfigMap,
    Event,
    Lease,
    Namespace,
    NodeResourceTopology,
    ObjectMeta,
    PartialObject,
    PriorityClass,
    RawObject,
    Secret,
    Struct,
)


# admissionregistration.k8s.io/v1: read to learn who else answers for nodes, and which certificate is
# installed. Written with server-side apply from plain dicts, never from these structs.
class ServiceReference(Struct, frozen=True):
    """The Service behind which a webhook listens."""

    name: str
    namespace: str
    path: str = ""
    port: int = 443


class WebhookClientConfig(Struct, frozen=True):
    """Where a webhook listens (``url`` or ``service``) and by which authorities it is trusted."""

    url: str | None = None
    service: ServiceReference | None = None
    ca_bundle: bytes = b""


class RuleWithOperations(Struct, frozen=True):
    """Which requests a webhook is called for; "*" stands for all."""

    operations: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    api_versions: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    scope: str = "*"


class ConfiguredWebhook(Struct, frozen=True):
    """One webhook of a configuration."""

    name: str
    client_config: WebhookClientConfig = WebhookClientConfig()
    rules: tuple[RuleWithOperations, ...] = ()
    failure_policy: str = "Fail"


class WebhookConfiguration(Struct, frozen=True):
    """A MutatingWebhookConfiguration or a ValidatingWebhookConfiguration."""

    metadata: ObjectMeta = NO_META
    webhooks: tuple[ConfiguredWebhook, ...] = ()


T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True, slots=True)
class Resource(Generic[T]):
    """A resource of the API; ``group`` is "" for the core group, ``type`` is what an object decodes to."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    type: builtins.type[T]

    @property
    def api_version(self) -> str:
        """As objects state it: "v1", "coordination.k8s.io/v1"."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def typed(self, other: builtins.type[U]) -> Resource[U]:
        """The same resource, decoded to another type: a narrower struct, or a plain dict."""
        return Resource(self.group, self.version, self.plural, self.kind, self.namespaced, other)

    def path(self, name: str = "", *, namespace: str = "", subresource: str = "") -> str:
        """Where the resource, or one object of it, lies below the server's address.

        Without a namespace, a namespaced resource is that of all namespaces.

        Raises:
            ValueError: a name without the namespace it needs, or a namespace where there is none.
        """
        if namespace and not self.namespaced:
            raise ValueError(f"{self.plural} have no namespace, but {namespace!r} was given")
        if name and self.namespaced and not namespace:
            raise ValueError(f"{self.plural} {name!r} needs a namespace")
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if namespace:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name:
            parts.append(quote(name, safe=""))
        if subresource:
            parts.append(subresource)
        return "/" + "/".join(parts)

    def label(self, name: str = "", namespace: str = "") -> str:
        """Return an object's name in messages: ``pods default/web-1``, ``nodes n1``."""
        return " ".join(filter(None, (self.plural, f"{namespace}/{name}" if namespace else name)))


NODES = Resource("", "v1", "nodes", "Node", namespaced=False, type=PartialObject)
PODS = Resource("", "v1", "pods", "Pod", namespaced=True, type=PartialObject)
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True, type=ConfigMap)
SECRETS = Resource("", "v1", "secrets", "Secret", namespaced=True, type=Secret)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False, type=Namespace)
EVENTS = Resource("", "v1", "events", "Event", namespaced=True, type=Event)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True, type=Lease)
NODE_RESOURCE_TOPOLOGIES = Resource(
    "topology.node.k8s.io",
    "v1alpha1",
    "noderesourcetopologies",
    "NodeResourceTopology",
    namespaced=False,
    type=NodeResourceTopology,
)
PRIORITY_CLASSES = Resource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False, type=PriorityClass
)
COLOCATION_PROFILES = Resource(
    "config.koordinator.sh",
    "v1alpha1",
    "clustercolocationprofiles",
    "ClusterColocationProfile",
    namespaced=False,
    type=RawObject,
)
CLUSTER_ROLES = Resource(
    "rbac.authorization.k8s.io",
    "v1",
    "clusterroles",
    "ClusterRole",
    namespaced=False,
    type=PartialObject,
)
MUTATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
    type=WebhookConfiguration,
)
MUTATING_POLICIES = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingadmissionpolicies",
    "MutatingAdmissionPolicy",
    namespaced=False,
    type=PartialObject,
)
MUTATING_POLICY_BINDINGS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingadmissionpolicybindings",
    "MutatingAdmissionPolicyBinding",
    namespaced=False,
    type=PartialObject,
)
VALIDATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
    type=WebhookConfiguration,
)
