"""What the documents written by hand say exists, exists: names, links, files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from corewise.vocabulary.foreign_names import FOREIGN_NAMES
from corewise.vocabulary.metrics import METRICS
from corewise.vocabulary.names import TABLE
from corewise.vocabulary.reasons import Reason
from tools.site import LONGEST

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("deploy/*.md")],
    key=lambda path: path.as_posix(),
)
TEST = re.compile(r"`((?:packages/[\w-]+/)?tests/[\w/]+\.py)::(\w+)")
LINK = re.compile(r"\]\((?!https?://)([^)\s]*)\)")
OUR_NAME = re.compile(r"\b(?:node|scheduling|kubelet|local)\.(?:koordinator\.sh|corewise\.io)/([a-z-]+)")
METRIC = re.compile(r"\bcorewise_(?!lab\b|openstack\b)[a-z_]+")
HELM = re.compile(r"^ *(helm (?:install|upgrade) corewise .*)", re.MULTILINE)
VERDICT = re.compile(r"`([A-Z][A-Za-z]+(?:Invalid|Missing|Refused|HeldBack|Unknown|Undone|Unusable))`")


def anchor(heading: str) -> str:
    """Return the anchor that forges give a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(document: Path) -> set[str]:
    return {anchor(heading) for heading in re.findall(r"^#+ (.*)$", document.read_text(), re.MULTILINE)}


def ids(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("document", DOCUMENTS, ids=ids)
def test_every_link_leads_somewhere(document: Path) -> None:
    for link in LINK.findall(document.read_text()):
        path, _, fragment = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        assert target.exists(), link
        assert not fragment or fragment in anchors(target), link


@pytest.mark.parametrize("document", DOCUMENTS, ids=ids)
def test_no_page_exceeds_the_word_limit(document: Path) -> None:
    text = document.read_text()
    # a changelog grows with each version, and is read version by version
    parts = text.split("\n## [") if document.name == "CHANGELOG.md" else [text]
    assert max(len(part.split()) for part in parts) <= LONGEST


@pytest.mark.parametrize("document", DOCUMENTS, ids=ids)
def test_every_name_is_one_that_the_code_knows(document: Path) -> None:
    text = document.read_text()
    known = {row.name for row in TABLE} | {"node.corewise.io/measured-ratio"}  # a tutorial's first change
    if document.name.startswith("coming-from-"):
        known |= {found[0] for each in FOREIGN_NAMES for found in OUR_NAME.finditer(each.name)}
    assert {found[0] for found in OUR_NAME.finditer(text)} <= known
    assert set(METRIC.findall(text)) <= {metric.name for metric in METRICS}
    assert set(VERDICT.findall(text)) <= set(Reason)


@pytest.mark.parametrize("document", DOCUMENTS, ids=ids)
def test_a_helm_command_can_be_pasted(document: Path) -> None:
    for command in HELM.findall(document.read_text()):
        assert ".tgz -n corewise-system" in command, "the packed chart, and the namespace"
        assert " --reuse-values" not in command, "it leaves values empty that are new"


@pytest.mark.parametrize("document", DOCUMENTS, ids=ids)
def test_every_test_that_a_document_names_exists(document: Path) -> None:
    for path, name in TEST.findall(document.read_text()):
        assert re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text(), re.MULTILINE), (
            f"{path}::{name}"
        )


def test_threat_model_has_rows_for_each_pod_name() -> None:
    text = (ROOT / "docs/operate/tenant-annotations.md").read_text()
    rows = [row.name for row in TABLE if "Pod" in row.on]
    assert [name for name in rows if f"`{name}`" not in text] == []
