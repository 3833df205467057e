"""The field tables against an independent description of the API: the official Python client's models."""

from typing import Any

import pytest
from kubernetes import client

from kubedouble.resources import BUILT_IN
from kubedouble.schema.kinds import all_types, builtin_schema
from kubedouble.schema.structure import Schema, Shape

TYPES = all_types()
OTHER_NAMES = {
    "io.k8s.api.core.v1.Event": "CoreV1Event",
    "io.k8s.api.core.v1.EventSeries": "CoreV1EventSeries",
    "io.k8s.api.core.v1.ResourceClaim": "CoreV1ResourceClaim",
    "io.k8s.api.events.v1.Event": "EventsV1Event",
    "io.k8s.api.events.v1.EventSeries": "EventsV1EventSeries",
    "io.k8s.api.rbac.v1.Subject": "RbacV1Subject",
    "io.k8s.api.authentication.v1.TokenRequest": "AuthenticationV1TokenRequest",
}
PYTHON = {
    Shape.STRING: {"str"},
    Shape.INTEGER: {"int"},
    Shape.NUMBER: {"float"},
    Shape.BOOLEAN: {"bool"},
    Shape.QUANTITY: {"str"},
    Shape.INT_OR_STRING: {"object"},
    Shape.TIME: {"datetime"},
    Shape.MICRO_TIME: {"datetime"},
    Shape.BYTES: {"str", "bytes"},
    Shape.ANY: {"object"},
}


def model_of(full: str) -> Any:
    name = full.rpartition(".")[2]
    group = "Apiextensions" if "apiextensions" in full else "Admissionregistration"
    version = full.split(".")[-2].capitalize()
    candidates = (OTHER_NAMES.get(full, ""), f"{version}{name}", f"{group}V1{name}")
    return next((getattr(client, each) for each in candidates if hasattr(client, each)), None)


@pytest.mark.parametrize("full", sorted(TYPES))
def test_every_field_and_type_match_the_real_api(full: str) -> None:
    model = model_of(full)
    if model is None:
        assert not TYPES[full].fields
        return
    names = {name: attribute for attribute, name in model.attribute_map.items()}
    for name, place in TYPES[full].fields.items():
        assert name in names, f"{full} has no field {name}"
        assert fits(place.schema, model.openapi_types[names[name]]), f"{full}.{name}"


def fits(schema: Schema, python: str) -> bool:
    if schema.shape is Shape.LIST and schema.items:
        return python.startswith("List[") and fits(schema.items, python[5:-1])
    if schema.shape is Shape.MAP and schema.items:
        return python.startswith("Dict[") and fits(schema.items, python[10:-1])
    if schema.shape is Shape.OBJECT:
        return python == getattr(model_of(schema.name), "__name__", "object")
    return python in PYTHON[schema.shape] | {"object"}


def test_every_served_kind_has_a_schema() -> None:
    for resource in BUILT_IN:
        schema = builtin_schema(resource.group, resource.version, resource.kind)
        assert schema is not None, resource.group_resource
        assert {"apiVersion", "kind", "metadata"} <= schema.fields.keys()


def test_unknown_or_partial_kind_has_no_schema() -> None:
    assert builtin_schema("", "v1", "Gadget") is None
    assert builtin_schema("", "v1", "PodSpec") is None
    assert builtin_schema("example.com", "v1", "Pod") is None


def test_map_list_keys_are_fields_of_their_items() -> None:
    for full, schema in TYPES.items():
        for name, place in schema.fields.items():
            if place.schema.list_type == "map":
                assert place.schema.items is not None
                assert set(place.schema.keys) <= place.schema.items.fields.keys(), f"{full}.{name}"
                assert not place.merge_key or place.merge_key in place.schema.items.fields
