"""nova.conf as Nova's compute service reads it: what stands there, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from corewise_openstack.openstack.errors import NovaConfError
from corewise_openstack.openstack.nova_conf import NovaConf, read_nova_conf

DOCUMENT = """
[DEFAULT]
cpu_allocation_ratio=8.0

[compute]
cpu_dedicated_set=2-17
cpu_shared_set=18-47
"""


def read(tmp_path: Path, *texts: str) -> NovaConf:
    files = [tmp_path / f"nova{number}.conf" for number in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text)
    return read_nova_conf(files)


def test_the_documents_example_is_read_word_for_word(tmp_path: Path) -> None:
    conf = read(tmp_path, DOCUMENT)
    assert conf.values == {
        ("DEFAULT", "cpu_allocation_ratio"): "8.0",
        ("compute", "cpu_dedicated_set"): "2-17",
        ("compute", "cpu_shared_set"): "18-47",
    }
    assert conf.get("DEFAULT", "vcpu_pin_set") is None


def test_each_option_is_read_only_in_its_group(tmp_path: Path) -> None:
    conf = read(
        tmp_path,
        "[DEFAULT]\nvcpu_pin_set = 4-31,^5\nreserved_host_cpus = 2\ncpu_dedicated_set = 9\n"
        "[compute]\nvcpu_pin_set = 1\n[libvirt]\ncpu_power_management = True\n[unknown]\nx = y\n",
    )
    assert conf.values == {
        ("DEFAULT", "vcpu_pin_set"): "4-31,^5",
        ("DEFAULT", "reserved_host_cpus"): "2",
        ("libvirt", "cpu_power_management"): "True",
    }


def test_a_later_file_overrides_an_earlier_one(tmp_path: Path) -> None:
    conf = read(tmp_path, DOCUMENT, "[compute]\ncpu_dedicated_set = 2-9\n")
    assert (conf.get("compute", "cpu_dedicated_set"), conf.get("compute", "cpu_shared_set")) == (
        "2-9",
        "18-47",
    )


@pytest.mark.parametrize("value", ["", "-1", "1-2-3", "^", "5-2", "a", "1,,2", "😀"])
def test_what_a_value_means_is_not_decided_here(tmp_path: Path, value: str) -> None:
    conf = read(tmp_path, f"[compute]\ncpu_dedicated_set = {value}\n")
    assert conf.get("compute", "cpu_dedicated_set") == value


def test_two_readings_do_not_know_of_each_other(tmp_path: Path) -> None:
    first = read(tmp_path, DOCUMENT)
    second = read(tmp_path, "")
    assert first.get("compute", "cpu_dedicated_set") == "2-17"
    assert second.values == {}


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(NovaConfError, match="nowhere"):
        read_nova_conf([tmp_path / "nowhere.conf"])


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("cpu_dedicated_set 2-17\n", "nova0.conf:1"),
        ("[compute\ncpu_dedicated_set = 2\n", "nova0.conf:1"),
        ("[compute]\nx = 1\n= 3\n", "nova0.conf:3"),
    ],
)
def test_line_that_is_no_option_names_its_file(tmp_path: Path, text: str, where: str) -> None:
    with pytest.raises(NovaConfError, match=where):
        read(tmp_path, text)


def test_bytes_that_are_no_text_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "nova.conf").write_bytes(b"[compute]\ncpu_dedicated_set = \xff\xfe\n")
    with pytest.raises(NovaConfError, match=r"nova\.conf is not UTF-8: byte 30 is wrong"):
        read_nova_conf([tmp_path / "nova.conf"])


def test_value_that_refers_to_nothing_names_its_option(tmp_path: Path) -> None:
    with pytest.raises(NovaConfError, match=r"\[compute\] cpu_dedicated_set"):
        read(tmp_path, "[compute]\ncpu_dedicated_set = $nothing\n")


@pytest.mark.parametrize("other", ["cpu_dedicated_set", "cpu_shared_set"])
def test_value_that_refers_to_itself_names_its_option(tmp_path: Path, other: str) -> None:
    text = f"[compute]\ncpu_dedicated_set = ${other}\ncpu_shared_set = $cpu_dedicated_set\n"
    with pytest.raises(NovaConfError, match=r"\[compute\] cpu_dedicated_set: its value refers to itself"):
        read(tmp_path, text)
