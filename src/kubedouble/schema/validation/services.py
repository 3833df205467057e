"""Services: ports, and an address that stays.

Source: ValidateService, ValidateServiceUpdate, k8s.io/kubernetes/pkg/apis/core/validation.
"""

from __future__ import annotations

from kubedouble.schema.validation.faults import Faults, Object
from kubedouble.schema.validation.names import dns_label, port


def service(faults: Faults, obj: Object, old: Object | None) -> None:
    """Note what is wrong with a Service."""
    spec = obj.get("spec") or {}
    ports = spec.get("ports") or ()
    if not ports and spec.get("type") != "ExternalName" and spec.get("clusterIP") != "None":
        faults.required("spec.ports")
    names: set[str] = set()
    numbers: set[tuple[int, str]] = set()
    for at, each in enumerate(ports):
        field, name = f"spec.ports[{at}]", each.get("name", "")
        if not name and len(ports) > 1:
            faults.required(f"{field}.name")
        elif name:
            dns_label(faults, f"{field}.name", name)
            if name in names:
                faults.duplicate(f"{field}.name", name)
        names.add(name)
        port(faults, f"{field}.port", each.get("port", 0))
        number = (each.get("port", 0), each.get("protocol", "TCP"))
        if number in numbers:
            faults.duplicate(field, {"port": number[0], "protocol": number[1]})
        numbers.add(number)
    before = (old or {}).get("spec") or {}
    address = before.get("clusterIP")
    if address and spec.get("type") != "ExternalName" and spec.get("clusterIP") != address:
        faults.invalid("spec.clusterIPs[0]", spec.get("clusterIP", ""), "may not change once set")
