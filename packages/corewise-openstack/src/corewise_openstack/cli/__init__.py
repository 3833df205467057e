"""Commands that this distribution adds to ``corewise``, imported only when they are called."""

COMMANDS: dict[str, tuple[str, str]] = {
    "compute": (
        "corewise_openstack.cli.compute",
        "Track dedicated and shared CPUs of OpenStack hosts; place and pin guests.",
    ),
}
"""Command name -> its module (for its ``command``) and its line of help, as :mod:`corewise.cli` has them."""
