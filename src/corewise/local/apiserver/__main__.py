"""``python -m corewise.local.apiserver``: serve until stdin closes."""

from __future__ import annotations

import asyncio
import sys

import click

from corewise.local.apiserver.server import serve
from corewise.local.apiserver.state import StateError


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
def main(listen: str, kubeconfig_out: str, state: str | None) -> None:
    """Run the API server of a local cluster until stdin closes."""
    try:
        asyncio.run(_run(listen, kubeconfig_out, state))
    except StateError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"cannot listen on {listen}: {error.strerror or error}") from error


async def _run(listen: str, kubeconfig_out: str, state: str | None) -> None:
    async with serve(listen=listen, state_dir=state) as server:
        server.write_kubeconfig(kubeconfig_out)
        click.echo(server.url)
        await asyncio.to_thread(sys.stdin.buffer.read)


if __name__ == "__main__":
    main()
