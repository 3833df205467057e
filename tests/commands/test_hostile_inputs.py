"""Texts that are made to end a program: every reader refuses them with its own error.

A text may be nested too deep (libyaml overflows the stack, which no test survives; the decoder of JSON and
Python raise RecursionError), may not be UTF-8, may hold a number that fits nowhere, or may say in ten lines
what takes all memory.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from corewise.agent.kubelet import parse_config, parse_state
from corewise.cli import corewise
from corewise.cli.errors import ExitCode, Failure
from corewise.kube.admission import decode_review
from corewise.kube.errors import DecodeError
from corewise.manager.node_status_webhook import stored_times
from corewise.normalization.calibration import decoded as calibrations
from corewise.ratios.nodes import view_of
from corewise.vocabulary.errors import UNREADABLE
from corewise.vocabulary.names import CPU_BASIC_INFO, MACHINE_RAW_CAPACITY, RAW_CAPACITY
from corewise.workload.nodes import Node
from corewise_lab.dump import load_dump
from corewise_lab.plan import InputError
from corewise_lab.plan_inputs import plan_from_dump
from corewise_openstack.compute.errors import FileUnusable
from corewise_openstack.compute.guest_files import parse_guests, parse_provider
from kubedouble.bodies import decode_json, decode_yaml
from kubedouble.errors import StatusError

DEPTH = 100_000
LAUGHS = "a0: &a0 [x]\n" + "".join(
    f"a{line}: &a{line} [{', '.join([f'*a{line - 1}'] * 10)}]\n" for line in range(1, 12)
)
YAML = {
    "lists": "[" * DEPTH,
    "block lists": "- " * DEPTH,
    "mappings": "{a: " * DEPTH,
    "ten lines of ten aliases": LAUGHS,
    "a list in itself": "&a [*a]",
    "a mapping in itself": "&a {kind: ConfigMap, data: *a, nodes: *a, items: *a}",
    "a number of no end": "a: " + "9" * 10_000,
    "not UTF-8": b"\xff\xfe\xfd",
}


@pytest.mark.parametrize(
    "arguments",
    [
        ["config", "check"],
        ["scheduler", "--config"],
        ["up", "--for", "1s", "--scenario"],
        ["nodes", "--kubeconfig"],
        ["plan", "--from-openb", "{file}", "{file}", "--policy"],
        ["plan", "--from"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("text", YAML.values(), ids=YAML)
def test_command_says_what_is_wrong_with_its_file(
    arguments: list[str], text: str | bytes, tmp_path: Path
) -> None:
    file = tmp_path / "hostile.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    told = CliRunner().invoke(corewise, [*(each.format(file=file) for each in arguments), str(file)])
    assert isinstance(told.exception, Failure | SystemExit), told.exception
    assert isinstance(told.exception, Failure) or told.exit_code == ExitCode.VERDICT


@pytest.mark.parametrize(
    "arguments",
    [
        ["plan", "--from"],
        ["up", "--for", "1s", "--from"],
        ["calibrate", "--model"],
        ["config", "check", "{file}", "--nodes"],
        ["explain", "suppression", "n1", "--from"],
    ],
    ids=" ".join,
)
def test_command_reports_json_that_is_nested_too_deep(arguments: list[str], tmp_path: Path) -> None:
    file, config = tmp_path / "deep.json", tmp_path / "config.json"
    file.write_text('{"deep":' * DEPTH)
    config.write_text('{"ratioModel": {}}')
    told = CliRunner().invoke(corewise, [*(each.format(file=config) for each in arguments), str(file)])
    assert isinstance(told.exception, Failure), told.exception
    assert "nested too deep" in str(told.exception)


@pytest.mark.parametrize("text", YAML.values(), ids=YAML)
def test_kubelet_configuration_is_read_or_raises_valueerror(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"[a-z]"):
        parse_config(text if isinstance(text, bytes) else text.encode())


def _node(condition: dict[str, bytes]) -> msgspec.Raw:
    members = b",".join(b'"%s":%s' % (key.encode(), value) for key, value in condition.items())
    return msgspec.Raw(b'{"metadata":{},"spec":{},"status":{"conditions":[{' + members + b"}]}}")


def _heartbeat(member: str) -> Callable[[bytes], Any]:
    """Return a kubelet's write whose condition has some value in one member, beside what is stored."""

    def read(value: bytes) -> Any:
        fields = {"type": b'"Ready"', "lastHeartbeatTime": b'"2025-01-01T00:00:00Z"', "reason": b'"x"'}
        return stored_times(_node({**fields, member: value}), _node(fields))

    return read


def _reported_capacity(text: bytes) -> Any:
    node = msgspec.convert({"metadata": {"name": "n"}}, Node)
    annotations = {MACHINE_RAW_CAPACITY: text.decode(errors="replace")}
    return view_of(node, annotations, tuple).machine


def _dump_of(annotation: str) -> Callable[[bytes], Any]:
    """Return a reader of dumps in which a node has a text in this annotation."""

    def read(text: bytes) -> Any:
        amounts = {"cpu": "1", "memory": "1Gi"}
        metadata = {"name": "n", "annotations": {annotation: text.decode(errors="replace")}}
        node = {"kind": "Node", "metadata": metadata, "status": {"capacity": amounts, "allocatable": amounts}}
        return _dump(json.dumps({"items": [node]}).encode())

    return read


def _dump(text: bytes) -> Any:
    """Read a dump as ``corewise up --from`` does, and as ``corewise plan --from`` does."""
    with NamedTemporaryFile() as file:
        path = Path(file.name)
        path.write_bytes(text)
        load_dump(path, config={}, table=(), models={})
        return plan_from_dump(path)


JSON_READERS: dict[str, tuple[Callable[[bytes], Any], tuple[type[Exception], ...]]] = {
    "a heartbeat's time": (_heartbeat("lastHeartbeatTime"), (DecodeError,)),
    "a heartbeat's type": (_heartbeat("type"), (DecodeError,)),
    "another field of a heartbeat": (_heartbeat("reason"), (DecodeError,)),
    "an AdmissionReview": (decode_review, (DecodeError,)),
    "kubelet's cpu_manager_state": (parse_state, (ValueError,)),
    "the capacity that an agent reports": (_reported_capacity, ()),
    "results of corewise calibrate": (calibrations, UNREADABLE),
    "a provider": (lambda text: parse_provider(text.decode(errors="replace"), "h", "f"), (FileUnusable,)),
    "guests": (lambda text: parse_guests(text.decode(errors="replace"), "f"), (FileUnusable,)),
    "a body of the local API server": (decode_json, (StatusError,)),
    "a YAML body of the local API server": (decode_yaml, (StatusError,)),
    "the raw capacity in a dump": (_dump_of(RAW_CAPACITY), (InputError,)),
    "facts in a dump": (_dump_of(CPU_BASIC_INFO), (InputError,)),
    "an object of a dump": (
        lambda text: _dump(b'{"items":[{"kind":"Node","metadata":{"name":"n"},"x":' + text + b"}]}"),
        (InputError,),
    ),
}
JSON = {
    "nested lists": b"[" * DEPTH + b"]" * DEPTH,
    "nested objects": b'{"a":' * DEPTH + b"1" + b"}" * DEPTH,
    "lists that Python's own stack can almost hold": b"[" * 900 + b"]" * 900,
    "not UTF-8": b'"\xff"',
    "an object that is not UTF-8": b'{"kind":"\xff","status":"\xff","a":"\xff"}',
    "a number out of range": b"1e999999",
    "half of a surrogate pair": b'"\\ud800"',
    "a time out of range": b'"0000-00-00T99:99:99Z"',
    "a time of many digits": b'"2025-01-01T00:00:00.' + b"1" * 10_000 + b'Z"',
    "null": b"null",
    "nothing": b"",
}


@pytest.mark.parametrize("reader", JSON_READERS)
@pytest.mark.parametrize("text", JSON.values(), ids=JSON)
def test_json_reader_returns_a_value_or_its_error(reader: str, text: bytes) -> None:
    read, promised = JSON_READERS[reader]
    with suppress(*promised):
        read(text)


@given(st.binary(max_size=80), st.sampled_from(sorted(JSON_READERS)))
def test_any_bytes_give_a_value_or_readers_error(text: bytes, reader: str) -> None:
    read, promised = JSON_READERS[reader]
    with suppress(*promised):
        read(text)
