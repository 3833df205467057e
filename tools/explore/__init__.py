"""Runs every test that draws its inputs again and again, with fresh seeds, until the time is over.

    python -m tools.explore --minutes 10

One pytest per CPU goes through all hypothesis tests and state machines, each round in another order and with
another seed, under ``COREWISE_EXPLORE=1`` (conftest.py). Each counterexample is printed as something to
paste, with the command that finds it again. The figures go to stdout as Markdown, for
docs/internals/reliability.md.

``--exhaustive`` runs other tests, those that try every case within a bound: see
:mod:`tools.explore.exhaustive`.

Exit codes: 0 no counterexample, 1 a counterexample, 2 the tests could not be run.
"""
