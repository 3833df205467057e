"""What the web page shows of compute hosts is what ``corewise compute`` prints, and trying claims nothing."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from compute.compute_world import hosts_in, put_host, report
from corewise.cli import corewise, web_page
from corewise.kube.client import Client
from corewise.kube.config import ClusterConfig
from corewise.views.page.documents import PageDocuments
from corewise.views.page.followed import FollowedCluster, UnknownObject
from corewise.views.page.tables import PageTables
from corewise.vocabulary.errors import OperationalError
from corewise_openstack.cli.options import PlacementChoice
from corewise_openstack.cli.page import FlavorNotTried, HostViews
from corewise_openstack.tracking import Compat
from placement_world import client_of_placement, emptied

FLAVOR = {"name": "f", "vcpus": 8, "ram": 1024, "disk": 0, "extra_specs": {"hw:cpu_policy": "dedicated"}}
TOO_LARGE = {**FLAVOR, "vcpus": 17}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "hosts"
    folder.mkdir()
    for name in ("h1", "h2"):
        put_host(folder, name)
    put_host(folder, "broken").joinpath("topology.json").write_text("{")
    return folder


def views(folder: Path) -> HostViews:
    return HostViews(lambda: hosts_in(folder), Compat.SPEC)


def printed(*arguments: str) -> Any:
    return json.loads(CliRunner().invoke(corewise, ["compute", *arguments, "-o", "json"]).stdout)


def plain(value: Any) -> Any:
    return json.loads(msgspec.json.encode(value))


def schedule(folder: Path, flavor: dict[str, Any]) -> Any:
    file = folder.parent / "flavor.json"
    file.write_text(json.dumps(flavor))
    return printed("schedule", "--flavor", str(file), "--hosts", str(folder))


def test_tried_flavor_claims_nothing_and_matches_scheduling(folder: Path) -> None:
    shown = views(folder)
    tried = plain(shown.try_flavor({"flavor": FLAVOR}))
    assert not list(folder.rglob("ledger.json"))
    done = schedule(folder, FLAVOR)
    assert {**tried["placed"], "guest": done["guest"]} == done
    assert tried["refused"] is None
    refused = plain(shown.try_flavor({"flavor": TOO_LARGE}))
    assert refused == {"placed": None, "refused": schedule(folder, TOO_LARGE)}
    assert refused["refused"]["fallen"]


def test_host_shows_cpu_holders_or_why_it_fails(folder: Path) -> None:
    where = schedule(folder, FLAVOR)["host"]
    shown = views(folder)
    document = shown.document(where)
    assert document is not None
    (wanted,) = printed("status", "--hosts", str(folder), "--host", where)["hosts"]
    assert plain(document["status"]) == wanted
    assert document["reshape"] is None
    drawn = [each["cpu"] for each in document["topology"]["threads"]]
    assert drawn == [each["cpu"] for each in wanted["cpus"]]
    rows = {row["name"]: row for row in plain(shown.rows())}
    assert list(rows) == ["broken", "h1", "h2"]
    assert rows["broken"]["problem"]
    assert {key: rows[where][key] for key in ("dedicatedCPUs", "freeDedicatedCPUs", "guests")} == {
        "dedicatedCPUs": wanted["cells"][0]["pcpuset"],
        "freeDedicatedCPUs": "10-17",
        "guests": 1,
    }


@pytest.mark.parametrize("body", [{}, {"flavor": {"vcpus": "many"}}])
def test_what_is_no_flavor_is_refused_in_words(folder: Path, body: dict[str, Any]) -> None:
    with pytest.raises(FlavorNotTried, match=r"flavor|vcpus"):
        views(folder).try_flavor(body)


def test_legacy_host_shows_what_its_upgrade_would_move(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "hosts"
    folder.mkdir()
    put_host(folder, "old", {"vcpu_pin_set": "2-17"})
    monkeypatch.setattr(PlacementChoice, "client", lambda *_: client_of_placement())
    client = emptied(client_of_placement())
    report(client, hosts_in(folder).known["old"])
    shown = HostViews(lambda: hosts_in(folder), Compat.SPEC, client).document("old")
    assert shown is not None
    where = ["--hosts", str(folder), "--host", "old", "--placement-url", "http://127.0.0.1:1"]
    assert plain(shown["reshape"]) == printed("reshape", *where, "--dry-run")
    assert {"PCPU", "VCPU"} <= set(shown["reshape"]["before"]["inventories"])


def test_configured_hosts_have_a_table_and_documents(folder: Path) -> None:
    config = ClusterConfig(server="http://127.0.0.1:1")

    async def look() -> None:
        async with asyncio.TaskGroup() as group, Client(config) as client:
            told = asyncio.Event()
            cluster = FollowedCluster(
                config, client, config_namespace="here", hosts=views(folder), on_change=told.set
            )
            tables, page = PageTables(cluster), PageDocuments(cluster)
            assert "hosts" in tables.names
            cluster.follow(group)
            await told.wait()
            assert [row["name"] for row in tables.table("hosts")["rows"]] == ["broken", "h1", "h2"]
            assert (await page.document("hosts", "h1"))["status"]["host"] == "h1"
            with pytest.raises(UnknownObject):
                await page.document("hosts", "none")
            broken = await page.document("hosts", "broken")
            assert (broken["status"], broken["host"]["name"]) == (None, "broken")
            tried = plain(await page.what_if({"change": "flavor", "flavor": FLAVOR}))
            assert tried["placed"]["host"] in {"h1", "h2"}
            cluster.stop()

    asyncio.run(look())


def test_configured_placement_says_what_an_upgrade_would_move(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[web_page.WebOptions] = []

    async def run_page(options: web_page.WebOptions, *_: object, **__: object) -> None:
        given.append(options)

    monkeypatch.setattr(web_page, "run_page", run_page)
    kubeconfig = folder / "kubeconfig"
    cluster = {"cluster": {"server": "http://127.0.0.1:1"}, "name": "c"}
    context = {"context": {"cluster": "c", "user": ""}, "name": "c"}
    kubeconfig.write_text(
        json.dumps({"clusters": [cluster], "contexts": [context], "current-context": "c", "users": []})
    )
    where = ["--compute-hosts", str(folder), "--placement-url", "http://127.0.0.1:1"]
    result = CliRunner().invoke(corewise, ["web", "--kubeconfig", str(kubeconfig), *where])
    assert result.exit_code == 0, result.output
    shown = given[0].compute_hosts
    assert shown is not None
    with pytest.raises(OperationalError, match=r"127\.0\.0\.1:1"):
        shown.document("h1")
