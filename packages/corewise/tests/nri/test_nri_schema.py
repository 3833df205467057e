"""The messages have the field numbers of the published API, checked on bytes put together by hand."""

from __future__ import annotations

import pytest

from corewise.nri import codec
from corewise.nri.codec import MESSAGES
from corewise.nri.errors import ProtocolViolation
from corewise.nri.messages import (
    ContainerAdjustment,
    ContainerUpdate,
    CPUResources,
    NRIContainer,
    PodSandbox,
)
from corewise.quantities import Microseconds


def varint(value: int) -> bytes:
    value %= 1 << 64
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def part(field: int, content: bytes | str) -> bytes:
    content = content.encode() if isinstance(content, str) else content
    return varint(field << 3 | 2) + varint(len(content)) + content


def entry(field: int, key: str, value: str) -> bytes:
    return part(field, part(1, key) + part(2, value))


CPU = part(1, number(1, 1024)) + part(2, number(1, 100_000)) + part(3, number(1, 50_000)) + part(6, "0-3")
MEMORY = part(1, part(1, number(1, 1 << 30)))
RESOURCES = MEMORY + part(2, CPU)
POD = (
    part(1, "sandbox")
    + part(2, "web-0")
    + part(3, "uid")
    + part(4, "shop")
    + entry(5, "app", "web")
    + entry(6, "note", "x")
    + part(7, "runc")
    + part(8, part(3, "/kubepods/poduid"))
    + number(9, 4711)
)
CONTAINER = (
    part(1, "id")
    + part(2, "sandbox")
    + part(3, "web")
    + number(4, 3)
    + entry(5, "app", "web")
    + entry(6, "note", "x")
    + part(7, "argument")
    + part(11, part(3, RESOURCES) + part(5, "/kubepods/poduid/id"))
)
LIMITS = CPUResources(Microseconds(100_000), Microseconds(50_000), 1024)


def test_a_pod_and_a_container_are_read() -> None:
    asked = codec.decode("EventRequest", part(1, POD) + part(2, CONTAINER))
    assert codec.pod(asked.pod) == PodSandbox(
        "sandbox", "web-0", "uid", "shop", {"app": "web"}, {"note": "x"}, "/kubepods/poduid"
    )
    assert codec.container(asked.container) == NRIContainer(
        "id",
        "sandbox",
        "web",
        {"note": "x"},
        LIMITS,
    )


def test_requests_are_read() -> None:
    update = codec.decode("UpdateContainerRequest", part(1, POD) + part(2, CONTAINER) + part(3, RESOURCES))
    assert (update.pod.uid, update.container.id, codec.cpu(update.linux_resources)) == ("uid", "id", LIMITS)
    change = codec.decode("StateChangeEvent", number(1, 6) + part(2, POD) + part(3, CONTAINER))
    assert (change.event, change.pod.uid, change.container.id) == (6, "uid", "id")
    state = codec.decode("SynchronizeRequest", part(1, POD) + part(2, CONTAINER) + number(3, 1))
    assert (len(state.pods), len(state.containers), state.more) == (1, 1, True)
    configuration = codec.decode("ConfigureRequest", part(1, "x") + part(2, "containerd") + part(3, "1.7"))
    assert (configuration.runtime_name, configuration.runtime_version) == ("containerd", "1.7")


def test_envelopes_are_read_and_written() -> None:
    envelope = part(1, "service") + part(2, "Method") + part(3, b"\0") + number(4, 2_000_000_000)
    read = codec.decode("Request", envelope + part(5, part(1, "key") + part(2, "value")))
    assert (read.service, read.method, read.payload, read.timeout_nano) == (
        "service",
        "Method",
        b"\0",
        2 * 10**9,
    )
    fields = {"service": "service", "method": "Method", "payload": b"\0", "timeout_nano": 2 * 10**9}
    assert codec.encode("Request", **fields) == envelope
    answer = part(1, number(1, 12) + part(2, "unknown")) + part(2, b"payload")
    assert codec.encode("Response", status={"code": 12, "message": "unknown"}, payload=b"payload") == answer


def test_answers_are_written() -> None:
    quota = part(2, part(2, part(2, number(1, 83_334))))
    adjustment = codec.adjustment(ContainerAdjustment(Microseconds(83_334)))
    assert codec.encode("CreateContainerResponse", adjust=adjustment) == part(1, part(6, quota))
    both = part(2, part(2, part(2, number(1, -1)) + part(3, number(1, 50_000))))
    adjustment = codec.adjustment(ContainerAdjustment(Microseconds(-1), Microseconds(50_000)))
    assert codec.encode("CreateContainerResponse", adjust=adjustment) == part(1, part(6, both))
    resources = part(2, part(2, part(2, number(1, 83_334))))
    update = part(1, part(1, "id") + part(2, part(1, resources[2:])) + number(3, 1))
    wanted = codec.updates([ContainerUpdate("id", Microseconds(83_334))])
    for answer in ("UpdateContainerResponse", "SynchronizeResponse"):
        assert codec.encode(answer, update=wanted) == update
    assert codec.encode("SynchronizeResponse", more=True) == number(2, 1)
    assert codec.encode("ConfigureResponse", events=2047) == number(2, 2047)
    registration = codec.encode("RegisterPluginRequest", plugin_name="corewise", plugin_idx="90")
    assert registration == part(1, "corewise") + part(2, "90")


def test_what_is_missing_is_empty() -> None:
    asked = codec.decode("UpdateContainerRequest", b"")
    assert codec.pod(asked.pod) == PodSandbox("")
    assert codec.container(asked.container) == NRIContainer("")
    assert codec.cpu(asked.linux_resources) == CPUResources()


@pytest.mark.parametrize("name", sorted(MESSAGES))
def test_bytes_that_are_no_message_are_a_violation(name: str) -> None:
    with pytest.raises(ProtocolViolation, match=f"cannot decode a {name} of 1 bytes"):
        codec.decode(name, b"\xff")
