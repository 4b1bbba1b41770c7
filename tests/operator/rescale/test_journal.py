"""A change is said in few words: they are a column of `kubectl get`."""

import pytest

from weir_operator.rescale.journal import Kind, Step, describe_difference, plan, summarise_change

BEFORE = {"match": {"small/250m": 2}, "sink": {"small/250m": 1}}


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (BEFORE, ""),
        ({**BEFORE, "match": {"small/250m": 3}}, "match 2 -> 3"),
        ({**BEFORE, "match": {"large/1": 2}}, "match -> 2 large/1"),
        (
            {**BEFORE, "match": {"large/1": 1, "small/500m": 1}},
            "match -> 1 large/1 + 1 small/500m",
        ),
        ({"match": {"small/250m": 1}, "sink": {"large/1": 1}}, "match 2 -> 1, sink -> 1 large/1"),
    ],
)
def test_what_changes_is_said_by_operator(target, said):
    assert describe_difference(BEFORE, target) == said


def test_more_operators_than_fit_are_counted():
    source = {name: {"small/1": 1} for name in "abcde"}
    target = {name: {"small/1": 2} for name in "abcde"}

    assert describe_difference(source, target) == "a 1 -> 2, b 1 -> 2, c 1 -> 2, 2 more"


@pytest.mark.parametrize(
    ("kind", "step", "said"),
    [
        (Kind.RESCALE, Step.DONE, "Rescaled match 2 -> 3 in 12.5 s"),
        (Kind.RESCALE, Step.ROLLED_BACK, "Rescaled match 2 -> 3, rolled back in 12.5 s"),
        (Kind.RECOVER, Step.DONE, "Recovered in 12.5 s"),
        (Kind.SUSPEND, Step.FAILED, "Suspended, failed in 12.5 s"),
    ],
)
def test_a_change_is_said_with_its_end_and_its_seconds(kind, step, said):
    target = {**BEFORE, "match": {"small/250m": 3}}
    journal = plan(kind=kind, reason="load", now=10.0, source=BEFORE, target=target, old_job="j")

    assert summarise_change(journal.at(step, 22.5)) == said


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (Step.DONE, "Upgraded in 30 s (job down for 12.5 s)"),
        (Step.ROLLED_BACK, "Upgraded, rolled back in 30 s (job down for 12.5 s)"),
        (Step.ABANDONED, "Upgraded, abandoned in 30 s"),
    ],
)
def test_an_upgrade_is_said_with_the_seconds_for_which_the_job_was_down(end, said):
    journal = plan(
        kind=Kind.UPGRADE, reason="new", now=10.0, source=BEFORE, target=BEFORE, old_job="j"
    )

    assert summarise_change(journal.at(Step.REMOVE, 27.5).at(end, 40.0)) == said


def test_a_start_goes_on_from_the_state_that_it_is_given_and_keeps_what_that_supersedes():
    journal = plan(
        kind=Kind.START,
        reason="load",
        now=10.0,
        source={},
        target=BEFORE,
        old_job=None,
        restore_path="s3://b/savepoint-1",
        superseded=("s3://b/savepoint-0",),
    )

    assert journal.restore_path == "s3://b/savepoint-1"
    assert journal.superseded == ("s3://b/savepoint-0",)
