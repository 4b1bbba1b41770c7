"""`weir graph --keys` and `weir explain` show how keys share the records of a job that runs."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from tests.cli.recorded import START, a_record, a_tick, write_records
from weir_cli import main
from weir_operator.loop.record import RecordStore
from weir_operator.metrics.keys import KeyReport
from weir_policies.model.keys import HeavyKey

KEYS = KeyReport(
    replicas=(0.2, 0.65, 0.15),
    heaviest=94,
    heaviest_share=0.4,
    heavy=(HeavyKey(name="1a2b3c4d", group=94, share=0.38),),
    counted=5000.0,
)


@pytest.fixture
def state(tmp_path):
    folder = tmp_path / "streams.trips"
    write_records(folder, 2)
    store = RecordStore(folder / "records.sqlite")
    time = START + 1000.0
    store.write([replace(a_tick(time, a_record(time)), keys={"match": KEYS})])
    store.close()
    return tmp_path


def run(*arguments, state):
    return CliRunner().invoke(main.app, [*arguments, "--state", str(state)])


def test_the_shares_of_replicas_and_the_heaviest_keys_are_drawn(state):
    shown = run("graph", "--keys", "streams/trips", state=state).output

    assert "match: the fullest of 3 replicas gets 65.0% of the records" in shown
    assert "1a2b3c4d 38.0%" in " ".join(shown.split())
    bars = [line for line in shown.splitlines() if "#" in line]
    assert [bar.count("#") for bar in bars] == [12, 40, 9]
    assert len({bar.index("|") for bar in bars}) == 1  # the mean, a third of the records
    assert bars[1].partition("|")[0].count("#") == 21


def test_what_the_fullest_replica_has_of_the_work_is_said_where_records_differ(state):
    store, time = RecordStore(state / "streams.trips" / "records.sqlite"), START + 1000.0
    keys = {"match": replace(KEYS, work=0.9)}
    store.write([replace(a_tick(time, a_record(time)), keys=keys)])
    store.close()

    shown = run("graph", "--keys", "streams/trips", state=state).output

    assert "one replica has 90.0% of the work" in " ".join(shown.split())


def test_programs_get_them_as_json(state):
    shown = json.loads(run("graph", "--keys", "--json", "streams/trips", state=state).output)

    assert shown["match"]["replicas"] == [0.2, 0.65, 0.15]
    assert shown["match"]["heavy"][0]["name"] == "1a2b3c4d"


def test_a_decision_is_explained_with_the_keys_that_were_known(state):
    assert "1a2b3c4d 38.0%" in " ".join(run("explain", "streams/trips", state=state).output.split())


def test_keys_with_signs_of_markup_are_printed_as_they_are(state):
    store, time = RecordStore(state / "streams.trips" / "records.sqlite"), START + 1000.0
    odd = KeyReport(
        replicas=(0.5, 0.5),
        heaviest=0,
        heaviest_share=0.4,
        heavy=(
            HeavyKey(name="=[/b]", group=0, share=0.4),
            HeavyKey(name="=[red]:smile:", group=0, share=0.3),
        ),
        counted=5000.0,
    )
    record = replace(a_record(time), verdict="Stays. One key of match ('[/i]') carries 40%")
    store.write([replace(a_tick(time, record), keys={"match": odd})])
    store.close()

    shown = run("explain", "streams/trips", state=state)

    assert shown.exit_code == 0
    assert "'[/b]' 40.0%" in " ".join(shown.output.split())
    assert "'[red]:smile:' 30.0%" in " ".join(shown.output.split())
    assert "('[/i]') carries 40%" in " ".join(shown.output.split())


def test_uneven_shares_are_drawn_with_a_decision(state):
    store, time = RecordStore(state / "streams.trips" / "records.sqlite"), START + 1000.0
    record = a_record(time)
    skewed = replace(record.observation.model, fullest=(1.0, 0.8, 0.65))
    record = replace(record, observation=replace(record.observation, model=skewed))
    store.write([replace(a_tick(time, record), keys={"match": KEYS})])
    store.close()

    shown = run("explain", "streams/trips", state=state).output

    assert [line.count("#") for line in shown.splitlines() if "#" in line] == [12, 40, 9]


def test_a_job_whose_keys_were_not_counted_is_answered_in_one_sentence(tmp_path):
    write_records(tmp_path / "streams.trips", 2)

    result = run("graph", "--keys", "streams/trips", state=tmp_path)

    assert result.exit_code != 0
    assert "expected counts of keys, found none; wait until" in " ".join(result.stderr.split())
