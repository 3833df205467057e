"""Message types of Kubernetes' expressions, and of a compiled expression itself.

``request`` and ``namespaceObject`` have types, so that a field which they do not have is noticed when an
expression is compiled; their values are JSON all the same. A quantity has the type of a message because
the library knows no other types but its own.

Source: k8s.io/apiserver/pkg/admission/plugin/cel/compile.go (BuildRequestType, BuildNamespaceType),
pkg/cel/mutation/jsonpatch.go; github.com/cel-expr/cel-spec, proto/cel/expr/{checked,syntax}.proto.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    struct_pb2,
    timestamp_pb2,
)

QUANTITY = "kubernetes.Quantity"
PATCH = "JSONPatch"
REQUEST = "kubernetes.AdmissionRequest"
NAMESPACE = "kubernetes.Namespace"


def _messages(text: str) -> Mapping[str, Mapping[str, str]]:
    """Read ``Message: field [number] form; ...``, a message a line, continued where a line is indented."""
    lines = (line.partition(":")[::2] for line in text.strip().replace("\n ", "").split("\n"))
    return {name: dict(_FIELD.findall(fields)) for name, fields in lines}


_FIELD = re.compile(r" *(\w+(?: \d+)?) ([^;]+);?")
_MESSAGES = _messages("""
JSONPatch: op string; path string; from string; value google.protobuf.Value
kubernetes.Quantity:
kubernetes.GroupVersionKind: group string; version string; kind string
kubernetes.GroupVersionResource: group string; version string; resource string
kubernetes.UserInfo: username string; uid string; groups [string]; extra {google.protobuf.ListValue}
kubernetes.AdmissionRequest: subResource string; requestSubResource string; name string; namespace string;
  operation string; kind kubernetes.GroupVersionKind; requestKind kubernetes.GroupVersionKind;
  resource kubernetes.GroupVersionResource; requestResource kubernetes.GroupVersionResource;
  userInfo kubernetes.UserInfo; dryRun bool; options google.protobuf.Value
kubernetes.NamespaceMetadata: name string; generateName string; namespace string; UID string;
  resourceVersion string; labels {string}; annotations {string}; finalizers [string];
  creationTimestamp google.protobuf.Timestamp; deletionTimestamp google.protobuf.Timestamp;
  deletionGracePeriodSeconds int; generation int
kubernetes.NamespaceSpec: finalizers [string]
kubernetes.NamespaceCondition: status string; type string; message string; reason string;
  lastTransitionTime google.protobuf.Timestamp
kubernetes.NamespaceStatus: conditions [kubernetes.NamespaceCondition]; phase string
kubernetes.Namespace: metadata kubernetes.NamespaceMetadata; spec kubernetes.NamespaceSpec;
  status kubernetes.NamespaceStatus
""")
_SYNTAX = _messages("""
cel.CheckedExpr: types 3 <int cel.Type>; expr 4 cel.Expr
cel.Type: dyn 1 cel.Nothing; null 2 int; primitive 3 int; wrapper 4 int; well_known 5 int;
  list_type 6 cel.ListType; map_type 7 cel.MapType; message_type 9 string; type_param 10 string;
  type 11 cel.Type; abstract_type 14 cel.AbstractType
cel.Nothing:
cel.ListType: elem_type 1 cel.Type
cel.MapType: key_type 1 cel.Type; value_type 2 cel.Type
cel.AbstractType: name 1 string; parameter_types 2 [cel.Type]
cel.Expr: id 2 int; const_expr 3 cel.Constant; ident_expr 4 cel.Ident; select_expr 5 cel.Select;
  call_expr 6 cel.Call; list_expr 7 cel.CreateList; struct_expr 8 cel.CreateStruct;
  comprehension_expr 9 cel.Comprehension
cel.Constant: string_value 6 string
cel.Ident: name 1 string
cel.Select: operand 1 cel.Expr; field 2 string; test_only 3 bool
cel.Call: target 1 cel.Expr; function 2 string; args 3 [cel.Expr]
cel.CreateList: elements 1 [cel.Expr]
cel.CreateStruct: message_name 1 string; entries 2 [cel.Entry]
cel.Entry: map_key 3 cel.Expr; value 4 cel.Expr
cel.Comprehension: iter_range 2 cel.Expr; accu_init 4 cel.Expr; loop_condition 5 cel.Expr;
  loop_step 6 cel.Expr; result 7 cel.Expr
""")
"""The parts of a compiled expression that are looked at, with their field numbers."""

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {"string": _Field.TYPE_STRING, "int": _Field.TYPE_INT64, "bool": _Field.TYPE_BOOL}


@cache
def kubernetes_types() -> Any:
    """Return the descriptor pool with the types that expressions name."""
    return _pool("proto3", _MESSAGES)


@cache
def _checked_class() -> Any:
    return message_factory.GetMessageClass(_pool("proto2", _SYNTAX).FindMessageTypeByName("cel.CheckedExpr"))


def read_compiled(serialized: bytes) -> Any:
    """Return a compiled expression as a message: its syntax tree, and the type of each node by the id."""
    packed = any_pb2.Any.FromString(serialized)
    return _checked_class().FromString(packed.value)


def write_compiled(checked: Any) -> bytes:
    """Return the result of :func:`read_compiled`, possibly changed, in the form the library reads."""
    packed = any_pb2.Any(type_url="type.googleapis.com/cel.expr.CheckedExpr")
    packed.value = checked.SerializeToString()
    return packed.SerializeToString()


def _pool(syntax: str, messages: Mapping[str, Mapping[str, str]]) -> Any:
    pool = descriptor_pool.DescriptorPool()
    known = [module.DESCRIPTOR for module in (struct_pb2, timestamp_pb2)]
    for each in known:
        copied = descriptor_pb2.FileDescriptorProto()
        each.CopyToProto(copied)
        pool.Add(copied)
    for package in {name.rpartition(".")[0] for name in messages}:
        file = descriptor_pb2.FileDescriptorProto(
            name=f"{package or 'root'}.proto", package=package, syntax=syntax,
            dependency=[each.name for each in known],
        )  # fmt: skip
        for name, fields in messages.items():
            if name.rpartition(".")[0] == package:
                _add_message(file, name, fields)
        pool.Add(file)
    return pool


def _add_message(file: Any, name: str, fields: Mapping[str, str]) -> None:
    """Add a message; ``[t]`` is a list, ``{t}`` a map with texts as keys, ``<k t>`` with keys of type k."""
    message = file.message_type.add(name=name.rpartition(".")[2])
    for at, (field, form) in enumerate(fields.items(), 1):
        label, number = [*field.split(), str(at)][:2]
        if form[0] not in "{<":
            _add_field(message, label, int(number), form)
            continue
        key, _, value = form[1:-1].rpartition(" ")
        entry = message.nested_type.add(name=f"{label.title()}Entry")
        entry.options.map_entry = True
        _add_field(entry, "key", 1, key or "string")
        _add_field(entry, "value", 2, value)
        _add_field(message, label, int(number), f"[{name}.{entry.name}]")


def _add_field(message: Any, name: str, number: int, form: str) -> None:
    repeated, form = form.startswith("["), form.strip("[]")
    scalar = _SCALARS.get(form)
    message.field.add(
        name=name,
        json_name=name,
        number=number,
        label=_Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL,
        type=scalar or _Field.TYPE_MESSAGE,
        type_name=None if scalar else f".{form}",
    )
