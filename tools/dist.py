"""Makes the files of a release in ``dist/``: ``make dist``; ``python -m tools.dist --help``.

docs/operate/release.md says what they are. All have the version of corewise. The same commit gives the same
files. Without a tool for images, all but the image is made. The options are those of tools.image, and
--offline.
"""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

import corewise
from tools import chart, image

WITHOUT_COMPILER = {"CC": "none"}
CHECKSUMS = "SHA256SUMS"
DISTRIBUTIONS = ("kubedouble", "corewise", "corewise-openstack", "corewise-lab")


def main() -> None:
    """Make all files again, and print their checksums."""
    parser = image.options("python -m tools.dist", __doc__)
    parser.add_argument("--offline", action="store_true", help="leave out image and bill of materials")
    given = parser.parse_args()
    clear(given.directory)
    epoch = image.source_date_epoch()
    for distribution in DISTRIBUTIONS:
        image.hatch(distribution, "sdist", given.directory)
        image.hatch(distribution, "wheel", given.directory)
    image.hatch("corewise", "wheel", given.directory, **WITHOUT_COMPILER)
    chart.package(given.directory, int(epoch))
    if not given.offline:
        if given.tool or image.usable_tool():
            image.make(given, epoch)
        else:
            write_bill_of_materials(given.directory, given.requirements)
            print(f"no image: {image.NO_TOOL}")
    print(write_checksums(given.directory), end="")


def clear(directory: Path) -> None:
    """Remove the files of earlier releases, and nothing else: the folder may be anybody's."""
    for path in files_of(directory):
        path.unlink()


def files_of(directory: Path) -> list[Path]:
    """Return the files of releases in a folder, by name."""
    names = {name.replace("-", "_") for name in DISTRIBUTIONS}
    found = (path for path in directory.glob("*") if path.is_file())
    return sorted(path for path in found if path.name == CHECKSUMS or path.name.partition("-")[0] in names)


def write_bill_of_materials(directory: Path, requirements: Path) -> None:
    """Write the bill of materials that an image of this commit has."""
    with tempfile.TemporaryDirectory() as folder:
        wheels = Path(folder)
        image.download(wheels, requirements)
        file = directory / f"corewise-{corewise.__version__}-sbom.cdx.json"
        image.write_bill_of_materials(file, requirements, wheels)


def write_checksums(directory: Path) -> str:
    """Write the input of ``sha256sum --check``, and return it."""
    files = (path for path in files_of(directory) if path.name != CHECKSUMS)
    lines = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)
    (directory / CHECKSUMS).write_text("".join(lines))
    return (directory / CHECKSUMS).read_text()


if __name__ == "__main__":
    main()
