"""From an object as it was sent to the object as it is stored, or the refusal that says why not.

The client chooses with ``fieldValidation`` what happens to a field that the kind does not have: ``Strict``
refuses it, ``Warn`` (the default) drops it and warns, ``Ignore`` drops it. A value of the wrong type is
always refused: 400 for an object that was sent whole, 422 for the result of a patch. Defaults that depend on
the rest of the object, which a table of fields cannot express, are computed here.

Source: k8s.io/apiserver/pkg/endpoints/handlers/{create,patch,rest}.go; SetDefaults_* and conversions of
k8s.io/kubernetes/pkg/apis/{core,apps,rbac,apiextensions}/v1.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

from kubedouble.errors import StatusError, cause
from kubedouble.schema.custom import Pruner
from kubedouble.schema.decoding import Decoder, Undecodable
from kubedouble.schema.structure import Schema

JSON = dict[str, Any]
_SECRET = "io.k8s.api.core.v1.Secret"  # noqa: S105 - a type's name


def normalize(
    obj: JSON,
    schema: Schema,
    *,
    base: JSON | None = None,
    field_validation: str = "Warn",
    patch: str | None = None,
) -> tuple[JSON, tuple[str, ...]]:
    """Return an object in stored form, and warnings for the client.

    Args:
        obj: the object, with apiVersion and kind.
        schema: the kind's.
        base: the stored object, if there is one; parts of ``obj`` that *are* parts of it are not looked at.
        field_validation: ``Strict``, ``Warn`` or ``Ignore``.
        patch: the text of the patch that made the object, if one did.

    Raises:
        StatusError: 400 (422 for a patch) if a value is of the wrong type, or strict validation finds a
            field that the kind does not have.
    """
    walk = Pruner() if schema.custom else Decoder()
    try:
        decoded: JSON = walk.decode(obj, schema, base)
    except Undecodable as error:
        raise _refusal(obj, str(error), patch) from None
    warnings = tuple(f'unknown field "{path}"' for path in walk.unknown)
    if warnings and field_validation == "Strict":
        raise _refusal(obj, "strict decoding error: " + ", ".join(warnings), patch)
    if not schema.custom:
        decoded = complete(decoded, schema, base)
        if schema.name == _SECRET:
            decoded = with_string_data(decoded)
    return decoded, warnings if field_validation != "Ignore" else ()


def _refusal(obj: JSON, why: str, patch: str | None) -> StatusError:
    if patch is None:
        kind, version = obj.get("kind", ""), obj.get("apiVersion", "").rpartition("/")[2]
        message = f'{kind} in version "{version}" cannot be handled as a {kind}: {why}'
        return StatusError(400, "BadRequest", message)
    quoted = patch.replace("\\", "\\\\").replace('"', '\\"')
    message = f'Invalid value: "{quoted}": {why}'
    causes = [cause("FieldValueInvalid", message, "patch")]
    return StatusError(422, "Invalid", f' "" is invalid: patch: {message}', {"causes": causes})


_RBAC = "rbac.authorization.k8s.io"
_SUBJECT_GROUPS = {"User": _RBAC, "Group": _RBAC}


def complete(obj: JSON, schema: Schema, base: Mapping[str, Any] | None = None) -> JSON:
    """Return a decoded object with its computed defaults; what is as stored in ``base`` has them already."""
    rule = _RULES.get(schema.name)
    if rule is None:
        return obj
    parts = [name for name in rule if name in obj and not (base and obj[name] is base.get(name))]
    changed = {name: rule[name](obj[name]) for name in parts}
    return {**obj, **changed} if changed else obj


def _pod_spec(spec: JSON) -> JSON:
    result = dict(spec)
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        if kind in spec:
            result[kind] = [_container(each, host=spec.get("hostNetwork", False)) for each in spec[kind]]
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        result["serviceAccountName"] = result["serviceAccount"] = account
    return result


def _container(container: JSON, *, host: bool) -> JSON:
    result = dict(container)
    if "imagePullPolicy" not in result:
        result["imagePullPolicy"] = _pull_policy(result.get("image", ""))
    resources = result.get("resources") or {}
    if limits := resources.get("limits"):
        result["resources"] = {**resources, "requests": {**limits, **resources.get("requests", {})}}
    if host and "ports" in result:
        result["ports"] = [{**port, "hostPort": port.get("hostPort") or port.get("containerPort", 0)}
                           for port in result["ports"]]  # fmt: skip
    return result


def _pull_policy(image: str) -> str:
    if "@" in image:
        return "IfNotPresent"
    _, colon, tag = image.rpartition("/")[2].partition(":")
    return "IfNotPresent" if colon and tag != "latest" else "Always"


def _template(spec: JSON) -> JSON:
    template = spec.get("template") or {}
    if "spec" not in template:
        return spec
    return {**spec, "template": {**template, "spec": _pod_spec(template["spec"])}}


def _job(spec: JSON) -> JSON:
    once = {} if "parallelism" in spec or "completions" in spec else {"completions": 1}
    return _template({"parallelism": 1, **once, **spec})


def _workload(field: str, **rolling: Any) -> Callable[[JSON], JSON]:
    """Return a function that completes a workload's spec: its rolling update, and its template."""

    def complete_spec(spec: JSON) -> JSON:
        strategy = spec.get(field) or {}
        if strategy.get("type") == "RollingUpdate":
            update = {**rolling, **strategy.get("rollingUpdate", {})}
            spec = {**spec, field: {**strategy, "rollingUpdate": update}}
        return _template(spec)

    return complete_spec


def _service(spec: JSON) -> JSON:
    if "ports" not in spec:
        return spec
    ports = [port if "targetPort" in port else {**port, "targetPort": port["port"]} for port in spec["ports"]]
    return {**spec, "ports": ports}


def _node_status(status: JSON) -> JSON:
    if "capacity" in status and "allocatable" not in status:
        return {**status, "allocatable": status["capacity"]}
    return status


def _subjects(subjects: list[JSON]) -> list[JSON]:
    return [
        subject
        if "apiGroup" in subject or subject["kind"] not in _SUBJECT_GROUPS
        else {**subject, "apiGroup": _SUBJECT_GROUPS[subject["kind"]]}
        for subject in subjects
    ]


def _definition(spec: JSON) -> JSON:
    names = dict(spec.get("names") or {})
    if kind := names.get("kind"):
        names = {"singular": kind.lower(), "listKind": f"{kind}List", **names}
    return {"conversion": {"strategy": "None"}, **spec, "names": names}


def with_string_data(secret: JSON) -> JSON:
    """Return a Secret with its ``stringData`` in ``data``."""
    if "stringData" not in secret:
        return secret
    encoded = {key: base64.b64encode(text.encode()).decode() for key, text in secret["stringData"].items()}
    rest = {key: value for key, value in secret.items() if key != "stringData"}
    return {**rest, "data": {**secret.get("data", {}), **encoded}}


_EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"
_CORE = "io.k8s.api.core.v1"
_RULES: Mapping[str, Mapping[str, Callable[[Any], Any]]] = {
    f"{_CORE}.Pod": {"spec": _pod_spec},
    f"{_CORE}.Service": {"spec": _service},
    f"{_CORE}.Node": {"status": _node_status},
    "io.k8s.api.apps.v1.Deployment": {"spec": _workload("strategy", maxUnavailable="25%", maxSurge="25%")},
    "io.k8s.api.apps.v1.DaemonSet": {"spec": _workload("updateStrategy", maxUnavailable=1, maxSurge=0)},
    "io.k8s.api.apps.v1.ReplicaSet": {"spec": _template},
    "io.k8s.api.batch.v1.Job": {"spec": _job},
    "io.k8s.api.rbac.v1.RoleBinding": {"subjects": _subjects},
    "io.k8s.api.rbac.v1.ClusterRoleBinding": {"subjects": _subjects},
    f"{_EXTENSIONS}.CustomResourceDefinition": {"spec": _definition},
}
