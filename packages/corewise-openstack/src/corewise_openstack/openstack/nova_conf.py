"""nova.conf, as the compute service of Nova reads it: the options that say what a host's CPUs are for.

Values are the texts of the files, or None where no file sets an option; ``corewise_openstack.tracking``
decides what they mean. Files are read in order, and a later one overrides an earlier one, as oslo.config
does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from oslo_config import cfg

from corewise_openstack.openstack.errors import NovaConfError

OPTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "DEFAULT": (
            "host",
            "cpu_allocation_ratio",
            "initial_cpu_allocation_ratio",
            "vcpu_pin_set",
            "reserved_host_cpus",
            "reserved_host_memory_mb",
        ),
        "compute": ("cpu_dedicated_set", "cpu_shared_set"),
        "libvirt": ("cpu_power_management",),
    }
)
"""Group -> the options read from it."""


@dataclass(frozen=True)
class NovaConf:
    """The content of the files: ``values`` maps (group, option) to its text."""

    files: tuple[Path, ...]
    values: Mapping[tuple[str, str], str]
    configuration: cfg.ConfigOpts = field(repr=False, compare=False)
    """All of it as oslo.config has it, for the credentials in [placement]."""

    def get(self, group: str, option: str) -> str | None:
        """Return the text of an option, or None if no file sets it."""
        return self.values.get((group, option))


def read_nova_conf(files: Sequence[Path]) -> NovaConf:
    """Read the files.

    Raises:
        NovaConfError: if a file is missing or unreadable, or is not written as oslo.config files are.
    """
    configuration = cfg.ConfigOpts()
    for group, names in OPTIONS.items():
        registered = None if group == "DEFAULT" else group
        configuration.register_opts([cfg.StrOpt(name) for name in names], group=registered)
    _parse(configuration, files)
    values = {(group, name): value for group, name, value in _set_values(configuration)}
    return NovaConf(tuple(files), MappingProxyType(values), configuration)


def _parse(configuration: cfg.ConfigOpts, files: Sequence[Path]) -> None:
    named = [argument for file in files for argument in ("--config-file", str(file))]
    try:
        configuration(named, project="nova", default_config_files=[], default_config_dirs=[])
    except cfg.ConfigFilesNotFoundError as error:
        raise NovaConfError(f"there is no file {', '.join(error.config_files)}") from error
    except cfg.ConfigFilesPermissionDeniedError as error:
        raise NovaConfError(
            f"{', '.join(error.config_files)} cannot be read",
            hint="nova.conf holds passwords: be root, or in the group nova",
        ) from error
    except UnicodeDecodeError as error:
        names = ", ".join(str(file) for file in files)
        raise NovaConfError(f"{names} is not UTF-8: byte {error.start} is wrong") from error
    except OSError as error:  # of a read: it does not name the file
        names = ", ".join(map(str, files))
        raise NovaConfError(f"{names} cannot be read: {error.strerror or error}") from error
    except cfg.Error as error:
        raise NovaConfError(" ".join(str(error).split())) from error


def _set_values(configuration: cfg.ConfigOpts) -> Iterator[tuple[str, str, str]]:
    for group, names in OPTIONS.items():
        for name in names:
            try:
                found = configuration[name] if group == "DEFAULT" else configuration[group][name]
            except cfg.Error as error:
                raise NovaConfError(f"[{group}] {name}: {' '.join(str(error).split())}") from error
            except RecursionError:
                message = f"[{group}] {name}: its value refers to itself, directly or through others"
                raise NovaConfError(message) from None
            if found is not None:
                yield group, name, found
