"""admissionregistration.k8s.io/v1: webhook configurations as far as corewise reads them.

Read to learn who else answers for nodes, and whether our own certificate is still the one installed.
Written with server-side apply from plain dicts, never from these structs (see ``objects``).
"""

from __future__ import annotations

from corewise.kube.objects import NO_META, ObjectMeta, Struct


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


class Webhook(Struct, frozen=True):
    """One webhook of a configuration."""

    name: str
    client_config: WebhookClientConfig = WebhookClientConfig()
    rules: tuple[RuleWithOperations, ...] = ()
    failure_policy: str = "Fail"


class WebhookConfiguration(Struct, frozen=True):
    """A MutatingWebhookConfiguration or a ValidatingWebhookConfiguration."""

    metadata: ObjectMeta = NO_META
    webhooks: tuple[Webhook, ...] = ()
