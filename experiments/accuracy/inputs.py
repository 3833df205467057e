"""What the programs work on: made, not downloaded, and the same on every machine and in every Python."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

_VOCABULARY = 2000


def noise(name: str, count: int) -> bytes:
    """Return bytes without a pattern."""
    return hashlib.shake_128(name.encode()).digest(count)


def numbers(name: str, count: int, below: int) -> list[int]:
    """Return numbers without a pattern."""
    drawn = noise(name, 4 * count)
    return [int.from_bytes(drawn[at : at + 4], "little") % below for at in range(0, 4 * count, 4)]


@cache
def _vocabulary() -> Sequence[str]:
    letters = noise("vocabulary", 12 * _VOCABULARY)
    return [
        "".join(chr(97 + each % 26) for each in letters[12 * at : 12 * at + 2 + letters[12 * at] % 9])
        for at in range(_VOCABULARY)
    ]


def words(name: str, count: int) -> list[str]:
    """Return words, of which some are far more frequent than others."""
    first, second = (numbers(f"{name} {part}", count, _VOCABULARY) for part in (1, 2))
    return [_vocabulary()[a * b // _VOCABULARY] for a, b in zip(first, second, strict=True)]


def text(count: int) -> str:
    """Return lines of ten words."""
    every = words("text", count)
    return "\n".join(" ".join(every[at : at + 10]) for at in range(0, count, 10)) + "\n"


def records(count: int) -> list[dict[str, Any]]:
    """Return documents such as a service exchanges."""
    names, amounts = words("names", 4 * count), numbers("amounts", count, 100_000)
    return [
        {
            "id": at,
            "name": names[4 * at],
            "tags": names[4 * at + 1 : 4 * at + 4],
            "price": amounts[at] / 100,
            "stock": {"here": amounts[at] % 17, "ordered": amounts[at] % 5 == 0},
        }
        for at in range(count)
    ]


def xml(count: int) -> bytes:
    """Return :func:`records` as XML."""
    return "".join(
        [
            "<shop>",
            *(
                f'<item id="{each["id"]}"><name>{each["name"]}</name><price>{each["price"]}</price>'
                + "".join(f"<tag>{tag}</tag>" for tag in each["tags"])
                + "</item>"
                for each in records(count)
            ),
            "</shop>",
        ]
    ).encode()


def markdown(count: int) -> str:
    """Return a text with headings, lists, emphasis, links and code."""
    lines = text(10 * count).splitlines()
    forms = ("## {}", "- {}", "*{}*", "{} [there](#x)", "    {}", "{}", "> {}")
    return "\n\n".join(forms[at % len(forms)].format(line) for at, line in enumerate(lines))


def _functions(count: int) -> Iterator[tuple[str, int, int, int]]:
    every = numbers("functions", 3 * count, 97)
    for at in range(count):
        yield f"work{at}", every[3 * at] + 1, every[3 * at + 1] + 2, every[3 * at + 2]


def python_source(count: int) -> str:
    """Return a Python module of so many functions."""
    return "\n".join(
        f"def {name}(items, scale={a}):\n"
        f"    total = {c}\n"
        f"    for index, item in enumerate(items):\n"
        f"        if index % {b} == 0 and item > {c}:\n"
        f'            total += item * scale + len("{name}")\n'
        f"        elif item:\n"
        f"            total ^= index << {b % 7}\n"
        f'    return {{"total": total, "mean": total / (len(items) or 1)}}\n'
        for name, a, b, c in _functions(count)
    )


def c_source(count: int) -> str:
    """Return a C file of so many functions; it includes nothing."""
    return "\n".join(
        f"static long {name}(const long *items, long count) {{\n"
        f"  long total = {c};\n"
        f"  for (long index = 0; index < count; index++) {{\n"
        f"    if (index % {b} == 0 && items[index] > {c}) total += items[index] * {a};\n"
        f"    else if (items[index]) total ^= index << {b % 7};\n"
        f"    switch (total % {a % 5 + 3}) {{ case 0: total /= 3; break; case 1: total += {b}; break; }}\n"
        f"  }}\n"
        f"  return total;\n"
        f"}}\n"
        f"long call_{name}(const long *items, long count) {{ return {name}(items, count) + {b}; }}\n"
        for name, a, b, c in _functions(count)
    )
