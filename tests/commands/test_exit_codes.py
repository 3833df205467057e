"""One rule for exit codes: what kind of failure it is, whichever system it comes from."""

from __future__ import annotations

import re

import click
import pytest

from corewise.cli import completion, corewise, main
from corewise.cli.errors import Failure
from corewise.kernel import errors as kernel
from corewise.kube import errors as kube
from corewise.prometheus import client as prometheus
from corewise.service.options import OptionsError
from corewise.vocabulary.errors import OperationalError
from corewise.vocabulary.exit_codes import ExitCode
from corewise.vocabulary.reasons import Reason
from corewise_openstack.compute.errors import GuestExists
from corewise_openstack.openstack import errors as openstack


def kube_answer(code: int) -> OperationalError:
    return kube.api_error(code, b"")


def placement_answer(kind: type[openstack.AnswerRefusing], status: int) -> OperationalError:
    return kind("no", status=status, request="GET /")


CASES: list[tuple[OperationalError, ExitCode]] = [
    (kube_answer(401), ExitCode.UNAUTHORIZED),
    (kube_answer(403), ExitCode.UNAUTHORIZED),
    (placement_answer(openstack.PlacementUnauthorized, 401), ExitCode.UNAUTHORIZED),
    (placement_answer(openstack.PlacementForbidden, 403), ExitCode.UNAUTHORIZED),
    (prometheus.DeniedError("no"), ExitCode.UNAUTHORIZED),
    (kube_answer(404), ExitCode.NOT_FOUND),
    (placement_answer(openstack.PlacementNotFound, 404), ExitCode.NOT_FOUND),
    (kube_answer(409), ExitCode.CONFLICT),
    (placement_answer(openstack.ConcurrentUpdate, 409), ExitCode.CONFLICT),
    (kube_answer(422), ExitCode.REFUSED),
    (placement_answer(openstack.PlacementBadRequest, 400), ExitCode.REFUSED),
    (prometheus.QueryError("no"), ExitCode.REFUSED),
    (kernel.JournalHeld("journal", "held"), ExitCode.REFUSED),
    (kube_answer(429), ExitCode.CONNECTION),
    (kube_answer(503), ExitCode.CONNECTION),
    (placement_answer(openstack.PlacementServerError, 503), ExitCode.CONNECTION),
    (prometheus.OverloadedError("no"), ExitCode.CONNECTION),
    (kube.TransportError("no"), ExitCode.CONNECTION),
    (openstack.PlacementDown("no"), ExitCode.CONNECTION),
    (prometheus.UnreachableError("no"), ExitCode.CONNECTION),
    (kube.ConfigError("no"), ExitCode.BAD_INPUT),
    (openstack.CredentialsError("no"), ExitCode.BAD_INPUT),
    (OptionsError("no"), ExitCode.USAGE),
]


@pytest.mark.parametrize(("error", "code"), CASES, ids=lambda each: f"{type(each).__module__}-{each!r}"[:60])
def test_the_kind_of_failure_picks_the_exit_code(error: OperationalError, code: ExitCode) -> None:
    assert Failure.of(error).exit_code == code


def test_failure_with_reason_names_it_and_its_fix() -> None:
    failure = Failure.of(GuestExists("guest g is on host h"))
    assert str(failure) == f"GuestExists: guest g is on host h\n  {Reason.GUEST_EXISTS.fix}"


def test_failure_without_hint_is_only_its_message() -> None:
    assert str(Failure.of(openstack.NovaConfError("nova.conf: line 3"))) == "FileUnusable: nova.conf: line 3"


def test_log_line_omits_the_hint_where_retry_helps() -> None:
    assert kube.TransportError("cut").log_text == "cut"
    assert kube.ConfigError("no user", hint="choose one").log_text == "no user; choose one"


def command_raising(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a command that raises this."""

    def fail() -> None:
        raise error

    monkeypatch.setattr(completion, "command", click.Command("completion", callback=fail))
    main(["completion"])


def test_error_group_ends_command_as_its_first_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = kube.TransportError("refused", hint="is it up?")
    group = ExceptionGroup("tasks", [ExceptionGroup("loops", [refused]), OptionsError("no")])
    with pytest.raises(SystemExit) as end:
        command_raising(group, monkeypatch)
    assert end.value.code == ExitCode.CONNECTION
    assert capsys.readouterr().err == "corewise: refused\n  is it up?\n"


@pytest.mark.parametrize("others", [[], [OptionsError("no")]])
def test_a_bug_in_a_group_keeps_its_traceback(
    others: list[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    group = ExceptionGroup("tasks", [*others, ExceptionGroup("loops", [KeyError("bug")])])
    with pytest.raises(ExceptionGroup) as raised:
        command_raising(group, monkeypatch)
    assert raised.value is group


def test_help_names_every_exit_code() -> None:
    epilog = corewise.epilog or ""
    codes = [int(word) for word in re.findall(r"(?:: |; )(\d+) ", epilog)]
    assert codes == [0, *ExitCode]
