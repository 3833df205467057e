"""Which certificate is renewed when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from corewise.service.certificates import (
    SETTLE,
    Certificates,
    Lifetimes,
    certificates_in,
    renewed,
    secret_data,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


LIVES = Lifetimes(authority=30 * DAY, serving=9 * DAY)


def due(
    stored: Certificates | None, now: datetime, *, installed: str = "", hosts: tuple[str, ...] = ("h",)
) -> Certificates:
    return renewed(stored, hosts=hosts, installed_bundle=installed, now=now, lifetimes=LIVES)


def test_nothing_is_renewed_while_nothing_is_due() -> None:
    first = due(None, NOW)
    assert due(first, NOW + 5 * DAY) is first
    assert certificates_in({key: text.encode() for key, text in secret_data(first).items() if text}) == first


def test_serving_certificate_renews_timely_and_for_new_hosts() -> None:
    first = due(None, NOW)
    second = due(first, NOW + 7 * DAY)
    assert second.authority == first.authority
    assert second.serving.not_after > first.serving.not_after
    assert due(first, NOW, hosts=("h", "other")).serving != first.serving


def test_successor_signs_once_trusted_and_predecessor_stays_trusted() -> None:
    stored = due(None, NOW)
    at = NOW + 21 * DAY
    announced = due(stored, at)
    assert announced.authority == stored.authority
    assert announced.successor
    assert announced.bundle.count("BEGIN") == 2
    assert due(announced, at + SETTLE).authority == stored.authority
    assert due(announced, at, installed=announced.bundle).authority == stored.authority
    succeeded = due(announced, at + SETTLE, installed=announced.bundle)
    assert succeeded.authority == announced.successor
    assert succeeded.bundle == announced.bundle
    assert due(succeeded, at + SETTLE, installed=succeeded.bundle) is succeeded


def test_an_expired_authority_is_replaced_at_once() -> None:
    first = due(None, NOW)
    assert due(first, NOW + 31 * DAY).authority != first.authority


def test_no_certificate_outlives_its_authority() -> None:
    stored = due(None, NOW)
    late = due(stored, NOW + 27 * DAY)
    assert late.serving.not_after <= late.authority.not_after
