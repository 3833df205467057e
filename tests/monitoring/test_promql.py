"""The reader of PromQL that the tests of alerts and dashboard rely on finds metrics, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitoring.promql import PromQLError, Query, parse

QUERIES = {
    "up": {"up"},
    'rate(a_total{job=~"x",instance!="b_total"}[5m])': {"a_total"},
    "sum by (b, c) (rate(a_total[$__rate_interval])) * 60": {"a_total"},
    "sum(rate(a_total[5m])) without (b) / count(c)": {"a_total", "c"},
    "a * on (instance, b) group_left (c) d": {"a", "d"},
    "(a > 0) and on (instance) b unless ignoring (x) c or vector(0)": {"a", "b", "c"},
    "time() - a > bool 1.5e3": {"a"},
    "histogram_quantile(0.99, sum by (le) (rate(a_bucket[1h30m] offset 5m)))": {"a_bucket"},
    "max_over_time(level:a:rate5m[1h:5m]) @ start()": {"level:a:rate5m"},
    "quantile(0.5, a) # b\n + inf": {"a"},
    'label_replace(a, "b", "$1", "c", "(.*)")': {"a"},
    "-a ^ 2 % 3": {"a"},
}
BAD = ["rate(a[5m]", "a)", "a{b}", 'a{b="c"', "a{b=c}", "a{b='c}", "sum by (b a", "a ~ b", "{}", "by (a, 1)"]


def metrics(query: Query) -> set[str]:
    return {selector.metric for selector in query.selectors}


@pytest.mark.parametrize("text", QUERIES)
def test_metrics_are_told_from_functions_labels_and_words(text: str) -> None:
    assert metrics(parse(text)) == QUERIES[text]


@pytest.mark.parametrize("text", BAD)
def test_what_is_no_query_is_refused(text: str) -> None:
    with pytest.raises(PromQLError):
        parse(text)


def test_labels_are_found_in_matchers_and_in_grouping() -> None:
    query = parse('sum by (node) (rate(a{b="c", d!~"e"}[5m])) / on (node, f) g')
    first, second = query.selectors
    assert first.matchers == (("b", "=", "c"), ("d", "!~", "e"))
    assert (first.inside, first.ranged) == ("rate", True)
    assert (second.inside, second.ranged) == ("", False)
    assert query.grouped == {"node", "f"}


@given(st.text(alphabet='ab_total(){}[]"=~,. 5m+-*/ onby', max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        query = parse(text)
    except PromQLError:
        return
    assert all(selector.metric for selector in query.selectors)
