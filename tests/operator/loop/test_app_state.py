"""What the loops keep: decisions that can be taken again, and what the managers have learned."""

import asyncio
import errno
import json
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from weir_operator.loop import app_state
from weir_operator.loop.app_state import LearnedStore
from weir_operator.loop.arbitrate import BudgetSharing
from weir_operator.runtime.files import write_atomically
from weir_operator.wiring import assembly
from weir_policies.model.objective import Statistic
from weir_simulator.experiment import Objective

CHAIN = ("gen", "match", "count", "out")

BOUNDED = Objective(response_time=0.5, statistic=Statistic.P95)


def a_store(stage, **changes):
    given = {"policy": "queueing", "settings": {}, "reset_nonce": 0, "sharing": stage.am.sharing}
    return LearnedStore(stage.folder / "learned.json", **given | changes)


async def test_what_was_learned_survives_a_restart_of_the_controller(stage_of):
    stage = await stage_of().started()
    await stage.ticks(5)
    stage.memory.save(stage.clock.now())
    known = {name: manager.state_dict() for name, manager in stage.managers.items()}
    fresh = assembly.operator_managers(stage.app)

    stage.learned.restore(fresh)

    assert {name: manager.state_dict() for name, manager in fresh.items()} == known
    assert fresh["match"].model.service_mean == pytest.approx(0.02)


@pytest.mark.parametrize(("statistic", "survives"), [(Statistic.P95, True), (Statistic.P99, False)])
async def test_the_measured_tail_survives_a_restart_of_the_controller(
    stage_of, statistic, survives
):
    stage = await stage_of().started()
    before = BudgetSharing(BOUNDED)
    before.note_output(mean=0.1, quantile=0.15)
    a_store(stage, sharing=before).save(stage.managers)
    after = BudgetSharing(Objective(response_time=0.5, statistic=statistic))

    a_store(stage, sharing=after).restore(stage.managers)

    assert (after.tail == before.tail) is survives


async def test_a_reset_forgets_the_measured_tail(stage_of):
    stage = await stage_of().started()
    sharing = BudgetSharing(BOUNDED)
    typical = sharing.tail
    sharing.note_output(mean=0.1, quantile=0.15)

    a_store(stage, sharing=sharing).begin_anew(1)

    assert sharing.tail == typical


@pytest.mark.parametrize(
    "damaged",
    [{}, *({"statistic": "p95", "tail": tail} for tail in (None, 0.0, -1.0, math.nan, math.inf))],
)
async def test_a_damaged_tail_is_measured_again(stage_of, damaged):
    stage = await stage_of().started()
    await stage.ticks(1)
    path = stage.folder / "learned.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"sharing": damaged}))
    after = BudgetSharing(BOUNDED)
    typical = after.tail

    a_store(stage, sharing=after).restore(stage.managers)

    assert after.tail == typical


async def test_what_was_learned_is_written_now_and_then_and_not_at_every_tick(stage_of):
    stage = await stage_of().started()
    path = stage.folder / "learned.json"
    await stage.ticks(1)
    first = path.stat().st_ino

    await stage.ticks(8)
    soon = path.stat().st_ino
    stage.clock.time += 50
    await stage.ticks(1)

    assert soon == first
    assert path.stat().st_ino != first


async def test_streamapps_that_start_together_write_what_was_learned_one_after_the_other(stage_of):
    stage = stage_of()
    stage.phase = 0.5
    await stage.started()
    stage.memory.restore(stage.clock.time)
    path = stage.folder / "learned.json"
    path.unlink(missing_ok=True)

    await stage.ticks(4)
    before_its_turn = path.exists()
    await stage.ticks(2)

    assert not before_its_turn
    assert path.exists()


async def test_a_later_save_waits_for_the_write_in_a_thread(stage_of, monkeypatch):
    stage = await stage_of().started()
    steps: list[str] = []
    begun, may_end = threading.Event(), threading.Event()

    def write_slowly(where, text):
        nonce = json.loads(text)["resetNonce"]
        steps.append(f"{nonce} begins")
        begun.set()
        may_end.wait(10)
        write_atomically(where, text)
        steps.append(f"{nonce} ends")

    monkeypatch.setattr(app_state, "write_atomically", write_slowly)
    first = asyncio.create_task(asyncio.to_thread(stage.learned.prepare_save(stage.managers)))
    assert await asyncio.to_thread(begun.wait, 10)
    first.cancel()  # as at the end of the loops
    await asyncio.wait([first])

    stage.learned.begin_anew(7)
    threading.Timer(0.1, may_end.set).start()
    stage.learned.save(stage.managers)

    assert steps == ["0 begins", "0 ends", "7 begins", "7 ends"]
    assert json.loads((stage.folder / "learned.json").read_text())["resetNonce"] == 7


async def test_a_save_that_found_no_free_thread_in_time_does_not_undo_a_later_one(stage_of):
    stage = await stage_of().started()
    free = threading.Event()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(max_workers=1))
    busy = asyncio.create_task(asyncio.to_thread(free.wait, 10))
    first = asyncio.create_task(asyncio.to_thread(stage.learned.prepare_save(stage.managers)))
    await asyncio.sleep(0)  # both ask for the thread

    stage.learned.begin_anew(7)
    stage.learned.save(stage.managers)
    free.set()
    await asyncio.gather(busy, first)

    assert json.loads((stage.folder / "learned.json").read_text())["resetNonce"] == 7


@pytest.mark.parametrize("text", ["not json", "[]", '{"version": 1}', '{"version": 99}'])
async def test_a_file_that_cannot_be_read_is_kept_aside_and_learning_begins_again(stage_of, text):
    stage = await stage_of().started()
    await stage.ticks(3)
    (stage.folder / "learned.json").write_text(text)
    fresh = assembly.operator_managers(stage.app)

    stage.learned.restore(fresh)
    stage.learned.save(fresh)

    assert math.isnan(fresh["match"].model.service_mean)
    assert (stage.folder / "learned.unreadable").read_text() == text


async def test_state_of_another_version_is_kept_aside_and_that_operator_begins_again(stage_of):
    stage = await stage_of().started()
    await stage.ticks(5)
    stage.memory.save(stage.clock.now())
    path = stage.folder / "learned.json"
    kept = json.loads(path.read_text())
    kept["operators"]["match"]["policy"]["version"] = 99
    path.write_text(json.dumps(kept))
    fresh = assembly.operator_managers(stage.app)

    stage.learned.restore(fresh)

    assert math.isnan(fresh["match"].model.service_mean)
    assert not math.isnan(fresh["count"].model.service_mean)
    assert json.loads((stage.folder / "learned.unreadable").read_text()) == kept


@pytest.mark.parametrize(
    "other",
    [{"reset_nonce": 1}, {"settings": {"cap": 0.5}}],
    ids=["a new reset nonce", "other settings, under which tables were not learned"],
)
async def test_what_was_learned_under_other_terms_is_forgotten(stage_of, other):
    stage = await stage_of().started()
    await stage.ticks(5)
    stage.memory.save(stage.clock.now())
    fresh = assembly.operator_managers(stage.app)

    a_store(stage, **other).restore(fresh)

    assert math.isnan(fresh["match"].model.service_mean)


@pytest.mark.parametrize(("nonce", "left"), [(0, True), (1, False)])
async def test_a_reset_while_nothing_ran_forgets_what_was_measured_too(stage_of, nonce, left):
    stage = await stage_of().started()
    await stage.ticks(5)
    stage.learned.begin_anew(nonce)

    stage.memory.restore(stage.clock.now())

    assert (stage.records.intervals() != ()) is left


async def test_a_file_that_can_neither_be_read_nor_put_aside_stops_nobody(stage_of, monkeypatch):
    stage = await stage_of().started()
    await stage.ticks(3)
    (stage.folder / "learned.json").write_text("not json")
    fresh = assembly.operator_managers(stage.app)

    def refuse(self, target):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "replace", refuse)
    stage.learned.restore(fresh)

    assert math.isnan(fresh["match"].model.service_mean)


async def test_what_was_learned_goes_to_the_operator_that_has_the_vertices_now(stage_of):
    stage = await stage_of().started()
    await stage.ticks(5)

    def store(**vertices):
        return a_store(stage, vertices=vertices)

    store(match=["a", "b"], count=["c"]).save(stage.managers)
    learned = stage.managers["match"].state_dict()
    renamed = assembly.operator_managers(stage.app)
    other = assembly.operator_managers(stage.app)
    nothing = other["match"].state_dict()

    store(count=["a", "b"], match=["c"]).restore(renamed)
    store(match=["a"], count=["c"]).restore(other)

    assert learned != nothing
    assert renamed["count"].state_dict() == learned
    assert other["match"].state_dict() == nothing
