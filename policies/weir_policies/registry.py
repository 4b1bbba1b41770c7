"""Policies by name: Weir's own, and those of other installed packages.

To add one to Weir: one file under `operator_manager/`, one line in `POLICIES`. One that decides for
a whole application (`Joint`) is under `application_manager/` instead. A package of its own declares
an entry point of the group `weir.policies` that is a `Registered` (`examples/policy`).
"""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from weir_policies.errors import MissingExtraError, PolicyNotLoadedError, UnknownPolicyError
from weir_policies.policy import Neighbourhood, OperatorPolicy

if TYPE_CHECKING:
    from weir_policies.deep.policy import DeepAlgorithm
    from weir_policies.kernels.policy import Algorithm

Values = Mapping[str, Any]
"""A policy's settings by name."""


@dataclass(frozen=True, slots=True)
class Registered:
    """A policy that can be chosen by name."""

    build: Callable[[np.random.Generator, Values], OperatorPolicy]
    """Makes one from a generator, which those that draw nothing leave alone, and parameters."""
    neighbourhood: Neighbourhood
    """Which targets it proposes: one replica away, or any."""
    learns_by_trying: bool = False
    """Whether it explores, or takes what it does not know yet for free of violations. Then it is
    trained in a simulator before it decides for a real job."""


ENTRY_POINTS = "weir.policies"
"""Group of the entry points by which other packages declare policies."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """Builds a policy from an algorithm, whose module is imported when it is asked for."""

    module: str
    """Below `package`; its function `define(values, name=...)` returns the algorithm."""
    name: str
    package: str = "weir_policies.operator_manager"

    def define(self, values: Values) -> Algorithm:
        """Return the algorithm with these parameters.

        Raises:
            ParameterError: A parameter is unknown, no number, or out of its range.
        """
        module = importlib.import_module(f"{self.package}.{self.module}")
        algorithm: Algorithm = module.define(values, name=self.name)
        return algorithm

    def __call__(self, rng: np.random.Generator, values: Values) -> OperatorPolicy:
        """Return a policy for one operator."""
        from weir_policies.kernels.policy import KernelPolicy

        return KernelPolicy(self.define(values), rng)


@dataclass(frozen=True, slots=True)
class Deep:
    """Builds a policy with a network, whose module and torch are imported when it is asked for."""

    module: str
    """Below `operator_manager`; its function `define(values, name=...)` returns the algorithm."""
    name: str

    def define(self, values: Values) -> DeepAlgorithm:
        """Return the algorithm with these parameters.

        Raises:
            MissingExtraError: torch is not installed.
            ParameterError: A parameter is unknown, of another kind, or out of its range.
        """
        try:
            module = importlib.import_module(f"weir_policies.operator_manager.{self.module}")
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise MissingExtraError(
                f"Expected torch for the policy {self.name}, and it is not installed: "
                "pip install 'weir[tune]'"
            ) from error
        algorithm: DeepAlgorithm = module.define(values, name=self.name)
        return algorithm

    def __call__(self, rng: np.random.Generator, values: Values) -> OperatorPolicy:
        """Return a policy for one operator."""
        algorithm = self.define(values)
        from weir_policies.deep.policy import DeepPolicy

        return DeepPolicy(algorithm, rng)


@dataclass(frozen=True, slots=True)
class Joint:
    """Builds a policy that decides for all operators at once, whose module is imported then."""

    module: str
    """Below `application_manager`; its function `define(values, name=..., rng=...)` returns it."""
    name: str

    def adapt(
        self, rng: np.random.Generator, values: Values, operators: int
    ) -> tuple[OperatorPolicy, ...]:
        """Return an adapter to one policy for each operator.

        Raises:
            ParameterError: A parameter is unknown, of another kind, or out of its range.
        """
        from weir_policies.application_manager.joint_adapter import adapt_joint

        module = importlib.import_module(f"weir_policies.application_manager.{self.module}")
        return adapt_joint(module.define(values, name=self.name, rng=rng), operators)

    def __call__(self, rng: np.random.Generator, values: Values) -> OperatorPolicy:
        """Return the policy of an application of one operator."""
        return self.adapt(rng, values, 1)[0]


def _compile(
    module: str, *names: str, neighbourhood: Neighbourhood, learns_by_trying: bool = False
) -> dict[str, Registered]:
    """Return the lines of the policies that one module defines."""
    return {
        name: Registered(Compiled(module, name), neighbourhood, learns_by_trying) for name in names
    }


def _learn_deeply(module: str, *names: str) -> dict[str, Registered]:
    """Return the lines of the policies with a network that one module defines."""
    return {name: Registered(Deep(module, name), Neighbourhood.ONE, True) for name in names}


POLICIES: Mapping[str, Registered] = {
    **_compile(
        "threshold",
        "threshold-cheapest",
        "threshold-fastest",
        "threshold-random",
        neighbourhood=Neighbourhood.ONE,
    ),
    **_compile("ds2", "ds2", neighbourhood=Neighbourhood.ANY),
    **_compile("queueing", "queueing", neighbourhood=Neighbourhood.ANY),
    **_compile("hold", "hold", neighbourhood=Neighbourhood.ONE),
    **_compile("window_max", "window-max", neighbourhood=Neighbourhood.ANY),
    **_compile("cpu_band", "cpu-band", neighbourhood=Neighbourhood.ANY),
    **_compile("flink_autoscaler", "flink-autoscaler", neighbourhood=Neighbourhood.ANY),
    **_compile("q_learning", "ql", neighbourhood=Neighbourhood.ONE, learns_by_trying=True),
    **_compile(
        "q_learning_linear", "ql-fa", neighbourhood=Neighbourhood.ONE, learns_by_trying=True
    ),
    **_compile(
        "heinze",
        "heinze-cheapest",
        "heinze-fastest",
        neighbourhood=Neighbourhood.ONE,
        learns_by_trying=True,
    ),
    **_compile(
        "lohrmann",
        "lohrmann-cheapest",
        "lohrmann-fastest",
        "lohrmann-first",
        neighbourhood=Neighbourhood.ANY,
    ),
    **_compile("drs", "drs-cheapest", "drs-fastest", "drs-first", neighbourhood=Neighbourhood.ANY),
    **_compile("value_iteration", "value-iteration", neighbourhood=Neighbourhood.ONE),
    **_compile(
        "model_based", "model-based", neighbourhood=Neighbourhood.ONE, learns_by_trying=True
    ),
    **_compile(
        "full_backup", "full-backup", neighbourhood=Neighbourhood.ONE, learns_by_trying=True
    ),
    **_compile("mdp", "mdp", neighbourhood=Neighbourhood.ONE),
    **_compile("mdp", "mdp-rl", neighbourhood=Neighbourhood.ONE, learns_by_trying=True),
    **_compile("planner.policy", "planner", neighbourhood=Neighbourhood.ANY),
    **_compile(
        "q_learning_pds",
        "ql-pds",
        "ql-pds-plus",
        neighbourhood=Neighbourhood.ONE,
        learns_by_trying=True,
    ),
    **_learn_deeply("dqn", "dqn"),
    **_learn_deeply("dqn_pds", "dqn-pds", "dqn-pds-plus"),
    "autrascale": Registered(Joint("autrascale.policy", "autrascale"), Neighbourhood.ANY),
}


def names() -> tuple[str, ...]:
    """Return the names of all policies: Weir's own, then those of installed packages."""
    return tuple(dict.fromkeys((*POLICIES, *sorted(_entry_points()))))


def build(
    name: str, *, rng: np.random.Generator, parameters: Values | None = None
) -> OperatorPolicy:
    """Return a new policy.

    Args:
        name: One of `names()`.
        rng: The only source of randomness that it may use.
        parameters: Its settings by name; `None` and what is left out are its defaults.

    Raises:
        UnknownPolicyError: No policy has this name.
        ParameterError: A parameter is unknown, no number, or out of its range.
    """
    return _find(name).build(rng, {} if parameters is None else parameters)


def build_all(
    name: str, *, rngs: Sequence[np.random.Generator], parameters: Values | None = None
) -> tuple[OperatorPolicy, ...]:
    """Return the policies of all operators of an application, in the order of its dataflow.

    Args:
        name: One of `names()`.
        rngs: A generator per operator; a policy for all of them at once draws from the first.
        parameters: As for `build`.

    Raises:
        UnknownPolicyError: No policy has this name.
        ParameterError: A parameter is unknown, no number, or out of its range.
    """
    builder = _find(name).build
    if isinstance(builder, Joint) and rngs:
        return builder.adapt(rngs[0], {} if parameters is None else parameters, len(rngs))
    return tuple(build(name, rng=rng, parameters=parameters) for rng in rngs)


def define(name: str, parameters: Values | None = None) -> Algorithm | None:
    """Return a policy's compiled algorithm; `None` where it has none and can only be built.

    Raises:
        UnknownPolicyError: No policy has this name.
        ParameterError: A parameter is unknown, no number, or out of its range.
    """
    builder = _find(name).build
    return (
        builder.define({} if parameters is None else parameters)
        if isinstance(builder, Compiled)
        else None
    )


def define_deep(name: str, parameters: Values | None = None) -> DeepAlgorithm | None:
    """Return the algorithm of a policy with a network; `None` where it has none.

    Raises:
        UnknownPolicyError: No policy has this name.
        MissingExtraError: torch is not installed.
        ParameterError: A parameter is unknown, of another kind, or out of its range.
    """
    builder = _find(name).build
    return (
        builder.define({} if parameters is None else parameters)
        if isinstance(builder, Deep)
        else None
    )


def sees_application(name: str) -> bool:
    """Return whether the policy's operators count their costs and budgets as the application's.

    Those that move one replica a decision are on their own, as published: equal budgets, and costs
    relative to the most that the operator could cost. Others get budgets by service time, and costs
    relative to the most that all operators together could: what their sum is judged by.

    Raises:
        UnknownPolicyError: No policy has this name.
    """
    return neighbourhood(name) is Neighbourhood.ANY


def learns_by_trying(name: str) -> bool:
    """Return whether the policy has to make mistakes before it is of use.

    Then it is trained in a simulator before it decides for a real job.

    Raises:
        UnknownPolicyError: No policy has this name.
    """
    return _find(name).learns_by_trying


def neighbourhood(name: str) -> Neighbourhood:
    """Return which targets the policy proposes: one replica away, or any.

    Raises:
        UnknownPolicyError: No policy has this name.
    """
    return _find(name).neighbourhood


def is_deep(name: str) -> bool:
    """Return whether the policy has a network, and so is simulated for many runs at once.

    Raises:
        UnknownPolicyError: No policy has this name.
    """
    return isinstance(_find(name).build, Deep)


def _find(name: str) -> Registered:
    if name in POLICIES:
        return POLICIES[name]
    if name not in _entry_points():
        raise UnknownPolicyError(f"Expected a policy out of {list(names())}, got {name!r}")
    return _load(name)


@cache
def _entry_points() -> Mapping[str, importlib.metadata.EntryPoint]:
    """Return what other packages declare; a name of Weir's own cannot be taken."""
    found = importlib.metadata.entry_points(group=ENTRY_POINTS)
    return {each.name: each for each in found}


@cache
def _load(name: str) -> Registered:
    """Return the policy that an installed package declares.

    Raises:
        PolicyNotLoadedError: Its module cannot be imported, or what it declares is no policy.
    """
    declared = _entry_points()[name]
    try:
        found = declared.load()
    except Exception as error:  # whatever a package of others does when it is imported
        raise PolicyNotLoadedError(
            f"Expected the policy {name} in {declared.value}, got {type(error).__name__}: {error}; "
            "mend the package that declares it, or uninstall it"
        ) from error
    if not isinstance(found, Registered):
        raise PolicyNotLoadedError(
            f"Expected {declared.value} to be a weir_policies.registry.Registered, got "
            f"{type(found).__name__}: correct the entry point {name}"
        )
    return found
