"""Completion indexes as text, and what is missing from them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.job.builders import T0, at
from jobset.cluster.model.job.backoff import Failures, RetryDelays
from jobset.cluster.model.job.indexes import Indexes, parse_indexes

small_sets = st.sets(st.integers(0, 40))


@pytest.mark.parametrize(
    ("indexes", "text"),
    [([], ""), ([3], "3"), ([0, 1], "0,1"), ([0, 1, 2], "0-2"), ([5, 1, 0, 3, 6, 4], "0,1,3-6")],
)
def test_neighbours_are_joined_by_a_comma_and_three_by_a_dash(indexes: list[int], text: str) -> None:
    assert str(Indexes().with_indexes(indexes)) == text


@pytest.mark.parametrize(
    ("text", "below", "kept"),
    [("0-9", 4, "0-3"), ("0,2,7", 7, "0,2"), ("", 5, ""), ("4-5", 4, ""), ("0,1,2", 9, "0-2"), ("x,1", 9, "1")],
)
def test_indexes_beyond_completions_are_dropped(text: str, below: int, kept: str) -> None:
    assert str(parse_indexes(text, below)) == kept


@given(small_sets, small_sets)
def test_they_behave_as_sets_of_numbers(first: set[int], second: set[int]) -> None:
    one, other = Indexes().with_indexes(first), Indexes().with_indexes(second)
    assert len(one) == len(first)
    assert {index for index in range(45) if index in one} == first
    assert str(one.union(other)) == str(Indexes().with_indexes(first | second))
    assert one.common(other) == len(first & second)
    assert parse_indexes(str(one), 1000) == one


@given(small_sets, st.integers(0, 10), st.integers(0, 45))
def test_the_lowest_missing_indexes_come_first(taken: set[int], count: int, below: int) -> None:
    missing = [index for index in range(below) if index not in taken]
    assert Indexes().with_indexes(taken).first_missing(count, below) == missing[:count]


@pytest.mark.parametrize(("failures", "delay_s"), [(0, 0), (1, 10), (2, 20), (3, 40), (7, 600), (5000, 600)])
def test_the_back_off_doubles_up_to_ten_minutes(failures: int, delay_s: float) -> None:
    assert RetryDelays().remaining_s(failures, T0, T0) == delay_s


def test_the_back_off_runs_from_the_last_failure() -> None:
    assert RetryDelays().remaining_s(1, T0, at(4)) == 6
    assert RetryDelays().remaining_s(1, T0, at(11)) == 0


@pytest.mark.parametrize(
    ("before", "succeeded", "failed", "after"),
    [
        (0, [], [1, 2], (2, 2)),
        (3, [], [], (3, 0)),
        (3, [5], [], (0, None)),
        (3, [5], [4, 6, 7], (2, 7)),
        (3, [5], [4], (0, None)),
    ],
)
def test_a_success_forgives_the_failures_before_it(
    before: int, succeeded: list[int], failed: list[int], after: tuple[int, int | None]
) -> None:
    start = Failures(before, T0 if before else None)
    got = start.after([at(s) for s in succeeded], [at(s) for s in failed])
    count, last_s = after
    assert got == Failures(count, None if last_s is None else at(last_s))
