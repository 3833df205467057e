"""Roles and bindings, webhook configurations, admission policies, and CustomResourceDefinitions.

Source: k8s.io/kubernetes/pkg/apis/{rbac,admissionregistration}/validation,
apiserver/pkg/util/webhook/validation.go; apiextensions-apiserver/pkg/apis/apiextensions/validation,
pkg/apiserver/schema/validation.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from kubedouble.errors import Faults
from kubedouble.expressions import BOOLEAN, PATCHES, TEXT, CompilationError, Scope, is_available
from kubedouble.schema.rules import Object, dns_label, port, subdomain

_GROUP = "rbac.authorization.k8s.io"
_ROLES = ("Role", "ClusterRole")
_SUBJECTS = ("ServiceAccount", "User", "Group")


def role(faults: Faults, obj: Object, _: Object | None) -> None:
    """Report the faults of a Role."""
    _rules(faults, obj, namespaced=True)


def cluster_role(faults: Faults, obj: Object, _: Object | None) -> None:
    """Report the faults of a ClusterRole."""
    _rules(faults, obj, namespaced=False)


def _rules(faults: Faults, obj: Object, *, namespaced: bool) -> None:
    for at, rule in enumerate(obj.get("rules") or ()):
        field = f"rules[{at}]"
        if not rule.get("verbs"):
            faults.required(f"{field}.verbs", "verbs must contain at least one value")
        if urls := rule.get("nonResourceURLs"):
            if namespaced:
                why = "namespaced rules cannot apply to non-resource URLs"
                faults.invalid(f"{field}.nonResourceURLs", urls, why)
            if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
                why = "rules cannot apply to both regular resources and non-resource URLs"
                faults.invalid(f"{field}.nonResourceURLs", urls, why)
            continue
        if not rule.get("apiGroups"):
            faults.required(f"{field}.apiGroups", "resource rules must supply at least one api group")
        if not rule.get("resources"):
            faults.required(f"{field}.resources", "resource rules must supply at least one resource")


def role_binding(faults: Faults, obj: Object, old: Object | None) -> None:
    """Report the faults of a RoleBinding or ClusterRoleBinding."""
    ref = obj.get("roleRef") or {}
    roles = ("ClusterRole",) if obj.get("kind") == "ClusterRoleBinding" else _ROLES
    if ref.get("apiGroup") != _GROUP:
        faults.unsupported("roleRef.apiGroup", ref.get("apiGroup", ""), (_GROUP,))
    if ref.get("kind") not in roles:
        faults.unsupported("roleRef.kind", ref.get("kind", ""), roles)
    if not ref.get("name"):
        faults.required("roleRef.name")
    if old is not None and ref != old.get("roleRef"):
        faults.invalid("roleRef", ref, "cannot change roleRef")
    for at, subject in enumerate(obj.get("subjects") or ()):
        _subject(faults, f"subjects[{at}]", subject)


def _subject(faults: Faults, field: str, subject: Object) -> None:
    kind = subject.get("kind", "")
    if not subject.get("name"):
        faults.required(f"{field}.name")
    if kind not in _SUBJECTS:
        faults.unsupported(f"{field}.kind", kind, _SUBJECTS)
        return
    group = "" if kind == "ServiceAccount" else _GROUP
    if subject.get("apiGroup", "") != group:
        faults.unsupported(f"{field}.apiGroup", subject.get("apiGroup", ""), (group,))
    if kind == "ServiceAccount" and not subject.get("namespace"):
        faults.required(f"{field}.namespace")


_REVIEWS = ("v1", "v1beta1")
_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_URL_FORM = "desired format: https://host[/path]"


def webhooks(faults: Faults, obj: Object, _: Object | None) -> None:
    """Report the faults of a MutatingWebhookConfiguration or ValidatingWebhookConfiguration."""
    names: list[str] = []
    for at, webhook in enumerate(obj.get("webhooks") or ()):
        _webhook(faults, f"webhooks[{at}]", webhook)
        faults.unique(f"webhooks[{at}].name", webhook.get("name", ""), names)


def _webhook(faults: Faults, field: str, webhook: Object) -> None:
    if name := webhook.get("name", ""):
        subdomain(faults, f"{field}.name", name)
        if name.count(".") < 2:
            why = "should be a domain with at least three segments separated by dots"
            faults.invalid(f"{field}.name", name, why)
    else:
        faults.required(f"{field}.name")
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
    _conditions(faults, field, webhook, Scope())
    _client(faults, f"{field}.clientConfig", webhook.get("clientConfig") or {})


def rule(faults: Faults, field: str, rule: Object) -> None:
    """Report the faults of a rule of a webhook or a policy."""
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


_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_ACTIONS = ("Audit", "Deny", "Warn")
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
"""The documentation of the field names Unauthorized, too; the API server refuses it."""
_BOTH = (
    "must not contain both Deny and Warn (repeating the same validation failure information in the "
    "API response and headers serves no purpose)"
)


def validating_policy(faults: Faults, obj: Object, _: Object | None) -> None:
    """Report the faults of a ValidatingAdmissionPolicy."""
    spec = obj.get("spec") or {}
    scope = _policy(faults, spec)
    if not spec.get("validations") and not spec.get("auditAnnotations"):
        for name in ("validations", "auditAnnotations"):
            faults.required(f"spec.{name}", "validations or auditAnnotations must contain at least one item")
    for at, validation in enumerate(spec.get("validations") or ()):
        field = f"spec.validations[{at}]"
        if validation.get("reason", "Invalid") not in _REASONS:
            faults.unsupported(f"{field}.reason", validation["reason"], _REASONS)
        if "\n" in validation.get("message", "").strip():
            why = "message must not contain line breaks"
            faults.invalid(f"{field}.message", validation["message"], why)
        text = validation.get("expression", "")
        _compiles(faults, f"{field}.expression", text, partial(scope.compile, text, BOOLEAN))
        if text := validation.get("messageExpression"):
            _compiles(faults, f"{field}.messageExpression", text, partial(scope.compile, text, TEXT))


_PATCH_TYPES = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}
_REINVOCATIONS = ("IfNeeded", "Never")


def mutating_policy(faults: Faults, obj: Object, _: Object | None) -> None:
    """Report the faults of a MutatingAdmissionPolicy; an ApplyConfiguration is not compiled here."""
    spec = obj.get("spec") or {}
    scope = _policy(faults, spec)
    reinvocation = spec.get("reinvocationPolicy")
    if not reinvocation:
        faults.required("spec.reinvocationPolicy")
    elif reinvocation not in _REINVOCATIONS:
        faults.unsupported("spec.reinvocationPolicy", reinvocation, _REINVOCATIONS)
    if not spec.get("mutations"):
        faults.required("spec.mutations", "mutations must contain at least one item")
    for at, mutation in enumerate(spec.get("mutations") or ()):
        _mutation(faults, f"spec.mutations[{at}]", mutation, scope)


def _mutation(faults: Faults, field: str, mutation: Object, scope: Scope) -> None:
    kind = mutation.get("patchType")
    if not kind:
        faults.required(f"{field}.patchType")
    elif kind not in _PATCH_TYPES:
        faults.unsupported(f"{field}.patchType", kind, tuple(_PATCH_TYPES))
    for name, member in _PATCH_TYPES.items():
        if name == kind and member not in mutation:
            faults.required(f"{field}.{member}", f"must be specified when patchType is {name}")
        elif name != kind and kind in _PATCH_TYPES and member in mutation:
            why = f"must not be specified when patchType is {kind}"
            faults.invalid(f"{field}.{member}", mutation[member], why)
        elif name == kind:
            text = mutation[member].get("expression", "")
            compiling = partial(scope.compile, text, PATCHES) if kind == "JSONPatch" else lambda: None
            _compiles(faults, f"{field}.{member}.expression", text, compiling)


def _policy(faults: Faults, spec: Object) -> Scope:
    """Report the faults of the fields that both kinds of policies have; return their variables."""
    constraints = spec.get("matchConstraints")
    if constraints is None:
        faults.required("spec.matchConstraints")
    else:
        _match(faults, "spec.matchConstraints", constraints)
        if not constraints.get("resourceRules"):
            faults.required("spec.matchConstraints.resourceRules")
    scope = Scope()
    _conditions(faults, "spec", spec, scope)
    for at, each in enumerate(spec.get("variables") or ()):
        field, name, text = f"spec.variables[{at}]", each.get("name", ""), each.get("expression", "")
        if not name:
            faults.required(f"{field}.name", "name is not specified")
        elif not _IDENTIFIER.fullmatch(name):
            faults.invalid(f"{field}.name", name, "name is not a valid CEL identifier")
        else:
            _compiles(faults, f"{field}.expression", text, partial(scope.declare, name, text))
    return scope


def _conditions(faults: Faults, field: str, spec: Object, scope: Scope) -> None:
    """Report the faults of the matchConditions of a policy or a webhook."""
    for at, each in enumerate(spec.get("matchConditions") or ()):
        text = each.get("expression", "")
        path = f"{field}.matchConditions[{at}].expression"
        _compiles(faults, path, text, partial(scope.compile, text, BOOLEAN))


def _compiles(faults: Faults, field: str, text: str, compiling: Callable[[], Any]) -> None:
    if not text.strip():
        faults.required(field, "expression is not specified")
    elif is_available():
        try:
            compiling()
        except CompilationError as error:
            faults.invalid(field, text, str(error))


def mutating_policy_binding(faults: Faults, obj: Object, _: Object | None) -> None:
    """Report the faults of a MutatingAdmissionPolicyBinding."""
    spec = obj.get("spec") or {}
    if not spec.get("policyName"):
        faults.required("spec.policyName")
    _match(faults, "spec.matchResources", spec.get("matchResources") or {})


def validating_policy_binding(faults: Faults, obj: Object, old: Object | None) -> None:
    """Report the faults of a ValidatingAdmissionPolicyBinding."""
    mutating_policy_binding(faults, obj, old)
    spec = obj.get("spec") or {}
    actions = spec.get("validationActions") or []
    for at, action in enumerate(actions):
        if action not in _ACTIONS:
            faults.unsupported(f"spec.validationActions[{at}]", action, _ACTIONS)
    if {"Deny", "Warn"} <= set(actions):
        faults.invalid("spec.validationActions", actions, _BOTH)
    if not actions:
        faults.required("spec.validationActions", "at least one validation action is required")


def _match(faults: Faults, field: str, resources: Object) -> None:
    for name in ("resourceRules", "excludeResourceRules"):
        for at, each in enumerate(resources.get(name) or ()):
            rule(faults, f"{field}.{name}[{at}]", each)


def definition(faults: Faults, obj: Object, old: Object | None) -> None:
    """Report the faults of a CustomResourceDefinition."""
    spec = obj.get("spec") or {}
    if not spec.get("group"):
        faults.required("spec.group")
    else:
        subdomain(faults, "spec.group", spec["group"])
    if not spec.get("scope"):
        faults.required("spec.scope")
    names = spec.get("names") or {}
    for name in ("plural", "kind"):
        if not names.get(name):
            faults.required(f"spec.names.{name}")
        else:
            dns_label(faults, f"spec.names.{name}", names[name].lower())
    if not spec.get("versions"):
        faults.required("spec.versions", "must have exactly one version marked as storage version")
    for at, version in enumerate(spec.get("versions") or ()):
        _version(faults, f"spec.versions[{at}]", version)
    if old is not None:
        for name in ("group", "scope"):
            faults.immutable(f"spec.{name}", spec.get(name), old["spec"].get(name))


def _version(faults: Faults, field: str, version: Object) -> None:
    if not version.get("name"):
        faults.required(f"{field}.name")
    path = f"{field}.schema.openAPIV3Schema"
    document = (version.get("schema") or {}).get("openAPIV3Schema")
    if document is None:
        faults.required(path, "schemas are required")
        return
    if document.get("type") != "object":
        faults.invalid(f"{path}.type", document.get("type", ""), "must be object at the root")
    _structural(faults, path, document, root=True)


def _structural(faults: Faults, path: str, document: Mapping[str, Any], *, root: bool = False) -> None:
    untyped = not document.get("type") and not (
        document.get("x-kubernetes-int-or-string") or document.get("x-kubernetes-preserve-unknown-fields")
    )
    if untyped and not root:
        faults.required(f"{path}.type", "must not be empty for specified object fields")
    for name, each in (document.get("properties") or {}).items():
        if isinstance(each, Mapping):
            _structural(faults, f"{path}.properties[{name}]", each)
    for name in ("items", "additionalProperties"):
        if isinstance(document.get(name), Mapping):
            _structural(faults, f"{path}.{name}", document[name])
    if document.get("type") == "array" and "items" not in document:
        faults.required(f"{path}.items", "must be specified")
    if document.get("x-kubernetes-list-type") == "map" and not document.get("x-kubernetes-list-map-keys"):
        faults.required(
            f"{path}.x-kubernetes-list-map-keys", "must not be empty if x-kubernetes-list-type is map"
        )
