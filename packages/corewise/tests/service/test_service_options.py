"""How addresses are written."""

from __future__ import annotations

import pytest

from corewise.service.options import Address, AddressError


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:9443", "127.0.0.1", 9443),
        (":0", "", 0),
        ("[::1]:80", "::1", 80),
        ("example.com:1", "example.com", 1),
    ],
)
def test_addresses_are_read_and_printed(text: str, host: str, port: int) -> None:
    address = Address.parse(text)
    assert (address.host, address.port) == (host, port)
    assert str(address) == text


@pytest.mark.parametrize("text", ["", "localhost", "1:2:3", "::1:80", "h:65536", "h:-1", "h:x", "h:٣"])
def test_invalid_address_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(AddressError, match=r"is not an address: .*:9443"):
        Address.parse(text)
