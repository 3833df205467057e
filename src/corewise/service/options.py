"""What every program can be told: addresses to listen on, and how wrong options are told apart from bugs."""

from __future__ import annotations

from dataclasses import dataclass


class AddressError(ValueError):
    """The text is not HOST:PORT."""


class OptionsError(ValueError):
    """Options that do not go together; the message names them."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen. An empty host is every interface; port 0 is any free port."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read "127.0.0.1:9443", ":9443" or "[::1]:0".

        Raises:
            AddressError: for anything else.
        """
        host, separator, port = text.rpartition(":")
        if not separator or not port.isascii() or not port.isdigit() or int(port) > 65535:
            raise AddressError(f"{text!r} is not an address: write HOST:PORT, such as 127.0.0.1:9443")
        if ":" in host and not (host.startswith("[") and host.endswith("]")):
            raise AddressError(f"{text!r} is not an address: an IPv6 host stands in brackets, [::1]:9443")
        return cls(host.strip("[]"), int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
