"""``kubedouble`` or ``python -m kubedouble``: serve until Ctrl-C.

It prints one line, which points kubectl and every other client at the server. It also ends on SIGTERM, and
when a pipe at its standard input closes: then the program that started it is gone.

It ends with exit code 74 (EX_IOERR) when the state directory cannot be written: a change that is not kept is
never acknowledged.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import stat
import sys
import tempfile
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import click

from kubedouble.server import NEW_IN_1_36, ListenError, serve
from kubedouble.state import StateError


@click.command
@click.option(
    "--listen", default="127.0.0.1:0", show_default=True, help="Address to listen on; port 0 picks one."
)
@click.option(
    "--kubeconfig-out",
    type=click.Path(dir_okay=False),
    help="Where to write an administrator's kubeconfig.  [default: a temporary file, deleted at the end]",
)
@click.option(
    "--state",
    type=click.Path(file_okay=False),
    help="Directory that keeps the objects and the certificate authority.  [default: memory]",
)
@click.option("--name", default="kubedouble", show_default=True, help="Cluster name in kubeconfigs.")
@click.option(
    "--without",
    multiple=True,
    type=click.Choice(NEW_IN_1_36),
    help="Resource to leave out, as in Kubernetes before 1.36; repeatable.",
)
def main(
    listen: str, kubeconfig_out: str | None, state: str | None, name: str, without: tuple[str, ...]
) -> None:
    """Serve the Kubernetes API until Ctrl-C.

    The line on standard output points kubectl at the server.
    """
    try:
        tempfile.gettempdir()
    except OSError as error:
        said = "there is no temporary directory; name one that you can write to: TMPDIR=DIRECTORY kubedouble"
        raise click.ClickException(said) from error
    try:
        kubeconfig = Path(kubeconfig_out).absolute() if kubeconfig_out else None
        asyncio.run(_run(listen, kubeconfig, state, name, without))
    except StateError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(error.exit_code)
    except ListenError as error:
        raise click.ClickException(str(error)) from error


async def _run(
    listen: str, kubeconfig: Path | None, state: str | None, name: str, without: tuple[str, ...]
) -> None:
    ended = _end()
    with ExitStack() as stack:
        if kubeconfig is None:
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="kubedouble-"))
            kubeconfig = Path(directory, "kubeconfig")
        async with serve(listen=listen, state_dir=state, name=name, without=without) as server:
            try:
                server.write_kubeconfig(kubeconfig)
            except OSError as error:
                raise click.ClickException(f"cannot write {kubeconfig}: {error.strerror or error}") from error
            click.echo(f"export KUBECONFIG={shlex.quote(str(kubeconfig))}")
            click.echo(f"Serving the Kubernetes API at {server.url}; press Ctrl-C to stop.", err=True)
            ends: list[asyncio.Future[Any]] = [server.failure, ended]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if server.failure.done():
                raise server.failure.result()


def _end() -> asyncio.Future[None]:
    """Return a future that is done after SIGINT or SIGTERM, or when a pipe at standard input closes.

    A terminal is not read: it would stop a server in the background. /dev/null, which has no end to wait for,
    is what a script gives to such a server.
    """
    loop = asyncio.get_running_loop()
    ended = loop.create_future()

    def end() -> None:
        if not ended.done():
            ended.set_result(None)

    def read() -> None:
        with suppress(OSError):
            while os.read(0, 4096):
                pass
        with suppress(RuntimeError):  # the loop is closed: the program has ended
            loop.call_soon_threadsafe(end)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end)
    with suppress(OSError):  # there is no standard input
        mode = os.fstat(0).st_mode
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
            threading.Thread(target=read, daemon=True, name="stdin").start()
    return ended


if __name__ == "__main__":
    main()
