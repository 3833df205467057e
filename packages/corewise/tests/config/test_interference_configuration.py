"""The section ``interference``: what users write, in base units; every problem at its line and field."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.config.interference.metrics import RANKED, Metric, Order, Preset
from corewise.config.interference.model import Decay, InterferenceConfiguration, LatencyModel, Profile
from corewise.config.interference.reading import parse_interference

DOCUMENT = """\
interference:
  overprovisioning: 2
  points: [10, 5, 1]
  window: 5m
  counterweight: {expiry: 6m, decay: linear}
  missing: {filter: pass, score: zero}
  typeLabel: app
  metrics: {preset: corewise}
  capacity: {memoryBandwidth: [{selector: {matchLabels: {cpu: big}}, value: 107GB/s}]}
  profiles:
    default: {}
    incept-no-leak:
      profile:  {memoryBandwidth: 5GB/s, memory: 0.2GB, cpu: 1, llc: 4MiB}
      affinity: {memorybandwidth: 60, memorylatency: 60, llc_occupancy: 0, llc_mpki: 0, cpu: 50}
"""


def good(section: str) -> InterferenceConfiguration:
    parsed = parse_interference(section)
    assert not parsed.errors
    assert parsed.value is not None
    return parsed.value


def errors(section: str) -> list[str]:
    parsed = parse_interference(section)
    assert parsed.value is None
    return [str(each) for each in parsed.errors]


def inside(line: str) -> str:
    return f"interference:\n  {line}\n"


def affinities(written: str) -> str:
    return inside(f"profiles: {{a: {{profile: {{cpu: 1}}, affinity: {{{written}}}}}}}")


ALL_BUT_CPU = "memorybandwidth: 1, memorylatency: 1, llc_occupancy: 1, llc_mpki: 1"


def test_the_designs_example_is_read_in_base_units() -> None:
    config = good(DOCUMENT)
    workload = config.profiles["incept-no-leak"]
    assert workload.profile == Profile(5 * 10**9, 2 * 10**8, 1000, 4 * 2**20)
    assert [workload.affinity[metric] for metric in RANKED] == [60, 60, 0, 0, 50]
    assert (config.overprovisioning, config.points, config.window) == (Fraction(2), (10.0, 5.0, 1.0), 300.0)
    assert (config.counterweight.expiry, config.counterweight.decay) == (360.0, Decay.LINEAR)
    assert config.missing_passes
    assert config.type_label == "app"
    assert config.metrics.preset is Preset.COREWISE
    assert config.capacity_by_rule({"cpu": "big"}) == 107 * 10**9
    assert config.capacity_by_rule({"cpu": "small"}) is None
    assert (workload.line, workload.column) == (12, 5)
    assert not parse_interference(DOCUMENT).warnings


def test_what_is_not_written_has_the_designs_defaults() -> None:
    assert good("interference: {}\n") == InterferenceConfiguration()
    assert good("interference:\n") == InterferenceConfiguration()


def test_a_file_without_the_section_configures_nothing() -> None:
    for text in ("", "scoring: MostAllocated\nrememberedDecisions: 10\nnormalizeCPUSet: true\n"):
        parsed = parse_interference(text)
        assert parsed.value is None
        assert not parsed.problems


def test_overprovisioning_is_exact() -> None:
    assert good(inside("overprovisioning: 1.1")).overprovisioning * 3 == Fraction(33, 10)


@pytest.mark.parametrize(
    ("written", "told"),
    [
        (f"{ALL_BUT_CPU}, cpu: 101", "affinity.cpu: 101 is outside 0..100"),
        (f"{ALL_BUT_CPU}, cpu: -1", "affinity.cpu: -1 is outside 0..100: 0 is no impact"),
        (f"{ALL_BUT_CPU}, cpu: 1.5", "affinity.cpu: 1.5 is not a whole number: write 2"),
        (f"{ALL_BUT_CPU}, cpu: '50'", 'affinity.cpu: "50" is text: write the number without quotes'),
        (f"{ALL_BUT_CPU}, cpu: high", 'affinity.cpu: "high" is not a number'),
        (f"{ALL_BUT_CPU}, cpus: 5", 'affinity.cpus: unknown key: did you mean "cpu"?'),
        (f"{ALL_BUT_CPU}, llc_ocupancy: 5", 'unknown key: did you mean "llc_occupancy"?'),
        (f"{ALL_BUT_CPU}, disk: 5", "unknown key: known here are memorybandwidth, memorylatency"),
    ],
)
def test_a_bad_affinity_is_told_with_its_field(written: str, told: str) -> None:
    (error,) = errors(affinities(written))
    assert error.startswith("line 2, column ")
    assert told in error


@pytest.mark.parametrize("nothing", ["", ", llc_mpki: ", ", memorylatency: null, llc_mpki: ~"])
def test_missing_affinity_counts_as_0_with_a_warning(nothing: str) -> None:
    parsed = parse_interference(affinities(f"memorybandwidth: 60, cpu: 50{nothing}"))
    assert parsed.value is not None
    assert [parsed.value.profiles["a"].affinity[metric] for metric in RANKED] == [60, 0, 0, 0, 50]
    (warning,) = parsed.warnings
    assert "memorylatency, llc_occupancy, llc_mpki missing: counts as 0" in warning.message
    assert warning.line == 2


@pytest.mark.parametrize(
    ("points", "told"),
    [
        ("[5, 10]", "points[1]: 10 is more than 5 before it: points must not increase"),
        ("[]", "points: no points"),
        ("[10, -1]", "points[1]: -1 is outside 0..10000"),
        ("[ten]", "points[0]: must be a number"),
        ("[null]", "points[0]: is empty: write a number, or remove the item"),
        ("[10, null, 1]", "points[1]: is empty"),
        ("quadratic", 'points: "quadratic" is not a known value: write "linear" or a list'),
        ("10", "points: must be a list"),
        ("{a: 1}", "points: must be a list"),
    ],
)
def test_bad_points_are_told(points: str, told: str) -> None:
    (error,) = errors(inside(f"points: {points}"))
    assert f"interference.{told}" in error


def test_points_may_be_equal_broken_or_linear() -> None:
    assert good(inside("points: [10, 10, 2.5, 0]")).points == (10.0, 10.0, 2.5, 0.0)
    assert good(inside("points: linear")).points is None


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("memoryBandwidth: 5 GB", '"5 GB" has the unit "GB": did you mean "GB/s"?'),
        ("memoryBandwidth: 5", "5 has no unit: write 5GB/s"),
        ("memoryBandwidth: '5'", '"5" has no unit: write 5GB/s'),
        ("memoryBandwidth: 5Gb/s", '"5Gb/s" has the unit "Gb/s": did you mean "GB/s"?'),
        ("memoryBandwidth: -5GB/s", '"-5GB/s" is outside 0..100TB/s'),
        ("memoryBandwidth: 5GB/s/s", 'has the unit "GB/s/s"'),
        ("memoryBandwidth: fast", "must be a number with its unit such as 5GB/s"),
        ("memoryBandwidth: true", "must be a number with its unit such as 5GB/s, not true"),
        ("memory: 0.2", "0.2 has no unit: write 0.2GB or 4MiB"),
        ("memory: 1Gi", '"1Gi" has the unit "Gi": did you mean "GiB"?'),
        ("llc: 4MB/s", '"4MB/s" has the unit "MB/s"'),
        ("cpu: two", 'must be CPUs such as 1, 0.5 or 500m, not "two"'),
        ("cpu: -1", "-1 is not in 0..100000 CPUs"),
        ("cpu: 0.0005", "0.0005 is not in 0..100000 CPUs, in steps of 1m"),
        ("llcc: 4MB", 'unknown key: did you mean "llc"?'),
    ],
)
def test_amount_with_missing_or_wrong_unit_is_reported(written: str, told: str) -> None:
    every = ", ".join(f"{metric}: 1" for metric in RANKED)
    (error,) = errors(inside(f"profiles: {{a: {{profile: {{{written}}}, affinity: {{{every}}}}}}}"))
    assert "interference.profiles.a.profile." in error
    assert told in error


def test_fraction_of_a_byte_rounds_up_like_kubernetes() -> None:
    config = good(inside("profiles: {default: {profile: {memory: 0.2GiB, llc: 0.3B}}}"))
    assert (config.default.memory, config.default.llc) == (214748365, 1)


@given(st.integers(0, 10**6), st.sampled_from(["", " "]))
def test_an_amount_is_read_exactly(thousandths: int, blank: str) -> None:
    written = f"{thousandths // 1000}.{thousandths % 1000:03d}{blank}"
    config = good(
        inside(f"profiles: {{default: {{profile: {{memoryBandwidth: {written}GB/s, memory: {written}kB}}}}}}")
    )
    assert config.default.memory_bandwidth == thousandths * 10**6
    assert config.default.memory == thousandths


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("overprovisioning: 0", "interference.overprovisioning: 0 makes every profile need nothing"),
        ("overprovisioning: -2", "interference.overprovisioning: -2 is outside 0..100"),
        ("overprovisioning: two", "interference.overprovisioning: must be a number in 0..100"),
        ("overprovisionning: 2", 'unknown key: did you mean "overprovisioning"?'),
        ("window: 5", "interference.window: 5 has no unit: write 30s or 5m"),
        ("window: 1s", 'interference.window: "1s" is outside 10s..24h'),
        ("counterweight: {expiry: 6min}", 'has the unit "min"'),
        ("counterweight: {decay: linaer}", '"linaer" is not a known value: did you mean "linear"?'),
        ("missing: {filter: maybe}", '"maybe" is not a known value: write pass or fail'),
        ("missing: {score: one}", '"one" is not a known value: write zero'),
        ("typeLabel: 'a b'", "interference.typeLabel: not a label key"),
        ("typeLabel: 5", "interference.typeLabel: must be a string"),
        ("relative: 1", "interference.relative: must be true or false"),
        ("latencyModel: curved", '"curved" is not a known value: did you mean "curve"?'),
        ("metrics: {preset: pmc}", '"pmc" is not a known value: did you mean "pcm"?'),
        ("metrics: {}", "interference.metrics: neither a preset"),
        ("metrics: {cpu: {unit: ratio}}", "interference.metrics.cpu: has no query"),
        ("metrics: {preset: pcm, cpu: {unit: GB/s}}", '"GB/s" is not a unit of this series'),
        ("metrics: {preset: pcm, cpu: {tolerance: 1}}", "1 has no unit: write 1%"),
        ("metrics: {preset: pcm, cpu: {tolerance: 60%}}", '"60%" is outside 0%..50%'),
        ("metrics: {preset: pcm, cpu_cores: {order: ascending}}", "unknown key"),
        ("metrics: {preset: pcm, memorybandwith: {query: x}}", 'did you mean "memorybandwidth"?'),
        (
            "capacity: {memoryBandwidth: [{value: 5GB/s}]}",
            "memoryBandwidth[0].selector: is missing: {} selects all",
        ),
        (
            "capacity: {memoryBandwidth: [{selector: {}}]}",
            "memoryBandwidth[0].value: is missing: write 107GB/s",
        ),
        ("capacity: {memoryBandwidth: [{selector: {}, value: 0}]}", "value: 0 is not a capacity"),
        ("profiles: {a: null}", "interference.profiles.a: is empty: write profile and affinity"),
        (
            "profiles: {a b: {profile: {}, affinity: {}}}",
            "no pod can have this as the value of its type label",
        ),
        ("profiles: [a]", "interference.profiles: must be an object"),
        (
            "profiles: {default: {profile: {memoryBandwidth: 1GB/s, memoryBandwidthPerCore: 1GB/s}}}",
            "memoryBandwidthPerCore: excludes memoryBandwidth",
        ),
    ],
)
def test_other_mistakes_name_line_field_and_allowed_values(line: str, told: str) -> None:
    found = [each for each in errors(inside(line)) if told in each]
    assert len(found) == 1
    assert found[0].startswith("line 2, column ")


def test_all_errors_are_reported_in_text_order() -> None:
    profiles = "profiles:\n    a: {profile: {cpu: x}, affinity: {cpu: 101}}"
    text = f"interference:\n  points: []\n  window: 5\n  {profiles}\n"
    found = errors(text)
    assert [each.split(":", 1)[0].split(",")[0] for each in found] == ["line 2", "line 3", "line 5", "line 5"]


def test_unknown_file_key_beside_section_is_an_error() -> None:
    (error,) = errors("interferance: {}\n")
    assert 'unknown key: did you mean "interference"?' in error


def test_duplicate_profile_names_are_reported_with_their_places() -> None:
    (error,) = errors("interference:\n  profiles:\n    a: {}\n    a: {}\n")
    assert error == "line 4, column 5: interference.profiles.a: the key is given twice, first in line 3"


def test_profile_that_no_capacity_holds_is_reported() -> None:
    parsed = parse_interference(DOCUMENT.replace("107GB/s", "10GB/s"))
    assert parsed.value is not None
    (warning,) = parsed.warnings
    assert (warning.line, warning.path) == (12, 'interference.profiles["incept-no-leak"]')
    assert "needs more than 10 GB/s" in warning.message
    assert not parse_interference(DOCUMENT.replace("107GB/s", "10.1GB/s")).warnings


def test_default_profile_that_no_capacity_holds_is_reported() -> None:
    rule = "capacity: {memoryBandwidth: [{selector: {}, value: 10GB/s}]}"
    default = "profiles: {default: {profile: {memoryBandwidth: 5GB/s}}}"
    (warning,) = parse_interference(f"interference:\n  {rule}\n  {default}\n").warnings
    assert (warning.line, warning.path) == (3, "interference.profiles.default")


def test_counterweight_ending_before_the_window_warns() -> None:
    (warning,) = parse_interference(inside("counterweight: {expiry: 1m}")).warnings
    assert "before the window of 300 s" in warning.message


def test_written_series_settings_override_the_preset() -> None:
    config = good(
        inside(
            "metrics: {preset: pcm, nodeLabel: host, memorylatency: {query: 'x', unit: ns, tolerance: 5%}}"
        )
    )
    series = config.metrics.series[Metric.MEMORY_LATENCY]
    assert (series.query, series.unit and series.unit.factor, config.metrics.node_label) == (
        "x",
        1e-9,
        "host",
    )
    ranking = config.metrics.rankings[Metric.MEMORY_LATENCY]
    assert (ranking.order, ranking.tolerance) == (Order.ASCENDING, 0.05)
    assert config.metrics.rankings[Metric.CPU].tolerance == 0.01


def test_relative_and_the_curve_are_asked_for() -> None:
    config = good("interference: {relative: true, latencyModel: curve}\n")
    assert config.relative
    assert config.latency_model is LatencyModel.CURVE


@pytest.mark.parametrize(
    ("section", "path", "said"),
    [
        ("metrics: {llc_capacity: {query: x}}", 'metrics["llc_capacity"]', "write relative: true to"),
        (
            "metrics: {memorylatency_idle: {query: x}}",
            'metrics["memorylatency_idle"]',
            "write relative: true or latencyModel: curve to",
        ),
        ("metrics: {memorylatency_idle: {query: x}}, latencyModel: curve", "", ""),
        ("metrics: {preset: corewise, llc_capacity: {query: x}}, relative: true", "", ""),
        ("metrics: {preset: corewise}, relative: true", "", ""),
        ("metrics: {preset: pcm}, relative: true", "relative", "llc_occupancy stays absolute"),
        ("metrics: {preset: pcm, llc_capacity: {query: x}}, relative: true", "", ""),
        (
            "metrics: {memorylatency: {query: x}}, relative: true",
            "relative",
            "nothing queries memorylatency_idle",
        ),
        ("metrics: {memorylatency: {query: x}}, relative: true, latencyModel: curve", "", ""),
    ],
)
def test_divisor_unread_or_without_a_query_warns(section: str, path: str, said: str) -> None:
    parsed = parse_interference(f"interference: {{{section}}}")
    assert not parsed.errors
    assert [each.path for each in parsed.warnings] == ([f"interference.{path}"] if path else [])
    assert all(said in each.message for each in parsed.warnings)


TAKES = "takes: {profile: {llc: 8MiB}, affinity: {cpu: 50}}"
MINDS = "minds: {profile: {cpu: 1}, affinity: {llc_mpki: 50}}"
DEFAULT_TAKES = "default: {profile: {llc: 8MiB}}"
MINDS_BY_DEFAULT = "default: {affinity: {llc_mpki: 50}}"


@pytest.mark.parametrize(
    ("metrics", "profiles", "warns"),
    [
        ("preset: pcm", (TAKES, MINDS), True),
        ("preset: pcm", (DEFAULT_TAKES, MINDS), True),
        ("preset: pcm", (TAKES, MINDS_BY_DEFAULT), False),  # pods without a profile are no neighbors
        ("preset: pcm", (TAKES,), False),
        ("preset: pcm", (MINDS,), False),
        ("preset: pcm", (), False),
        *((f"preset: {each}", (TAKES, MINDS), each is not Preset.COREWISE) for each in Preset),
        ("cpu: {query: x}", (TAKES, MINDS), True),
        ("preset: pcm, llc_capacity: {maximumAge: 1m}", (TAKES, MINDS), True),
        ("preset: pcm, llc_capacity: {query: x}", (TAKES, MINDS), False),
        ("llc_capacity: {query: x}", (TAKES, MINDS), False),
    ],
)
def test_uncounted_cache_of_neighbors_warns(metrics: str, profiles: tuple[str, ...], *, warns: bool) -> None:
    section = f"metrics: {{{metrics}}}, profiles: {{{', '.join(profiles)}}}"
    parsed = parse_interference(f"interference: {{{section}}}")
    assert not parsed.errors
    found = [each for each in parsed.warnings if "beside pods that need their cache" in each.message]
    assert [each.path for each in found] == ["interference.metrics"] * warns


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize(
    ("metrics", "corrected"),
    [
        ("preset: pcm", "preset: pcm, {}"),
        ("cpu: {query: x}", "cpu: {query: x}, {}"),
        ("preset: pcm, llc_capacity: null", "preset: pcm, {}"),
        ("preset: pcm, llc_capacity: {}", "preset: pcm, {}"),
        ("preset: pcm, llc_capacity: {maximumAge: 1m}", "preset: pcm, llc_capacity: {maximumAge: 1m, {}}"),
        ("preset: pcm, llc_capacity: {nodeLabel: node}", "preset: pcm, llc_capacity: {nodeLabel: node, {}}"),
        ("preset: pcm, llc_capacity: {query: , unit: B}", "preset: pcm, llc_capacity: {unit: B, {}}"),
    ],
)
def test_uncounted_cache_names_settings_that_end_it(metrics: str, corrected: str, *, relative: bool) -> None:
    """One warning says what to write, and it is gone once that is written."""
    section = f"relative: {str(relative).lower()}, profiles: {{{TAKES}, {MINDS}}}"
    parsed = parse_interference(f"interference: {{{section}, metrics: {{{metrics}}}}}")
    (told,) = [each.message for each in parsed.warnings if "llc_capacity" in each.message]
    added = told.partition("where corewise's agent runs, write ")[2].removeprefix("in llc_capacity: ")
    text = corrected[::-1].replace("}{", added[::-1], 1)[::-1]
    again = parse_interference(f"interference: {{{section}, metrics: {{{text}}}}}")
    assert again.value is not None, again.errors
    assert not [each for each in again.warnings if "llc_capacity" in each.message]
    assert again.value.metrics.series[Metric.LLC_CAPACITY].node_label == "node"


@pytest.mark.parametrize(
    "metrics",
    ["preset: corwise", "preset: [corewise]", "llc_capacity: {nodeLabel: node}", "llc_capacity: {query: ''}"],
)
def test_error_in_metrics_is_said_alone(metrics: str) -> None:
    parsed = parse_interference(f"interference: {{metrics: {{{metrics}}}, profiles: {{{TAKES}, {MINDS}}}}}")
    assert parsed.errors
    assert not [each for each in parsed.warnings if "llc_capacity" in each.message]


def test_neighbors_count_where_the_preset_is_unwritten() -> None:
    parsed = parse_interference(f"interference: {{profiles: {{{TAKES}, {MINDS}}}}}")
    assert not [each for each in parsed.warnings if "llc_capacity" in each.message]


@given(st.text(max_size=60))
def test_any_text_gives_configuration_or_errors_never_both(text: str) -> None:
    whole, section = parse_interference(text), parse_interference("interference: " + text)
    assert whole.value is None or not whole.errors
    assert (section.value is None) == bool(section.errors)


def test_profile_beyond_every_capacity_rule_warns_at_load() -> None:
    every = ", ".join(f"{metric}: 1" for metric in RANKED)
    text = (
        "interference:\n"
        "  capacity: {memoryBandwidth: [{selector: {}, value: 20GB/s}]}\n"
        f"  profiles: {{a: {{profile: {{memoryBandwidth: 10GB/s}}, affinity: {{{every}}}}}}}\n"
    )
    (warning,) = parse_interference(text).warnings
    assert (warning.line, warning.path) == (3, "interference.profiles.a")
    assert warning.message.startswith("fits no node that a capacity rule selects: it needs more than 20 GB/s")
    assert not parse_interference(text.replace("20GB/s", "20.1GB/s")).warnings


@pytest.mark.parametrize(
    ("selector", "told"),
    [
        ("{app: x}", "selector.app: unknown key: known here are matchLabels, matchExpressions"),
        ("{matchlabels: {app: x}}", 'unknown key: did you mean "matchLabels"?'),
        ("{matchExpressions: [{key: app, op: In, operator: Exists}]}", "unknown key"),
        ("{matchLabels: {app: ~}}", "not null"),
        ("5", "must be an object"),
    ],
)
def test_selector_with_a_typo_is_an_error(selector: str, told: str) -> None:
    every = ", ".join(f"{metric}: 1" for metric in RANKED)
    profile = f"profile: {{memoryBandwidth: 1GB/s}}, affinity: {{{every}}}"
    (of_pods,) = errors(inside(f"profiles: {{a: {{selector: {selector}, {profile}}}}}"))
    (of_nodes,) = errors(inside(f"capacity: {{memoryBandwidth: [{{selector: {selector}, value: 9GB/s}}]}}"))
    assert told in of_pods
    assert told in of_nodes


@pytest.mark.parametrize(
    ("selector", "warns"),
    [
        ("{matchLabels: {app: b}}", True),
        ("{matchExpressions: [{key: tier, operator: NotIn, values: [batch]}]}", True),
        ("{matchLabels: {app: a}}", False),
        ("{matchLabels: {tier: batch}}", False),
    ],
)
def test_selector_of_another_types_pods_warns(selector: str, warns: bool) -> None:
    every = ", ".join(f"{metric}: 1" for metric in RANKED)
    two = (
        f"{{a: {{selector: {selector}, affinity: {{{every}}}}}, b: {{profile: {{}}, affinity: {{{every}}}}}}}"
    )
    parsed = parse_interference(inside(f"profiles: {two}"))
    told = [str(each) for each in parsed.warnings if "fits no node (ProfileConflict)" in each.message]
    unasked = parse_interference(inside(f"profiles: {two.replace(': 1', ': 0')}")).warnings
    assert not any("fits no node" in each.message for each in unasked)
    assert ["interference.profiles.a: its selector takes in app=b" in each for each in told] == [True] * warns


@pytest.mark.parametrize(
    ("profiles", "warns"),
    [
        ("{a: {profile: {memoryBandwidth: 1GB/s}}}", True),
        ("{a: {profile: {memoryBandwidth: 2GB/s}}}", False),
        ("{a: {profile: {}, affinity: {cpu: 1}}}", False),
        ("{default: {profile: {}}}", False),
    ],
)
def test_types_that_are_never_asked_about_warn(profiles: str, warns: bool) -> None:
    parsed = parse_interference(inside(f"profiles: {profiles}"))
    found = [each for each in parsed.warnings if "kube-scheduler asks about no pod" in each.message]
    assert len(found) == warns


@pytest.mark.parametrize("selector", ["{}", "{matchLabels: {}}"])
def test_profile_that_selects_every_pod_warns(selector: str) -> None:
    every = ", ".join(f"{metric}: 1" for metric in RANKED)
    profile = f"profile: {{memoryBandwidth: 1GB/s}}, affinity: {{{every}}}"
    (warning,) = parse_interference(inside(f"profiles: {{a: {{selector: {selector}, {profile}}}}}")).warnings
    assert warning.message.startswith("selects every pod")
