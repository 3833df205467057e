"""Starts to listen, or says in words why that cannot be."""

from __future__ import annotations

import os

from aiohttp import web

from corewise.service.options import Address, OptionsError


async def started(site: web.BaseSite, address: Address) -> None:
    """Start a site.

    Raises:
        OptionsError: if the address cannot be listened on.
    """
    try:
        await site.start()
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise OptionsError(f"cannot listen on {address}: {why.lower()}") from error
