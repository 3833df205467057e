"""What the Node says that the offer is computed from. Pure.

Allocatable CPU and memory are the physical ones: where the Node is amplified, its annotations have them
(``node.koordinator.sh/raw-allocatable``); else status has.
"""

from __future__ import annotations

from collections.abc import Mapping

from corewise.agent.objects import AgentNode
from corewise.amplification import Amounts as NodeAmounts
from corewise.amplification.amounts import CPU, MEMORY
from corewise.amplification.annotations import raw_amounts
from corewise.quantities import Quantity, QuantityError
from corewise.suppression.offer import Amounts


def raw_allocatable(node: AgentNode) -> Amounts | None:
    """Return the physical allocatable amounts; None if the Node does not state both yet."""
    stated = NodeAmounts(_quantities(node.status.capacity), _quantities(node.status.allocatable))
    raw = raw_amounts(stated, node.metadata.annotations).allocatable
    if CPU not in raw or MEMORY not in raw:
        return None
    return Amounts(max(0, raw[CPU].milli), max(0, raw[MEMORY].units))


def _quantities(amounts: Mapping[str, str]) -> Mapping[str, Quantity]:
    known = {}
    for name, text in amounts.items():
        try:
            known[name] = Quantity.parse(text)
        except QuantityError:
            continue
    return known
