"""libvirt's Python package is an extra: what needs it says how to get it, and nothing else imports it."""

from __future__ import annotations

import subprocess
import sys

WITHOUT = "import sys; sys.modules['libvirt'] = None\n"


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT + program], capture_output=True, text=True, check=False
    )


def test_missing_libvirt_package_is_named() -> None:
    done = run("from corewise.cli import main; main(['topology', '--libvirt', 'test:///default'])")
    assert done.returncode == 5
    assert "the Python package libvirt-python is not installed" in done.stderr
    assert "make libvirt" in done.stderr


def test_documents_and_errors_need_no_libvirt() -> None:
    done = run(
        "import corewise_openstack.openstack.errors, corewise_openstack.openstack.libvirt_xml, "
        "corewise_openstack.openstack.libvirt, corewise_openstack.cli.page"
    )
    assert (done.returncode, done.stderr) == (0, "")
