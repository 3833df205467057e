"""config.data, from which the chart creates the ConfigMap: what is refused, and by which message.

The chart refuses nothing that ``corewise config check`` accepts.

| config.data | Helm |
|---|---|
| a key that corewise does not read | refused by the schema, which lists the keys |
| neither an object nor text | refused by the schema |
| text that is no JSON object | refused by the template: the key, and what is wrong |
| a member of the wrong type, a ratio below 1 | refused by the template: the path, and what to write |
| several faults | one message with all |
| what the programs accept | rendered, word for word |
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import helm_python
import pytest
import yaml

from corewise.config.json_text import Path as MemberPath
from corewise.config.json_text import path_text
from corewise.kube.objects import ConfigMap
from corewise.ratios.cluster import KEYS, read_configuration
from corewise.vocabulary.names import NORMALIZATION_KEY, OVERSUBSCRIPTION_KEY, SUPPRESSION_KEY
from tools import chart

MEMBERS = yaml.safe_load((chart.CHART / "files" / "config-members.yaml").read_text())
CONFIG_MAP = "corewise/templates/slo-controller-config.yaml"
WRONG: dict[str, list[Any]] = {
    "boolean": ["true", 1, {}],
    "text": [5, True, []],
    "number": ["5", False, {}],
    "ratio": ["1.5", True, 0.99, -1],
    "share": ["0.5", {}, -0.1, 1.1],
}
RIGHT: dict[str, Any] = {"boolean": True, "text": "x", "number": 5, "ratio": 1, "share": 0.5}


@pytest.fixture(scope="module")
def loaded() -> Iterator[helm_python.Chart]:
    with chart.staged() as folder, helm_python.Chart.load(folder) as loaded:
        yield loaded


def rendered(loaded: helm_python.Chart, data: dict[str, Any]) -> dict[str, str]:
    """Return the data of the ConfigMap that the chart creates."""
    made = yaml.safe_load(loaded.render({"config": {"data": data}})[CONFIG_MAP])
    return dict(made["data"])


def refusal(loaded: helm_python.Chart, data: dict[str, Any]) -> str:
    """Return the message by which the template refuses this."""
    with pytest.raises(helm_python.HelmRenderError) as refused:
        loaded.render({"config": {"data": data}})
    return str(refused.value)


def program_errors(key: str, text: str) -> list[str]:
    """Return the paths of the errors that the programs report."""
    return [each.path for each in read_configuration(ConfigMap(data={key: text})).errors(key)]


def wrong_values(form: Any, path: MemberPath = ()) -> Iterator[tuple[MemberPath, Any]]:
    """Yield each member that the chart checks, with values of wrong types."""
    if isinstance(form, dict):
        yield path, 5
        for name, inner in form.items():
            yield from wrong_values(inner, (*path, "x" if name == "*" else name))
    elif isinstance(form, list):
        yield path, {}
        yield from wrong_values(form[0], (*path, 0))
    else:
        for value in WRONG[form]:
            yield path, value


def right_value(form: Any) -> Any:
    if isinstance(form, dict):
        return {"x" if name == "*" else name: right_value(inner) for name, inner in form.items()}
    return [right_value(form[0])] if isinstance(form, list) else RIGHT[form]


def document(path: MemberPath, value: Any) -> Any:
    """Return a document with this value at the end of the path, and nothing else."""
    for step in reversed(path):
        value = [value] if isinstance(step, int) else {step: value}
    return value


def test_the_schema_lists_exactly_the_programs_keys() -> None:
    schema = json.loads((chart.CHART / "values.schema.json").read_text())
    data = schema["properties"]["config"]["properties"]["data"]
    assert set(data["properties"]) == set(data["propertyNames"]["enum"]) == set(MEMBERS) == set(KEYS)
    assert data["additionalProperties"] is False


def test_unknown_key_is_refused_with_the_known_ones(loaded: helm_python.Chart) -> None:
    with pytest.raises(helm_python.HelmValuesError) as refused:
        loaded.render({"config": {"data": {"cpu-normalisation-config": {}}}})
    message = str(refused.value)
    assert "at '/config/data': additional properties 'cpu-normalisation-config' not allowed" in message
    assert f"must be one of {', '.join(map(repr, KEYS))}" in message


@pytest.mark.parametrize(("value", "kind"), [(5, "number"), (True, "boolean"), ([], "array"), (None, "null")])
def test_a_value_of_another_type_is_refused(loaded: helm_python.Chart, value: Any, kind: str) -> None:
    with pytest.raises(helm_python.HelmValuesError) as refused:
        loaded.validate_schema({"config": {"data": {NORMALIZATION_KEY: value}}})
    assert f"at '/config/data/{NORMALIZATION_KEY}': got {kind}, want" in str(refused.value)


NO_OBJECT = [
    ("", "is empty: write an object {...}, or leave the key out"),
    ("  \n", "is empty: write an object {...}, or leave the key out"),
    ("{", "is not JSON: unexpected end of JSON input"),
    ('{"enable": true,}', "is not JSON: invalid character '}' looking for beginning of object key string"),
    ("{'enable': true}", "is not JSON: invalid character '\\'' looking for beginning of object key string"),
    ("enable: true", "is not JSON: invalid character 'e' looking for beginning of value"),
    ("{}, {}", "is not JSON: invalid character ',' after top-level value"),
    ('{}, "text": {}', "is not JSON: invalid character ',' after top-level value"),
    ("[]", "must be a JSON object {...}, not a list"),
    ("5", "must be a JSON object {...}, not 5"),
    ('"{}"', 'must be a JSON object {...}, not "{}"'),
]


@pytest.mark.parametrize("key", KEYS)
def test_text_that_is_no_json_object_is_refused(loaded: helm_python.Chart, key: str) -> None:
    for text, why in NO_OBJECT:
        message = refusal(loaded, {key: text})
        assert f"config.data cannot be used:\n  {key} {why}\n" in message
        assert "run: corewise config check FILE --key KEY" in message
        assert program_errors(key, text) or not text.strip(), "to the programs, a blank text is an absent key"


@pytest.mark.parametrize("key", KEYS)
def test_a_member_of_a_wrong_type_is_named(loaded: helm_python.Chart, key: str) -> None:
    for path, value in wrong_values(MEMBERS[key]):
        if path:
            text = json.dumps(document(path, value))
            assert f"\n  {key}.{path_text(path)} must be " in refusal(loaded, {key: text})
            assert path_text(path) in program_errors(key, text), f"the programs accept {text}"


@pytest.mark.parametrize(
    ("data", "path", "must"),
    [
        (
            {NORMALIZATION_KEY: {"ratioModel": {"Xeon": {"baseRatio": 0.9}}}},
            "cpu-normalization-config.ratioModel.Xeon.baseRatio",
            "at least 1.00, not 0.9",
        ),
        (
            {NORMALIZATION_KEY: {"defaultRatio": "1.5"}},
            "cpu-normalization-config.defaultRatio",
            'a number, without quotes, not "1.5" (--set makes text of it: use --set-json)',
        ),
        (
            {NORMALIZATION_KEY: {"nodeConfigs": [{"nodeSelector": {"matchLabels": {"fast": True}}}]}},
            "cpu-normalization-config.nodeConfigs[0].nodeSelector.matchLabels.fast",
            "text in quotes, not true",
        ),
        (
            {OVERSUBSCRIPTION_KEY: '{"ratio": 60}'},
            "oversubscription-config.ratio",
            "from 0.00 to 1.00, not 60",
        ),
        (
            {SUPPRESSION_KEY: {"enabled": "yes"}},
            "cpu-suppression-config.enabled",
            'true or false, without quotes, not "yes"',
        ),
    ],
)
def test_a_message_says_what_to_write(
    loaded: helm_python.Chart, data: dict[str, Any], path: str, must: str
) -> None:
    assert f"\n  {path} must be {must}\n" in refusal(loaded, data)


def test_one_message_has_all_faults(loaded: helm_python.Chart) -> None:
    data = {
        NORMALIZATION_KEY: {"enable": "true", "nodeConfigs": [{"defaultRatio": 0.5}, 7]},
        OVERSUBSCRIPTION_KEY: "[",
    }
    assert [line for line in refusal(loaded, data).splitlines() if line.startswith("  ")] == [
        '  cpu-normalization-config.enable must be true or false, without quotes, not "true"',
        "  cpu-normalization-config.nodeConfigs[0].defaultRatio must be at least 1.00, not 0.5",
        "  cpu-normalization-config.nodeConfigs[1] must be an object {...}, not 7",
        "  oversubscription-config is not JSON: unexpected end of JSON input",
    ]


@pytest.mark.parametrize("key", KEYS)
def test_right_types_are_rendered(loaded: helm_python.Chart, key: str) -> None:
    right = right_value(MEMBERS[key])
    assert json.loads(rendered(loaded, {key: right})[key]) == right
    text = json.dumps(right, indent=2)
    assert rendered(loaded, {key: text}) == {key: text}


ACCEPTED = [
    (NORMALIZATION_KEY, "{}"),
    (NORMALIZATION_KEY, "null"),
    (NORMALIZATION_KEY, ' {"enable": null, "nodeConfigs": null}\n'),
    (NORMALIZATION_KEY, '{"Error": "a member of this name", "text": 1}'),
    (NORMALIZATION_KEY, '{"later": {"enable": 5}}'),
    (SUPPRESSION_KEY, "cpuSuppression:\n  adjustStep: 0.1\n"),
    (SUPPRESSION_KEY, "\ncpuThrottlingConfig:\n  enable: true\n"),
]


@pytest.mark.parametrize(("key", "text"), ACCEPTED)
def test_what_the_programs_accept_is_rendered(loaded: helm_python.Chart, key: str, text: str) -> None:
    assert program_errors(key, text) == []
    assert rendered(loaded, {key: text}) == {key: text}


def test_what_helm_template_prints_can_be_checked(loaded: helm_python.Chart) -> None:
    """As docs/operate/install.md does: helm template ... | corewise config check -."""
    command = [sys.executable, "-m", "corewise", "config"]
    starter = subprocess.run([*command, "starter"], capture_output=True, text=True, check=True).stdout
    data = yaml.safe_load(starter)["data"]
    assert rendered(loaded, data) == data
    text = loaded.render({"config": {"data": data}})[CONFIG_MAP]
    printed = f"---\n# Source: {CONFIG_MAP}\n{text}"
    here = "--config-namespace", yaml.safe_load(text)["metadata"]["namespace"]
    check = subprocess.run(
        [*command, "check", "-", *here], input=printed, capture_output=True, text=True, check=True
    )
    assert f"{NORMALIZATION_KEY}: no problems\n" in check.stderr
