"""Reads from the records of a StreamApp what standby TaskManagers would have saved.

The manifest is the recorded one, as it was when the loops last started.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic import ValidationError

from weir_operator.errors import PermanentError
from weir_operator.loop.decision_records import LoopStart, RecordStore
from weir_operator.reporting.standby_advice import DAY, describe_standby, judge_standby
from weir_operator.runtime.standby import standby_pools, standby_prices
from weir_operator.streamapp.models import StreamApp
from weir_simulator.reports import wording


def advise_standby(records: RecordStore, *, until: float) -> str:
    """Return what standby TaskManagers would have saved in the last day, see `describe_standby`.

    Empty where no change has added replicas, and where Weir does not run the job.

    Args:
        records: Of the StreamApp.
        until: Unix seconds.
    """
    starts = [each for each in records.starts() if each.time <= until]
    if not starts:
        return ""
    app = app_of_start(starts[-1])
    if app.spec.flink.ref is not None:
        return ""
    since = until - DAY
    advice = judge_standby(
        (each for each in records.changes(since=since) if each.created <= until),
        records.ticks(since=since, until=until),
    )
    counts = {name: pool.count for name, pool in standby_pools(app).items()}
    return describe_standby(advice, standby_prices(app), counts)


def app_of_start(start: LoopStart) -> StreamApp:
    """Return the StreamApp of a start, as far as it was recorded.

    Raises:
        PermanentError: This version of Weir does not understand it.
    """
    written: dict[str, Any] = json.loads(json.dumps(start.app))
    # The program is not recorded, because no decision depends on it; but a StreamApp has one.
    if "ref" not in written["spec"]["flink"]:
        written["spec"]["flink"]["image"] = "not/recorded"
    try:
        return StreamApp.model_validate_json(json.dumps(written))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(each) for each in first["loc"])
        raise PermanentError(
            f"Expected the recorded StreamApp of {wording.time_of_day(start.time)} to be valid, "
            f"got a mistake in {place}: {first['msg']}; choose a later --at"
        ) from error
