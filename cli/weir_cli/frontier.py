"""`weir frontier`: shows what each objective costs, so that users can choose one.

The what-if options are read from text and applied to an experiment.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import MofNCompleteColumn, TimeRemainingColumn
from rich.table import Table

from weir_cli.history import HistoryApp, HistoryFolder, fit_to_history
from weir_cli.options import (
    DEFAULT_STATE,
    FileOrApp,
    PolicyName,
    State,
    find_experiment,
    progress_bar,
    read_seconds,
)
from weir_policies import registry
from weir_simulator.errors import ExperimentError
from weir_simulator.experiment import Experiment
from weir_simulator.experiment_files import load_experiment
from weir_simulator.frontier import (
    Frontier,
    FrontierOrder,
    FrontierPoint,
    Tried,
    default_bounds,
    find_frontier,
)
from weir_simulator.reports import frontier as frontier_words
from weir_simulator.reports import wording
from weir_simulator.section import MAX_SEED
from weir_simulator.what_if import with_pool, with_price, with_traffic, without_pool

_NUMBER = r"[0-9]+(?:\.[0-9]+)?"


@dataclass(frozen=True, slots=True)
class WhatIf:
    """A change of prices, traffic or pools to compute."""

    words: str
    """What it is, for people."""
    apply: Callable[[Experiment], Experiment]


def read_what_ifs(
    *,
    prices: Sequence[str],
    traffic: float | None,
    pools: Sequence[str],
    without: Sequence[str],
) -> list[WhatIf]:
    """Return the changes that the options name, in the order in which they are applied.

    Args:
        prices: `POOL=FACTOR`.
        traffic: Factor of the arrival rates; `None` leaves them.
        pools: Pools to add, `NAME=SPEEDUP:PRICE`.
        without: Pools to take away.

    Raises:
        ExperimentError: A text is not of its form.
    """
    # Pools are added before others go, so that the only one can be replaced, and priced as added.
    changes = [_add_pool(text) for text in pools]
    changes += [_drop_pool(pool) for pool in without]
    changes += [_change_price(text) for text in prices]
    if traffic is not None:
        changes.append(_change_traffic(traffic))
    return changes


def apply_all(experiment: Experiment, changes: Sequence[WhatIf]) -> Experiment:
    """Return the experiment with every change made.

    Raises:
        ExperimentError: A change cannot be made.
    """
    for change in changes:
        experiment = change.apply(experiment)
    return experiment


def _add_pool(text: str) -> WhatIf:
    pool, speedup, price = _match(
        rf"(.+)=({_NUMBER}):({_NUMBER})", text, "--pool: expected NAME=SPEEDUP:PRICE", "spot=1:0.4"
    )
    return WhatIf(
        f"with pool {pool} (speedup {speedup}, price {price})",
        lambda it: with_pool(it, pool, speedup=float(speedup), price=float(price)),
    )


def _drop_pool(pool: str) -> WhatIf:
    return WhatIf(f"without pool {pool}", lambda it: without_pool(it, pool))


def _change_price(text: str) -> WhatIf:
    pool, factor = _match(rf"(.+)=({_NUMBER})", text, "--price: expected POOL=FACTOR", "large=1.5")
    return WhatIf(f"price of {pool} times {factor}", lambda it: with_price(it, pool, float(factor)))


def _change_traffic(factor: float) -> WhatIf:
    return WhatIf(f"traffic times {factor:g}", lambda it: with_traffic(it, factor))


def _match(pattern: str, text: str, expected: str, example: str) -> tuple[str, ...]:
    found = re.fullmatch(pattern, text)
    if found is None:
        raise ExperimentError((f"{expected}, got {text!r}; write, for example, {example}",))
    return found.groups()


DEFAULT_OUT = Path(".weir/frontier")
DEFAULT_ALLOWED = "0.5,1,2,5,10"
AS_IT_IS = "as it is"
"""Stands over the prices without any what-if."""


def frontier(
    source: FileOrApp,
    bounds: Annotated[
        str | None,
        typer.Option(
            help=(
                "Response times, separated by commas. Default: a quarter to 2.5 times the file's."
            ),
            metavar="50ms,100ms,...",
        ),
    ] = None,
    violations: Annotated[
        str,
        typer.Option(
            help="Percentages of slots that may miss the bound, separated by commas.",
            metavar="1,5,...",
        ),
    ] = DEFAULT_ALLOWED,
    policy: PolicyName = None,
    seeds: Annotated[int, typer.Option(help="Number of simulations per setting.", min=1)] = 3,
    slots: Annotated[
        int | None, typer.Option(help="Use only this many slots of the trace.", min=1)
    ] = None,
    price: Annotated[
        list[str] | None,
        typer.Option(help="What if: multiply a pool's prices.", metavar="POOL=FACTOR"),
    ] = None,
    traffic: Annotated[
        float | None, typer.Option(help="What if: multiply the traffic.", metavar="FACTOR")
    ] = None,
    pool: Annotated[
        list[str] | None,
        typer.Option(help="What if: add a pool.", metavar="NAME=SPEEDUP:PRICE"),
    ] = None,
    without: Annotated[
        list[str] | None, typer.Option(help="What if: remove a pool.", metavar="POOL")
    ] = None,
    history: HistoryFolder = None,
    history_app: HistoryApp = None,
    out: Annotated[
        Path, typer.Option(help="Folder for what is fitted to --history.")
    ] = DEFAULT_OUT,
    state: State = DEFAULT_STATE,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Price objectives: cost for each response-time bound and share of violations."""
    experiment = load_experiment(find_experiment(source, state))
    experiment = fit_to_history(experiment, source, tables=history, app=history_app, out=out)
    experiment = _shorten(experiment, slots)
    changes = read_what_ifs(
        prices=price or [], traffic=traffic, pools=pool or [], without=without or []
    )
    name = experiment.policy.name if policy is None else policy
    registry.neighbourhood(name)  # refuses an unknown name before anything runs
    worlds = {AS_IT_IS: experiment}
    if changes:
        worlds[_name(changes)] = apply_all(experiment, changes)
    orders = {
        world: FrontierOrder(
            experiment=each,
            policy=name,
            bounds=_read_bounds(bounds, experiment),
            allowed=_read_shares(violations),
            seeds=_take_seeds(experiment.seeds, seeds),
        )
        for world, each in worlds.items()
    }
    found = _find(orders)
    if as_json:
        typer.echo(json.dumps([_to_plain(world, each) for world, each in found.items()], indent=2))
        return
    for world, each in found.items():
        Console().print(_table(world, each))
        for sentence in frontier_words.explain_gaps(each):
            typer.echo(sentence)


def _shorten(experiment: Experiment, slots: int | None) -> Experiment:
    if slots is None:
        return experiment
    trace = experiment.trace.model_copy(update={"slots": slots})
    return experiment.model_copy(update={"trace": trace})


def _name(changes: Sequence[WhatIf]) -> str:
    return "what if: " + ", ".join(change.words for change in changes)


def _read_bounds(text: str | None, experiment: Experiment) -> tuple[float, ...]:
    if text is None:
        return default_bounds(experiment)
    return tuple(sorted({read_seconds(each, "--bounds") for each in text.split(",")}))


def _read_shares(text: str) -> tuple[float, ...]:
    shares = set()
    for each in text.split(","):
        try:
            share = float(each)
        except ValueError:
            share = -1.0
        if not 0 <= share <= 100:
            raise ExperimentError(
                (
                    (
                        f"--violations: expected percentages from 0 to 100, got {each!r}; write, "
                        "for example, 1,5,10"
                    ),
                )
            )
        shares.add(share)
    return tuple(sorted(shares))


def _take_seeds(own: Sequence[int], count: int) -> tuple[int, ...]:
    """Return the experiment's own seeds first, then those that follow its greatest."""
    further = ((max(own) + 1 + number) % MAX_SEED for number in range(count))
    return (*own, *further)[:count]


def _find(orders: Mapping[str, FrontierOrder]) -> dict[str, Frontier]:
    """Make the simulations behind a progress bar on stderr."""
    with progress_bar(MofNCompleteColumn(), TimeRemainingColumn()) as progress:
        task = progress.add_task("Simulating", total=sum(each.runs for each in orders.values()))

        def show(run: Tried) -> None:
            planned = wording.seconds(run.trial.experiment.objective.response_time)
            what = f"Planned for {planned}, seed {run.trial.seed}"
            progress.update(task, advance=1, description=what)

        found = {world: find_frontier(order, on_finished=show) for world, order in orders.items()}
        progress.update(task, description="Simulated")
    return found


def _table(world: str, found: Frontier) -> Table:
    table = Table(title=world, title_justify="left", title_style="bold", box=None)
    table.add_column("response\ntime", justify="right", no_wrap=True)
    for share in found.order.allowed:
        table.add_column(f"{share:g} %\nmissed", justify="right", no_wrap=True)
    for bound in found.order.bounds:
        cells = [_cell(found.at(bound, share)) for share in found.order.allowed]
        table.add_row(wording.seconds(bound), *cells)
    table.caption = f"price per hour, by {found.order.policy}"
    table.caption_justify = "left"
    return table


def _cell(point: FrontierPoint) -> str:
    words = frontier_words.price(point)
    return words if point.chosen is not None else f"[yellow]{words}[/yellow]"


def _to_plain(world: str, found: Frontier) -> dict[str, object]:
    return {
        "world": world,
        "policy": found.order.policy,
        "seeds": list(found.order.seeds),
        "points": [_point(point) for point in found.points],
        "refusals": list(found.refusals),
    }


def _point(point: FrontierPoint) -> dict[str, object]:
    """Return a point as plain JSON values; its price is null where nothing keeps the objective."""
    plain: dict[str, object] = {
        "responseTime": point.bound,
        "allowedViolations": point.allowed,
        "unavoidableViolations": point.unavoidable,
        "price": None,
    }
    chosen, missed = point.chosen, point.missed
    if chosen is None or missed is None:
        return plain
    return plain | {
        "price": {"mean": chosen.price.mean, "halfWidth": chosen.price.half_width},
        "violations": {"mean": missed.mean, "halfWidth": missed.half_width},
        "restartsPerDay": {"mean": chosen.restarts.mean, "halfWidth": chosen.restarts.half_width},
        "replicas": dict(chosen.replicas),
        "plannedFor": chosen.planned,
        "emphasis": chosen.emphasis,
    }
