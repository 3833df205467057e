"""The API server of the simulation and the programs read the same amounts, each with its own code."""

from hypothesis import example, given
from hypothesis import strategies as st

from corewise.quantities import Quantity, QuantityError
from kubedouble.quantities import parse_quantity

SUFFIXES = ["", *"numkMGTPE", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-3", "e64", "ki", "."]
numbers = st.from_regex(r"[+-]?[0-9]{0,20}(\.[0-9]{0,12})?", fullmatch=True)


@given(st.builds(str.__add__, numbers, st.sampled_from(SUFFIXES)) | st.text(max_size=12))
@example("0.5Ki")
@example("-1.5Gi")
@example("12Ei")
@example("-12Ei")
@example("1e3")
@example("0.0000000001")
def test_server_and_programs_read_and_print_quantities_alike(text: str) -> None:
    try:
        theirs = Quantity.parse(text)
    except QuantityError:
        theirs = None
    try:
        ours = parse_quantity(text)
    except ValueError:
        ours = None
    assert ours == (theirs and (theirs.nano, str(theirs)))
