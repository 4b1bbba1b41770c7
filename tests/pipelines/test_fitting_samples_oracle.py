"""The columns' samples are those that a plain reckoning makes, a row at a time."""

import math
from datetime import date
from statistics import fmean

import numpy as np
import pytest

from tests.pipelines.known_history import write_rows
from weir_pipelines.faults import Fault
from weir_pipelines.history import read_fitting_samples
from weir_pipelines.schemas import ARRIVALS, WORK
from weir_pipelines.store import Partition, Store

DAY = Partition("trips", date(1970, 1, 1))
INTERVAL = 300
MINUTES = range(0, 30 * INTERVAL, 60)
OPERATORS = ("source", "match", "count")
TYPES = {"small": "small/1", "large": "large/2"}
NODE_TYPES = (*TYPES.values(), "mixed/1", "mixed/2")
UNSETTLED = {"restart", "backlog", "blocked", "clock", "reset"}


def draw_arrivals(rng):
    """Return rows of which some are missing, in part not covered, faulty or not known."""
    return [
        {
            "operator": name,
            "minute": minute,
            **{rate: maybe(rng, rng.uniform(5, 50)) for rate in ("arrived", "taken", "given")},
            "backlog": None,
            "blocked": None,
            "utilisation": None,
            "replicas": 2.0,
            "completeness": float(rng.choice([1.0, 0.9995, 0.998, 0.5, 0.0])),
            "faults": [each.value for each in Fault if rng.random() < 0.005],
        }
        for name in OPERATORS
        for minute in MINUTES
        if rng.random() < 0.9
    ]


def draw_work(rng):
    """Return rows on pools of one size, and now and then on one of several."""
    return [
        draw_work_row(rng, name, pool, minute)
        for name in OPERATORS
        for minute in MINUTES
        for pool, share in (("small", 0.8), ("large", 0.3), ("mixed", 0.02))
        if rng.random() < share
    ]


def draw_work_row(rng, name, pool, minute):
    records, mean = rng.uniform(1, 1000), rng.uniform(0.01, 0.05)
    return {
        "operator": name,
        "pool": pool,
        "minute": minute,
        "replicas": float(rng.integers(1, 5)),
        "records": records,
        "seconds": records * mean,
        "squares": maybe(rng, records * mean**2 * rng.uniform(1.2, 3), unknown=0.05),
        "utilisation": maybe(rng, rng.random(), unknown=0.4),
        "source": "helper",
        "sink_records": maybe(rng, rng.choice([0.0, rng.uniform(1, 1000)]), unknown=0.7),
        "sink_seconds": maybe(rng, rng.uniform(1, 100), unknown=0.2),
    }


def maybe(rng, value, *, unknown=0.2):
    return None if rng.random() < unknown else float(value)


def count(arrivals, work):
    """Return each interval's time, whether it is disturbed, its response time and operators."""
    found, before = [], False
    for begin in sorted({begin_of(row) for row in arrivals}):
        seen = [row for row in arrivals if begin_of(row) == begin]
        worked = [row for row in work if begin_of(row) == begin]
        unsettled = any(UNSETTLED & {*row["faults"]} for row in seen)
        operators = {}
        for name in OPERATORS:
            sample = reckon_operator(
                [row for row in seen if row["operator"] == name and row["completeness"] >= 0.999],
                [row for row in worked if row["operator"] == name],
            )
            if sample is not None:
                operators[name] = sample
        if operators:
            response_time = reckon_response_time(worked)
            found.append((begin + INTERVAL, before or unsettled, response_time, operators))
        before = unsettled
    return found


def begin_of(row):
    return row["minute"] // INTERVAL * INTERVAL


def reckon_operator(whole, worked):
    """Return its rates, and by node type replicas, records, mean, variance and utilisation."""
    pools = {row["pool"] for row in worked}
    if not whole or not pools or "mixed" in pools:
        return None
    rates = tuple(mean_of_known(whole, rate) for rate in ("arrived", "taken", "given"))
    return rates, {
        TYPES[pool]: reckon_service([row for row in worked if row["pool"] == pool])
        for pool in pools
    }


def reckon_service(rows):
    records = math.fsum(row["records"] for row in rows)
    mean = math.fsum(row["seconds"] for row in rows) / records
    squares = [row["squares"] for row in rows]
    variance = math.nan if None in squares else math.fsum(squares) / records - mean**2
    replicas = max(row["replicas"] for row in rows)
    return replicas, records, mean, variance, mean_of_known(rows, "utilisation")


def mean_of_known(rows, column):
    known = [row[column] for row in rows if row[column] is not None]
    return fmean(known) if known else math.nan


def reckon_response_time(rows):
    noted = [row for row in rows if row["sink_records"] and row["sink_seconds"] is not None]
    records = math.fsum(row["sink_records"] for row in noted)
    return math.fsum(row["sink_seconds"] for row in noted) / records if noted else math.nan


def as_reckoned(interval):
    """Return an interval's sample as `count` has it."""
    operators = {}
    for name, sample in interval.operators.items():
        rates = (sample.arrived, sample.taken, sample.given)
        operators[name] = (
            rates,
            {
                each.node_type: (
                    sample.deployment[each.node_type],
                    each.records,
                    each.mean,
                    each.variance,
                    utilisation,
                )
                for each, utilisation in zip(sample.services, sample.utilisation, strict=True)
            },
        )
    return interval.time, interval.disturbed, interval.response_time, operators


def flatten(value):
    """Yield the numbers of nested tuples, lists and dicts, dicts in the order of their keys."""
    if isinstance(value, dict):
        value = [part for key in sorted(value) for part in (key, value[key])]
    if isinstance(value, (tuple, list)):
        for part in value:
            yield from flatten(part)
    else:
        yield value


@pytest.mark.parametrize("seed", range(4))
def test_the_columns_say_what_rows_one_at_a_time_do(tmp_path, seed):
    rng = np.random.default_rng(seed)
    arrivals, work = draw_arrivals(rng), draw_work(rng)
    store = Store(tmp_path)
    write_rows(store, ARRIVALS, DAY, arrivals)
    write_rows(store, WORK, DAY, work)

    samples = read_fitting_samples(store, [DAY], NODE_TYPES, interval=INTERVAL).samples

    expected = list(flatten(count(arrivals, work)))
    got = list(flatten([as_reckoned(each) for each in samples.intervals]))
    assert len(got) == len(expected)
    for one, other in zip(got, expected, strict=True):
        assert one == (other if isinstance(other, str) else pytest.approx(other, nan_ok=True))
    restarts = {row["minute"] + 60 for row in arrivals if "restart" in row["faults"]}
    assert [each.time for each in samples.changes] == sorted(restarts)
    assert {each.disturbed for each in samples.intervals} == {True, False}
