"""Where the API server is and who we are to it, as values.

``load_config`` looks in kubectl's order: the file that was named, the files of ``KUBECONFIG``, the user's
``~/.kube/config``, and last the credentials that Kubernetes mounts into every Pod.

Kubeconfig files are merged as kubectl merges them: of entries with the same name the first file's counts,
whole; ``current-context`` is the first that is set. Paths are relative to the file that names them. The
``*-data`` of a thing counts before its path. What kubectl supports and this does not is refused, never
ignored: basic auth, auth-provider and proxy-url.

Source: https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/,
https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/ and
https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

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
    """Our credentials; empty ones are not used. Of a value and a file of it, the file counts."""

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
    """One API server and one identity; ``source`` is how messages name where that was read.

    ``context`` is the name of the kubeconfig's context, "" within a Pod.
    """

    server: str
    ca_pem: bytes = b""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    namespace: str = "default"
    user: UserConfig = UserConfig()
    source: str = "the configuration"
    context: str = ""


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
    environ = os.environ if environ is None else environ
    if kubeconfig:
        return read_kubeconfig((Path(kubeconfig).expanduser(),), context)
    paths = _kubeconfig_paths(environ)
    if paths:
        return read_kubeconfig(paths, context)
    if environ.get("KUBERNETES_SERVICE_HOST") and (service_account / "token").exists():
        if context:
            raise ConfigError(f"context {context!r} was named, but a Pod's own credentials have no contexts")
        return _in_cluster(environ, service_account)
    raise ConfigError(
        "no Kubernetes configuration: no KUBECONFIG, no ~/.kube/config, and this is not a Pod",
        hint="name a kubeconfig file: --kubeconfig FILE",
    )


def context_names(kubeconfig: str | None = None) -> list[str]:
    """Return the names of the contexts that ``load_config`` can be asked for.

    Raises:
        ConfigError: naming the file and what to do.
    """
    paths = (Path(kubeconfig).expanduser(),) if kubeconfig else _kubeconfig_paths(os.environ)
    return list(_contexts({path: _read(path) for path in paths}))


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


class _Cluster(msgspec.Struct, rename="kebab", frozen=True):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: bytes = b""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""


class _EnvVar(msgspec.Struct, frozen=True):
    name: str
    value: str = ""


class _Exec(msgspec.Struct, rename="camel", frozen=True):
    command: str = ""
    api_version: str = ""
    args: list[str] | None = None
    env: list[_EnvVar] | None = None
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = "IfAvailable"


class _User(msgspec.Struct, rename="kebab", frozen=True):
    client_certificate: str = ""
    client_certificate_data: bytes = b""
    client_key: str = ""
    client_key_data: bytes = b""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    auth_provider: Any = None
    exec_: _Exec | None = msgspec.field(default=None, name="exec")
    as_: str = msgspec.field(default="", name="as")
    as_uid: str = ""
    as_groups: list[str] | None = None


class _Context(msgspec.Struct, frozen=True):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(msgspec.Struct, frozen=True):
    name: str
    cluster: _Cluster | None = None


class _NamedUser(msgspec.Struct, frozen=True):
    name: str
    user: _User | None = None


class _NamedContext(msgspec.Struct, frozen=True):
    name: str
    context: _Context | None = None


class _File(msgspec.Struct, rename="kebab", frozen=True):
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None
    contexts: list[_NamedContext] | None = None
    current_context: str | None = None


_Entry = TypeVar("_Entry")
_Pairs = Iterable[tuple[str, "_Entry | None"]]
_EXEC_VERSIONS = frozenset({"client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"})


def read_kubeconfig(paths: Sequence[Path], context: str | None = None) -> ClusterConfig:
    """Merge the files and resolve ``context``, or the current one.

    Raises:
        ConfigError: naming the file, the entry and the fix.
    """
    files = {path: _read(path) for path in paths}
    where = ", ".join(str(path) for path in files)
    contexts = _contexts(files)
    clusters = _merged(files, "cluster", lambda file: ((e.name, e.cluster) for e in file.clusters or ()))
    users = _merged(files, "user", lambda file: ((e.name, e.user) for e in file.users or ()))
    name = context or next((file.current_context for file in files.values() if file.current_context), "")
    if not name:
        hint = f"choose one with --context: {', '.join(contexts)}" if contexts else "is it a kubeconfig?"
        raise ConfigError(f"{where}: no current-context is set", hint=hint)
    _, chosen = _pick(contexts, "context", name, where)
    cluster_at, cluster = _pick(clusters, "cluster", chosen.cluster, where)
    user_at, user = _pick(users, "user", chosen.user, where) if chosen.user else (cluster_at, _User())
    return ClusterConfig(
        server=_server(cluster, f"cluster {chosen.cluster!r} in {cluster_at}"),
        ca_pem=_ca(cluster, cluster_at),
        tls_server_name=cluster.tls_server_name,
        insecure_skip_tls_verify=cluster.insecure_skip_tls_verify,
        namespace=chosen.namespace or "default",
        user=_user(user, f"user {chosen.user!r} in {user_at}", user_at.parent),
        source=f"context {name!r} in {where}",
        context=name,
    )


def _read(path: Path) -> _File:
    from corewise.config.yaml_text import load_document  # noqa: PLC0415 - slow, and --help needs none

    try:
        data = load_document(path.read_bytes())
        return msgspec.convert(data if data is not None else {}, _File)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error
    except ValueError as error:
        raise ConfigError(f"{path} is not a kubeconfig: {' '.join(str(error).split())}") from error


def _contexts(files: Mapping[Path, _File]) -> dict[str, tuple[Path, _Context | None]]:
    return _merged(files, "context", lambda file: ((e.name, e.context) for e in file.contexts or ()))


def _merged(
    files: Mapping[Path, _File], what: str, pairs: Callable[[_File], _Pairs[_Entry]]
) -> dict[str, tuple[Path, _Entry | None]]:
    merged: dict[str, tuple[Path, _Entry | None]] = {}
    for path, file in files.items():
        own: set[str] = set()
        for name, entry in pairs(file):
            if name in own:
                raise ConfigError(f"{path}: there are two entries for {what} {name!r}", hint="remove one")
            own.add(name)
            merged.setdefault(name, (path, entry))
    return merged


def _pick(
    entries: Mapping[str, tuple[Path, _Entry | None]], what: str, name: str, where: str
) -> tuple[Path, _Entry]:
    path, entry = entries.get(name, (None, None))
    if path is None:
        known = ", ".join(entries) or "there are none"
        raise ConfigError(f"{where}: no {what} {name!r}", hint=f"known: {known}")
    if entry is None:
        raise ConfigError(f"{path}: {what} {name!r} is empty")
    return path, entry


def _server(cluster: _Cluster, label: str) -> str:
    if cluster.proxy_url:
        raise ConfigError(f"{label}: proxy-url is not supported", hint="give an address that needs no proxy")
    if cluster.insecure_skip_tls_verify and (
        cluster.certificate_authority or cluster.certificate_authority_data
    ):
        raise ConfigError(
            f"{label}: insecure-skip-tls-verify and a certificate authority exclude each other",
            hint="remove insecure-skip-tls-verify",
        )
    try:
        parts = urlsplit(cluster.server)
        usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable or parts.query or parts.fragment:
        raise ConfigError(f"{label}: server {cluster.server!r} is not an address like https://host:6443")
    return cluster.server.rstrip("/")


def _ca(cluster: _Cluster, kubeconfig: Path) -> bytes:
    if cluster.certificate_authority_data or not cluster.certificate_authority:
        return cluster.certificate_authority_data
    path = kubeconfig.parent / cluster.certificate_authority
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{kubeconfig}: certificate-authority {path}: {error.strerror or error}") from error


def _user(user: _User, label: str, folder: Path) -> UserConfig:
    if user.username or user.password:
        raise ConfigError(f"{label}: basic auth is not supported", hint="use a token or client certificate")
    if user.auth_provider is not None:
        raise ConfigError(f"{label}: auth-provider is not supported", hint="use an exec plugin")
    if not "".join((user.token, user.as_, user.as_uid, *(user.as_groups or ()))).isprintable():
        raise ConfigError(f"{label}: the token or a name has a character that cannot stand in a header")
    if bool(user.client_certificate or user.client_certificate_data) != bool(
        user.client_key or user.client_key_data
    ):
        raise ConfigError(f"{label}: a client certificate and its key must both be given")
    return UserConfig(
        token=user.token,
        token_file=_beside(folder, user.token_file),
        certificate=user.client_certificate_data,
        key=user.client_key_data,
        certificate_file="" if user.client_certificate_data else _beside(folder, user.client_certificate),
        key_file="" if user.client_key_data else _beside(folder, user.client_key),
        exec_plugin=_exec_plugin(user.exec_, label, folder) if user.exec_ else None,
        impersonate=user.as_,
        impersonate_groups=tuple(user.as_groups or ()),
        impersonate_uid=user.as_uid,
    )


def _beside(folder: Path, path: str) -> str:
    return str(folder / path) if path else ""


def _exec_plugin(plugin: _Exec, label: str, folder: Path) -> ExecPlugin:
    if plugin.api_version not in _EXEC_VERSIONS:
        known = " or ".join(sorted(_EXEC_VERSIONS))
        raise ConfigError(
            f"{label}: exec apiVersion {plugin.api_version!r} is not supported", hint=f"use {known}"
        )
    if not plugin.command:
        raise ConfigError(f"{label}: exec names no command")
    if plugin.interactive_mode == "Always":
        raise ConfigError(f"{label}: the exec plugin wants a terminal (interactiveMode Always)")
    # As kubectl: a bare name is looked up in PATH, a relative path starts at the kubeconfig.
    command = _beside(folder, plugin.command) if "/" in plugin.command else plugin.command
    return ExecPlugin(
        command=command,
        api_version=plugin.api_version,
        args=tuple(plugin.args or ()),
        env={variable.name: variable.value for variable in plugin.env or ()},
        install_hint=plugin.install_hint,
        provide_cluster_info=plugin.provide_cluster_info,
    )
