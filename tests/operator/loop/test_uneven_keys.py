"""What Weir says of keys that bring many of the records, and what it then plans with."""

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.operator.metrics.builders import Load, a_layout_of, a_replica, a_window
from weir_operator.cluster.status.conditions import judge_skew
from weir_operator.metrics.keys import (
    describe_overload,
    describe_partitions,
    describe_skews,
    report_keys,
)
from weir_operator.metrics.measurement import measure
from weir_operator.metrics.values import PartitionMeasurement
from weir_policies.model.keys import (
    HeavyKey,
    KeyShares,
    fullest_shares,
    shares_of_groups,
)
from weir_policies.model.node_types import Deployment
from weir_policies.testing import WIDE, a_model, an_observation

HOT = np.array([0.38, *[0.62 / 9999] * 9999])
KEYS = KeyShares(
    by_group=shares_of_groups(HOT, 720),
    counted=1e6,
    heavy=(HeavyKey(name="1a2b3c4d", group=94, share=0.38),),
)
FULLEST = fullest_shares(KEYS, 10)


def seen(deployment=(0, 4, 0), **model):
    given = {"keyed": True, "key_groups": 720, "max_replicas": 10, "fullest": FULLEST, **model}
    return an_observation(model=a_model(**given), deployment=Deployment(deployment), rate=60.0)


def described(observation, keys=None):
    observations = {"sums": observation}
    return describe_skews(report_keys(keys or {}, observations), observations).get("sums", "")


def test_a_heavy_key_is_named_with_what_helps_and_what_does_not():
    sentence = described(seen(), {"sums": KEYS})

    assert sentence.startswith("One key of sums (1a2b3c4d) carries 38% of its records")
    assert f"the fullest of 4 replicas gets {FULLEST[3]:.0%} instead of 25%" in sentence
    assert "more than 6 replicas do not help, a faster pool does" in sentence
    assert f"would be 15% busy instead of {0.6 * FULLEST[3]:.0%}" in sentence


def test_what_dear_keys_bring_is_said_to_be_of_the_work():
    dear = replace(KEYS, work=KEYS.by_group, by_group=(1 / 720,) * 720)

    sentence = described(seen(), {"sums": dear})

    assert f"the fullest of 4 replicas gets {FULLEST[3]:.0%} of the work instead" in sentence
    assert report_keys({"sums": dear}, {"sums": seen()})["sums"].work == pytest.approx(FULLEST[3])


def test_the_key_that_is_named_is_that_with_most_of_the_work_where_records_differ():
    work = [0.4 / 719] * 720
    work[5] = 0.6
    cheap, dear = (
        HeavyKey(name="1a2b3c4d", group=94, share=0.38),
        HeavyKey(name="5e6f7a8b", group=5, share=0.04),
    )
    keys = replace(KEYS, work=tuple(work), heavy=(cheap, dear))

    sentence = described(seen(fullest=fullest_shares(keys, 10)), {"sums": keys})

    assert sentence.startswith(
        "One key of sums (5e6f7a8b) carries 4% of its records, its key group 60% of the work"
    )
    assert "1a2b3c4d" not in sentence
    assert "1a2b3c4d" in described(seen((2, 0, 2)), {"sums": keys})


def test_of_replicas_on_several_node_types_no_share_of_the_work_is_said():
    dear = replace(KEYS, work=KEYS.by_group, by_group=(1 / 720,) * 720)

    assert "of the work" not in described(seen((2, 0, 2)), {"sums": dear})


def test_on_the_fastest_pool_no_faster_one_is_advised():
    assert "a faster pool" not in described(seen((0, 0, 4)), {"sums": KEYS})


def test_what_the_rates_of_replicas_tell_is_said_without_a_key():
    sentence = described(seen(fullest=(), hot_share=0.3))

    assert sentence.startswith("The keys of sums are uneven; the fullest of 4 replicas gets")


def test_even_keys_are_no_news():
    assert described(seen(fullest=()), {"sums": KEYS}) == ""


def test_a_parallelism_that_parts_the_heavy_groups_is_no_news():
    apart = seen((0, 2, 0), fullest=(1.0, 0.5, 0.5, 0.5))

    assert described(apart) == ""
    assert described(seen((0, 4, 0), fullest=(1.0, 0.5, 0.5, 0.5))) != ""


def test_shares_are_reported_by_subtask():
    report = report_keys({"sums": KEYS, "gone": KEYS}, {"sums": seen()})

    assert report.keys() == {"sums"}
    assert report["sums"].fullest == pytest.approx(FULLEST[3])
    assert sum(report["sums"].replicas) == pytest.approx(1.0)
    assert report["sums"].heaviest == 94
    assert report["sums"].heaviest_share >= 0.38


def test_of_a_few_records_after_a_start_no_share_is_reported_and_no_key_named():
    few = replace(KEYS, counted=999.0)

    assert report_keys({"sums": few}, {"sums": seen()}) == {}
    assert report_keys({"sums": replace(KEYS, counted=1000.0)}, {"sums": seen()})
    assert described(seen(), {"sums": few}).startswith("The keys of sums are uneven")


WEIGHTS = ",".join(np.base_repr(round(1e6 * share), 36) for share in KEYS.by_group)
AS_TEXT = f"match K0 LFLS 0 1 {WEIGHTS} 1a2b3c4d:2M:{np.base_repr(380_000, 36)}"


async def test_a_tick_tells_of_skew_and_records_it(stage_of):
    stage = stage_of(operatorManager={"interval": "5s", "policy": {"name": "hold"}})
    stage.keyed, stage.key_lines = True, (AS_TEXT,)
    await stage.started()
    stage.put_under(20)

    ticks = await stage.ticks(2)

    assert "carries 38%" in ticks[-1].skewed["match"]
    assert stage.reasons.count("Skewed") == 1
    [*_, recorded] = stage.records.ticks()
    assert recorded.keys["match"].heavy[0].name == "1a2b3c4d"
    assert judge_skew(ticks[-1]).status == "True"
    assert "carries 38%" in judge_skew(ticks[-1]).message


async def test_a_rate_for_which_no_number_of_replicas_has_room_puts_the_objective_out_of_reach(
    stage_of,
):
    stage = stage_of(operatorManager={"interval": "5s", "policy": {"name": "hold"}})
    stage.keyed, stage.key_lines = True, (AS_TEXT,)
    await stage.started()
    stage.put_under(60, latency=2.0, match=Load(rate=60, busy=1.0, service_mean=0.1, age=1.0))

    ticks = await stage.ticks(4)
    stage.put_under(60, latency=0.1)
    [within] = await stage.ticks(1)

    assert "the fullest of them would be at least 90% busy" in ticks[-1].infeasible
    assert "carries 38% of its records" in ticks[-1].infeasible
    assert stage.reasons.count("ObjectiveInfeasible") == 1
    assert within.infeasible == ""


def test_what_one_replica_more_or_another_pool_serves_is_no_overload():
    skewed = {"sums": "Its keys are uneven"}
    full = seen()
    assert describe_overload(skewed, {"sums": replace(full, processed=1e3)}).endswith("uneven")
    assert describe_overload(skewed, {"sums": replace(full, processed=60.0)}) == ""
    assert describe_overload(skewed, {"sums": replace(full, processed=math.nan)}) == ""
    assert describe_overload({}, {"sums": replace(full, processed=1e3)}) == ""


async def test_a_job_with_even_keys_has_the_condition_false(stage_of):
    stage = await stage_of().started()
    stage.put_under(20)

    ticks = await stage.ticks(2)

    assert judge_skew(None).message.endswith("no control interval has ended yet")
    held = judge_skew(replace(ticks[-1], observations={}, held="The job has just been restarted"))
    assert held.status == "Unknown"
    assert held.message == "There is no measurement: The job has just been restarted"
    assert judge_skew(ticks[-1]).status == "False"


def partitions(*readings):
    """Return a job with a source whose partitions have these readers, rates and waiting records."""
    found = tuple(
        PartitionMeasurement(name=f"orders-{place}", reader=reader, rate=rate, waiting=waiting)
        for place, (reader, rate, waiting) in enumerate(readings)
    )
    job = a_layout_of(a_replica("s", "source", WIDE.name))
    app = measure(a_window(job, {"source": Load(rate=10.0)}), job)
    source = replace(app.operators["source"], partitions=found)
    return describe_partitions(replace(app, operators={"source": source})).get("source", "")


def test_a_partition_that_is_not_read_while_others_are_is_named():
    sentence = partitions(("a", 50.0, 0.0), ("b", 0.0, 5000.0), ("c", 40.0, 10.0))

    assert "Nothing is read of partition orders-1" in sentence
    assert "5,000 records wait" in sentence


def test_partitions_without_records_are_no_news():
    assert partitions(("a", 50.0, 0.0), ("b", 0.0, 0.0)) == ""
    assert partitions(("a", 0.0, 5000.0), ("b", 0.0, 5000.0)) == ""
    assert partitions(("a", 50.0, math.nan), ("b", 0.0, math.nan)) == ""


def test_an_idle_partition_beside_one_that_is_behind_is_not_taken_for_a_broken_one():
    assert "Nothing is read" not in partitions(
        ("a", 0.0, 9000.0), ("a", 9.0, 9000.0), ("b", 9.0, 0)
    )


def test_the_reader_for_which_most_records_wait_is_told_with_its_partitions():
    sentence = partitions(("a", 50.0, 9000.0), ("a", 50.0, 9000.0), ("b", 40.0, 1000.0))

    assert sentence.startswith("90% of the records that wait at")
    assert "partitions orders-0, orders-1, which one replica reads" in sentence
    assert sentence.endswith("more partitions help, as do up to 3 replicas")
    alone = partitions(("a", 50.0, 9000.0), ("b", 50.0, 100.0), ("b", 40.0, 100.0))
    assert alone.endswith("more partitions help")
    assert partitions(("a", 50.0, 5000.0), ("b", 40.0, 5000.0)) == ""
