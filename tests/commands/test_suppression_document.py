"""The pages of suppression say what the code does: its example, its defaults and what commands print."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from cli.offline_world import CALM, NOW, REPORT, aged, labeled
from corewise.cli.output import Form, render
from corewise.config import colocation
from corewise.config.colocation import (
    OversubscriptionSettings,
    SuppressionSettings,
    parse_oversubscription,
    parse_suppression,
)
from corewise.quantities import Ratio, Share, amplify
from corewise.suppression.batch_limits import shares, weight
from corewise.suppression.offer import OfferHistory, OfflineAmounts, Pinned, Usage, compute
from corewise.suppression.quotas import adjust
from corewise.views.offline_reports import NodeReport, node_report
from corewise.views.offline_table import BARS, listing_of, row_of
from corewise.vocabulary.names import OFFLINE_SHORTFALL
from corewise.vocabulary.offline_report import OfflineReport
from corewise.vocabulary.reasons import Reason

DOCS = Path(__file__).parents[2] / "docs"
PAGE = "".join(
    path.read_text()
    for path in sorted(DOCS.rglob("suppression*.md"))
    if path.parent != DOCS / "internals"  # it names classes as well as reasons
)
ALLOCATABLE = OfflineAmounts(16_000, 64 * 2**30)
PERIOD = 100_000


def row(first: str) -> list[str]:
    """Return the cells of a table's row, by the start of its first cell."""
    (line,) = re.findall(rf"^\| {re.escape(first)}.*\|$", PAGE, re.MULTILINE)
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def cores(milli: int) -> str:
    text = f"{Decimal(milli) / 1000}"
    return text if "." in text else f"{text}.0"


def adjustments() -> Iterator[tuple[int, int]]:
    """Yield offer and quota in milli-CPU after each sample of the page's example."""
    settings = SuppressionSettings()
    ratio = OversubscriptionSettings().ratio
    before = compute(Usage(3_500, 1_500, (), 0, 0), ALLOCATABLE, ratio)
    after = compute(Usage(13_000, 3_000, (Pinned(4_000, 2_100),), 0, 0), ALLOCATABLE, ratio)
    assert f"(16 - 2) x 0.60 = {cores(before.cpu_milli)} CPU" in PAGE
    assert f"(16 - 10 - 1.9) x 0.60 = {cores(after.cpu_milli)} CPU" in PAGE
    history = OfferHistory()
    for number in range(10):
        history = history.with_sample(number, before)
    quota = before.cpu_milli * PERIOD // 1000
    for number in range(10, 20):
        history = history.with_sample(number, after)
        offered = history.offer(number).cpu_milli
        quota = adjust(
            quota,
            quota,
            PERIOD,
            target_milli=offered,
            allocatable_milli=ALLOCATABLE.cpu_milli,
            step=settings.adjust_step,
        ).quota
        yield offered, quota * 1000 // PERIOD


def test_the_example_is_what_the_code_computes() -> None:
    steps = list(adjustments())
    assert [Decimal(cell) for cell in row("offer, smoothed")] == [Decimal(o) / 1000 for o, _ in steps]
    assert [Decimal(cell) for cell in row("quota, step 0.1")] == [Decimal(q) / 1000 for _, q in steps]
    batch_cpu = amplify(steps[-1][0], Ratio.parse("1.50"))
    assert f"With normalization ratio 1.50 the Node shows batch-cpu {batch_cpu} in the end" in PAGE


OFFER, QUOTA = OversubscriptionSettings(), SuppressionSettings()
DEFAULTS: dict[str, object] = {
    "ratio": OFFER.ratio,
    "intervalSeconds": OFFER.interval,
    "enabled": QUOTA.enabled,
    "mode": QUOTA.mode,
    "adjustStep": QUOTA.adjust_step,
    "highThreshold": QUOTA.high,
    "lowThreshold": QUOTA.low,
    "recoverThreshold": QUOTA.recover,
    "adjustQuotaStep": QUOTA.quota_step,
    "adjustPodNum": QUOTA.pods_a_cycle,
    "isolation": QUOTA.isolation,
    "onAgentStop": "restore" if QUOTA.restore_on_stop else "hold",
}


def test_every_setting_is_on_the_page() -> None:
    assert set(DEFAULTS) == {*colocation.OVERSUBSCRIPTION_MEMBERS, *colocation.SUPPRESSION_MEMBERS}


@pytest.mark.parametrize("name", DEFAULTS)
def test_defaults_on_the_page_match_the_code(name: str) -> None:
    told = row(f"`{name}` |")[0].strip("`").partition(",")[0]
    default = DEFAULTS[name]
    expected = str(default).lower()
    assert (Share.parse(told) == default) if isinstance(default, Share) else told == expected


def test_the_configuration_on_the_page_is_accepted() -> None:
    offer_text, quota_text = re.findall(r"-config: \|\n +(\{.*\})\n", PAGE)
    offer, quota = parse_oversubscription(offer_text), parse_suppression(quota_text)
    assert offer.problems == quota.problems == ()
    assert offer.value
    assert quota.value
    (entry,) = quota.value.node_configs
    assert entry.strategy.adjust_step == Share(2000)


def test_reason_codes_on_the_page_match_the_code() -> None:
    told = set(re.findall(r"`([A-Z][a-z]+(?:[A-Z][A-Za-z]+)+)`", PAGE))
    alerts = {each for each in told if each.startswith("Corewise")}
    assert told - alerts - {OFFLINE_SHORTFALL} <= set(Reason)
    assert {"OfferFrozen", "SliceMissing"} <= told


@pytest.mark.parametrize(("version", "weigh"), [("v1", shares), ("v2", weight)])
def test_parts_of_contested_cpus_match_kubelets_weights(version: str, weigh: Callable[[int], int]) -> None:
    page = (DOCS / "concepts" / "isolation.md").read_text()
    (requests,) = re.findall(r"^\| Burstable pods request together \| (.*) \|$", page, re.MULTILINE)
    (parts,) = re.findall(rf"^\| offline pods get, cgroup {version} \| (.*) \|$", page, re.MULTILINE)
    for request, part in zip(requests.split(" | "), parts.split(" | "), strict=True):
        exact = Decimal(100 * weigh(0)) / (weigh(0) + weigh(int(request.removesuffix("m"))))
        assert part == f"{exact:.1f} %"


def reported(name: str, report: OfflineReport, age: int) -> NodeReport:
    meta = labeled(aged(report, age))
    return node_report(name, meta["labels"], meta["annotations"], NOW)


def test_top_prints_what_the_page_shows() -> None:
    rows = [row_of(each) for each in (reported("n1", REPORT, 4), reported("n2", CALM, 7))]
    printed = render(listing_of([row for row in rows if row], BARS), Form.TABLE)
    _, _, block = PAGE.partition("    $ corewise top offline --once\n")
    assert [line.strip() for line in block.splitlines()[:4]] == printed.splitlines()
