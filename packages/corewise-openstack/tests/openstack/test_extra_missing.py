"""Without the extra, every way into the adapter says which package is missing and how to get it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from corewise.vocabulary.errors import install_hint

WAYS = {
    "oslo_config": ("corewise.openstack.nova_conf", "", "openstack"),
    "keystoneauth1": ("corewise.openstack.placement_http", "", "openstack"),
    "placement": ("corewise.openstack.embedded", ".start()", "openstack"),
    "openstack": ("corewise.openstack.placement_access", ".cloud_client()", "openstack"),
    "libvirt": ("corewise.openstack.libvirt", ".connected().__enter__()", "libvirt"),
}


@pytest.mark.parametrize("package", WAYS)
def test_a_missing_package_is_named_with_the_extra_that_has_it(package: str) -> None:
    module, call, extra = WAYS[package]
    program = f"""
import importlib, sys
from corewise.openstack.errors import ExtraMissing
sys.modules[{package!r}] = None
try:
    importlib.import_module({module!r}){call}
except ExtraMissing as error:
    print(error.extra, error.hint)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stderr, done.stdout) == (
        "",
        f"{extra} {install_hint(extra)}\n",
    )


def test_errors_and_documents_need_no_package_of_either_extra() -> None:
    program = f"""
import sys
sys.modules |= dict.fromkeys({list(WAYS)!r})
import corewise.openstack.errors, corewise.openstack.libvirt_xml, corewise.openstack.libvirt
import corewise.vocabulary.placement, corewise.actions
"""
    subprocess.run([sys.executable, "-c", program], check=True)
