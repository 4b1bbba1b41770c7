"""`weir frontier`: shows what each objective costs, so that users can choose one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
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
    read_duration,
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
from weir_simulator.reports import wording
from weir_simulator.section import MAX_SEED

DEFAULT_OUT = Path(".weir/frontier")
DEFAULT_ALLOWED = "0.5,1,2,5,10"
_NOTHING = 1e-9
"""Half-widths up to this are rounding."""


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
    name = experiment.policy.name if policy is None else policy
    registry.find(name)  # refuses an unknown name before anything runs
    order = FrontierOrder(
        experiment=experiment,
        policy=name,
        bounds=_read_bounds(bounds, experiment),
        allowed=_read_shares(violations),
        seeds=_take_seeds(experiment.seeds, seeds),
    )
    found = _find(order)
    if as_json:
        typer.echo(json.dumps(_to_plain(found), indent=2))
        return
    Console().print(_table(found))
    for sentence in _explain_gaps(found):
        typer.echo(sentence)


def _shorten(experiment: Experiment, slots: int | None) -> Experiment:
    if slots is None:
        return experiment
    trace = experiment.trace.model_copy(update={"slots": slots})
    return experiment.model_copy(update={"trace": trace})


def _read_bounds(text: str | None, experiment: Experiment) -> tuple[float, ...]:
    if text is None:
        return default_bounds(experiment)
    return tuple(sorted({read_duration(each, "--bounds") for each in text.split(",")}))


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


def _find(order: FrontierOrder) -> Frontier:
    """Make the simulations behind a progress bar on stderr."""
    with progress_bar(MofNCompleteColumn(), TimeRemainingColumn()) as progress:
        task = progress.add_task("Simulating", total=order.runs)

        def show(run: Tried) -> None:
            planned = wording.seconds(run.trial.experiment.objective.response_time)
            what = f"Planned for {planned}, seed {run.trial.seed}"
            progress.update(task, advance=1, description=what)

        found = find_frontier(order, on_finished=show)
        progress.update(task, description="Simulated")
    return found


def _table(found: Frontier) -> Table:
    table = Table(box=None)
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
    """Return the price per hour, or a word why there is none."""
    if point.chosen is None:
        return f"[yellow]{'impossible' if point.impossible else 'not kept'}[/yellow]"
    mean, half_width = point.chosen.price.mean, point.chosen.price.half_width
    # Where chance had no part, an interval of 0.00 would say nothing.
    by_chance = half_width is not None and half_width > _NOTHING
    return wording.plus_minus(mean, half_width if by_chance else None, 2)


def _explain_gaps(found: Frontier) -> Iterator[str]:
    """Yield a sentence for each bound that has no price somewhere, and for each refusal."""
    for bound in found.order.bounds:
        missing = [p for p in found.points if p.bound == bound and p.chosen is None]
        if not missing:
            continue
        words, maximum = wording.seconds(bound), max(point.allowed for point in missing)
        kept = 100 - missing[0].unavoidable
        if any(point.impossible for point in missing):
            often = f"in more than {kept:.2f} % of the slots" if kept > 0 else "at all"
            yield (
                f"No deployment meets {words} {often}: even all replicas on the fastest "
                "node type do not."
            )
        if not all(point.impossible for point in missing):
            yield (
                f"No simulated settings meet {words} with at most {maximum:g} % missed; "
                "another policy, or weights found by weir tune, might."
            )
    for refusal in found.refusals:
        yield f"Some candidates could not be run: {refusal}"


def _to_plain(found: Frontier) -> dict[str, object]:
    return {
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
