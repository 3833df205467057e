"""Which CPUs kubelet reserves for the system: ``reservedSystemCPUs`` of ``/var/lib/kubelet/config.yaml``.

kubeadm and most distributions keep kubelet's configuration there. A kubelet that is told on its command line
(``--reserved-cpus``), or from another file, reserves CPUs that are not known here. The file is read again
only when it has been replaced; if it cannot be read, its last good content stays.

Source: KubeletConfiguration, kubelet.config.k8s.io/v1beta1.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from corewise.config.yaml_text import NotYAMLError, load_document
from corewise.kernel.errors import KernelError, Malformed, Missing, reading_error
from corewise.topology import CPUSet

CONFIG_FILE = "var/lib/kubelet/config.yaml"


def parse_reserved(text: bytes) -> CPUSet:
    """Read the content of the file.

    Raises:
        ValueError: if it is no configuration.
    """
    try:
        config: Any = load_document(text)
    except NotYAMLError as error:
        raise ValueError(str(error).replace("\n", " ")) from error
    if not isinstance(config, dict):
        raise ValueError("it is no mapping")  # noqa: TRY004
    reserved = config.get("reservedSystemCPUs")
    return CPUSet() if reserved is None else CPUSet.parse(str(reserved))


class KubeletConfigFile:
    """The file below a root; ``problem`` tells why it could not be read the last time."""

    def __init__(self, root: Path) -> None:
        self._path = root / CONFIG_FILE
        self._seen: tuple[int, int, int] | None = None
        self._reserved = CPUSet()
        self.problem: KernelError | None = None

    def read(self) -> CPUSet:
        """Return the CPUs that the file reserves, or did when it could last be read."""
        try:
            status = self._path.stat()
            seen = (status.st_ino, status.st_mtime_ns, status.st_size)
            if seen != self._seen:
                self._reserved = parse_reserved(self._path.read_bytes())
                self._seen = seen
            self.problem = None
        except OSError as error:
            self._failed(reading_error(str(self._path), error))
        except ValueError as error:
            self._failed(Malformed(str(self._path), f"not a configuration of kubelet: {error}"))
        return self._reserved

    def _failed(self, error: KernelError) -> None:
        self._seen = None
        if isinstance(error, Missing):
            self._reserved, self.problem = CPUSet(), None
        else:
            self.problem = error
