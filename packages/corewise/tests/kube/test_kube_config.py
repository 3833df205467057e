"""kubeconfig files are merged and resolved as kubectl does it, and what is wrong in them is named."""

from __future__ import annotations

from base64 import b64encode
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corewise.kube.config import ExecPlugin, load_config
from corewise.kube.errors import ConfigError

NO_MOUNT = Path("/nonexistent")
V1 = "client.authentication.k8s.io/v1"


def kubeconfig(
    cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None, **context: str
) -> dict[str, Any]:
    return {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"} | context}],
        "clusters": [{"name": "c", "cluster": {"server": "https://one:6443"} | (cluster or {})}],
        "users": [{"name": "u", "user": user or {}}],
    }


def write(path: Path, content: object) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return str(path)


def test_a_context_names_cluster_user_and_namespace(tmp_path: Path) -> None:
    path = write(tmp_path / "config", kubeconfig(user={"token": "t"}, namespace="prod"))
    config = load_config(path)
    assert (config.server, config.user.token, config.namespace) == ("https://one:6443", "t", "prod")
    assert config.source == f"context 'here' in {path}"


def test_namespace_defaults_and_servers_trailing_slash_is_dropped(tmp_path: Path) -> None:
    config = load_config(write(tmp_path / "config", kubeconfig({"server": "https://one/prefix/"})))
    assert (config.namespace, config.server) == ("default", "https://one/prefix")


def test_json_is_yaml_too(tmp_path: Path) -> None:
    text = '{"current-context":"x","contexts":[{"name":"x","context":{"cluster":"c","user":""}}],'
    text += '"clusters":[{"name":"c","cluster":{"server":"http://127.0.0.1:8001"}}]}'
    assert load_config(write(tmp_path / "config", text)).server == "http://127.0.0.1:8001"


def test_first_of_several_files_supplies_the_whole_entry(tmp_path: Path) -> None:
    first = {
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {"token": "first"}}],
    }
    second = kubeconfig(
        {"tls-server-name": "second"}, {"token": "second", "as": "someone"}, namespace="second"
    )
    paths = f"{write(tmp_path / 'a', first)}:{tmp_path / 'missing'}:{write(tmp_path / 'b', second)}"
    config = load_config(environ={"KUBECONFIG": paths})
    assert config.user.token == "first"
    assert config.user.impersonate == ""
    assert config.namespace == "default"
    assert config.tls_server_name == "second"


def test_first_current_context_wins_unless_an_argument_overrides(tmp_path: Path) -> None:
    other = kubeconfig({"server": "https://two"})
    other["contexts"][0] = {"name": "there", "context": {"cluster": "d", "user": ""}}
    other["clusters"] = [{"name": "d", "cluster": {"server": "https://two"}}]
    other["current-context"] = "there"
    files = f"{write(tmp_path / 'a', other)}:{write(tmp_path / 'b', kubeconfig())}"
    assert load_config(environ={"KUBECONFIG": files}).server == "https://two"
    assert load_config(None, "here", environ={"KUBECONFIG": files}).server == "https://one:6443"


def test_a_named_file_is_the_only_one_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a", kubeconfig())
    other = write(tmp_path / "b", "not: [a kubeconfig")
    assert load_config(path, environ={"KUBECONFIG": other}).server == "https://one:6443"


def test_paths_are_relative_to_the_file_containing_them(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "ca.pem").write_bytes(b"CA")
    first = {"users": [{"name": "u", "user": {"client-certificate": "c.pem", "client-key": "/k.pem"}}]}
    second = kubeconfig({"certificate-authority": "ca.pem"})
    paths = f"{write(tmp_path / 'config', first)}:{write(tmp_path / 'sub' / 'config', second)}"
    config = load_config(environ={"KUBECONFIG": paths})
    assert config.ca_pem == b"CA"
    assert config.user.certificate_file == str(tmp_path / "c.pem")
    assert config.user.key_file == "/k.pem"


def test_inline_data_takes_precedence_over_a_file(tmp_path: Path) -> None:
    def data(text: str) -> str:
        return b64encode(text.encode()).decode()

    content = kubeconfig(
        {"certificate-authority": "missing", "certificate-authority-data": data("CA")},
        {
            "client-certificate": "missing",
            "client-certificate-data": data("CERT"),
            "client-key": "missing",
            "client-key-data": data("KEY"),
        },
    )
    config = load_config(write(tmp_path / "config", content))
    assert (config.ca_pem, config.user.certificate, config.user.key) == (b"CA", b"CERT", b"KEY")
    assert config.user.certificate_file == ""


def test_secrets_do_not_show_in_representations(tmp_path: Path) -> None:
    user = {
        "token": "hush-token",
        "exec": {"apiVersion": V1, "command": "x", "env": [{"name": "A", "value": "hush-env"}]},
    }
    assert "hush" not in repr(load_config(write(tmp_path / "config", kubeconfig(user=user))))


def test_impersonation_is_read(tmp_path: Path) -> None:
    content = kubeconfig(user={"as": "bob", "as-groups": ["a", "b"], "as-uid": "7"})
    user = load_config(write(tmp_path / "config", content)).user
    assert (user.impersonate, user.impersonate_groups, user.impersonate_uid) == ("bob", ("a", "b"), "7")


@pytest.mark.parametrize(
    ("command", "resolved"),
    [("aws", "aws"), ("./bin/login", "{}/bin/login"), ("/usr/bin/login", "/usr/bin/login")],
)
def test_exec_command_with_slash_is_relative_to_file(tmp_path: Path, command: str, resolved: str) -> None:
    exec_ = {
        "apiVersion": V1,
        "command": command,
        "args": ["a"],
        "env": [{"name": "X", "value": "1"}],
        "installHint": "get it",
        "provideClusterInfo": True,
        "interactiveMode": "Never",
    }
    config = load_config(write(tmp_path / "config", kubeconfig(user={"exec": exec_})))
    assert config.user.exec_plugin == ExecPlugin(
        resolved.format(tmp_path), V1, ("a",), {"X": "1"}, "get it", provide_cluster_info=True
    )


BAD: list[tuple[str, object, str]] = [
    ("no YAML", "a: [", "is not a kubeconfig"),
    ("no map", "- 1", "Expected `object`, got `array`"),
    (
        "a wrong type",
        kubeconfig({"server": 7}),
        r"Expected `str`, got `int` - at `\$\.clusters\[0\]\.cluster\.server",
    ),
    ("no base64", kubeconfig({"certificate-authority-data": "?"}), "certificate-authority-data"),
    ("a missing CA file", kubeconfig({"certificate-authority": "nope.pem"}), "nope.pem: No such file"),
    ("no server", kubeconfig({"server": ""}), "is not an address like https://host:6443"),
    ("a server without scheme", kubeconfig({"server": "one:6443"}), "is not an address like"),
    ("a server with a bad port", kubeconfig({"server": "https://one:99999"}), "is not an address like"),
    ("a proxy", kubeconfig({"proxy-url": "http://p"}), "proxy-url is not supported"),
    (
        "insecure with a CA",
        kubeconfig({"insecure-skip-tls-verify": True, "certificate-authority-data": "QQ=="}),
        "exclude each other",
    ),
    ("basic auth", kubeconfig(user={"username": "u", "password": "p"}), "basic auth is not supported"),
    ("a token of two lines", kubeconfig(user={"token": "a\nb"}), "cannot stand in a header"),
    ("auth-provider", kubeconfig(user={"auth-provider": {"name": "gcp"}}), "auth-provider is not supported"),
    ("half a certificate", kubeconfig(user={"client-certificate": "c.pem"}), "must both be given"),
    (
        "an old exec version",
        kubeconfig(user={"exec": {"apiVersion": "client.authentication.k8s.io/v1alpha1", "command": "x"}}),
        "v1alpha1' is not supported",
    ),
    ("exec of nothing", kubeconfig(user={"exec": {"apiVersion": V1}}), "names no command"),
    (
        "exec on a terminal",
        kubeconfig(user={"exec": {"apiVersion": V1, "command": "x", "interactiveMode": "Always"}}),
        "wants a terminal",
    ),
    ("no current-context", {"contexts": [{"name": "a"}, {"name": "b"}]}, "no current-context is set"),
    ("an unknown context", {"current-context": "x", "contexts": [{"name": "a"}]}, "no context 'x'"),
    ("an empty context", {"current-context": "a", "contexts": [{"name": "a"}]}, "context 'a' is empty"),
    ("an unknown cluster", kubeconfig(cluster={}, user={}) | {"clusters": None}, "no cluster 'c'"),
    ("an unknown user", kubeconfig() | {"users": []}, "no user 'u'"),
    (
        "the same name twice",
        kubeconfig() | {"users": [{"name": "u"}, {"name": "u"}]},
        "two entries for user 'u'",
    ),
]


@pytest.mark.parametrize(("content", "message"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_what_is_wrong_is_named_with_its_file(tmp_path: Path, content: object, message: str) -> None:
    path = write(tmp_path / "config", content)
    with pytest.raises(ConfigError, match=message) as caught:
        load_config(path)
    assert path in str(caught.value)


def test_an_unknown_context_lists_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(write(tmp_path / "config", kubeconfig()), "nope")
    assert caught.value.hint == "known: here"


def test_named_file_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing: No such file"):
        load_config(str(tmp_path / "missing"))


def test_kubeconfig_variable_without_existing_files_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="KUBECONFIG names no file that exists"):
        load_config(environ={"KUBECONFIG": str(tmp_path / "missing")})


def test_home_kubeconfig_is_used_when_nothing_is_named(tmp_path: Path) -> None:
    write(tmp_path / ".kube" / "config", kubeconfig())
    assert load_config(environ={"HOME": str(tmp_path)}).server == "https://one:6443"


def test_missing_configuration_is_an_error_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no Kubernetes configuration") as caught:
        load_config(environ={"HOME": str(tmp_path)}, service_account=NO_MOUNT)
    assert "--kubeconfig" in caught.value.hint


@pytest.mark.parametrize(
    ("host", "server"), [("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")]
)
def test_a_pod_uses_its_service_account(tmp_path: Path, host: str, server: str) -> None:
    for name, text in (("token", "t"), ("ca.crt", "CA"), ("namespace", "corewise\n")):
        (tmp_path / name).write_text(text)
    environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "443"}
    config = load_config(environ=environ, service_account=tmp_path)
    assert (config.server, config.ca_pem, config.namespace) == (server, b"CA", "corewise")
    assert config.user.token_file == str(tmp_path / "token")
    with pytest.raises(ConfigError, match="have no contexts"):
        load_config(None, "here", environ=environ, service_account=tmp_path)


def test_a_pod_without_its_authority_says_so(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    with pytest.raises(ConfigError, match=r"service account cannot be read.*ca\.crt"):
        load_config(environ={"KUBERNETES_SERVICE_HOST": "h"}, service_account=tmp_path)


VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=6) | st.dates()
TREES = st.recursive(
    VALUES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["clusters", "users", "contexts", "name", "cluster", "user", "context", "server", "exec"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.binary(max_size=60) | TREES.map(lambda tree: yaml.safe_dump(tree).encode()))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_file_yields_a_configuration_or_config_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "config"
    path.write_bytes(content)
    with suppress(ConfigError):
        load_config(str(path), "here")
