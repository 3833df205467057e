"""A container image made of busybox alone: enough for a pause container and for one that looks about."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

IMAGE = "corewise.invalid/box:1"
FOREVER = ("/bin/busybox", "sleep", "1000000")
_COMMANDS = ("sh", "cat", "sleep")
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def write_image(busybox: Path, archive: Path) -> None:
    """Write an OCI image archive, to be imported."""
    layer = _layer(busybox)
    config = _json(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": list(FOREVER), "Env": ["PATH=/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        }
    )
    packed = gzip.compress(layer, mtime=0)
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": _descriptor("application/vnd.oci.image.config.v1+json", config),
            "layers": [_descriptor("application/vnd.oci.image.layer.v1.tar+gzip", packed)],
        }
    )
    named = _descriptor(_MANIFEST, manifest) | {"annotations": {"io.containerd.image.name": IMAGE}}
    with tarfile.open(archive, "w") as tar:
        _add(tar, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _add(tar, "index.json", _json({"schemaVersion": 2, "manifests": [named]}))
        for blob in (manifest, config, packed):
            _add(tar, f"blobs/{_digest(blob).replace(':', '/')}", blob)


def _layer(busybox: Path) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for directory in ("bin", "etc", "proc", "sys", "dev", "seen"):
            entry = tarfile.TarInfo(directory)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        _add(tar, "bin/busybox", busybox.read_bytes(), mode=0o755)
        for command in _COMMANDS:
            entry = tarfile.TarInfo(f"bin/{command}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(entry)
    return buffer.getvalue()


def _add(tar: tarfile.TarFile, name: str, content: bytes, *, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    tar.addfile(entry, io.BytesIO(content))


def _descriptor(media_type: str, blob: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": _digest(blob), "size": len(blob)}


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()
