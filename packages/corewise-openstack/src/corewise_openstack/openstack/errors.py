"""Everything that can go wrong between a program and OpenStack, so that no library's errors leak.

::

    OpenStackError                message, hint, retryable
    ├── ExtraMissing              libvirt-python is not installed
    ├── NovaConfError             nova.conf cannot be read
    ├── CredentialsError          clouds.yaml, OS_* or [placement] cannot be used: the user must correct it
    ├── EmbeddedError             the embedded Placement cannot be started
    ├── LibvirtError              libvirt does not answer, or refuses
    │   ├── DomainGone            there is no such domain
    │   └── LibvirtXMLError       a document that is not what libvirt writes
    └── PlacementError
        ├── PlacementDown         no answer, or 502, 503, 504                      (retryable)
        ├── PlacementUntrusted    its certificate, or Keystone's, is of an unknown authority
        ├── AnswerError           an answer that is not what the API promises
        ├── VersionTooOld         Placement lacks a microversion that is needed
        ├── ProviderAwaited       nova-compute has not created the host's provider
        ├── ConflictStorm         somebody else wrote first, again and again       (retryable)
        └── AnswerRefusing        a refusal; carries status and code
            ├── BadRequest        400
            │   └── UnknownTraits 400, names the traits
            ├── Unauthorized      401
            ├── Forbidden         403
            ├── NotFound          404
            ├── Conflict          409
            │   ├── ConcurrentUpdate  somebody else wrote first: read again
            │   ├── InventoryInUse    an inventory is to go that somebody holds
            │   └── DoesNotFit        less is left than the request needs
            └── ServerError       5xx                                              (retryable)

Each class picks the reason and the exit code of a command that it ends.
"""
# ruff: noqa: N818 - these errors are named after what happened

from __future__ import annotations

from corewise.vocabulary.errors import OperationalError
from corewise.vocabulary.exit_codes import ExitCode
from corewise.vocabulary.reasons import Reason


class OpenStackError(OperationalError):
    """Base of all errors of this package."""

    reason: Reason = Reason.OPENSTACK_UNUSABLE
    exit_code = ExitCode.BAD_INPUT


class ExtraMissing(OpenStackError):
    """libvirt's Python package, the extra ``libvirt``, is not installed."""

    default_hint = "it needs libvirt's headers: pip install 'libvirt-python>=9', or in a clone: make libvirt"

    def __init__(self) -> None:
        super().__init__("the Python package libvirt-python is not installed")


class NovaConfError(OpenStackError):
    """nova.conf cannot be read; the message names file and line."""

    reason = Reason.FILE_UNUSABLE


class CredentialsError(OpenStackError):
    """The endpoint of Placement, or the credentials for it, are missing or unusable."""

    default_hint = (
        "name a cloud of clouds.yaml, set the OS_* variables, or fill in [placement] of nova.conf; "
        "without a Keystone, name the endpoint itself"
    )


class EmbeddedError(OpenStackError):
    """The embedded Placement cannot be started or used."""


class LibvirtError(OpenStackError):
    """Libvirt does not answer, or refuses."""

    reason = Reason.LIBVIRT_UNUSABLE
    exit_code = ExitCode.CONNECTION
    default_hint = "does libvirtd run, and may this user connect? try: virsh -c URI list --all"


class DomainGone(LibvirtError):
    """There is no such domain."""

    reason = Reason.GUEST_UNKNOWN
    exit_code = ExitCode.NOT_FOUND
    default_hint = "virsh -c URI list --all --uuid lists the guests"


class LibvirtXMLError(LibvirtError):
    """A document that is not what libvirt writes."""

    reason = Reason.FILE_UNUSABLE
    exit_code = ExitCode.BAD_INPUT
    default_hint = "compare it with: virsh capabilities, virsh dumpxml GUEST"


class PlacementError(OpenStackError):
    """Base of what goes wrong with Placement."""

    reason = Reason.PLACEMENT_DOWN
    exit_code = ExitCode.CONNECTION


class PlacementDown(PlacementError):
    """No answer arrived: refused, cut off, timed out, or a gateway reports that Placement is down."""

    retryable = True
    default_hint = "is Placement up, and its endpoint right? try: openstack resource provider list"


class PlacementUntrusted(PlacementError):
    """The certificate of Placement or Keystone cannot be verified; nothing was sent."""

    reason = Reason.PLACEMENT_UNTRUSTED
    default_hint = (
        "name the file with the certificate of its authority: cafile in [placement] of nova.conf, cacert in "
        "clouds.yaml, OS_CACERT with OS_* variables, or REQUESTS_CA_BUNDLE with --placement-url"
    )


class UnexpectedAnswer(PlacementError):
    """An answer that is not what the API promises."""

    default_hint = "is the endpoint really Placement's? its root answers with a list of versions"


class VersionTooOld(PlacementError):
    """Placement is older than what this needs."""

    default_hint = "upgrade Placement: it needs what came with OpenStack's Rocky release, or later"


class ProviderAwaited(PlacementError):
    """Beside Nova: nova-compute has not created the host's provider yet."""

    reason = Reason.PROVIDER_AWAITED
    exit_code = ExitCode.NOT_FOUND


class ConflictStorm(PlacementError):
    """Somebody else wrote first, as often as it was tried."""

    reason = Reason.PLACEMENT_CONFLICT
    exit_code = ExitCode.CONFLICT
    retryable = True
    default_hint = "find out who else writes this provider again and again, then run this once more"


class AnswerRefusing(PlacementError):
    """Placement refused. ``request`` is the method and path, ``code`` Placement's error code."""

    reason = Reason.PLACEMENT_REFUSED
    exit_code = ExitCode.REFUSED

    def __init__(self, detail: str, *, status: int, request: str, code: str = "", hint: str = "") -> None:
        super().__init__(f"{request}: {detail}", hint=hint)
        self.detail = detail
        self.status = status
        self.request = request
        self.code = code


class PlacementBadRequest(AnswerRefusing):
    """400: the request makes no sense to Placement."""


class UnknownTraits(PlacementBadRequest):
    """400: traits that Placement does not know."""

    reason = Reason.TRAIT_UNKNOWN
    exit_code = ExitCode.BAD_INPUT

    def __init__(self, traits: tuple[str, ...], *, status: int, request: str, code: str = "") -> None:
        named = ", ".join(traits)
        super().__init__(
            f"Placement knows no trait {named}",
            status=status,
            request=request,
            code=code,
            hint=f"correct the name, or create it: openstack trait create {traits[0]} "
            "(names of your own begin with CUSTOM_)",
        )
        self.traits = traits


class PlacementUnauthorized(AnswerRefusing):
    """401: the credentials are not accepted."""

    reason = Reason.PLACEMENT_UNAUTHORIZED
    exit_code = ExitCode.UNAUTHORIZED
    default_hint = "the password or token is wrong or expired: renew it, or name another cloud"


class PlacementForbidden(AnswerRefusing):
    """403: known, but not allowed."""

    reason = Reason.PLACEMENT_FORBIDDEN
    exit_code = ExitCode.UNAUTHORIZED
    default_hint = "the user needs the role admin (and service, for a reshape) in the project of the services"


class PlacementNotFound(AnswerRefusing):
    """404: no such provider, trait or class."""

    reason = Reason.PLACEMENT_NOT_FOUND
    exit_code = ExitCode.NOT_FOUND


class PlacementConflict(AnswerRefusing):
    """409."""


class ConcurrentUpdate(PlacementConflict):
    """409: the provider or consumer has changed since it was read."""

    reason = Reason.PLACEMENT_CONFLICT
    exit_code = ExitCode.CONFLICT


class InventoryInUse(PlacementConflict):
    """409: an inventory is to be removed that a consumer holds something of."""

    default_hint = "move or delete the guests that hold it first, or move their allocations (reshape)"


class DoesNotFit(PlacementConflict):
    """409: the provider has less left than the request needs."""


class PlacementServerError(AnswerRefusing):
    """5xx."""

    reason = Reason.PLACEMENT_DOWN
    exit_code = ExitCode.CONNECTION
    retryable = True
