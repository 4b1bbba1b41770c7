"""Tables in an object store are used as those in a folder, and replaced object by object."""

import datetime
import os

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from tests.pipelines.known_history import KnownJob, write_day
from tests.pipelines.s3_server import BUCKET, KEY, SECRET, running_s3
from weir_cli import main
from weir_pipelines.errors import InputError, StoreError
from weir_pipelines.export import EXPORT, Export, export_day
from weir_pipelines.ingest import Scraped, begin_of
from weir_pipelines.jobs import JOBS, Work
from weir_pipelines.metrics import METRICS, RECORDS_IN, RECORDS_OUT
from weir_pipelines.schemas import ARRIVALS, SAMPLES, SERIES, TABLES
from weir_pipelines.store import Partition, Tables, prune_samples

ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": KEY,
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "AWS_EC2_METADATA_DISABLED": "true",  # or a region and keys are looked for in the network
}
MONDAY, TUESDAY = (Partition("shop/trips", datetime.date(2026, 3, day)) for day in (2, 3))


@pytest.fixture(scope="module")
def s3():
    with running_s3() as (host, stored):
        yield host, stored


@pytest.fixture
def stored(s3, monkeypatch):
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    s3[1].is_down = False
    s3[1].objects.clear()
    return s3[1]


@pytest.fixture
def address(s3):
    return lambda bucket=BUCKET: f"s3://{bucket}/weir?scheme=http&endpoint_override={s3[0]}"


@pytest.fixture
def tables(address, stored):
    return Tables(address())


class OneCounter:
    """A source that reads 20 records/s, every two minutes of whatever is asked."""

    key = "server"

    def samples(self, app, start, end):
        seconds = range(int(start), int(end), 120)
        for role, rate in ((RECORDS_IN, 0), (RECORDS_OUT, 20)):
            yield Scraped(
                name=METRICS[role],
                labels={"weir_operator": "read", "task_name": "Source", "job_id": "j"},
                times_ms=[1000 * second for second in seconds],
                values=[float(rate * second) for second in seconds],
            )


def export(tables, partition):
    now = begin_of(TUESDAY.day) + 2 * 86_400
    return export_day(OneCounter(), tables, partition, now=now, piece=43_200)


def test_days_are_exported_and_worked_out_by_all_jobs_as_in_a_folder(
    spark, tables, tmp_path, monkeypatch
):
    # Workers were started with the environment of the session.
    monkeypatch.setattr(Tables, "__reduce__", lambda self: (_open_as_known, (self._address,)))
    results = []
    for each in (tables, Tables(tmp_path)):
        done: list[object] = [export(each, day) for day in (MONDAY, TUESDAY)]
        for job in JOBS.values():
            found = list(each.partitions(job.needs))
            work = Work(session=spark, tables=each, partitions=found)
            done.append(job.run(work))
        rows = {
            (name, day): each.read(table, day).to_pylist()
            for name, table in TABLES.items()
            for day in each.partitions(table)
        }
        results.append((done, rows))

    assert results[0] == results[1]
    assert results[0][0][:3] == [Export.DONE, Export.DONE, (MONDAY, TUESDAY)]


def _open_as_known(address):
    os.environ.update(ENVIRONMENT)
    return Tables(address)


def test_an_interrupted_export_continues_and_leaves_no_piece(tables, stored):
    export(tables, MONDAY)

    assert export(tables, MONDAY) == Export.PRESENT
    assert not any(EXPORT in key and not key.endswith("/") for key in stored.objects)


def test_an_object_is_replaced_when_its_upload_is_complete_and_not_before(tables, stored):
    path = tables.path(ARRIVALS, MONDAY)
    tables.put(path, pa.py_buffer(b"old"))
    [key] = stored.objects
    stored.is_down = True

    with pytest.raises(
        StoreError, match=r"^s3://history/weir/arrivals/.*cannot be written: .*Access"
    ):
        tables.put(path, pa.py_buffer(b"new"))
    kept = stored.objects[key]
    stored.is_down = False
    tables.put(path, pa.py_buffer(b"new"))

    assert (kept, stored.objects[key]) == (b"old", b"new")


def test_samples_that_are_worked_up_are_removed(tables):
    for table in (SERIES, SAMPLES, TABLES["arrivals"], TABLES["work"]):
        tables.write(table, MONDAY, [])

    pruned = prune_samples(tables, before=TUESDAY.day)

    assert pruned.removed == (MONDAY,)
    assert (tables.partitions(SAMPLES), list(tables.partitions(ARRIVALS))) == ({}, [MONDAY])


def test_a_bucket_that_is_not_there_is_said_in_one_sentence(address, stored):
    with pytest.raises(InputError) as refused:
        Tables(address("other"))

    assert str(refused.value) == (
        "s3://other/weir: expected a readable folder of tables, got: no such bucket; "
        "check the bucket, its region, and the credentials in the environment"
    )


def test_missing_credentials_are_said_in_one_sentence_by_the_command(
    address, stored, tmp_path, monkeypatch
):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("HOME", str(tmp_path))

    refused = CliRunner().invoke(
        main.app, ["pipelines", "run", "--from", "2026-03-02", "--tables", address()]
    )

    assert refused.exit_code == 1
    [sentence] = refused.output.splitlines()
    assert sentence.startswith("Error: s3://history/weir: expected a readable folder")
    assert "ACCESS_DENIED" in sentence


def test_a_trace_is_read_by_the_command_from_an_object_store(address, tmp_path, stored):
    write_day(address(), MONDAY, KnownJob(rate=lambda _: 20.0))
    flags = ["--app", MONDAY.app, "--operator", "match", "--tables", address()]

    told = CliRunner().invoke(main.app, ["pipelines", "trace", str(tmp_path / "t.txt"), *flags])

    assert told.exit_code == 0, told.output
    assert "1440 slots, 0.0% of them filled in" in told.output
