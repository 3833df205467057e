"""The file that ``--config`` names: how the scheduler scores, and how much it remembers.

YAML or JSON::

    scoring: MostAllocated      # or LeastAllocated, which is the default
    rememberedDecisions: 100    # of the latest; 0 to 1000

A key that is unknown is an error, so that a slip of the pen is not the default.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import yaml

from corewise.scheduler.engine import Allocation


class SchedulerConfiguration(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What the file says. A decision takes about 80 bytes a node while it is remembered."""

    scoring: Allocation = Allocation.LEAST
    remembered_decisions: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 50


DEFAULTS = SchedulerConfiguration()


class SchedulerConfigurationError(ValueError):
    """The file's text is no configuration; the message says why."""


def parse_configuration(text: str) -> SchedulerConfiguration:
    """Read the file's text; an empty one is the defaults.

    Raises:
        SchedulerConfigurationError: if it cannot be read or has a bad value.
    """
    try:
        document = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
        return msgspec.convert({} if document is None else document, SchedulerConfiguration)
    except (yaml.YAMLError, msgspec.ValidationError, RecursionError) as error:
        raise SchedulerConfigurationError(" ".join(str(error).split())) from error
