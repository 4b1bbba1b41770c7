import math
from datetime import UTC, date, datetime

import pytest

from tests.pipelines.known_history import write_rows
from weir_pipelines.errors import InputError
from weir_pipelines.history import read_seasons
from weir_pipelines.schemas import PROFILES, REGIMES
from weir_pipelines.store import Partition, Tables

APP = "streams/trips"
DAY = date(2026, 3, 8)


def write_profile(root, *, usual=100.0, hours=range(168), day=DAY):
    rows = [
        {"operator": "op", "hour": hour, "days": 4, "low": 1.0, "usual": usual + hour, "high": 1e3}
        for hour in hours
    ]
    write_rows(Tables(root), PROFILES, Partition(APP, day), rows)


def write_regime(root, *, factor, changed):
    row = {"operator": "op", "hours": 24, "factor": factor, "low": 0.1, "high": 9.0}
    write_rows(Tables(root), REGIMES, Partition(APP, DAY), [{**row, "changed": changed}])


def test_a_season_is_the_last_days_profile(tmp_path):
    write_profile(tmp_path, usual=1.0, day=date(2026, 3, 7))
    write_profile(tmp_path, usual=100.0)

    season = read_seasons(Tables(tmp_path), APP)["op"]

    assert season.rates == tuple(100.0 + hour for hour in range(168))
    assert season.weeks == 4


def test_hours_without_a_profile_are_unknown(tmp_path):
    write_profile(tmp_path, hours=range(1, 168))

    season = read_seasons(Tables(tmp_path), APP)["op"]

    assert math.isnan(season.rates[0])
    assert season.rates[1] == 101.0


@pytest.mark.parametrize(("changed", "expected"), [(True, 200.0), (False, 100.0)])
def test_a_level_that_has_surely_changed_is_that_of_the_days_to_come(tmp_path, changed, expected):
    write_profile(tmp_path)
    write_regime(tmp_path, factor=2.0, changed=changed)

    season = read_seasons(Tables(tmp_path), APP)["op"]

    assert season.rates[0] == expected


def test_a_season_of_more_than_a_week_ago_is_refused_to_whoever_steers_by_it(tmp_path):
    write_profile(tmp_path)
    near, far = (datetime(2026, 3, number, 12, tzinfo=UTC).timestamp() for number in (15, 16))

    assert read_seasons(Tables(tmp_path), APP, now=near).keys() == {"op"}
    with pytest.raises(
        InputError, match="got 2026-03-08 as the latest; find out why weir pipelines"
    ):
        read_seasons(Tables(tmp_path), APP, now=far)


def test_a_table_whose_rows_are_damaged_is_refused_by_name(tmp_path):
    write_profile(tmp_path)
    [file] = tmp_path.glob("profiles/*/*/*/profiles.parquet")
    content = file.read_bytes()
    footer = int.from_bytes(content[-8:-4], "little") + 8  # its length, and what marks the end
    file.write_bytes(b"PAR1".ljust(len(content) - footer, b"\0") + content[-footer:])

    with pytest.raises(
        InputError, match=r"profiles\.parquet: expected a Parquet file that can be read"
    ):
        read_seasons(Tables(tmp_path), APP)


def test_a_profile_that_no_week_can_have_is_refused_by_operator_and_day(tmp_path):
    write_profile(tmp_path, usual=-100.0)

    with pytest.raises(InputError, match="regimes of 'op' on 2026-03-08: Expected rates >= 0"):
        read_seasons(Tables(tmp_path), APP)


def test_where_no_profile_is_kept_there_is_no_season(tmp_path):
    assert read_seasons(Tables(tmp_path), APP) == {}
