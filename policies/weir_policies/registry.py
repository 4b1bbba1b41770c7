"""Policies by name: Weir's own, and those of other installed packages.

To add one to Weir, add a file under `operator_manager/` and a line in `POLICIES`. A policy that
decides for a whole application may also be under `application_manager/`. Another package declares
an entry point of the group `weir.policies` that is a `Registered` (`examples/policy`).

A policy's line declares what else it can do; no code asks for its name or its class.

Whoever names a policy gets an `UnknownPolicyError` where there is none of this name, a
`PolicyNotLoadedError` where the package that declares it cannot be imported, and a `ParameterError`
where a parameter is unknown, no number, or out of its range.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.metadata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from weir_policies.distribution import install_command
from weir_policies.errors import (
    MissingExtraError,
    ParameterError,
    PolicyNotLoadedError,
    UnknownPolicyError,
)
from weir_policies.model.dataflow import Dataflow
from weir_policies.policy import ApplicationPolicy, Neighbourhood, OperatorModel, OperatorPolicy

if TYPE_CHECKING:
    from weir_policies.deep.policy import DeepAlgorithm
    from weir_policies.kernels.policy import Algorithm

Values = Mapping[str, Any]
"""A policy's settings by name."""


@dataclass(frozen=True, slots=True)
class Registered:
    """A policy that can be chosen by name."""

    build: Callable[[np.random.Generator, Values], OperatorPolicy | ApplicationPolicy]
    """Makes one from a generator, which those that draw nothing leave alone, and parameters: an
    `ApplicationPolicy` where it is `joint` with these parameters, else an `OperatorPolicy`."""
    neighbourhood: Neighbourhood
    """Which targets it proposes: one replica away, or any."""
    learns_by_trying: bool = False
    """Whether it explores, or takes what it does not know yet for free of violations. Then it is
    trained in a simulator before it decides for a real job."""
    joint: bool | Callable[[Values], bool] = False
    """Whether it decides for all operators of an application at once, with these parameters."""
    kernels: Callable[[Values], Algorithm] | None = None
    """Returns its compiled algorithm, which the simulator runs by itself; `None` where it has
    none."""
    network: Callable[[Values], DeepAlgorithm] | None = None
    """Returns its algorithm with a network, of which the simulator runs many at once; `None` where
    it has none."""
    from_objective: tuple[str, ...] = ()
    """Parameters that the objective of a job gives where nobody else does: `catch_up`,
    `event_time`."""
    weighs_restarts: bool = False
    """Whether it stays where a change is not worth its restart, so that what it proposes is not
    what a job needs that is restarted anyway."""

    @property
    def sees_application(self) -> bool:
        """Whether its operators count their costs and budgets as the application's.

        Those that move one replica a decision are on their own, as published: equal budgets, and
        costs relative to the most that the operator could cost. Others get budgets by service time,
        and costs relative to the most that all operators together could: what their sum is judged
        by.
        """
        return self.neighbourhood is Neighbourhood.ANY


ENTRY_POINTS = "weir.policies"
"""Group of the entry points by which other packages declare policies."""


def compiled(
    module: str,
    name: str,
    neighbourhood: Neighbourhood,
    *,
    package: str = "weir_policies.operator_manager",
    learns_by_trying: bool = False,
    from_objective: tuple[str, ...] = (),
    weighs_restarts: bool = False,
) -> Registered:
    """Return the line of a compiled policy, whose module is imported when it is asked for.

    `module` is below `package`; its function `define(values, name=...)` returns the algorithm.
    """

    def define(values: Values) -> Algorithm:
        algorithm: Algorithm = importlib.import_module(f"{package}.{module}").define(
            values, name=name
        )
        return algorithm

    def build(rng: np.random.Generator, values: Values) -> OperatorPolicy | ApplicationPolicy:
        from weir_policies.kernels.application_policy import KernelApplicationPolicy
        from weir_policies.kernels.policy import KernelPolicy

        algorithm = define(values)
        return (KernelApplicationPolicy if algorithm.joint else KernelPolicy)(algorithm, rng)

    return Registered(
        build,
        neighbourhood,
        learns_by_trying,
        joint=lambda values: define(values).joint,
        kernels=define,
        from_objective=from_objective,
        weighs_restarts=weighs_restarts,
    )


def _compile(
    module: str, neighbourhood: Neighbourhood, *names: str, learns_by_trying: bool = False
) -> dict[str, Registered]:
    return {
        name: compiled(module, name, neighbourhood, learns_by_trying=learns_by_trying)
        for name in names
    }


def _deep(module: str, name: str) -> Registered:
    """Return the line of a policy with a network; torch is imported when it is asked for."""

    def define(values: Values) -> DeepAlgorithm:
        try:
            found = importlib.import_module(f"weir_policies.operator_manager.{module}")
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise MissingExtraError(
                f"Expected torch, which the policy {name} needs, got no such package: "
                f"{install_command('tune')}"
            ) from error
        algorithm: DeepAlgorithm = found.define(values, name=name)
        return algorithm

    def build(rng: np.random.Generator, values: Values) -> OperatorPolicy:
        algorithm = define(values)
        from weir_policies.deep.policy import DeepPolicy

        return DeepPolicy(algorithm, rng)

    return Registered(build, Neighbourhood.ONE, True, network=define)


def _build_autrascale(rng: np.random.Generator, values: Values) -> ApplicationPolicy:
    from weir_policies.application_manager.autrascale.policy import define

    return define(values, name="autrascale", rng=rng)


_ONE, _ANY = Neighbourhood.ONE, Neighbourhood.ANY

POLICIES: Mapping[str, Registered] = {
    **_compile("threshold", _ONE, "threshold-cheapest", "threshold-fastest", "threshold-random"),
    **_compile("ds2", _ANY, "ds2"),
    "queueing": compiled("queueing", "queueing", _ANY, from_objective=("catch_up",)),
    **_compile("hold", _ONE, "hold"),
    **_compile("window_max", _ANY, "window-max"),
    **_compile("flink_autoscaler", _ANY, "flink-autoscaler"),
    **_compile("q_learning", _ONE, "ql", learns_by_trying=True),
    **_compile("q_learning_edf", _ONE, "ql-edf", learns_by_trying=True),
    **_compile("q_learning_linear", _ONE, "ql-fa", learns_by_trying=True),
    **_compile("heinze", _ONE, "heinze-cheapest", "heinze-fastest", learns_by_trying=True),
    **_compile("lohrmann", _ANY, "lohrmann-cheapest", "lohrmann-fastest", "lohrmann-first"),
    **_compile("drs", _ANY, "drs-cheapest", "drs-fastest", "drs-first"),
    **_compile("value_iteration", _ONE, "value-iteration"),
    **_compile("model_based", _ONE, "model-based", learns_by_trying=True),
    **_compile("full_backup", _ONE, "full-backup", learns_by_trying=True),
    **_compile("mdp", _ONE, "mdp"),
    **_compile("mdp", _ONE, "mdp-rl", learns_by_trying=True),
    "planner": compiled(
        "planner.policy", "planner", _ANY, from_objective=("catch_up",), weighs_restarts=True
    ),
    **_compile("q_learning_pds", _ONE, "ql-pds", "ql-pds-plus", learns_by_trying=True),
    "dqn": _deep("dqn", "dqn"),
    "dqn-pds": _deep("dqn_pds", "dqn-pds"),
    "dqn-pds-plus": _deep("dqn_pds", "dqn-pds-plus"),
    "autrascale": Registered(
        _build_autrascale, _ANY, joint=True, from_objective=("catch_up", "event_time")
    ),
}


def names() -> tuple[str, ...]:
    """Return the names of all policies: Weir's own, then those of installed packages."""
    return tuple(dict.fromkeys((*POLICIES, *sorted(_entry_points()))))


def build(
    name: str, *, rng: np.random.Generator, parameters: Values | None = None
) -> OperatorPolicy:
    """Return a new policy for one operator.

    Args:
        name: One of `names()`.
        rng: The only source of randomness that it may use.
        parameters: Its settings by name; `None` and what is left out are its defaults.

    Raises:
        ParameterError: With these parameters, it decides for all operators at once.
    """
    if is_joint(name, parameters):
        raise ParameterError(
            f"Expected a policy that decides for one operator, got {name}, which decides for all "
            "operators of an application: build it with build_joint"
        )
    return cast(OperatorPolicy, find(name).build(rng, {} if parameters is None else parameters))


def build_joint(
    name: str, *, rng: np.random.Generator, parameters: Values | None = None
) -> ApplicationPolicy:
    """Return a new policy for all operators of an application.

    Raises:
        ParameterError: With these parameters, it decides for one operator.
    """
    if not is_joint(name, parameters):
        raise ParameterError(
            f"Expected a policy that decides for all operators of an application, got {name}, "
            "which decides for one: build it with build"
        )
    return cast(ApplicationPolicy, find(name).build(rng, {} if parameters is None else parameters))


def is_joint(name: str, parameters: Values | None = None) -> bool:
    """Return whether the policy decides for all operators at once, with these parameters."""
    declared = find(name).joint
    if isinstance(declared, bool):
        return declared
    return declared({} if parameters is None else parameters)


def refuse_parameters(name: str, parameters: Values) -> None:
    """Refuse what a policy cannot be built with.

    Raises:
        MissingExtraError: It needs a library that is not installed.
    """
    find(name).build(np.random.default_rng(0), parameters)


def refuse_operators(
    name: str,
    parameters: Values,
    models: Sequence[OperatorModel],
    dataflow: Dataflow | None = None,
) -> None:
    """Refuse operators that a joint policy cannot decide for together; others take any.

    Args:
        name: Of the policy.
        parameters: Its settings.
        models: Those that it decides for, in the order of the dataflow; what is measured may be
            NaN.
        dataflow: Of these operators; `None` where it is known only once a job runs.

    Raises:
        ParameterError: It cannot; names the setting to change.
    """
    algorithm = define(name, parameters)
    if algorithm is not None and algorithm.joint and models:
        from weir_policies.kernels.application_policy import refuse_application

        flow = dataflow or Dataflow(operators=tuple(model.name for model in models))
        refuse_application(algorithm, models, flow)


def define(name: str, parameters: Values | None = None) -> Algorithm | None:
    """Return a policy's compiled algorithm; `None` where it has none and can only be built."""
    kernels = find(name).kernels
    return None if kernels is None else kernels({} if parameters is None else parameters)


def define_deep(name: str, parameters: Values | None = None) -> DeepAlgorithm | None:
    """Return the algorithm of a policy with a network; `None` where it has none.

    Raises:
        MissingExtraError: torch is not installed.
    """
    network = find(name).network
    return None if network is None else network({} if parameters is None else parameters)


def find(name: str) -> Registered:
    """Return the policy of this name."""
    if name in POLICIES:
        return POLICIES[name]
    if name not in _entry_points():
        close = difflib.get_close_matches(name, names(), n=1, cutoff=0.75)
        remedy = f"did you mean {close[0]!r}?" if close else f"use one of {', '.join(names())}"
        raise UnknownPolicyError(f"Expected a known policy, got {name!r}; {remedy}")
    return _load(name)


@cache
def _entry_points() -> Mapping[str, importlib.metadata.EntryPoint]:
    """Return what other packages declare; a name of Weir's own cannot be taken."""
    found = importlib.metadata.entry_points(group=ENTRY_POINTS)
    return {each.name: each for each in found}


@cache
def _load(name: str) -> Registered:
    declared = _entry_points()[name]
    try:
        found = declared.load()
    except Exception as error:  # whatever a package of others does when it is imported
        raise PolicyNotLoadedError(
            f"Expected the policy {name} in {declared.value}, got "
            f"{type(error).__name__}: {error}; repair the package that declares it, "
            "or uninstall it"
        ) from error
    if not isinstance(found, Registered):
        raise PolicyNotLoadedError(
            f"Expected {declared.value} to be a weir_policies.registry.Registered, got "
            f"{type(found).__name__}: correct the entry point {name}"
        )
    return found
