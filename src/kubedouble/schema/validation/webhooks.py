"""Webhook configurations.

Source: k8s.io/kubernetes/pkg/apis/admissionregistration/validation,
apiserver/pkg/util/webhook/validation.go.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from kubedouble.schema.validation.faults import Faults, Object
from kubedouble.schema.validation.names import dns_label, port, subdomain

_REVIEWS = ("v1", "v1beta1")
_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_URL_FORM = "desired format: https://host[/path]"


def configuration(faults: Faults, obj: Object, _: Object | None) -> None:
    """Note what is wrong with a MutatingWebhookConfiguration or ValidatingWebhookConfiguration."""
    names: set[str] = set()
    for at, webhook in enumerate(obj.get("webhooks") or ()):
        field = f"webhooks[{at}]"
        _webhook(faults, field, webhook)
        name = webhook.get("name", "")
        if name in names:
            faults.duplicate(f"{field}.name", name)
        names.add(name)


def _webhook(faults: Faults, field: str, webhook: Object) -> None:
    _name(faults, f"{field}.name", webhook.get("name", ""))
    reviews = webhook.get("admissionReviewVersions") or []
    if not reviews:
        faults.required(f"{field}.admissionReviewVersions", f"must specify one of {', '.join(_REVIEWS)}")
    elif not set(reviews) & set(_REVIEWS):
        why = f"must include at least one of {', '.join(_REVIEWS)}"
        faults.invalid(f"{field}.admissionReviewVersions", reviews, why)
    effects = webhook.get("sideEffects")
    if effects is None:
        faults.required(f"{field}.sideEffects", f"must specify one of {', '.join(_SIDE_EFFECTS)}")
    elif effects not in _SIDE_EFFECTS:
        faults.unsupported(f"{field}.sideEffects", effects, _SIDE_EFFECTS)
    timeout = webhook.get("timeoutSeconds", 10)
    if not 1 <= timeout <= 30:
        faults.invalid(
            f"{field}.timeoutSeconds", timeout, "the timeout value must be between 1 and 30 seconds"
        )
    for at, each in enumerate(webhook.get("rules") or ()):
        rule(faults, f"{field}.rules[{at}]", each)
    _client(faults, f"{field}.clientConfig", webhook.get("clientConfig") or {})


def _name(faults: Faults, field: str, name: str) -> None:
    if not name:
        faults.required(field)
        return
    subdomain(faults, field, name)
    if name.count(".") < 2:
        faults.invalid(field, name, "should be a domain with at least three segments separated by dots")


def rule(faults: Faults, field: str, rule: Object) -> None:
    """Note what is wrong with a rule of a webhook or a policy."""
    for name in ("operations", "apiGroups", "apiVersions", "resources"):
        values = rule.get(name) or []
        if not values:
            faults.required(f"{field}.{name}")
        elif "*" in values and len(values) > 1 and name != "resources":
            faults.invalid(f"{field}.{name}", values, "if '*' is present, must not specify other values")
    for at, operation in enumerate(rule.get("operations") or ()):
        if operation not in _OPERATIONS:
            faults.unsupported(f"{field}.operations[{at}]", operation, _OPERATIONS)


def _client(faults: Faults, field: str, client: Object) -> None:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        faults.required(field, "exactly one of url or service is required")
    if url is not None:
        _url(faults, f"{field}.url", url)
    if service is not None:
        for name in ("name", "namespace"):
            if not service.get(name):
                faults.required(f"{field}.service.{name}", f"service {name} is required")
            elif name == "namespace":
                dns_label(faults, f"{field}.service.{name}", service[name])
        port(faults, f"{field}.service.port", service.get("port", 443))


def _url(faults: Faults, field: str, url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme != "https":
        faults.invalid(field, parts.scheme, f"'https' is the only allowed URL scheme; {_URL_FORM}")
    if not parts.netloc:
        faults.invalid(field, parts.netloc, f"host must be specified; {_URL_FORM}")
    if "@" in parts.netloc:
        faults.invalid(field, parts.netloc.partition("@")[0], "user information is not permitted in the URL")
    if parts.fragment:
        faults.invalid(field, parts.fragment, "fragments are not permitted in the URL")
    if parts.query:
        faults.invalid(field, parts.query, "query parameters are not permitted in the URL")
