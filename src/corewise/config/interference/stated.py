"""What a node states itself: the annotation node.corewise.io/memory-bandwidth, an amount with its unit."""

from __future__ import annotations

from corewise.config.decoding import Decoder
from corewise.config.interference.amounts import BANDWIDTH, whole_amount
from corewise.config.json_tree import Located, Positions, Reading


def parse_bandwidth(text: str) -> int | str:
    """Return bytes/s, or what is wrong with the text."""
    decoder = Decoder(Reading(Located(text.strip(), 0), (), complete=True, positions=Positions(text)))
    amount = whole_amount(decoder, decoder.root, BANDWIDTH)
    if decoder.problems:
        return decoder.problems[0].message
    return amount or f'"{text[:40]}" is no bandwidth: write it as 107GB/s'
