"""Which columns a kind has, and its objects as rows of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from kubedouble.resources import ResourceInfo
from kubedouble.tables.cells import CELLS
from kubedouble.tables.printer_columns import custom_columns

Object = Mapping[str, Any]

_INTEGERS = frozenset(
    {"Data", "Secrets", "Webhooks", "Up-to-date", "Available", "Desired", "Current", "Count"}
)
_ABOUT = {
    "Name": "Name must be unique within a namespace.",
    "Age": "Time since the object was created.",
    "Created At": "When the object was created.",
}
_POD = "Name Ready Status Restarts Age *IP *Node *Nominated_Node *Readiness_Gates"
_NODE = "Name Status Roles Age Version *Internal-IP *External-IP *OS-Image *Kernel-Version *Container-Runtime"
_EVENT = "Last_Seen Type Reason Object *Subobject *Source Message *First_Seen *Count *Name"
_DAEMON_SET = (
    "Name Desired Current Ready Up-to-date Available Node_Selector Age *Containers *Images *Selector"
)
_BINDING = "Name Role Age *Users *Groups *ServiceAccounts"
_WEBHOOKS = "Name Webhooks Age"
_COLUMNS: Mapping[str, str] = {
    "nodes": _NODE,
    "pods": _POD,
    "namespaces": "Name Status Age",
    "configmaps": "Name Data Age",
    "secrets": "Name Type Data Age",
    "serviceaccounts": "Name Secrets Age",
    "services": "Name Type Cluster-IP External-IP Port(s) Age *Selector",
    "events": _EVENT,
    "leases": "Name Holder Age",
    "deployments": "Name Ready Up-to-date Available Age *Containers *Images *Selector",
    "daemonsets": _DAEMON_SET,
    "poddisruptionbudgets": "Name Min_Available Max_Unavailable Allowed_Disruptions Age",
    "roles": "Name Created_At",
    "clusterroles": "Name Created_At",
    "rolebindings": _BINDING,
    "clusterrolebindings": _BINDING,
    "mutatingwebhookconfigurations": _WEBHOOKS,
    "validatingwebhookconfigurations": _WEBHOOKS,
    "validatingadmissionpolicies": "Name Validations ParamKind Age",
    "validatingadmissionpolicybindings": "Name PolicyName ParamRef Age",
    "networkpolicies": "Name Pod-Selector Age",
    "customresourcedefinitions": "Name Created_At",
    "": "Name Age",
}
"""Resource -> its columns. ``*``: only in wide output; ``_``: a space."""


def render_table(
    resource: ResourceInfo,
    objects: Iterable[Object],
    *,
    printer_columns: Sequence[Mapping[str, Any]] = (),
    now: datetime | None = None,
) -> tuple[list[dict[str, Any]], list[list[Any]]]:
    """Return column definitions, and a row of cells for every object.

    Args:
        resource: whose objects these are.
        objects: the objects.
        printer_columns: ``additionalPrinterColumns`` of a custom kind's definition.
        now: what ages are counted from; the clock's time unless given.
    """
    now = now or datetime.now(UTC)
    if resource.custom:
        return custom_columns(objects, printer_columns, now)
    known = resource.plural if resource.plural in _COLUMNS else ""
    cells = CELLS[known]
    definitions = [_definition(column) for column in _COLUMNS[known].split()]
    return definitions, [cells(obj, now) for obj in objects]


def _definition(column: str) -> dict[str, Any]:
    name = column.lstrip("*").replace("_", " ")
    return {
        "name": name,
        "type": "integer" if name in _INTEGERS else "string",
        "format": "name" if name == "Name" else "",
        "description": _ABOUT.get(name, f"{name} of the object."),
        "priority": 1 if column.startswith("*") else 0,
    }
