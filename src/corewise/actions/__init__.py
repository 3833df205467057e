"""What may be done to the world, as values, each with its reason.

A capability or program decides and returns actions; one executor carries them out, and dry run swaps that
executor. Every action carries the reason code and the sentence that say why.
"""

from corewise.actions.nodes import EmitEvent, NodeAction, PatchNode, RepairNodeStatus, TouchNodeStatus
from corewise.actions.placement import PlacementAction, Reshape, WriteInventories, WriteTraits
from corewise.actions.quotas import QuotaOwner, WriteQuota
from corewise.actions.settings import Setting, SettingOwner, WriteSetting

__all__ = [
    "EmitEvent",
    "NodeAction",
    "PatchNode",
    "PlacementAction",
    "QuotaOwner",
    "RepairNodeStatus",
    "Reshape",
    "Setting",
    "SettingOwner",
    "TouchNodeStatus",
    "WriteInventories",
    "WriteQuota",
    "WriteSetting",
    "WriteTraits",
]
