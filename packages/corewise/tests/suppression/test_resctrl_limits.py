"""Masks and bandwidths from percentages, for every machine that the kernel may describe."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.config.colocation import ResctrlSettings
from corewise.kernel.resctrl import AllocationInfo
from corewise.suppression.resctrl_limits import (
    bandwidth_limit,
    cache_mask,
    parse_schemata,
    plan_limits,
    print_line,
)
from corewise.vocabulary.reasons import Reason
from kernel.resctrl_kernel import LARGEST_ON_AMD, ResctrlKernel

MASKS = {
    # ways, fewest, usable, start, end -> mask
    (20, 1, 0xFFFFF, 0, 30): 0x3F,
    (11, 1, 0x7FF, 30, 60): 0x70,
    (11, 2, 0x7FF, 0, 1): 0x3,
    (11, 2, 0x7FF, 99, 100): 0x600,
    (20, 1, 0xFFFF0, 0, 30): 0x30,
    (20, 4, 0xFFFF0, 0, 30): 0xF0,
    (20, 1, 0xF0000, 0, 30): None,
    (20, 2, 0x1, 0, 30): None,
}


@pytest.mark.parametrize(("machine", "mask"), MASKS.items())
def test_a_range_becomes_ways_within_what_is_usable(
    machine: tuple[int, int, int, int, int], mask: int | None
) -> None:
    ways, fewest, usable, start, end = machine
    assert cache_mask((1 << ways) - 1, usable, fewest, start, end) == mask


@pytest.mark.parametrize(
    ("largest", "smallest", "step", "percent", "value"),
    [(100, 10, 10, 25, 30), (100, 10, 10, 1, 10), (2048, 1, 1, 25, 512), (2048, 1, 1, 1, 21)],
)
def test_bandwidth_percentage_is_one_the_kernel_accepts(
    largest: int, smallest: int, step: int, percent: int, value: int
) -> None:
    assert bandwidth_limit(largest, smallest, step, percent) == value


@st.composite
def kernels(draw: st.DrawFn) -> ResctrlKernel:
    ways = draw(st.integers(1, 32))
    bandwidth = draw(st.sampled_from([(100, 10, 10), (100, 5, 5), (LARGEST_ON_AMD, 1, 1), None]))
    kernel = ResctrlKernel(
        ways=ways,
        fewest=draw(st.integers(1, min(4, ways))),
        caches=draw(st.sampled_from([("L3",), ("L3CODE", "L3DATA"), ()])),
        bandwidth=bandwidth,
        domains=draw(st.sampled_from([(0,), (0, 1), (1, 8)])),
    )
    for cache in kernel.domains:
        kernel.taken[cache] = (1 << draw(st.integers(0, ways - kernel.fewest))) - 1
    return kernel


@st.composite
def wanted(draw: st.DrawFn) -> ResctrlSettings:
    start = draw(st.integers(0, 99))
    return ResctrlSettings(
        enabled=True,
        cat_start=start,
        cat_end=draw(st.integers(start + 1, 100)),
        mba=draw(st.integers(1, 100)),
    )


@given(kernels(), wanted())
def test_kernel_accepts_planned_limits_without_rounding(
    kernel: ResctrlKernel, settings: ResctrlSettings
) -> None:
    """Every planned line is taken without rounding, and what cannot be limited has a reason."""
    kernel.write("g", "directory", "made")
    info = kernel.allocation()
    assert isinstance(info, AllocationInfo)
    plan = plan_limits(settings, info.caches, info.bandwidth, parse_schemata(kernel.read("g", "schemata")))
    for resource, values in plan.schemata.items():
        kernel.write("g", "schemata", print_line(resource, values))
        assert parse_schemata(kernel.read("g", "schemata"))[resource].items() >= values.items()
    assert settings.limits_cache <= (plan.schemata.keys() - {"MB"} != set() or bool(plan.lacking))
    assert settings.limits_bandwidth <= ("MB" in plan.schemata or Reason.RESCTRL_MBA_MISSING in plan.lacking)


def test_parser_accepts_padded_schemata_and_skips_other_resources() -> None:
    text = "    MB:0= 100;1=  90\n    L3:0=fffff;1=7ff\nL2:0=ff\nSMBA:0=2048\n"
    assert parse_schemata(text) == {"MB": {0: 100, 1: 90}, "L3": {0: 0xFFFFF, 1: 0x7FF}}
    with pytest.raises(ValueError, match="not a line of schemata"):
        parse_schemata("L3:0")


def test_bandwidth_in_megabytes_a_second_has_no_percentage() -> None:
    plan = plan_limits(ResctrlSettings(True, 0, 100, 20), {}, (1, 1), {"MB": {0: (1 << 32) - 1}})
    assert not plan.schemata
    assert list(plan.lacking) == [Reason.RESCTRL_MBPS]
