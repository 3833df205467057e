"""Request bodies in JSON, YAML and protobuf. Responses are always JSON, which every client accepts.

YAML is read within limits, so that no body ends the server or takes its memory: libyaml composes recursively,
in C, where no exception can be caught; an alias counts as many values, and is as deep, as what it stands for
(ten lines of ten aliases each would be 10^10 values). Times stay text, as in JSON.

kubectl 1.33 and later send protobuf for what they create with typed clients: ``k8s`` and a zero byte, and a
``runtime.Unknown`` with apiVersion, kind, and the object's own message. The tables have what ``kubectl
create`` of namespaces, ConfigMaps, Secrets, service accounts, tokens, roles, bindings, Deployments and Jobs,
``kubectl auth`` and ``kubectl drain`` send. Pod templates are read in part: what the tables lack there is
refused, not lost. Go writes fields that are no pointers even where they are empty: empty values
are left out here, as Go's JSON leaves them out. What is a pointer (marked ``?``) is set on purpose and stays.

Source: k8s.io/apimachinery/pkg/runtime/serializer/protobuf, generated.proto beside each API in k8s.io/api,
https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
import yaml

from kubedouble.errors import UNREADABLE, StatusError, bad_request

T = TypeVar("T")
_DEEPEST = 100
"""Levels of an object: schemas of custom resources are deeper than anything else."""
_DEEPEST_JSON = 250
"""kube-apiserver takes 10,000 levels. Here objects are walked recursively, on a stack of Python's size."""
_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*"|([{[])|[]}]')
_MOST_VALUES = 500_000
_LONGEST_NUMBER = 1000
_SAFE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_STANDARD = "tag:yaml.org,2002:"


def parse_json(body: bytes, form: type[T]) -> T:
    """Parse JSON of this form, such as an object.

    Raises:
        msgspec.MsgspecError: if it is not, or is nested too deep; in the words of kube-apiserver.
        UnicodeDecodeError: if it is not UTF-8.
    """
    try:
        value = msgspec.json.decode(body, type=form)
    except RecursionError as error:
        raise msgspec.DecodeError("exceeded max depth") from error
    if body.count(b"{") + body.count(b"[") > _DEEPEST_JSON:
        depth = 0
        for found in _BRACKETS.finditer(body):
            if not found[0].startswith(b'"'):
                depth += 1 if found[1] else -1
            if depth > _DEEPEST_JSON:
                raise msgspec.DecodeError("exceeded max depth")
    return value


def decode_json(body: bytes) -> dict[str, Any]:
    """Decode a JSON object.

    Raises:
        StatusError: 400, if it is not JSON or not an object, or is nested too deep.
    """
    try:
        return parse_json(body, dict[str, Any])
    except UNREADABLE as error:
        raise bad_request(f"the object provided is unrecognized (must be of type JSON): {error}") from error


def decode_yaml(body: bytes) -> dict[str, Any]:
    """Decode a YAML (or JSON) object.

    Raises:
        StatusError: 400, if it is neither, or not an object.
    """
    try:
        return parse_json(body, dict[str, Any])
    except UNREADABLE:
        pass
    try:
        return msgspec.convert(_load(body), dict[str, Any])
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise bad_request(f"error decoding YAML: {error}") from error


def _load(text: bytes) -> Any:
    """Return the one document of a text; None if it is empty.

    Raises:
        yaml.YAMLError: if it is not YAML, beyond the limits, or has a value that its tag does not allow.
    """
    depth = 0
    for event in yaml.parse(text, Loader=_SAFE):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise _refused(event, f"nested deeper than {_DEEPEST} levels")
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _measure(node, {})
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _measure(node: yaml.Node, known: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """Return the number of values and of levels in a node, including what its aliases stand for."""
    found = known.get(id(node))
    if found == (0, 0):
        raise _refused(node, "an alias stands within the value that it names")
    if found:
        return found
    known[id(node)] = values, levels = 0, 0
    parts: list[yaml.Node] = []
    if isinstance(node, yaml.SequenceNode):
        parts = node.value
    elif isinstance(node, yaml.MappingNode):
        parts = [part for pair in node.value for part in pair]
    for part in parts:
        below = _measure(part, known)
        values, levels = values + below[0], max(levels, below[1])
    known[id(node)] = values, levels = values + 1, levels + isinstance(node, yaml.CollectionNode)
    if values > _MOST_VALUES:
        raise _refused(node, f"more than {_MOST_VALUES} values, with what aliases stand for")
    if levels > _DEEPEST:
        raise _refused(node, f"nested deeper than {_DEEPEST} levels")
    return values, levels


class _Loader(_SAFE):  # type: ignore[misc]
    """Constructs plain values; what a tag does not allow is a YAMLError."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:  # noqa: FBT001, FBT002 - as called
        if node.tag in {f"{_STANDARD}int", f"{_STANDARD}float"} and len(node.value) > _LONGEST_NUMBER:
            raise _not_of_its_tag(node)
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, OverflowError) as error:
            raise _not_of_its_tag(node) from error


_Loader.add_constructor(f"{_STANDARD}timestamp", _Loader.construct_scalar)


def _not_of_its_tag(node: yaml.Node) -> yaml.YAMLError:
    shown = f"{node.value[:40]!r}" if isinstance(node, yaml.ScalarNode) else "this"
    return _refused(node, f"{shown} is no {node.tag.removeprefix(_STANDARD)}")


def _refused(place: Any, problem: str) -> yaml.YAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=place.start_mark)


_MAGIC = b"k8s\0"

Message = Mapping[int, tuple[str, "str | Message"]]
"""Field number -> JSON name and type, which is a message or one of the words of :func:`_read_messages`."""


def _read_messages(text: str) -> Mapping[str, Message]:
    """Read a table: ``MESSAGE: NUMBER NAME TYPE; ...``; an indented line continues the one before it.

    ``0 partial PLACE`` refuses other fields of what is called PLACE. ``skip`` is for a status, which a create
    does not write. A type is a message further up, or a word: string, bytes, int, bool, time, quantity,
    ``list X``, ``map X``; ``?`` after a word marks a pointer. A name ending in ``[]`` is a list of messages.
    """
    messages: dict[str, Message] = {}
    for line in text.strip().replace("\n ", "").split("\n"):
        titles, _, fields = line.partition(": ")
        entries = (field.strip().split(" ", 2) for field in fields.split(";"))
        message = {int(number): (name, messages.get(form, form)) for number, name, form in entries}
        messages |= dict.fromkeys(titles.split(", "), message)
    return messages


_MESSAGES = _read_messages("""
TYPE: 1 apiVersion string; 2 kind string
UNKNOWN: 1 typeMeta TYPE; 2 raw raw
OWNER: 1 kind string; 3 name string; 4 uid string; 5 apiVersion string; 6 controller bool?;
  7 blockOwnerDeletion bool?
META: 1 name string; 2 generateName string; 3 namespace string; 5 uid string; 6 resourceVersion string;
  7 generation int; 8 creationTimestamp time; 11 labels map string; 12 annotations map string;
  13 ownerReferences[] OWNER; 14 finalizers list string
CONDITIONS: 1 uid string?; 2 resourceVersion string?
OPTIONS: 1 gracePeriodSeconds int?; 2 preconditions CONDITIONS; 3 orphanDependents bool?;
  4 propagationPolicy string?; 5 dryRun list string
TERM: 1 key string; 2 operator string; 3 values list string
SELECTOR: 1 matchLabels map string; 2 matchExpressions[] TERM
PORT: 1 name string; 2 hostPort int; 3 containerPort int; 4 protocol string; 5 hostIP string
VARIABLE: 0 partial a variable; 1 name string; 2 value string
AMOUNTS: 0 partial resources; 1 limits map quantity; 2 requests map quantity
CONTAINER: 0 partial a container; 1 name string; 2 image string; 3 command list string; 4 args list string;
  5 workingDir string; 6 ports[] PORT; 7 env[] VARIABLE; 8 resources AMOUNTS; 14 imagePullPolicy string;
  16 stdin bool; 17 stdinOnce bool; 18 tty bool
POD: 0 partial a pod; 2 containers[] CONTAINER; 3 restartPolicy string; 5 activeDeadlineSeconds int?;
  4 terminationGracePeriodSeconds int?; 6 dnsPolicy string; 7 nodeSelector map string;
  8 serviceAccountName string; 9 serviceAccount string; 10 nodeName string; 11 hostNetwork bool;
  19 schedulerName string; 20 initContainers[] CONTAINER; 24 priorityClassName string
TEMPLATE: 1 metadata META; 2 spec POD
STRATEGY: 0 partial a strategy; 1 type string
DEPLOYMENT: 0 partial a Deployment; 1 replicas int?; 2 selector SELECTOR; 3 template TEMPLATE;
  4 strategy STRATEGY; 5 minReadySeconds int; 6 revisionHistoryLimit int?; 7 paused bool;
  9 progressDeadlineSeconds int?
JOB: 0 partial a Job; 1 parallelism int?; 2 completions int?; 3 activeDeadlineSeconds int?;
  4 selector SELECTOR; 5 manualSelector bool?; 6 template TEMPLATE; 7 backoffLimit int?;
  8 ttlSecondsAfterFinished int?; 9 completionMode string?; 10 suspend bool?
NAME: 1 name string
RULE: 1 verbs list string; 2 apiGroups list string; 3 resources list string; 4 resourceNames list string;
  5 nonResourceURLs list string
SUBJECT: 1 kind string; 2 apiGroup string; 3 name string; 4 namespace string
ROLE: 1 apiGroup string; 2 kind string; 3 name string
RESOURCE: 1 namespace string; 2 verb string; 3 group string; 4 version string; 5 resource string;
  6 subresource string; 7 name string
URL: 1 path string; 2 verb string
ACCESS: 1 resourceAttributes RESOURCE; 2 nonResourceAttributes URL; 3 user string; 4 groups list string;
  6 uid string
NAMESPACE: 1 namespace string
OBJECT: 1 kind string; 2 apiVersion string; 3 name string; 4 uid string
TOKEN: 1 audiences list string; 3 boundObjectRef OBJECT; 4 expirationSeconds int?
v1 Namespace, authentication.k8s.io/v1 SelfSubjectReview: 1 metadata META
v1 ConfigMap: 1 metadata META; 2 data map string; 3 binaryData map bytes; 4 immutable bool?
v1 Secret: 1 metadata META; 2 data map bytes; 3 type string; 4 stringData map string; 5 immutable bool?
v1 ServiceAccount: 1 metadata META; 3 imagePullSecrets[] NAME; 4 automountServiceAccountToken bool?
apps/v1 Deployment: 1 metadata META; 2 spec DEPLOYMENT; 3 status skip
batch/v1 Job: 1 metadata META; 2 spec JOB; 3 status skip
policy/v1 Eviction: 1 metadata META; 2 deleteOptions OPTIONS
rbac.authorization.k8s.io/v1 Role, rbac.authorization.k8s.io/v1 ClusterRole: 1 metadata META; 2 rules[] RULE
rbac.authorization.k8s.io/v1 RoleBinding, rbac.authorization.k8s.io/v1 ClusterRoleBinding: 1 metadata META;
  2 subjects[] SUBJECT; 3 roleRef ROLE
authorization.k8s.io/v1 SelfSubjectAccessReview, authorization.k8s.io/v1 SubjectAccessReview:
  1 metadata META; 2 spec ACCESS
authorization.k8s.io/v1 SelfSubjectRulesReview: 1 metadata META; 2 spec NAMESPACE
authentication.k8s.io/v1 TokenRequest: 1 metadata META; 2 spec TOKEN
""")


def decode_protobuf(body: bytes) -> dict[str, Any]:
    """The object in a protobuf body, as JSON would have it.

    Raises:
        StatusError: 415 for a kind that is not in the tables, 400 for what is no such body.
    """
    if not body.startswith(_MAGIC):
        raise bad_request(
            "provided data does not appear to be a protobuf message, expected prefix 6b 38 73 00"
        )
    envelope = _decode(body[len(_MAGIC) :], _MESSAGES["UNKNOWN"])
    type_meta = envelope.get("typeMeta", {})
    kind = (type_meta.get("apiVersion", ""), type_meta.get("kind", ""))
    # DeleteOptions have the version of the object that is deleted.
    message = _MESSAGES.get("OPTIONS" if kind[1] == "DeleteOptions" else " ".join(kind))
    if message is None:
        raise _unread(f"{kind[1] or 'this kind'} of {kind[0]}")
    return {**type_meta, **_decode(envelope.get("raw", b""), message)}


def _unread(what: str) -> StatusError:
    return StatusError(
        415,
        "UnsupportedMediaType",
        f"the local API server does not read {what} as protobuf: "
        "send application/json (with kubectl: apply -f a file)",
    )


def _decode(data: bytes, message: Message) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for number, value in _fields(data):
        name, form = message.get(number, ("", ""))
        if not name and value and 0 in message:
            raise _unread(f"field {number} of {message[0][1]}")
        if not name or form == "skip":
            continue
        if not isinstance(form, str):
            _put_message(result, name, _decode(_bytes(value), form))
        elif form.startswith("map "):
            key, item = _entry(_bytes(value), form.removeprefix("map "))
            result.setdefault(name, {})[key] = item
        elif form.startswith("list "):
            result.setdefault(name, []).append(_SCALARS[form.removeprefix("list ")](value))
        else:
            decoded = _SCALARS[form.removesuffix("?")](value)
            if decoded or form.endswith("?"):
                result[name] = decoded
    return result


def _put_message(result: dict[str, Any], name: str, value: dict[str, Any]) -> None:
    if name.endswith("[]"):
        result.setdefault(name.removesuffix("[]"), []).append(value)
    else:
        result[name] = value


def _entry(data: bytes, form: str) -> tuple[str, Any]:
    fields = dict(_fields(data))
    return _text(fields.get(1, b"")), _SCALARS[form](fields.get(2, b""))


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Numbers and raw values of a message's fields, in order."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if not number:
            raise bad_request("protobuf: field 0")
        if wire == 0:
            value, at = _varint(data, at)
            yield number, value
            continue
        if wire not in {1, 2, 5}:
            raise bad_request(f"protobuf: wrong wire type {wire}")
        size = {1: 8, 5: 4}.get(wire)
        if size is None:
            size, at = _varint(data, at)
        if at + size > len(data):
            raise bad_request("protobuf: unexpected end of the body")
        yield number, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise bad_request("protobuf: unexpected end of the body")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise bad_request("protobuf: a number is too long")


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise bad_request("protobuf: a number stands where a message or text is expected")
    return value


def _text(value: int | bytes) -> str:
    try:
        return _bytes(value).decode()
    except UnicodeDecodeError as problem:
        raise bad_request(f"protobuf: a text is not UTF-8: {problem}") from problem


def _integer(value: int | bytes) -> int:
    if not isinstance(value, int):
        raise bad_request("protobuf: a number is expected")
    return value - (1 << 64) if value >> 63 else value


def _time(value: int | bytes) -> str:
    seconds = dict(_fields(_bytes(value))).get(1, 0)
    if not seconds:
        return ""
    try:
        return datetime.fromtimestamp(_integer(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError) as problem:
        raise bad_request(f"protobuf: {seconds!r} is not a time: {problem}") from problem


_SCALARS: Mapping[str, Callable[[int | bytes], Any]] = {
    "string": _text,
    "bytes": lambda value: b64encode(_bytes(value)).decode(),
    "int": _integer,
    "bool": lambda value: bool(_integer(value)),
    "time": _time,
    "quantity": lambda value: _text(dict(_fields(_bytes(value))).get(1, b"")),
    "raw": _bytes,
}
