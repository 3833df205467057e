"""Who is asking: certificates, tokens, impersonation."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from multidict import CIMultiDict

from kubedouble.authentication import (
    Authenticator,
    TokenTable,
    User,
    impersonate,
    service_account,
    split_service_account,
)
from kubedouble.errors import StatusError

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def certificate(name: str, *groups: str) -> dict[str, Any]:
    """Return the result of ``SSLSocket.getpeercert()`` for such a certificate."""
    organizations = tuple((("organizationName", group),) for group in groups)
    return {"subject": (*organizations, (("commonName", name),))}


class Requirements:
    """Records what is asked for, and refuses what it is told to."""

    def __init__(self, *refused: str) -> None:
        self.asked: list[dict[str, str]] = []
        self._refused = refused

    def __call__(self, **access: str) -> None:
        self.asked.append(access)
        if access["resource"] in self._refused:
            raise StatusError(403, "Forbidden", "no")


def headers(*pairs: tuple[str, str]) -> Any:
    return CIMultiDict(pairs)


def test_a_certificate_names_the_user_and_its_groups() -> None:
    user = Authenticator().authenticate(certificate("admin", "system:masters", "other"), None, now=NOW)
    assert user == User("admin", ("system:masters", "other", "system:authenticated"))


def test_a_certificate_wins_over_a_token() -> None:
    tokens = TokenTable()
    tokens.add("t", User("other"))
    user = Authenticator(tokens).authenticate(certificate("admin"), "Bearer t", now=NOW)
    assert user.name == "admin"


def test_nobody_is_anonymous_or_refused() -> None:
    assert Authenticator().authenticate(None, None, now=NOW) == User(
        "system:anonymous", ("system:unauthenticated",)
    )
    with pytest.raises(StatusError) as refusal:
        Authenticator(anonymous=False).authenticate(None, None, now=NOW)
    assert refusal.value.code == 401


def test_unknown_token_is_refused_where_anonymous_is_allowed() -> None:
    with pytest.raises(StatusError) as refusal:
        Authenticator().authenticate(None, "Bearer unknown", now=NOW)
    assert (refusal.value.code, refusal.value.reason) == (401, "Unauthorized")


def test_a_token_is_good_until_it_ends() -> None:
    tokens = TokenTable()
    token = tokens.issue(service_account("ns", "a"), expires=NOW + timedelta(minutes=10))
    authenticator = Authenticator(tokens)
    assert authenticator.authenticate(None, f"bearer {token}", now=NOW).name == "system:serviceaccount:ns:a"
    with pytest.raises(StatusError):
        authenticator.authenticate(None, f"Bearer {token}", now=NOW + timedelta(minutes=10))


def test_a_service_account_has_its_groups() -> None:
    assert service_account("ns", "a").groups == (
        "system:serviceaccounts",
        "system:serviceaccounts:ns",
        "system:authenticated",
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("system:serviceaccount:ns:a", ("ns", "a")),
        ("system:serviceaccount:ns:", None),
        ("system:serviceaccount::a", None),
        ("system:serviceaccount:ns:a:b", None),
        ("joe", None),
    ],
)
def test_service_account_names_are_split(name: str, expected: tuple[str, str] | None) -> None:
    assert split_service_account(name) == expected


def test_without_headers_nobody_is_impersonated() -> None:
    assert impersonate(headers(("Accept", "*/*")), Requirements()) is None


def test_impersonating_a_user_adds_system_authenticated() -> None:
    require = Requirements()
    assert impersonate(headers(("Impersonate-User", "joe")), require) == User(
        "joe", ("system:authenticated",)
    )
    assert require.asked == [{"verb": "impersonate", "resource": "users", "name": "joe"}]


def test_every_thing_impersonated_is_authorized() -> None:
    require = Requirements()
    user = impersonate(
        headers(
            ("Impersonate-User", "joe"),
            ("Impersonate-Group", "a"),
            ("Impersonate-Group", "b"),
            ("Impersonate-Uid", "7"),
            ("Impersonate-Extra-example.com%2fscopes", "view"),
            ("Impersonate-Extra-example.com%2fscopes", "edit"),
        ),
        require,
    )
    assert user is not None
    assert user.groups == ("a", "b", "system:authenticated")
    assert (user.uid, user.extra) == ("7", {"example.com/scopes": ("view", "edit")})
    asked = [(each["resource"], each["name"]) for each in require.asked]
    assert asked == [
        ("users", "joe"),
        ("groups", "a"),
        ("groups", "b"),
        ("userextras", "view"),
        ("userextras", "edit"),
        ("uids", "7"),
    ]
    assert require.asked[3]["subresource"] == "example.com/scopes"


def test_service_account_impersonation_is_authorized_in_its_namespace() -> None:
    require = Requirements()
    user = impersonate(headers(("Impersonate-User", "system:serviceaccount:ns:a")), require)
    assert user == service_account("ns", "a")
    assert require.asked == [
        {"verb": "impersonate", "resource": "serviceaccounts", "namespace": "ns", "name": "a"}
    ]


def test_impersonating_anonymous_is_unauthenticated() -> None:
    user = impersonate(headers(("Impersonate-User", "system:anonymous")), Requirements())
    assert user == User("system:anonymous", ("system:unauthenticated",))


def test_a_kubelets_groups_are_taken_as_given() -> None:
    given = headers(
        ("Impersonate-User", "system:node:n1"),
        ("Impersonate-Group", "system:nodes"),
        ("Impersonate-Group", "system:authenticated"),
    )
    user = impersonate(given, Requirements())
    assert user == User("system:node:n1", ("system:nodes", "system:authenticated"))


def test_what_may_not_be_impersonated_is_refused() -> None:
    given = headers(("Impersonate-User", "joe"), ("Impersonate-Group", "system:masters"))
    with pytest.raises(StatusError) as refusal:
        impersonate(given, Requirements("groups"))
    assert refusal.value.code == 403


@pytest.mark.parametrize("name", ["Impersonate-Group", "Impersonate-Uid", "Impersonate-Extra-a"])
def test_impersonation_needs_a_user(name: str) -> None:
    with pytest.raises(StatusError) as refusal:
        impersonate(headers((name, "x")), Requirements())
    assert refusal.value.code == 500


def test_user_info_leaves_out_what_is_empty() -> None:
    assert User("joe", ("a",)).info() == {"username": "joe", "groups": ["a"]}
    assert User("joe", (), "7", {"k": ("v",)}).info() == {
        "username": "joe",
        "groups": [],
        "uid": "7",
        "extra": {"k": ["v"]},
    }
