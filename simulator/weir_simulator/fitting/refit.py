"""Fits an existing experiment again to the history of its job.

The history replaces what it shows: service times, variability, network time and arrivals. The rest
stays: the objective, the policy, how long a change takes, and other properties of the world.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from weir_policies.model.node_types import NOWHERE
from weir_policies.model.season import Season
from weir_simulator.beliefs import true_models
from weir_simulator.experiment import Experiment, TraceSource, UsualWeek
from weir_simulator.fitting.fit import Fit
from weir_simulator.fitting.structure import Structure

MONDAY = 4 * 86_400.0
"""Unix seconds of a Monday's midnight, UTC: the epoch was a Thursday."""


def structure_of(experiment: Experiment) -> Structure:
    """Return the job of an experiment as it is known before anything is measured.

    Its network times are left out: those of a fitted experiment hold what was spent elsewhere,
    which is measured again. So are the node types that an operator may not run on.
    """
    return Structure(
        operators=tuple(
            replace(
                model,
                network_time=0.0,
                node_types=tuple(each for each in model.node_types if each.pool != NOWHERE),
            )
            for model in true_models(experiment)
        ),
        edges=tuple((edge.source, edge.target) for edge in experiment.edges),
    )


def with_seasons(
    experiment: Experiment, seasons: Mapping[str, Season], *, begin: float
) -> Experiment:
    """Return the experiment with what usually arrives at its operators.

    Args:
        experiment: Its weeks begin when its trace does.
        seasons: By operator, hours of the week in UTC; others get none.
        begin: Unix seconds at which the trace begins.
    """
    hour = round((begin - MONDAY) / 3600)
    return experiment.model_copy(
        update={
            "operators": tuple(
                each.model_copy(update={"usual": UsualWeek.of(season.beginning_at(hour))})
                if (season := seasons.get(each.name)) is not None
                else each
                for each in experiment.operators
            )
        }
    )


def refit(experiment: Experiment, fit: Fit, *, trace: Path) -> Experiment:
    """Return the experiment with what was fitted.

    Args:
        experiment: Of the same job.
        fit: Made with `structure_of` the experiment.
        trace: Where the rates of the fit were written; it is not opened here.

    Raises:
        BadFitError: The fit is not good.
        FitError: The simulator cannot have such a job.
    """
    fitted = fit.to_experiment(
        objective=experiment.objective, trace=trace, policy=experiment.policy
    )
    given = {each.name: each for each in experiment.operators}
    types = {each.name: each for each in fitted.node_types}
    return experiment.model_copy(
        update={
            "operators": tuple(
                each.model_copy(
                    update={"budget": given[each.name].budget, "pools": given[each.name].pools}
                )
                for each in fitted.operators
            ),
            "edges": fitted.edges,
            # One that no operator may run on was not fitted.
            "node_types": tuple(types.get(each.name, each) for each in experiment.node_types),
            "trace": TraceSource(file=trace),
            "world": experiment.world.model_copy(
                update={"queues": True, "noise": fitted.world.noise, "changes": ()}
            ),
        }
    )
