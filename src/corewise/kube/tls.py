"""TLS to the API server: whom we trust and the certificate we show."""

from __future__ import annotations

import ssl
import tempfile

from corewise.kube.auth import Identity
from corewise.kube.config import ClusterConfig
from corewise.kube.errors import ConfigError


def client_context(config: ClusterConfig, identity: Identity) -> ssl.SSLContext:
    """A context that trusts the configured authorities, else the system's, and shows our certificate.

    Raises:
        ConfigError: what is no certificate, or a key that belongs to another.
    """
    try:
        context = ssl.create_default_context(cadata=config.ca_pem.decode("ascii") or None)
    except (ssl.SSLError, UnicodeDecodeError, ValueError) as error:
        raise ConfigError(
            f"{config.source}: the certificate authority is no PEM certificate: {error}"
        ) from error
    # Python 3.13 demands extensions here that the authorities of many clusters lack, and that Go does not.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if config.insecure_skip_tls_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if identity.certificate:
        _show_certificate(context, identity, config.source)
    return context


def _show_certificate(context: ssl.SSLContext, identity: Identity, source: str) -> None:
    # OpenSSL's Python binding takes files only; this one is ours alone (0600) and gone when it has been read.
    with tempfile.NamedTemporaryFile(prefix="corewise-") as file:
        file.write(identity.certificate.rstrip() + b"\n" + identity.key)
        file.flush()
        try:
            context.load_cert_chain(file.name, password=_no_password)
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError(f"{source}: the client certificate and key cannot be used: {error}") from error


def _no_password() -> str:
    """An encrypted key is an error; without this, OpenSSL would ask on the terminal."""
    raise ValueError("the key is encrypted")
