"""The pages of docs/benchmarks, with the tables that are made of data.

A page has a place for each between two marks (``<!-- engine -->``). ``make bench`` and ``make generate`` fill
them: the one after it has measured, the other from the files as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tools.bench import compared
from tools.bench.comparing import amount, quartiles
from tools.bench.headlines import HEADLINES
from tools.bench.records import DATA, ROOT, Record, read
from tools.bench.table import markdown


def pages() -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each page."""
    tables = {path.stem: shown(read(path.stem)) for path in sorted(DATA.glob("*.json"))}
    tables["compared"] = compared.table()
    for path in sorted(DATA.parent.glob("*.md")):
        yield str(path.relative_to(ROOT)), filled(path.read_text(), tables)


def filled(page: str, tables: Mapping[str, str]) -> str:
    """Return a page with each table between its marks, where the page has them."""
    for name, table in tables.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        if begin in page:
            before, rest = page.split(begin)
            page = f"{before}{begin}{table}\n{end}{rest.split(end)[1]}"
    return page


def shown(result: Record) -> str:
    """Return the table of a result, and what it was measured by."""
    found = headlines(result.samples) if result.samples else markdown(list(result.rows))
    return f"{found}\n\n{result.caption}"


def headlines(samples: Mapping[str, Sequence[float]]) -> str:
    """Return the table of the headline figures: medians with quartiles."""
    lines = ["| figure | what it is | median (quartiles) | why it counts |", "|---|---|---|---|"]
    for each in HEADLINES:
        spread = quartiles(samples[each.name])
        value, low, high = map(amount, (spread.value, spread.low, spread.high))
        lines.append(f"| {each.name} | {each.what} | {value} {each.unit} ({low} to {high}) | {each.reason} |")
    return "\n".join(lines)
