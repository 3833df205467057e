"""Where the API server is and who we are to it, as values.

``load_config`` looks in kubectl's order: the file that was named, the files of ``KUBECONFIG``, the user's
``~/.kube/config``, and last the credentials that Kubernetes mounts into every Pod.

Source: https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/ and
https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from corewise.kube.errors import ConfigError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A command that prints an ExecCredential; ``env`` is added to our own environment."""

    command: str
    api_version: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    install_hint: str = ""
    provide_cluster_info: bool = False


@dataclass(frozen=True, slots=True)
class UserConfig:
    """How we prove who we are; what is empty is not used. Of a value and a file of it, the file counts."""

    token: str = field(default="", repr=False)
    token_file: str = ""
    certificate: bytes = b""
    key: bytes = field(default=b"", repr=False)
    certificate_file: str = ""
    key_file: str = ""
    exec_plugin: ExecPlugin | None = None
    impersonate: str = ""
    impersonate_groups: tuple[str, ...] = ()
    impersonate_uid: str = ""


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """One API server and one identity; ``source`` is how messages name where that was read."""

    server: str
    ca_pem: bytes = b""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    namespace: str = "default"
    user: UserConfig = UserConfig()
    source: str = "the configuration"


def load_config(
    kubeconfig: str | None = None,
    context: str | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    service_account: Path = SERVICE_ACCOUNT,
) -> ClusterConfig:
    """Read the kubeconfig, or the Pod's own credentials where there is none.

    Raises:
        ConfigError: naming the file and what to do.
    """
    # The parser of kubeconfigs needs the types of this module.
    from corewise.kube.kubeconfig import read_kubeconfig  # noqa: PLC0415

    environ = os.environ if environ is None else environ
    if kubeconfig:
        return read_kubeconfig((Path(kubeconfig).expanduser(),), context)
    paths = _kubeconfig_paths(environ)
    if paths:
        return read_kubeconfig(paths, context)
    if environ.get("KUBERNETES_SERVICE_HOST") and (service_account / "token").exists():
        if context:
            raise ConfigError(
                f"context {context!r} was asked for, but a Pod's own credentials have no contexts"
            )
        return _in_cluster(environ, service_account)
    raise ConfigError(
        "no Kubernetes configuration: no KUBECONFIG, no ~/.kube/config, and this is not a Pod",
        hint="name a kubeconfig file: --kubeconfig FILE",
    )


def _kubeconfig_paths(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The files to merge: those of KUBECONFIG that exist, else the user's own; none if there is none."""
    listed = [Path(part).expanduser() for part in environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    existing = tuple(path for path in dict.fromkeys(listed) if path.exists())
    if listed and not existing:
        raise ConfigError(f"KUBECONFIG names no file that exists: {environ['KUBECONFIG']}")
    if existing:
        return existing
    home = environ.get("HOME", "")
    own = Path(home) / ".kube" / "config"
    return (own,) if home and own.exists() else ()


def _in_cluster(environ: Mapping[str, str], mount: Path) -> ClusterConfig:
    host = environ["KUBERNETES_SERVICE_HOST"]
    port = environ.get("KUBERNETES_SERVICE_PORT", "443")
    namespace = mount / "namespace"
    try:
        return ClusterConfig(
            server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
            ca_pem=(mount / "ca.crt").read_bytes(),
            namespace=namespace.read_text().strip() if namespace.exists() else "default",
            user=UserConfig(token_file=str(mount / "token")),
            source="the Pod's service account",
        )
    except OSError as error:
        raise ConfigError(f"the Pod's service account cannot be read: {error}") from error
