"""Every deliberate error in the policy is a difference to the webhook that the tried cases find."""

from __future__ import annotations

import re
from functools import cache
from itertools import chain
from typing import Final

import pytest

from amplification import both_rules
from amplification.test_amplification_every_case import SAMPLE, asked_amounts, check, single_amounts
from corewise.amplification.policy import amplification_policy
from corewise.quantities import Ratio
from every_case import WHOLE, Stopwatch
from kubedouble.expressions import is_available
from kubedouble.mutating_policies import _Program

pytestmark = pytest.mark.skipif(not is_available(), reason="cel-expr-python is not installed")

MUTANTS: Final[dict[str, tuple[str, str]]] = {
    "kubelet's new amount counts as recorded": (
        r"\(variables\.isWrittenNow \|\| !variables\.isStatedAnew\w+\)",
        "true",
    ),
    "every kubelet is the node's own": (
        r"username == user \+ object\.metadata\.name",
        "username.startsWith(user)",
    ),
    "ratio 1.00 keeps the record": (r"(raw\w+ >= 0 && variables\.factor\w+) > 100", r"\1 >= 100"),
    "amounts are rounded up": (r"(% 100 \* variables\.factor\w+)( / 100\])", r"\1 + 99\2"),
    "owned CPUs are not folded": (r"variables\.ownedMilli \* ", "0 * "),
    "writes of others are not undone": (
        r"variables\.isRecordThere(\w+) && variables\.old\1 == variables\.recordedApplied\1 \?",
        "false ?",
    ),
    "an amount with a broken record is raw": (r"variables\.isRecordBroken\w+ \|\|", "false ||"),
    "kubelet is not asked": (r"variables\.isAsked\w+ \? 1 : 0", "0"),
    "a question ends with the next write": (
        r"variables\.recordedApplied\w+ == variables\.offered\w+ \+ 1 \|\|",
        "false ||",
    ),
    "the generation stays": (r"string\(int\(variables\.generation\) \+ 1\)", "variables.generation"),
    "Koordinator's amounts are not read": (
        r"(variables\.new(\w+) == variables\.old\2) && variables\.named\2 >= 0 \?",
        r"\1 && false ?",
    ),
    "an unreadable ratio is 1.00": (
        r"!variables\.isRatioReadable \? -1 :",
        "!variables.isRatioReadable ? 100 :",
    ),
}
TRIED: Final = tuple(MUTANTS) if WHOLE else tuple(MUTANTS)[:3]


def mutant(name: str) -> _Program:
    document, _ = amplification_policy(maximum=Ratio(1000))
    spec, times = document["spec"], 0
    for holder in (*spec["variables"], spec["mutations"][0]["jsonPatch"]):
        holder["expression"], count = re.subn(*MUTANTS[name], holder["expression"].replace("\n", " "))
        times += count
    assert times, "the policy has no such text"
    return _Program.of(spec)


@pytest.mark.parametrize("name", TRIED)
def test_every_error_in_the_policy_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Stopwatch(f"mutant of the policy: {name}")
    monkeypatch.setattr(both_rules, "policy", cache(lambda: mutant(name)))
    cases = chain(single_amounts(0, 1, SAMPLE), asked_amounts(0, 1, SAMPLE))
    for writes, case in enumerate(cases, 1):
        try:
            check(*case)
        except AssertionError:
            watch.report(writes=writes)
            return
    pytest.fail("no case shows the error")
