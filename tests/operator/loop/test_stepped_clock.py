"""A wall clock that is set by an hour changes no deadline, stops no tick, and fools no decision."""

import asyncio

import pytest

from tests.operator.rescale.fakes import FakeClock
from weir_operator.clock import Retrier, wait_until
from weir_operator.errors import TemporaryError
from weir_operator.loop.restart_limits import SharedRestarts
from weir_operator.metrics.quality import ProblemKind
from weir_operator.rescale.status import FailedDeployment, FullPool
from weir_operator.streamapp.managers import Fallback, FallbackDeployment
from weir_operator.streamapp.quantities import Duration
from weir_policies.application_manager.restart_budget import DAY, RestartBudget

HOUR = 3600.0
BOTH_WAYS = pytest.mark.parametrize("step", [HOUR, -HOUR], ids=["ahead", "back"])
NOW = 1_800_000_000.0


class SteppedClock(FakeClock):
    """Is set once, while somebody waits."""

    def __init__(self, step=0.0):
        super().__init__()
        self.step = step

    async def sleep(self, seconds):
        await super().sleep(seconds)
        await asyncio.sleep(0)
        self.set_by(self.step)
        self.step = 0.0


async def never():
    return None


@BOTH_WAYS
async def test_a_wait_takes_as_long_as_it_was_to(step):
    clock = SteppedClock(step)
    began = clock.monotonic()

    await wait_until(never, clock=clock, timeout=30.0, period=1.0)

    assert clock.monotonic() - began == 30.0


@BOTH_WAYS
async def test_what_fails_is_asked_again_for_as_long_as_it_was_to(step):
    async def away():
        raise TemporaryError("away")

    clock = SteppedClock(step)
    began = clock.monotonic()

    with pytest.raises(TemporaryError):
        await Retrier(clock, limit=30.0).retried(away)

    assert clock.monotonic() - began == pytest.approx(30.0, abs=0.1)


@BOTH_WAYS
async def test_ticks_go_on_at_their_interval(stage_of, step):
    stage = stage_of()
    clock = stage.clock = stage.world.clock = SteppedClock()
    await stage.started()
    clock.step = step
    ticked = []

    async def tick():
        ticked.append(clock.monotonic())

    stage.controller.tick = tick
    began = clock.monotonic()
    loop = asyncio.create_task(stage.controller._run_ticks())
    while len(ticked) < 4:
        await asyncio.sleep(0)
    loop.cancel()

    assert [time - began for time in ticked[:4]] == [5.0, 10.0, 15.0, 20.0]


@BOTH_WAYS
async def test_an_interval_in_which_the_clock_was_set_decides_nothing_and_the_next_one_does(
    stage_of, step
):
    stage = await stage_of().started()
    await stage.ticks(3)
    stage.clock.set_by(step)

    [stepped, after] = await stage.ticks(2)

    assert [each.kind for each in stepped.snapshot.problems] == [ProblemKind.CLOCK_JUMP]
    assert "3600 s" in stepped.held
    assert ("ahead" in stepped.held) is (step > 0)
    assert after.held == ""
    assert after.proposals["match"].observation.interval == 5.0
    assert after.proposals["match"].observation.rate == pytest.approx(20)


@BOTH_WAYS
async def test_the_fallback_waits_for_its_time(stage_of, step):
    fallback = Fallback(after=Duration("10m"), deployment=FallbackDeployment.LARGEST)
    stage = await stage_of().started()
    stage.ask(fallback=fallback)

    def away(window):
        raise TemporaryError("Prometheus does not answer")

    stage.poison = away
    with pytest.raises(TemporaryError):
        await stage.tick()
    stage.clock.set_by(step)
    for _ in range(119):  # of five seconds each
        with pytest.raises(TemporaryError):
            await stage.tick()
    early = stage.reasons.count("FallbackTaken")
    with pytest.raises(TemporaryError):
        await stage.tick()
    await stage.done()

    assert (early, stage.reasons.count("FallbackTaken")) == (0, 1)


@BOTH_WAYS
def test_the_budget_over_all_apps_refills_at_its_time(step):
    clock = FakeClock()
    shared = SharedRestarts(RestartBudget(size=1, refill_every=600.0), clock=clock)
    shared.take()
    clock.set_by(step)
    clock.time += 599.0

    early = shared.refuse(urgent=True)
    clock.time += 1.0

    assert early is not None
    assert shared.refuse(urgent=True) is None


@pytest.mark.parametrize(
    "noted",
    [
        FailedDeployment(deployment={}, until=NOW + 1800, lasts=1800.0, reason="it failed"),
        FullPool(operator="match", pool="small", until=NOW + 600, lasts=600.0, reason="full"),
    ],
    ids=["a deployment that failed", "a full pool"],
)
def test_what_is_kept_for_a_while_holds_no_longer_than_that_by_any_clock(noted):
    assert noted.holds(NOW)
    assert noted.holds(NOW + noted.lasts - 1)
    assert not noted.holds(NOW + noted.lasts)
    assert not noted.holds(NOW - HOUR), "the clock was set back since"
    assert not noted.holds(0.0)


@pytest.mark.parametrize("ahead", [10 * DAY, 80 * 365 * DAY])
def test_tokens_of_a_clock_that_was_far_ahead_come_back_one_by_one(ahead):
    budget = RestartBudget(size=3, refill_every=HOUR)
    spent = budget.fill(NOW + ahead)
    for _ in range(3):
        spent = spent.take(budget, NOW + ahead)

    assert spent.available(budget, NOW) == 1
    once_more = spent.take(budget, NOW)
    assert once_more.available(budget, NOW + HOUR - 1) == 0
    assert once_more.available(budget, NOW + HOUR) == 1


def test_restarts_of_a_clock_that_was_far_ahead_do_not_count_for_ever():
    budget = RestartBudget(size=3, refill_every=60.0, max_per_day=1)
    spent = budget.fill(NOW + 10 * DAY).take(budget, NOW + 10 * DAY)

    assert spent.available(budget, NOW) == 1
