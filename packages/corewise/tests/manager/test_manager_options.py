"""How Services are written."""

from __future__ import annotations

import pytest

from corewise.service.options import AddressError, ServiceAddress


def test_a_service_names_its_hosts() -> None:
    service = ServiceAddress.parse("corewise-system/manager:8443")
    assert service == ServiceAddress("corewise-system", "manager", 8443)
    assert service.hosts[0] == "manager.corewise-system.svc"
    with pytest.raises(AddressError, match="NAMESPACE/NAME"):
        ServiceAddress.parse("manager")
