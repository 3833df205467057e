"""Makes the files of a release in ``dist/``: ``make dist``; ``python -m tools.dist --help``.

docs/operate/release.md says what they are. All have the version that git's tag states. The same commit gives
the same sdist, wheels and image. The options are those of tools.image, and --no-image.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from tools import chart, image

WITHOUT_COMPILER = {"HATCH_BUILD_NO_HOOKS": "true"}
CHECKSUMS = "SHA256SUMS"
DISTRIBUTIONS = ("kubedouble", "corewise", "corewise-openstack", "corewise-lab")


def main() -> None:
    """Make all files again, and print their checksums."""
    parser = image.options("python -m tools.dist", __doc__)
    parser.add_argument("--no-image", action="store_true", help="leave out image and bill of materials")
    given = parser.parse_args()
    shutil.rmtree(given.directory, ignore_errors=True)
    epoch = image.source_date_epoch()
    for distribution in DISTRIBUTIONS:
        image.hatch(distribution, "sdist", given.directory)
        image.hatch(distribution, "wheel", given.directory)
    image.hatch("corewise", "wheel", given.directory, **WITHOUT_COMPILER)
    (sdist,) = given.directory.glob("corewise-*.tar.gz")
    chart.package(given.directory, image.version_of(sdist))
    if not given.no_image:
        image.make(given, epoch)
    print(write_checksums(given.directory), end="")


def write_checksums(directory: Path) -> str:
    """Write the input of ``sha256sum --check``, and return it."""
    files = sorted(path for path in directory.iterdir() if path.name != CHECKSUMS)
    lines = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)
    (directory / CHECKSUMS).write_text("".join(lines))
    return (directory / CHECKSUMS).read_text()


if __name__ == "__main__":
    main()
