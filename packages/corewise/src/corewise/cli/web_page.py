"""Runs the web page: what it shows, kept current, and the server of it. Imported only when it is served."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

import corewise
from corewise.cli.commit import with_commit
from corewise.config.interference.metrics import Preset
from corewise.kube.client import Client
from corewise.kube.clock import SYSTEM_CLOCK
from corewise.kube.config import ClusterConfig
from corewise.prometheus.client import PrometheusClient
from corewise.service.certificates import CertificateKeeper, FileCertificates, ServingContext
from corewise.service.health import TokenAccess
from corewise.service.http_servers import WEB, Listener
from corewise.service.options import Address
from corewise.service.program import Loop, Program
from corewise.views.page.documents import PageDocuments
from corewise.views.page.followed import FollowedCluster
from corewise.views.page.hosts import HostTable
from corewise.views.page.tables import PageTables
from corewise.vocabulary.names import CONFIG_NAME
from corewise.web.server import HEADERS, LOOPBACK, PageServer

log = logging.getLogger(__name__)
_PATIENCE = 5.0
"""Seconds for an answer of Prometheus: the page of a node waits for it once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebOptions:
    """The options of the page's server: addresses, names, certificate, authentication and sources.

    ``hosts`` are names, beside those of loopback, by which it may be called. ``tls_cert`` and ``tls_key``
    are files; without them it is served by plain HTTP. ``auth``: callers show a token, which the API server
    reviews.
    """

    listen: Address
    config_namespace: str
    hosts: tuple[str, ...] = ()
    compute_hosts: HostTable | None = None
    prometheus: str = ""
    preset: Preset = Preset.COREWISE
    tls_cert: str = ""
    tls_key: str = ""
    auth: bool = False
    metrics_listen: Address | None = None


async def run_page(
    options: WebOptions,
    cluster: ClusterConfig,
    *,
    stopping: asyncio.Event | None = None,
    ready: Callable[[str], object],
) -> None:
    """Serve the page until canceled; ``ready`` receives its address.

    Raises:
        ExceptionGroup: of a KubeError if the nodes cannot be listed; of an OptionsError if the address cannot
            be listened on, or the certificate cannot be used.
    """
    clock, program = SYSTEM_CLOCK, Program("web", SYSTEM_CLOCK, stopping)
    # The client ends first, and aborts its connections: a watch that is canceled leaves its own half closed.
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as group, Client(cluster) as client:
        measures = None
        if options.prometheus:
            prometheus = PrometheusClient(options.prometheus, timeout=_PATIENCE)
            measures = await stack.enter_async_context(prometheus), options.preset
        followed = FollowedCluster(
            cluster,
            client,
            config_namespace=options.config_namespace,
            hosts=options.compute_hosts,
            prometheus=measures,
            on_change=lambda: page.feeds.changed(),  # noqa: PLW0108 - it is made below
        )
        session = {
            "version": with_commit(corewise.__version__),
            "cluster": cluster.context or "this cluster",
            "server": cluster.server,
            "placement": options.compute_hosts is not None,
        }
        tables = PageTables(followed)
        page = PageServer(
            tables,
            PageDocuments(followed),
            followed.lost,
            session,
            clock,
            hosts=frozenset({*LOOPBACK, options.listen.host, *options.hosts} - {""}),
            configuration=(options.config_namespace, CONFIG_NAME),
            access=TokenAccess(client, clock) if options.auth else None,
        )
        loops: list[Loop] = [("feeds", page.feeds.run)]
        serving = None
        if options.tls_cert:
            serving = ServingContext()
            files = FileCertificates(options.tls_cert, options.tls_key)
            keeper = CertificateKeeper(
                files, serving, metrics=program.metrics, heartbeats=program.heartbeats, clock=clock
            )
            await keeper.begin()
            loops.append(("certificates", keeper.run))
        listener = Listener(
            WEB,
            options.listen,
            page.routes,
            program.metrics,
            tls=(lambda: serving.context) if serving else None,
            headers=HEADERS,
        )
        loops.append(("web", listener.run))
        program.expose(options.metrics_listen, ready=tuple)
        await followed.list_nodes()
        followed.follow(group)

        async def tell() -> None:
            await listener.listening.wait()
            ready(f"{'https' if serving else 'http'}://{listener.address}")

        try:
            await tables.made()
            group.create_task(tell())
            await program.run(loops)
        finally:
            followed.stop()
