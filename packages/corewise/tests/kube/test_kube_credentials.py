"""Credentials are renewed when they grow old or are refused, and what cannot be used says why."""

from __future__ import annotations

import asyncio
import stat
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.kube.auth import (
    REREAD_AFTER,
    Credentials,
    Identity,
    StoredCredentials,
    credential_in,
    credentials_for,
)
from corewise.kube.config import ClusterConfig, ExecPlugin, UserConfig
from corewise.kube.errors import ConfigError
from kube.fake_api import CONFIG, InstantClock

V1 = "client.authentication.k8s.io/v1"
BETA = "client.authentication.k8s.io/v1beta1"


def stored(user: UserConfig, clock: InstantClock) -> StoredCredentials:
    return StoredCredentials(user, "a test", clock)


async def test_token_file_is_read_again_after_a_minute(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one\n")
    clock = InstantClock()
    credentials = stored(UserConfig(token="fallback", token_file=str(file)), clock)
    assert (await credentials.identity()).token == "one"
    file.write_text("two\n")
    clock.passed += REREAD_AFTER - 1
    assert (await credentials.identity()).token == "one"
    clock.passed += 1
    assert (await credentials.identity()).token == "two"


async def test_a_refused_token_is_read_again_at_once(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one")
    credentials = stored(UserConfig(token_file=str(file)), InstantClock())
    identity = await credentials.identity()
    file.write_text("two")
    credentials.refused(identity)
    assert (await credentials.identity()).token == "two"


async def test_the_refusal_of_an_older_identity_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one")
    credentials = stored(UserConfig(token_file=str(file)), InstantClock())
    await credentials.identity()
    file.write_text("two")
    credentials.refused(Identity("zero"))
    assert (await credentials.identity()).token == "one"


async def test_vanished_token_file_leaves_the_last_good_token(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one")
    clock = InstantClock()
    credentials = stored(UserConfig(token_file=str(file)), clock)
    await credentials.identity()
    file.unlink()
    clock.passed += REREAD_AFTER
    assert (await credentials.identity()).token == "one"


async def test_certificate_and_key_files_are_read_again_too(tmp_path: Path) -> None:
    certificate, key = tmp_path / "c", tmp_path / "k"
    certificate.write_text("C1")
    key.write_text("K1")
    clock = InstantClock()
    credentials = stored(UserConfig(certificate_file=str(certificate), key_file=str(key)), clock)
    assert await credentials.identity() == Identity("", b"C1", b"K1")
    certificate.write_text("C2")
    key.write_text("K2")
    clock.passed += REREAD_AFTER
    assert await credentials.identity() == Identity("", b"C2", b"K2")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file"),
        (b"", "holds no token"),
        (b"a\nb", "holds no token"),
        (b"\xff\xfe", "is not a token"),
    ],
)
async def test_a_token_file_without_a_token_is_named(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=message) as caught:
        await stored(UserConfig(token_file=str(file)), InstantClock()).identity()
    assert str(file) in str(caught.value)


def script(tmp_path: Path, text: str) -> str:
    path = tmp_path / "plugin"
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def plugin(command: str, clock: InstantClock, version: str = V1, **fields: object) -> Credentials:
    user = UserConfig(exec_plugin=ExecPlugin(command, version, **fields))  # type: ignore[arg-type]
    return credentials_for(ClusterConfig("https://api:6443", ca_pem=b"CA", user=user), clock)


def credential(version: str = V1, **status: str) -> str:
    return msgspec.json.encode({"apiVersion": version, "kind": "ExecCredential", "status": status}).decode()


@pytest.mark.parametrize("version", [V1, BETA])
async def test_a_plugin_gives_a_token_until_it_expires(tmp_path: Path, version: str) -> None:
    clock = InstantClock()
    answer = credential(version, token="t$n", expirationTimestamp="2026-01-01T00:10:00Z").replace('"', '\\"')
    count = tmp_path / "count"
    command = script(tmp_path, f'echo >> {count}\nn=$(wc -l < {count})\necho "{answer}"\n')
    credentials = plugin(command, clock, version)
    assert [(await credentials.identity()).token for _ in range(2)] == ["t1", "t1"]
    clock.passed = 600.0
    assert (await credentials.identity()).token == "t2"


async def test_one_shared_plugin_run_renews_a_refused_token(
    tmp_path: Path,
) -> None:
    count = tmp_path / "count"
    command = script(tmp_path, f"echo >> {count}\ncat <<END\n{credential(token='t')}\nEND\n")
    credentials = plugin(command, InstantClock())
    first = await asyncio.gather(*(credentials.identity() for _ in range(5)))
    assert count.read_text() == "\n"
    credentials.refused(first[0])
    await asyncio.gather(*(credentials.identity() for _ in range(5)))
    assert count.read_text() == "\n\n"


async def test_a_plugin_may_give_a_client_certificate(tmp_path: Path) -> None:
    answer = credential(clientCertificateData="CERT", clientKeyData="KEY")
    credentials = plugin(script(tmp_path, f"echo '{answer}'"), InstantClock())
    assert await credentials.identity() == Identity("", b"CERT", b"KEY")


async def test_plugin_receives_its_arguments_environment_and_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUR_OWN", "kept")
    out = tmp_path / "out"
    command = script(
        tmp_path,
        f'echo "$1 $ADDED $OUR_OWN" > {out}\necho "$KUBERNETES_EXEC_INFO" >> {out}\n'
        f"cat >> {out}\necho '{credential(token='t')}'\n",
    )
    await plugin(
        command, InstantClock(), args=("first",), env={"ADDED": "yes"}, provide_cluster_info=True
    ).identity()
    words, info = out.read_text().splitlines()
    assert words == "first yes kept"
    assert msgspec.json.decode(info) == {
        "apiVersion": V1,
        "kind": "ExecCredential",
        "spec": {
            "interactive": False,
            "cluster": {"server": "https://api:6443", "certificate-authority-data": "Q0E="},
        },
    }


async def test_missing_plugin_is_named_with_its_installation_hint() -> None:
    with pytest.raises(ConfigError, match="exec plugin no-such-plugin cannot be started") as caught:
        await plugin("no-such-plugin", InstantClock(), install_hint="pip install it").identity()
    assert caught.value.hint == "pip install it"


async def test_a_failing_plugin_is_quoted(tmp_path: Path) -> None:
    command = script(tmp_path, "echo 'please log in' >&2\nexit 3\n")
    with pytest.raises(ConfigError, match="ended with code 3: please log in"):
        await plugin(command, InstantClock()).identity()


async def test_a_plugin_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corewise.kube.auth.PLUGIN_TIMEOUT", 0.05)
    command = script(tmp_path, "exec sleep 60\n")
    with pytest.raises(ConfigError, match="gave no answer"):
        await plugin(command, InstantClock()).identity()


PLUGIN = ExecPlugin("p", V1)


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("", "printed no ExecCredential"),
        ("hello", "printed no ExecCredential"),
        ("[]", "printed no ExecCredential"),
        ("{}", "neither apiVersion nor kind"),
        (credential(BETA, token="t"), "printed .*v1beta1 ExecCredential, not .*/v1 ExecCredential"),
        (credential(), "neither a token nor a client certificate"),
        (credential(clientCertificateData="C"), "without its key"),
        (credential(token="t", clientKeyData="K"), "without its key"),
        (credential(token="t", expirationTimestamp="tomorrow"), "printed no ExecCredential"),
        (credential(token="t", expirationTimestamp="2026-01-01T00:00:00"), "without a time zone"),
        (credential(token="t\nX: y"), "cannot stand in a header"),
    ],
)
def test_rubbish_from_a_plugin_is_named(output: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        credential_in(output.encode(), PLUGIN)


@given(st.binary(max_size=100))
def test_any_plugin_output_yields_a_credential_or_error(output: bytes) -> None:
    with pytest.raises(ConfigError):
        credential_in(output, PLUGIN)


async def test_configured_token_takes_precedence_over_a_plugin() -> None:
    user = UserConfig(token="t", exec_plugin=ExecPlugin("no-such-plugin", V1))
    credentials = credentials_for(replace(CONFIG, user=user), InstantClock())
    assert (await credentials.identity()).token == "t"
