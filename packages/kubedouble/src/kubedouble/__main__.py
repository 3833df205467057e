"""``python -m kubedouble``: serve until stdin closes.

It ends with exit code 74 (EX_IOERR) when the state directory cannot be written: a change that is not kept is
never acknowledged.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from contextlib import suppress
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
    required=True,
    type=click.Path(dir_okay=False),
    help="Where to write an administrator's kubeconfig.",
)
@click.option("--state", type=click.Path(file_okay=False), help="Directory that keeps the objects.")
@click.option("--name", default="kubedouble", show_default=True, help="Cluster name in kubeconfigs.")
@click.option(
    "--without",
    multiple=True,
    type=click.Choice(NEW_IN_1_36),
    help="Resource to leave out, as in Kubernetes before 1.36; repeatable.",
)
def main(listen: str, kubeconfig_out: str, state: str | None, name: str, without: tuple[str, ...]) -> None:
    """Run the API server of a local cluster until stdin closes."""
    try:
        asyncio.run(_run(listen, kubeconfig_out, state, name, without))
    except StateError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(error.exit_code)
    except ListenError as error:
        raise click.ClickException(str(error)) from error


async def _run(
    listen: str, kubeconfig_out: str, state: str | None, name: str, without: tuple[str, ...]
) -> None:
    async with serve(listen=listen, state_dir=state, name=name, without=without) as server:
        try:
            server.write_kubeconfig(kubeconfig_out)
        except OSError as error:
            raise click.ClickException(f"cannot write {kubeconfig_out}: {error.strerror or error}") from error
        click.echo(server.url)
        ends: list[asyncio.Future[Any]] = [server.failure, _end_of_input()]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if server.failure.done():
            raise server.failure.result()


def _end_of_input() -> asyncio.Future[None]:
    """Return a future that is done when stdin is closed; waiting for it does not keep the program running."""
    loop = asyncio.get_running_loop()
    ended = loop.create_future()

    def read() -> None:
        with suppress(OSError):
            while os.read(0, 4096):
                pass
        with suppress(RuntimeError):  # the loop is closed: the program has ended
            loop.call_soon_threadsafe(ended.set_result, None)

    threading.Thread(target=read, daemon=True, name="stdin").start()
    return ended


if __name__ == "__main__":
    main()
