"""From tasks to operators: how many records arrived, took their way, and waited, per minute.

What a source *takes* is not what *arrives*: under back-pressure, in a restart and while it catches
up, the difference goes into its backlog or comes out of it. So what arrives at a source is what it
took plus what its backlog grew by. Whatever blocks or delays the source scales the flow behind it
alike; an operator inside the dataflow would have been reached by what it took in, times what
arrived at the sources over what they took. That needs no dataflow, is exact where there is one
source, and takes several sources for one, as if each had been blocked as much as all together.

A source that is back-pressured and tells no backlog leaves all of the minute's arrivals unknown.

Rates of parallel tasks are completed by their number: where one of four was not sampled, what the
others took stands for three quarters. `completeness` says so.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from weir_pipelines.clipping import at_least, at_most
from weir_pipelines.faults import Fault
from weir_pipelines.settings import ArrivalSettings
from weir_pipelines.steps import measure_series
from weir_pipelines.task_minutes import measure_tasks

_OPERATOR = ("app", "day", "operator")


def rebuild_arrivals(samples: DataFrame, series: DataFrame, settings: ArrivalSettings) -> DataFrame:
    """Return the rates of each operator, minute by minute.

    Args:
        samples: As the table `samples`, of whole days and their margins.
        series: As the table `series`; one that is written on several days may be there repeatedly.
        settings: Where the lines are drawn.

    Returns:
        As the table `arrivals`; minutes of which nothing is known are left out.
    """
    labels = series.drop("day").dropDuplicates(["series"])
    tasks = measure_tasks(measure_series(samples, settings), labels, settings)
    operators = _sum_operators(_choose_tasks(_know_parallelism(tasks), settings))
    return _shape(_judge_demand(operators, settings))


def _know_parallelism(tasks: DataFrame) -> DataFrame:
    """Add how many parallel tasks there are, whether one begins anew or ends, and what is a source.

    One run may be rescaled in place, with an attempt after the other: parallel to an attempt are
    those that live while it does, even where they are not sampled for a while.
    """
    one = Window.partitionBy(*_OPERATOR, "task", "job_id", "subtask", "attempt")
    run = Window.partitionBy(*_OPERATOR, "task", "job_id")
    whole = Window.partitionBy(*_OPERATOR)
    task = Window.partitionBy(*_OPERATOR, "task")
    subtask = F.col("subtask").cast("int")
    told = (
        tasks.withColumn("begun", F.min("first_ms").over(one))
        .withColumn("ended", F.max("last_ms").over(one))
        .withColumn(
            "lives",
            F.collect_set(F.struct(subtask.alias("subtask"), F.col("begun"), F.col("ended"))).over(
                run
            ),
        )
        # At once, because a row must not carry the lives any further.
        .withColumn("parallelism", F.greatest(_highest_beside("lives"), subtask) + 1)
        .drop("lives")
        .withColumn("first_end", F.min("ended").over(whole))
        .withColumn("last_begin", F.max("begun").over(whole))
        .withColumn("was_fed", F.coalesce(F.sum("in_rise").over(task), F.lit(0.0)) > 0)
        .withColumn("gave", F.coalesce(F.sum("out_rise").over(task), F.lit(0.0)) > 0)
    )
    end = (F.col("minute") + 60) * 1000
    begins = (F.col("begun") > F.col("first_end")) & _within(F.col("begun"), end)
    ends = (F.col("ended") < F.col("last_begin")) & _within(F.col("ended"), end)
    return told.withColumn("is_source", ~F.col("was_fed") & F.col("gave")).withColumn(
        "is_restart", F.coalesce(begins | ends, F.lit(False))
    )


def _highest_beside(lives: str) -> Column:
    """Return the highest subtask whose life overlaps the row's; null where there is none."""
    beside = F.filter(
        lives, lambda life: (life["begun"] < F.col("ended")) & (F.col("begun") < life["ended"])
    )
    return F.array_max(F.transform(beside, lambda life: life["subtask"]))


def _within(time_ms: Column, end_ms: Column) -> Column:
    """Tell whether a sample belongs to the minute that ends then."""
    return (time_ms > end_ms - 60_000) & (time_ms <= end_ms)


def _choose_tasks(tasks: DataFrame, settings: ArrivalSettings) -> DataFrame:
    """Add which tasks take in an operator's records, and which give them out."""
    has_source = F.bool_or("is_source").over(Window.partitionBy(*_OPERATOR))
    entry = _named(settings.entries, F.when(has_source, F.col("is_source")).otherwise(F.lit(True)))
    leaving = _named(settings.exits, F.lit(True))
    # Flink counts no input at a source: what it gives out stands for it.
    taken = F.when(F.col("is_source"), F.col("out_rise")).otherwise(F.col("in_rise"))
    taken_ms = F.when(F.col("is_source"), F.col("out_ms")).otherwise(F.col("in_ms"))
    return tasks.select(
        "*",
        F.when(entry, taken).alias("taken_rise"),
        F.when(entry, taken_ms).alias("taken_ms"),
        F.when(leaving, F.col("out_rise")).alias("given_rise"),
        F.when(leaving, F.col("out_ms")).alias("given_ms"),
        entry.alias("entry"),
    )


def _named(tasks: Mapping[str, str], otherwise: Column) -> Column:
    """Return whether a row's task is the one named for its operator."""
    chosen = otherwise
    for operator, task in tasks.items():
        chosen = F.when(F.col("operator") == operator, F.col("task") == task).otherwise(chosen)
    return chosen


def _sum_operators(tasks: DataFrame) -> DataFrame:
    """Add up parallel tasks, then tasks and runs."""
    flags = [name for name in tasks.columns if name.startswith("is_")]
    runs = tasks.groupBy(*_OPERATOR, "minute", "task", "job_id").agg(
        F.sum("taken_rise").alias("taken_rise"),
        (F.sum(F.col("taken_ms") / F.col("parallelism")) / 1000).alias("taken_s"),
        F.sum("given_rise").alias("given_rise"),
        (F.sum(F.col("given_ms") / F.col("parallelism")) / 1000).alias("given_s"),
        F.avg("busy").alias("busy"),
        F.avg("blocked").alias("blocked"),
        F.sum("pending").alias("pending"),
        F.sum("growth").alias("growth"),
        F.max("parallelism").alias("parallelism"),
        F.bool_or("entry").alias("entry"),
        *(F.bool_or(name).alias(name) for name in flags),
    )
    by_task = runs.groupBy(*_OPERATOR, "minute", "task").agg(
        # Runs of a task follow each other: together they cover a minute at most.
        _rate("taken_rise", "taken_s").alias("taken"),
        _rate("given_rise", "given_s").alias("given"),
        at_most(F.sum("taken_s"), 60.0).alias("taken_s"),
        F.avg("busy").alias("busy"),
        F.avg("blocked").alias("blocked"),
        F.max_by("pending", "taken_s").alias("pending"),
        F.avg("growth").alias("growth"),
        F.avg("parallelism").alias("parallelism"),
        F.bool_or("entry").alias("entry"),
        *(F.bool_or(name).alias(name) for name in flags),
    )
    return by_task.groupBy(*_OPERATOR, "minute").agg(
        F.sum(F.when(F.col("entry"), F.col("taken"))).alias("taken"),
        F.sum("given").alias("given"),
        (F.min(F.when(F.col("entry"), F.col("taken_s"))) / 60).alias("completeness"),
        F.max("busy").alias("utilisation"),
        F.max("blocked").alias("blocked"),
        F.sum("pending").alias("backlog"),
        F.sum("growth").alias("growth"),
        F.max("parallelism").cast("double").alias("replicas"),
        *(F.bool_or(name).alias(name) for name in flags),
    )


def _rate(rise: str, seconds: str) -> Column:
    return F.sum(rise) / F.nullif(F.sum(seconds), F.lit(0.0))


def _judge_demand(operators: DataFrame, settings: ArrivalSettings) -> DataFrame:
    """Add what arrived, from what the sources took and what their backlog grew by."""
    blocked = F.col("is_source") & (
        F.coalesce(F.col("blocked"), F.lit(0.0)) > settings.blocked_from
    )
    silent = F.col("growth").isNull()
    at_source = F.when(
        ~(blocked & silent),
        # Backlog and intake are not sampled at one instant: a small negative sum is zero.
        at_least(F.col("taken") + F.coalesce(F.col("growth"), F.lit(0.0)), 0.0),
    )
    everywhere = Window.partitionBy("app", "day", "minute")
    demanded = (
        operators.withColumn("is_blocked", blocked & silent)
        .withColumn("is_backlog", blocked & ~silent)
        .withColumn("demand", F.when(F.col("is_source"), at_source))
        .withColumn("sources_take", _sum_at_sources("taken").over(everywhere))
        .withColumn("sources_demand", _sum_at_sources("demand").over(everywhere))
        .withColumn("unknown", F.bool_or("is_blocked").over(everywhere))
    )
    inside = (
        F.when(F.col("unknown"), F.lit(None))
        .when(F.col("sources_take").isNull(), F.col("taken"))  # no source in sight
        .when(F.col("sources_take") == F.col("sources_demand"), F.col("taken"))
        .otherwise(
            F.col("taken") * F.col("sources_demand") / F.nullif(F.col("sources_take"), F.lit(0.0))
        )
    )
    return demanded.withColumn(
        "arrived", F.when(F.col("is_source"), F.col("demand")).otherwise(inside)
    ).withColumn("is_blocked", F.col("unknown"))


def _sum_at_sources(column: str) -> Column:
    return F.sum(F.when(F.col("is_source"), F.col(column)))


_FAULTS = {
    Fault.BACKLOG: "is_backlog",
    Fault.BLOCKED: "is_blocked",
    Fault.CLOCK: "is_clock",
    Fault.DUPLICATE: "is_duplicate",
    Fault.GAP: "is_gap",
    Fault.LATE: "is_late",
    Fault.NOT_A_NUMBER: "is_nan",
    Fault.RESET: "is_reset",
    Fault.RESTART: "is_restart",
}


def _shape(operators: DataFrame) -> DataFrame:
    """Return the columns of the table."""
    faults = F.array_compact(
        F.array(*(F.when(F.col(name), F.lit(fault.value)) for fault, name in _FAULTS.items()))
    )
    known = (F.col("completeness") > 0) | (F.size("faults") > 0)
    return (
        operators.withColumn("faults", F.array_sort(faults))
        .where(known)
        .select(
            "operator",
            "minute",
            "arrived",
            "taken",
            "given",
            "backlog",
            "blocked",
            "utilisation",
            "replicas",
            F.coalesce("completeness", F.lit(0.0)).alias("completeness"),
            "faults",
            "app",
            F.date_from_unix_date("day").alias("day"),
        )
    )
