"""Everything that can go wrong between the plugin and the container runtime.

::

    NRIError                message, hint
    ├── Unreachable         no process listens at the socket (yet), or it may not be opened
    ├── ConnectionLost      the runtime closed the connection: it restarts, or has dropped the plugin
    ├── ProtocolViolation   what came is not NRI; the connection cannot be trusted any longer
    ├── TooLarge            a message of ours is beyond what may be sent; nothing was sent
    ├── NoAnswer            the runtime did not answer a call in time
    └── CallRefused         the runtime answered a call with an error: code, message

None of these ends the plugin: it closes the connection, waits, and reconnects.
"""
# ruff: noqa: N818 - these errors are named after what happened

from __future__ import annotations

from corewise.vocabulary.errors import OperationalError


class NRIError(OperationalError):
    """Base of all errors of this package."""


class Unreachable(NRIError):
    """There is no runtime at the socket."""

    default_hint = (
        "is NRI enabled in the runtime? containerd 1.7 needs disable = false below"
        ' [plugins."io.containerd.nri.v1.nri"], CRI-O enable_nri = true'
    )


class ConnectionLost(NRIError):
    """The runtime closed the connection, or may have forgotten it."""


class ProtocolViolation(NRIError):
    """Bytes that the protocol does not allow here."""

    default_hint = (
        "is this socket the runtime's NRI socket, and the runtime containerd >= 1.7 or CRI-O >= 1.26?"
    )


class TooLarge(NRIError):
    """The message is larger than the protocol allows, and was not sent."""


class NoAnswer(NRIError):
    """The runtime did not answer in time."""


class CallRefused(NRIError):
    """The runtime answered with an error; ``code`` is gRPC's."""

    def __init__(self, method: str, code: int, message: str) -> None:
        super().__init__(f"the runtime refused {method}: {message} (code {code})")
        self.code = code
