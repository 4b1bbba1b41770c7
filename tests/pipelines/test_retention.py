import datetime
import os

import pyarrow.parquet as pq
import pytest

from weir_pipelines.schemas import ARRIVALS, SAMPLES, SERIES, WORK
from weir_pipelines.store import RESULTS, STAGING, Partition, Store, arrow_schema, prune_samples

DAYS = [Partition("shop/trips", datetime.date(2026, 3, day)) for day in range(1, 7)]
OLD, YOUNG = DAYS[:4], DAYS[4:]
BEFORE = YOUNG[0].day


@pytest.fixture
def store(tmp_path):
    """A store of six days, all of them worked up."""
    store = Store(tmp_path)
    for partition in DAYS:
        write(store, partition, SERIES, SAMPLES, at=1000)
        write(store, partition, *RESULTS, at=2000)
    return store


def write(store, partition, *tables, at):
    """Write empty partitions, at so many Unix seconds."""
    for table in tables:
        with store.staging() as folder:
            folder.mkdir()
            file = folder / "written.parquet"
            pq.write_table(arrow_schema(table).empty_table(), file)
            os.utime(file, (at, at))
            store.place(table, partition, file)


def test_old_days_lose_their_samples_and_keep_what_was_made_of_them(store):
    pruned = prune_samples(store, before=BEFORE)

    assert (pruned.removed, pruned.kept) == (tuple(OLD), ())
    assert store.partitions(SAMPLES) == store.partitions(SERIES) == tuple(YOUNG)
    assert store.partitions(ARRIVALS) == store.partitions(WORK) == tuple(DAYS)
    assert list((store.root / STAGING).iterdir()) == []


@pytest.mark.parametrize("table", RESULTS, ids=lambda table: table.name)
def test_a_day_that_is_not_worked_up_keeps_its_samples_and_its_neighbours(store, table):
    store.remove(table, OLD[0])

    pruned = prune_samples(store, before=BEFORE)

    assert (pruned.removed, pruned.kept) == (tuple(OLD[2:]), tuple(OLD[:2]))
    assert store.partitions(SAMPLES) == (*OLD[:2], *YOUNG)


def test_a_day_whose_samples_are_newer_than_what_was_made_of_them_stays(store):
    write(store, OLD[0], SERIES, SAMPLES, at=3000)

    pruned = prune_samples(store, before=BEFORE)

    assert pruned.kept == tuple(OLD[:2])


def test_a_young_day_that_waits_holds_the_old_one_before_it(store):
    store.remove(WORK, YOUNG[0])

    pruned = prune_samples(store, before=BEFORE)

    assert (pruned.removed, pruned.kept) == (tuple(OLD[:-1]), (OLD[-1],))


def test_only_the_samples_of_the_applications_that_are_named_go(store):
    other = Partition("shop/rides", OLD[0].day)
    write(store, other, SERIES, SAMPLES, at=1000)
    write(store, other, *RESULTS, at=2000)

    pruned = prune_samples(store, before=BEFORE, apps=["shop/rides"])

    assert pruned.removed == (other,)
    assert set(DAYS) <= set(store.partitions(SAMPLES))


def test_one_that_dies_half_way_leaves_no_samples_without_labels_and_the_next_goes_on(
    store, monkeypatch
):
    remove = store.remove

    def die_at_the_labels_of_the_second_day(table, partition):
        if (table, partition) == (SERIES, OLD[1]):
            raise KeyboardInterrupt
        remove(table, partition)

    monkeypatch.setattr(store, "remove", die_at_the_labels_of_the_second_day)
    with pytest.raises(KeyboardInterrupt):
        prune_samples(store, before=BEFORE)
    monkeypatch.undo()
    half_way = store.partitions(SAMPLES), store.partitions(SERIES)

    pruned = prune_samples(store, before=BEFORE)

    assert half_way == (tuple(DAYS[2:]), tuple(DAYS[1:]))
    assert pruned.removed == tuple(OLD[1:])
    assert store.partitions(SERIES) == tuple(YOUNG)


def test_a_removal_that_dies_leaves_no_part_of_its_partition_among_the_tables(store, monkeypatch):
    monkeypatch.setattr("weir_pipelines.store.shutil.rmtree", lambda *args, **options: None)

    store.remove(SAMPLES, OLD[0])

    assert OLD[0] not in store.partitions(SAMPLES)
    assert not store.path(SAMPLES, OLD[0]).parent.exists()
    assert list((store.root / STAGING).rglob("*.parquet")) != []
