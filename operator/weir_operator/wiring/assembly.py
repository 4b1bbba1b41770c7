"""Builds the values for a StreamApp's loops, job and managers from its manifest. Pure."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from weir_operator.errors import PermanentError
from weir_operator.flink import scripts
from weir_operator.flink.agent import KEY_SALT, REPORT_KEYS
from weir_operator.loop.app_state import FALLBACK_POLICY
from weir_operator.loop.arbitrate import ApplicationManager
from weir_operator.loop.bounds import CostCap, cost_per_hour, prices
from weir_operator.loop.decide import (
    JointManagers,
    Managers,
    ObservedOperator,
    OperatorManager,
    SeparateManagers,
)
from weir_operator.loop.directives import LoopSettings
from weir_operator.loop.proposals import count_per_pool
from weir_operator.loop.restart_limits import TICKS_PER_TOKEN, SharedRestarts, TokenGate
from weir_operator.loop.slow_nodes import NodeWatch
from weir_operator.rescale.settings import FLOW_DEADLINE, JobSpec, RescaleSettings
from weir_operator.runtime.places import job_manager_place, managed_memory_of, places_of
from weir_operator.runtime.pods.pods import jar_in_image
from weir_operator.runtime.protocol import Deployments
from weir_operator.runtime.revision import Revision
from weir_operator.streamapp import world
from weir_operator.streamapp.flink import Job
from weir_operator.streamapp.models import StreamApp
from weir_operator.streamapp.operators import Operator
from weir_operator.streamapp.rules import MAX_PAIRS
from weir_operator.tuning.loop import TuningSettings
from weir_operator.tuning.requests import Terms
from weir_policies import registry
from weir_policies.application_manager.edf import MigrationRules, TokenRules
from weir_policies.application_manager.restart_budget import RestartBudget
from weir_policies.model.season import Season
from weir_policies.policy import OperatorModel, OperatorPolicy, WarmStartable
from weir_simulator.experiment import Objective, PathBound
from weir_simulator.tuning.order import Constraints, share_of_restarts

LONGEST_TUNING = 600.0
"""Seconds after which a tuning answers with the best so far, however long the interval is."""
SEARCH_PART = 0.6
"""Part of the tuner's deadline after which it does so at the latest: the wait for a node comes
before it, the forecast and the training of policies after it."""

SILENT_TICKS = 2.5
"""Control intervals after which a sample is stale, where that is longer than ten seconds."""


PYTHON_SAVEPOINT = 60.0
"""Seconds that a PyFlink job may take to stop, at least: the savepoint's barrier waits until the
Python processes have worked through a bundle, by default of up to 1000 records."""
PYTHON_SUBMIT = 120.0
"""Seconds that it may take to run again, at least: to submit it, the JobManager runs the program
(11-19 s measured on two busy cores), and each task starts a Python process (10-30 s)."""
PYTHON_FLOW = 90.0
"""Seconds until a record passes after that: 10-38 s measured on two busy cores."""


def job_spec(app: StreamApp, *, beside: Path, extra: Sequence[str] = ()) -> JobSpec:
    """Return how the job is submitted.

    Args:
        app: The StreamApp, as written.
        beside: Folder of the manifest; an argument that names a file there is passed on as its
            absolute path, because the JobManager runs elsewhere.
        extra: More arguments of the job, after the manifest's.

    Raises:
        PermanentError: There are more arguments for a SQL script, which takes none.
    """
    entry_class, arguments = _program(app.spec.flink.job, beside)
    if extra and entry_class == scripts.SQL:
        raise PermanentError(
            f"Expected no arguments for a SQL script, got {' '.join(extra)!r}; remove them"
        )
    return JobSpec(
        entry_class=entry_class,
        arguments=(*arguments, *extra),
        parallelism_arguments={
            name: f"--weir.parallelism.{name}" for name in world.operator_names(app)
        },
        max_parallelism=app.spec.flink.max_parallelism,
        whole_job=None if app.spec.operators else world.WHOLE_JOB,
        keys=_settings_of_keys(app),
    )


def _settings_of_keys(app: StreamApp) -> dict[str, str]:
    """Return what the agent is told: keys of one StreamApp have other hashes in another."""
    metadata = app.metadata
    uid = (metadata.model_extra or {}).get("uid", "")
    identity = f"{metadata.namespace}/{metadata.name}/{uid}"
    salt = hashlib.sha256(identity.encode()).hexdigest()[:16]
    return {KEY_SALT: salt, REPORT_KEYS: str(app.spec.flink.report_keys).lower()}


def _program(job: Job | None, beside: Path) -> tuple[str | None, tuple[str, ...]]:
    def found(path: str) -> str:
        there = not path.startswith("-") and (beside / path).is_file()
        return str((beside / path).resolve()) if there else path

    if job is None:
        return None, ()
    if job.sql is not None:
        given = (job.sql.file or "script", job.sql.script)
        return scripts.SQL, tuple(each for each in given if each is not None)
    arguments = tuple(map(found, job.args))
    if job.python is not None:
        return scripts.PYTHON, ("--python", found(job.python.file), *arguments)
    return job.entry_class, arguments


def revision_of(app: StreamApp, job: JobSpec, *, jar: Path | None = None) -> Revision:
    """Return what defines the job: what an upgrade changes.

    Args:
        app: The manifest.
        job: How the job is submitted.
        jar: The jar on this machine, where all pools are in one place; `None` takes the path in
            the image, as in the manifest.
    """
    flink = app.spec.flink.model_dump(
        mode="json",
        by_alias=True,
        exclude_none=True,
        include={"image": True, "config": True, "pod_template": True, "storage": True},
    )
    path = str(jar) if jar else jar_in_image(app.spec.flink.job)
    return Revision(
        entry_class=job.entry_class,
        arguments=job.arguments,
        parallelism_arguments=dict(job.parallelism_arguments),
        whole_job=job.whole_job,
        processes=flink | ({"jar": path} if path else {}),
        job_manager=None if jar else job_manager_place(app),
        vertices=dict(job.vertices),
        places={} if jar else places_of(app),
        managed_memory={} if jar else managed_memory_of(app),
    )


def is_python(app: StreamApp) -> bool:
    """Return whether the job is a PyFlink program."""
    return app.spec.flink.job is not None and app.spec.flink.job.python is not None


def rescale_settings(app: StreamApp) -> RescaleSettings:
    """Return how long each step may take."""
    rescale, python = app.spec.rescale, is_python(app)
    return RescaleSettings(
        via=rescale.via.value,
        savepoint_deadline=max(
            rescale.savepoint_deadline.seconds, PYTHON_SAVEPOINT if python else 0.0
        ),
        start_deadline=rescale.start_deadline.seconds,
        submit_deadline=max(rescale.submit_deadline.seconds, PYTHON_SUBMIT if python else 0.0),
        flow_deadline=PYTHON_FLOW if python else FLOW_DEADLINE,
        provisioning={
            pool.name: pool.provisioning.seconds
            for pool in app.spec.node_pools
            if pool.provisioning is not None
        },
        keep_savepoints=app.spec.savepoints.keep,
    )


def loop_settings(app: StreamApp, *, policy: str | None = None) -> LoopSettings:
    """Return how the loops run; `policy` overrides the manifest's."""
    interval = app.spec.operator_manager.interval.seconds
    return LoopSettings(
        app=f"{app.metadata.namespace}/{app.metadata.name}",
        mode=app.spec.mode,
        interval=interval,
        objective=simulated_objective(app),
        max_violations=app.spec.objective.max_violations.share,
        policy=policy or app.spec.operator_manager.policy.name,
        job_manager_price=world.job_manager_price(app),
        max_cost=app.spec.objective.max_cost_per_hour,
        max_parallelism=app.spec.flink.max_parallelism,
        # What is decided at a tick may have to wait for the next one.
        change_takes=interval + rescale_settings(app).longest_change,
        stale_after=max(10.0, SILENT_TICKS * interval),
        python=is_python(app),
    )


def initial_deployments(app: StreamApp, kept: Deployments | None = None) -> Deployments:
    """Return what the first start uses: smaller sizes where the largest cost too much.

    Operators that run already stay as they are (`kept`).
    """
    names = world.operator_names(app)
    # Those that can go nowhere else choose first.
    in_turn = sorted(
        names,
        key=lambda name: (
            not (world.operator_named(app, name).fixed or world.operator_named(app, name).initial),
            len(world.pools_of(app, name)),
        ),
    )

    def begin(*, cheapest: bool) -> Deployments:
        found: dict[str, Mapping[str, int]] = {name: (kept or {}).get(name, {}) for name in names}
        for name in in_turn:
            if not found[name]:
                taken = count_per_pool(found.values())
                found[name] = world.initial_deployment(
                    app, name, cheapest=cheapest, taken=taken
                ).named(world.node_types(app, name))
        return found

    first, limit = begin(cheapest=False), app.spec.objective.max_cost_per_hour
    cost = cost_per_hour(first, prices(app), job_manager=world.job_manager_price(app))
    return first if limit is None or cost <= limit else begin(cheapest=True)


def policy_settings(app: StreamApp, *, policy: str) -> dict[str, Any]:
    """Return the settings that the operators' policy is built with."""
    chosen = app.spec.operator_manager.policy
    settings: dict[str, Any] = dict(chosen.settings) if policy == chosen.name else {}
    objective = app.spec.objective
    given = {
        "catch_up": objective.catch_up.seconds,
        "event_time": None if objective.event_time is None else objective.event_time.seconds,
    }
    for name in registry.find(policy).from_objective:
        if given[name] is not None:
            settings.setdefault(name, given[name])
    return settings


def what_decides(app: StreamApp) -> dict[str, Any]:
    """Return the part of the manifest that decisions depend on, which holds no secrets."""
    return app.model_dump(
        mode="json",
        by_alias=True,
        exclude_none=True,
        include={
            "api_version": True,
            "kind": True,
            "metadata": {"name", "namespace"},
            "spec": {
                "flink": {"ref", "job_manager", "max_parallelism"},
                "objective": True,
                "node_pools": True,
                "operators": True,
                "operator_manager": True,
                "application_manager": True,
            },
        },
    )


def operator_managers(
    app: StreamApp,
    *,
    policy: str | None = None,
    trained_first: bool = False,
    seasons: Mapping[str, Season] | None = None,
) -> Managers:
    """Return the managers of all operators.

    Args:
        app: The manifest.
        policy: Overrides the manifest's.
        trained_first: Whether a policy that learns by trying does so in a simulator before it
            decides; a fallback policy decides until then.
        seasons: What usually arrives, by operator; as far as that is known.

    Raises:
        PermanentError: The job, as it was found, has too many operators for its node types.
        ParameterError: One of its settings is unknown or out of range.
    """
    operators, node_types = len(app.spec.operators), world.count_node_types(app)
    if operators * node_types > MAX_PAIRS:
        raise PermanentError(
            f"spec.nodePools: expected at most {MAX_PAIRS // operators} sizes, because the job has "
            f"{operators} operators, got {node_types}; remove some of them"
        )
    name = policy or app.spec.operator_manager.policy.name
    parameters = policy_settings(app, policy=name)
    falls_back = trained_first and registry.find(name).learns_by_trying
    if registry.is_joint(name, parameters):
        return _joint_managers(app, name, parameters, falls_back=falls_back)
    managers: dict[str, OperatorManager] = {}
    for place, operator in enumerate(world.operators(app)):
        own = registry.build(name, rng=np.random.default_rng(place), parameters=parameters)
        fixed = world.fixed_deployment(app, operator.name)
        season = (seasons or {}).get(operator.name)
        if season is not None and fixed is None and isinstance(own, WarmStartable):
            own.warm_start(season)
        managers[operator.name] = OperatorManager(
            model=_specified(app, operator),
            given=_given_speedups(app, operator),
            policy=own,
            fixed=fixed,
            neighbourhood=registry.find(name).neighbourhood,
            most_replicas=_most_replicas(app, name),
            fallback_policy=_build_fallback_policy(place) if falls_back else None,
        )
    return SeparateManagers(managers)


def _joint_managers(
    app: StreamApp, name: str, parameters: Mapping[str, Any], *, falls_back: bool
) -> JointManagers:
    operators = {
        operator.name: ObservedOperator(
            model=_specified(app, operator),
            given=_given_speedups(app, operator),
            fixed=world.fixed_deployment(app, operator.name),
            most_replicas=_most_replicas(app, name),
        )
        for operator in world.operators(app)
    }
    scaled = [each for each, operator in operators.items() if operator.fixed is None]
    return JointManagers(
        operators,
        policy=registry.build_joint(name, rng=np.random.default_rng(0), parameters=parameters),
        neighbourhood=registry.find(name).neighbourhood,
        fallback_policies={each: _build_fallback_policy(row) for row, each in enumerate(scaled)}
        if falls_back
        else None,
    )


def refuse_operators(app: StreamApp) -> None:
    """Refuse operators that the policy cannot decide for together.

    Raises:
        ParameterError: It cannot; names the setting to change.
    """
    name = app.spec.operator_manager.policy.name
    registry.refuse_operators(
        name,
        policy_settings(app, policy=name),
        [
            _specified(app, operator)
            for operator in world.operators(app)
            if world.fixed_deployment(app, operator.name) is None
        ],
    )


def _specified(app: StreamApp, operator: Operator) -> OperatorModel:
    return OperatorModel(
        name=operator.name,
        node_types=world.node_types(app, operator.name),
        max_replicas=operator.max_replicas,
        service_mean=math.nan,
        service_scv=1.0,
    )


def _given_speedups(app: StreamApp, operator: Operator) -> frozenset[str]:
    types = world.node_types(app, operator.name)
    return frozenset(each.name for each in types if world.speedup_is_given(app, each.pool))


def _most_replicas(app: StreamApp, policy: str) -> int | None:
    """Return the replicas for an operator's maximum cost; `None` for its own maximum."""
    together = sum(operator.max_replicas for operator in world.operators(app))
    return together if registry.find(policy).sees_application else None


def _build_fallback_policy(seed: int) -> OperatorPolicy:
    return registry.build(FALLBACK_POLICY, rng=np.random.default_rng(seed))


def tuning_settings(app: StreamApp, *, policy: str, tuner_deadline: float) -> TuningSettings:
    """Return how the slow loop runs.

    Args:
        app: The manifest.
        policy: Of the operators.
        tuner_deadline: Seconds after which the tuner ends a tuning without an answer.
    """
    objective, interval = app.spec.objective, app.spec.application_manager.interval.seconds
    tick = app.spec.operator_manager.interval.seconds
    parameters = policy_settings(app, policy=policy)
    max_restarts = objective.max_restarts_per_day
    depends_on = app.spec.model_dump(
        mode="json",
        by_alias=True,
        include={"objective": True, "operators": True, "node_pools": True},
    )
    return TuningSettings(
        interval=interval,
        tick=tick,
        terms=Terms(
            policy=policy,
            objective=simulated_objective(app),
            parameters=parameters,
            constraints=Constraints(
                max_violations=objective.max_violations.share,
                max_reconfigurations=1.0
                if max_restarts is None
                else share_of_restarts(max_restarts, tick),
            ),
            deadline=min(LONGEST_TUNING, interval / 2, SEARCH_PART * tuner_deadline),
            watch=max(1, round(interval / tick)),
        ),
        prices=prices(app),
        key={
            **depends_on,
            "policy": policy,
            "parameters": parameters,
            "resetNonce": app.spec.reset_nonce,
        },
    )


def simulated_objective(app: StreamApp) -> Objective:
    """Return the response times that are bounded, as the simulator has them."""
    whole = app.spec.objective.response_time
    return Objective(
        response_time=whole.bound.seconds,
        statistic=whole.statistic,
        paths=tuple(
            PathBound(
                sink=each.sink,
                response_time=each.response_time.bound.seconds,
                statistic=each.response_time.statistic,
            )
            for each in app.spec.objective.paths
        ),
    )


def application_manager(
    app: StreamApp, *, shared: SharedRestarts | None = None
) -> ApplicationManager:
    """Return the manager of the whole; `shared` is the restart budget over all StreamApps."""
    objective = app.spec.objective
    budget = app.spec.application_manager.restart_budget
    return ApplicationManager(
        objective=simulated_objective(app),
        pool_limits={
            pool.name: pool.max_replicas
            for pool in app.spec.node_pools
            if pool.max_replicas is not None
        },
        restarts=RestartBudget(
            size=budget.size,
            refill_every=budget.refill_every.seconds,
            max_per_day=objective.max_restarts_per_day,
        ),
        shared=shared,
        gate=_token_gate(app),
        nodes=_node_watch(app),
        cap=CostCap(
            objective.max_cost_per_hour,
            prices=prices(app),
            job_manager=world.job_manager_price(app),
        ),
    )


def _node_watch(app: StreamApp) -> NodeWatch | None:
    migration = app.spec.application_manager.arbitration.migration
    if migration is None:
        return None
    rules = MigrationRules(min_speed=migration.min_speed)
    return NodeWatch(rules, np.random.default_rng(len(app.spec.operators)))


def _token_gate(app: StreamApp) -> TokenGate | None:
    bucket = app.spec.application_manager.arbitration.token_bucket
    if bucket is None:
        return None
    bound = app.spec.objective.response_time.bound.seconds
    interval = app.spec.operator_manager.interval.seconds
    rules = TokenRules(
        low=bucket.low * bound,
        high=bucket.high * bound,
        every=TICKS_PER_TOKEN * interval if bucket.every is None else bucket.every.seconds,
        size=bucket.size,
    )
    return TokenGate(rules)
