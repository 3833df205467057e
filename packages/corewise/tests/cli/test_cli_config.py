"""``corewise config check``: every error with its line and column in the file, and exit codes for scripts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from corewise.cli import corewise
from corewise.cli.errors import ExitCode, Failure
from corewise.config.key_texts import UndecidedKeyError, read_contents
from corewise.vocabulary.names import (
    AMPLIFICATION_KEY,
    LARGEST_RATIO,
    NORMALIZATION_KEY,
    OVERSUBSCRIPTION_KEY,
    SUPPRESSION_KEY,
)

GOOD = '{"enable": true, "ratioModel": {"Xeon": {"baseRatio": 1.5}}}'

BLOCK = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: slo-controller-config
data:
  cpu-normalization-config: |
    {
      "enabel": true,
      "ratioModel": {
        "Xeon": {"baseRatio": 0.99}
      }
    }
"""

Check = Callable[..., Result]


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Check:
    """Return a function that checks a text, as file ``f``."""
    monkeypatch.chdir(tmp_path)

    def run(text: str | bytes, *options: str) -> Result:
        (tmp_path / "f").write_bytes(text if isinstance(text, bytes) else text.encode())
        return CliRunner().invoke(corewise, ["config", "check", "f", *options])

    return run


def config_map(key: str, text: str, style: str | None = None) -> str:
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: slo-controller-config}\ndata:\n"
    value = yaml.dump({key: text}, default_style=style, width=30)
    return head + "".join(f"  {line}\n" for line in value.splitlines())


def test_errors_and_warnings_name_their_line_and_column(check: Check) -> None:
    result = check(BLOCK)
    warning, error = result.stdout.splitlines()
    assert warning == 'f:8:7: warning: enabel: unknown key: did you mean "enable"?'
    assert error == (
        'f:10:31: error: ratioModel["Xeon"].baseRatio: 0.99 is outside 1.00..5.00: '
        "the slowest CPU model is the baseline, with ratio 1.00"
    )
    assert result.stderr == "f: cpu-normalization-config: 1 error, 1 warning\n"
    assert result.exit_code == ExitCode.VERDICT


@pytest.mark.parametrize("style", ["|", ">", "'", '"'])
@pytest.mark.parametrize("indent", [None, 1])
def test_position_is_right_in_every_yaml_style(check: Check, style: str | None, indent: int | None) -> None:
    text = json.dumps({"enable": True, "ratioModel": {"Xeon é": {"baseRatio": 7.25}}}, indent=indent)
    source = config_map(NORMALIZATION_KEY, text, style)
    result = check(source)
    (line,) = result.stdout.splitlines()
    _, row, column, *_ = line.split(":")
    assert source.splitlines()[int(row) - 1][int(column) - 1 :].startswith("7.25")


def test_the_place_is_right_in_a_json_file(check: Check) -> None:
    document = {"kind": "List", "items": [{"kind": "Pod"}, yaml.safe_load(BLOCK)]}
    source = json.dumps(document, indent="\t")
    result = check(source)
    rows = [line.split(":") for line in result.stdout.splitlines()]
    starts = [source.splitlines()[int(row) - 1][int(column) - 1 :] for _, row, column, *_ in rows]
    assert starts[0].startswith('\\"enabel')
    assert starts[1].startswith("0.99")


def test_all_documents_and_all_keys_are_checked(check: Check) -> None:
    source = "---\n".join(
        [
            BLOCK,
            "kind: Deployment\n",
            config_map(AMPLIFICATION_KEY, '{"resourceAmplificationRatio": {"cpu": 11}}'),
        ]
    )
    result = check(source)
    assert "0.99 is outside" in result.stdout
    beyond = "11 is outside 1.00..10.00: the largest is the manager's --largest-amplification"
    assert f"resourceAmplificationRatio.cpu: {beyond}" in result.stdout
    assert "0.99" not in check(source, "--key", AMPLIFICATION_KEY).stdout
    assert check(source, "--key", AMPLIFICATION_KEY, "--largest-amplification", "20").exit_code == 0


def test_good_configuration_is_silent_and_exits_0(check: Check) -> None:
    result = check(config_map(NORMALIZATION_KEY, GOOD))
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "f: cpu-normalization-config: no problems\n"


def test_warnings_alone_are_printed_and_exit_0(check: Check) -> None:
    result = check('{"defaultRatio": 1.2, "colour": "red"}')
    assert result.exit_code == 0
    assert result.stdout == "f:1:23: warning: colour: unknown key\n"


def test_json_output_holds_every_problem(check: Check) -> None:
    result = check(BLOCK, "-o", "json")
    document = json.loads(result.stdout)
    assert document["keys"] == [NORMALIZATION_KEY]
    assert (document["errors"], document["warnings"]) == (1, 1)
    problem = document["problems"][1]
    assert problem.pop("message").startswith("0.99 is outside")
    assert problem == {
        "severity": "error",
        "key": NORMALIZATION_KEY,
        "line": 10,
        "column": 31,
        "path": 'ratioModel["Xeon"].baseRatio',
    }
    assert result.exit_code == ExitCode.VERDICT


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('{"ratioModel": {}}', NORMALIZATION_KEY),
        ('{"defaultRatio": 1}', NORMALIZATION_KEY),
        ('{"amplifyCapacity": true}', AMPLIFICATION_KEY),
        ('{"nodeConfigs": [{"nodeSelector": {}, "ratioModel": {}}]}', NORMALIZATION_KEY),
        ('{"ratio": 0.5}', OVERSUBSCRIPTION_KEY),
        ('{"nodeConfigs": [{"nodeSelector": {}, "intervalSeconds": 5}]}', OVERSUBSCRIPTION_KEY),
        ('{"enabled": false}', SUPPRESSION_KEY),
        ('{"nodeConfigs": [{"nodeSelector": {}, "adjustPodNum": 5}]}', SUPPRESSION_KEY),
    ],
)
def test_json_of_one_key_is_recognized_by_members(check: Check, text: str, key: str) -> None:
    assert json.loads(check(text, "-o", "json").stdout)["keys"] == [key]


@pytest.mark.parametrize(
    ("key", "text", "line"),
    [
        (OVERSUBSCRIPTION_KEY, '{"ratio": 1.2}', "f:1:11: error: ratio: 1.2 is outside 0.00..1.00"),
        (
            SUPPRESSION_KEY,
            '{"mode": "per-pod-quota", "lowThreshold": 0.9}',
            (
                "f:1:43: error: lowThreshold: 0.90 must be below highThreshold (0.80, not written here): "
                "thresholds rise, recoverThreshold < lowThreshold < highThreshold"
            ),
        ),
    ],
)
def test_the_keys_of_colocation_are_checked_too(check: Check, key: str, text: str, line: str) -> None:
    result = check(text, "--key", key)
    assert (result.exit_code, result.stdout) == (ExitCode.VERDICT, f"{line}\n")
    in_config_map = check(config_map(key, text))
    assert line.partition("error")[2] in in_config_map.stdout
    assert in_config_map.stderr == f"f: {key}: 1 error, 0 warnings\n"


def test_suppression_entries_selecting_the_same_node_fail(check: Check, tmp_path: Path) -> None:
    (tmp_path / "nodes.json").write_text(json.dumps({"items": [node("n1", a="1", b="1")]}))
    text = TWO_ENTRIES.replace("defaultRatio", "adjustStep").replace("1.2", "0.2")
    assert "selects node n1" in check(text, "--nodes", "nodes.json").stdout


def test_misspelled_only_key_of_schedulers_file_is_named(check: Check) -> None:
    result = check("normalizeCpuset: true\n")
    assert result.exit_code == ExitCode.VERDICT
    assert result.stdout == 'f:1:1: error: normalizeCpuset: unknown key: did you mean "normalizeCPUSet"?\n'


def test_the_schedulers_file_is_checked_too(check: Check) -> None:
    answer = check("scoring: MostAllocated\nnormalizeCPUSet: true\n")
    assert (answer.exit_code, answer.stdout) == (0, "")
    assert answer.stderr.endswith(": scoring, normalizeCPUSet: no problems\n")
    answer = check("rememberedDecisions: 10\nnormalizeCPUSet: 'yes'\n")
    assert answer.exit_code == 1
    assert ":2:18: error: normalizeCPUSet: must be true or false, without quotes" in answer.stdout


def test_schedulers_file_that_counts_no_neighbors_warns(check: Check) -> None:
    takes = "a: {profile: {llc: 1MiB}, affinity: {llc_mpki: 50}}"
    answer = check(f"interference: {{metrics: {{preset: pcm}}, profiles: {{{takes}}}}}\n")
    assert answer.exit_code == 0
    assert ": warning: interference.metrics: nothing queries llc_capacity: scores do not" in answer.stdout


def test_ambiguous_json_asks_for_the_key(check: Check) -> None:
    result = check('{"enable": 1}')
    assert isinstance(result.exception, Failure)
    assert result.exception.exit_code == ExitCode.USAGE
    assert "--key" in result.exception.hint
    result = check('{"enable": 1}', "--key", AMPLIFICATION_KEY)
    assert result.stdout == "f:1:12: error: enable: must be true or false, without quotes, not 1\n"


def test_stdin_is_read_for_a_dash() -> None:
    result = CliRunner().invoke(corewise, ["config", "check", "-"], input=BLOCK)
    assert result.stdout.startswith("<stdin>:8:7: warning:")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("kind: ConfigMap\ndata:\n\tx: 1\n", "f:3:1: error: not YAML: "),
        ("kind: \x01\n", "f:1:7: error: not YAML: control characters are not allowed"),
        ('{"kind": "ConfigMap", "data": {"x": 1,}}', "f:1:38: error: data: no ',' is allowed before '}'"),
        (
            "kind: ConfigMap\ndata:\n  cpu-normalization-config: {enable: true}\n",
            "f:3:29: error: cpu-normalization-config must be text that holds JSON: write it as a block, |",
        ),
        (
            "kind: ConfigMap\ndata:\n  cpu-normalization-config: '{}'\n  cpu-normalization-config: '{}'\n",
            "f:4:3: error: the key cpu-normalization-config is given twice",
        ),
        (
            "kind: ConfigMap\ndata:\n  cpu-normalisation-config: '{}'\n",
            'f:3:3: warning: key cpu-normalisation-config is unknown to corewise: did you mean "cpu-norm',
        ),
        (
            "kind: ConfigMap\nmetadata: {name: other}\ndata:\n  cpu-normalization-config: '{}'\n",
            "f:2:18: warning: corewise reads the ConfigMap slo-controller-config, not this one",
        ),
        (
            (
                "kind: ConfigMap\nmetadata: {name: slo-controller-config, namespace: own}\n"
                "data:\n  cpu-normalization-config: '{}'\n"
            ),
            "f:2:52: warning: the ConfigMap is read in namespace corewise-system (--config-namespace)",
        ),
        (
            "kind: ConfigMap\ndata:\n  cpu-normalization-config: ''\n",
            "f:3:30: error: there is no JSON here: write an object, {...}",
        ),
    ],
)
def test_problems_of_the_file_itself_are_reported_too(check: Check, text: str, line: str) -> None:
    result = check(text)
    assert line in result.stdout
    assert result.exit_code == (ExitCode.VERDICT if "error" in line else 0)


@pytest.mark.parametrize("text", ["", "kind: Pod\n", "kind: ConfigMap\ndata: {a: b}\n", "[]", "- 1\n", "x"])
def test_a_file_without_configuration_is_bad_input(check: Check, text: str) -> None:
    result = check(text)
    assert isinstance(result.exception, Failure)
    assert result.exception.exit_code == ExitCode.BAD_INPUT
    assert "f holds no configuration of corewise" in str(result.exception)


def test_unreadable_file_is_bad_input(check: Check) -> None:
    result = check(b"\xff\xfe")
    assert isinstance(result.exception, Failure)
    assert "not UTF-8" in str(result.exception)
    result = CliRunner().invoke(corewise, ["config", "check", "absent"])
    assert isinstance(result.exception, Failure)
    assert result.exception.exit_code == ExitCode.BAD_INPUT
    assert "absent cannot be read" in str(result.exception)


def test_a_wrong_call_exits_2() -> None:
    for arguments in ([], ["f", "--key", "x"], ["f", "-o", "csv"], ["f", "--largest-amplification", "1,5"]):
        assert CliRunner().invoke(corewise, ["config", "check", *arguments]).exit_code == ExitCode.USAGE


def node(name: str, **labels: str) -> dict[str, Any]:
    return {"kind": "Node", "metadata": {"name": name, "labels": labels or None}}


TWO_ENTRIES = """{"defaultRatio": 1.2, "nodeConfigs": [
  {"nodeSelector": {"matchLabels": {"a": "1"}}},
  {"nodeSelector": {"matchLabels": {"b": "1"}}}]}"""


def test_two_entries_selecting_one_dumped_node_fail(check: Check, tmp_path: Path) -> None:
    dump = tmp_path / "nodes.json"
    dump.write_text(
        json.dumps({"items": [node("n1"), node("n2", a="1", b="1"), {**node("p"), "kind": "Pod"}]})
    )
    result = check(TWO_ENTRIES, "--nodes", str(dump))
    assert result.stdout.startswith("f:3:3: error: nodeConfigs[1]: selects node n2, as nodeConfigs[0] does")
    assert result.exit_code == ExitCode.VERDICT
    dump.write_text(json.dumps({"items": [node("n2", a="1")]}))
    assert check(TWO_ENTRIES, "--nodes", str(dump)).exit_code == 0


@pytest.mark.parametrize(
    ("stated", "code"), [("20.00", 0), ("?", ExitCode.VERDICT), (None, ExitCode.VERDICT)]
)
def test_a_dump_states_the_largest_ratio(check: Check, tmp_path: Path, stated: str | None, code: int) -> None:
    annotations = {} if stated is None else {LARGEST_RATIO: stated}
    webhooks = {"kind": "MutatingWebhookConfiguration", "metadata": {"name": "w", "annotations": annotations}}
    (tmp_path / "dump.json").write_text(json.dumps({"items": [node("n1"), webhooks]}))
    text = config_map(AMPLIFICATION_KEY, '{"enable": true, "resourceAmplificationRatio": {"cpu": 15}}')
    assert check(text, "--nodes", "dump.json").exit_code == code


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"items": [{}]}', '{"items": [{"metadata": {"name": 1}}]}']
)
def test_dump_that_is_no_node_list_is_refused(check: Check, tmp_path: Path, text: str) -> None:
    (tmp_path / "nodes.json").write_text(text)
    result = check(TWO_ENTRIES, "--nodes", "nodes.json")
    assert isinstance(result.exception, Failure)
    assert "kubectl get nodes,noderesourcetopologies -o json" in result.exception.hint


trees = st.recursive(
    st.sampled_from(["ConfigMap", "List", GOOD, BLOCK, NORMALIZATION_KEY, "\u2028", 1, None]),
    lambda each: (
        st.lists(each, max_size=3)
        | st.dictionaries(st.sampled_from(["kind", "data", "items", NORMALIZATION_KEY, "metadata"]), each)
    ),
    max_leaves=20,
)


@given(
    st.text()
    | st.text(alphabet="{}[]\"':|>-&*!# \n\tkindata1", max_size=40)
    | trees.map(lambda tree: yaml.dump(tree, width=20))
    | trees.map(json.dumps)
    | st.builds(lambda text, cut: text[:cut], st.just(BLOCK), st.integers(0, len(BLOCK)))
)
def test_any_text_can_be_looked_through(text: str) -> None:
    try:
        contents = read_contents(text, None)
    except UndecidedKeyError:
        return
    for key in contents.keys:
        assert len(key.places) == len(key.text) + 1


@pytest.mark.parametrize(
    ("member", "key"),
    [
        ("ratioModel", NORMALIZATION_KEY),
        ("defaultRatio", NORMALIZATION_KEY),
        ("resourceAmplificationRatio", AMPLIFICATION_KEY),
        ("amplifyCapacity", AMPLIFICATION_KEY),
        ("ratio", OVERSUBSCRIPTION_KEY),
        ("enabled", SUPPRESSION_KEY),
        ("highThreshold", SUPPRESSION_KEY),
    ],
)
def test_member_of_only_one_key_identifies_that_key(member: str, key: str) -> None:
    for text in (f'{{"{member}": null}}', f'{{"nodeConfigs": [{{"{member}": null}}]}}'):
        assert [found.key for found in read_contents(text, None).keys] == [key]


@pytest.mark.parametrize(
    "text",
    [
        "# copied\ncpuSuppression:\n  adjustStep: 1.5\n",
        "\ncpuThrottlingConfig:\n  enable: 1.5\n",
        '{"cpuSuppression":\n\n  {"adjustStep": 1.5}}',
    ],
)
@pytest.mark.parametrize("options", [(), ("--key", SUPPRESSION_KEY)])
def test_block_of_suppression_alone_is_checked(check: Check, text: str, options: tuple[str, ...]) -> None:
    result = check(text, *options)
    assert "f:3:" in result.stdout
    assert "error: cpu" in result.stdout
    assert result.exit_code == ExitCode.VERDICT


def test_member_of_two_keys_leaves_the_key_open() -> None:
    with pytest.raises(UndecidedKeyError):
        read_contents('{"enable": true}', None)


def test_a_document_that_contains_itself_is_looked_through() -> None:
    contents = read_contents(
        "&a {kind: ConfigMap, items: [*a], data: &d {cpu-normalization-config: *d}}", None
    )
    assert contents.keys == []
    deep = read_contents("kind: ConfigMap\ndata: " + "[" * 400 + "]" * 400, None)
    assert deep.keys == []
