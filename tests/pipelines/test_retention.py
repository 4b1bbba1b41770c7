import datetime
import os

import pytest

from weir_pipelines.schemas import ARRIVALS, SAMPLES, SERIES, WORK
from weir_pipelines.store import RESULTS, Partition, Tables, prune_samples

DAYS = [Partition("shop/trips", datetime.date(2026, 3, day)) for day in range(1, 7)]
OLD, YOUNG = DAYS[:4], DAYS[4:]
BEFORE = YOUNG[0].day


@pytest.fixture
def tables(tmp_path):
    """A tables of six days, all of them worked up."""
    tables = Tables(tmp_path)
    for partition in DAYS:
        write(tables, partition, SERIES, SAMPLES, at=1000)
        write(tables, partition, *RESULTS, at=2000)
    return tables


def write(tables, partition, *written, at):
    """Write empty partitions, at so many Unix seconds."""
    for table in written:
        tables.write(table, partition, [])
        os.utime(tables.path(table, partition), (at, at))


def test_old_days_lose_their_samples_and_keep_what_was_made_of_them(tables):
    pruned = prune_samples(tables, before=BEFORE)

    assert (pruned.removed, pruned.kept) == (tuple(OLD), ())
    assert [*tables.partitions(SAMPLES)] == [*tables.partitions(SERIES)] == YOUNG
    assert [*tables.partitions(ARRIVALS)] == [*tables.partitions(WORK)] == DAYS


@pytest.mark.parametrize("table", RESULTS, ids=lambda table: table.name)
def test_a_day_that_is_not_worked_up_keeps_its_samples_and_its_neighbours(tables, table):
    tables.remove(table, OLD[0])

    pruned = prune_samples(tables, before=BEFORE)

    assert (pruned.removed, pruned.kept) == (tuple(OLD[2:]), tuple(OLD[:2]))
    assert [*tables.partitions(SAMPLES)] == [*OLD[:2], *YOUNG]


def test_a_day_whose_samples_are_newer_than_what_was_made_of_them_stays(tables):
    write(tables, OLD[0], SERIES, SAMPLES, at=3000)

    pruned = prune_samples(tables, before=BEFORE)

    assert pruned.kept == tuple(OLD[:2])


def test_a_young_day_that_waits_holds_the_old_one_before_it(tables):
    tables.remove(WORK, YOUNG[0])

    pruned = prune_samples(tables, before=BEFORE)

    assert (pruned.removed, pruned.kept) == (tuple(OLD[:-1]), (OLD[-1],))


def test_only_the_samples_of_the_applications_that_are_named_go(tables):
    other = Partition("shop/rides", OLD[0].day)
    write(tables, other, SERIES, SAMPLES, at=1000)
    write(tables, other, *RESULTS, at=2000)

    pruned = prune_samples(tables, before=BEFORE, apps=["shop/rides"])

    assert pruned.removed == (other,)
    assert set(DAYS) <= tables.partitions(SAMPLES).keys()


def test_one_that_dies_half_way_leaves_no_samples_without_labels_and_the_next_goes_on(
    tables, monkeypatch
):
    remove = tables.remove

    def die_at_the_labels_of_the_second_day(table, partition):
        if (table, partition) == (SERIES, OLD[1]):
            raise KeyboardInterrupt
        remove(table, partition)

    monkeypatch.setattr(tables, "remove", die_at_the_labels_of_the_second_day)
    with pytest.raises(KeyboardInterrupt):
        prune_samples(tables, before=BEFORE)
    monkeypatch.undo()
    half_way = [*tables.partitions(SAMPLES)], [*tables.partitions(SERIES)]

    pruned = prune_samples(tables, before=BEFORE)

    assert half_way == (DAYS[2:], DAYS[1:])
    assert pruned.removed == tuple(OLD[1:])
    assert [*tables.partitions(SERIES)] == YOUNG
