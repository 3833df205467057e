"""corewise: one CPU in a request means the same on every node of a cluster."""

__version__: str


def __getattr__(name: str) -> str:
    """Return ``__version__``, as the installed package states it: the build takes it from git's tag.

    It is looked up only when it is needed, since the lookup costs a command half of its start.
    """
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version  # noqa: PLC0415 - slow

    return version("corewise")
