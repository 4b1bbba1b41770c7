"""What Weir refuses of a manifest that is valid in itself, found before it touches a job.

Builds everything that follows from a manifest alone: policies with their settings, the loops, and
the pods with their memory, options and scripts. Mistakes that only a cluster, an image or a job can
show come later.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import structlog

from weir_operator.api.objects import Resource
from weir_operator.errors import InvalidStreamAppError, PermanentError, describe_unexpected
from weir_operator.flink.memory import split_job_manager
from weir_operator.flink.options import find_refused_values
from weir_operator.loop.directives import directives_of
from weir_operator.runtime.places import MIB, memory_needs_of, size_memory
from weir_operator.runtime.pods import manifests
from weir_operator.runtime.pods.configuration import job_manager_files, task_manager_files
from weir_operator.runtime.pods.pod_spec import CONTAINER
from weir_operator.runtime.pods.pods import FlinkPods
from weir_operator.streamapp.loading import parse_manifest
from weir_operator.streamapp.models import StreamApp
from weir_operator.streamapp.sentences import sentence
from weir_operator.wiring import assembly
from weir_policies import registry
from weir_policies.errors import (
    MissingExtraError,
    ParameterError,
    UnknownSettingError,
    WeirPolicyError,
)
from weir_simulator.validation import Mistake, suggest

log = structlog.get_logger()

_POLICY = ("spec", "operatorManager", "policy")
_EXPECTED_VARIABLES = "no variable that Flink itself does not read"
_AS_OPTIONS = "write env.java.opts.all into spec.flink.config instead"
_UNREAD = {
    "FLINK_PROPERTIES": "write its keys into spec.flink.config instead",
    "TASK_MANAGER_NUMBER_OF_TASK_SLOTS": "remove it, because Weir's TaskManagers have one slot",
    **{f"FLINK_ENV_JAVA_OPTS{of}": _AS_OPTIONS for of in ("", "_JM", "_TM")},
}
"""Variables by which Flink's images and scripts are configured, and what to write instead: Weir
starts Flink's processes without them, so these would have no effect."""
_TUNER_DEADLINE = 600.0  # seconds; any will do
_REFUSED = re.compile(r"Expected (?P<expected>.*?), got (?P<got>.*)", re.DOTALL)


def read_app(resource: Resource) -> StreamApp:
    """Return the StreamApp that an object of the API server describes, and that can be run.

    Raises:
        InvalidStreamAppError: It cannot; also where Weir fails over it in another way.
    """
    try:
        app = parse_manifest(resource.manifest)
        refusals = find_refusals(app)
    except InvalidStreamAppError:
        raise
    except Exception as error:
        log.exception("unexpected error in a manifest", app=str(resource.key))
        raise InvalidStreamAppError((describe_unexpected(error),)) from error
    if refusals:
        raise InvalidStreamAppError(refusals)
    return app


def find_refusals(app: StreamApp) -> tuple[str, ...]:
    """Return a sentence for each thing that keeps the job of `app` from being run.

    Of pods nothing is said where there is no image: such a manifest is for one machine.
    """
    flink = app.spec.flink
    found = _describe(_mistakes_of_policy(app))
    if not found:
        found += _describe(_mistakes_of_operators(app))
        found += _sentences_of(lambda: _make_loops(app))
    if flink.ref is None:
        wrong = _describe(_mistakes_of_config(app)) + _describe(_mistakes_of_variables(app))
        wrong = wrong or _refusals_of_memory(app)
        found += wrong
        if flink.image is not None and not wrong:
            found += _sentences_of(lambda: _make_pods(app))
    return tuple(dict.fromkeys(found))


def _mistakes_of_config(app: StreamApp) -> Iterator[Mistake]:
    """Refuse values of Flink's keys with which no job is submitted or no process starts."""
    for each in find_refused_values(app.spec.flink.config or {}):
        path = ("spec", "flink", "config", each.key)
        yield Mistake(path, each.value, each.expected, each.remedy)


def _mistakes_of_variables(app: StreamApp) -> Iterator[Mistake]:
    """Refuse variables that only the scripts of Flink and of its image read."""
    template = app.spec.flink.pod_template or {}
    spec = template.get("spec")
    containers = spec.get("containers") if isinstance(spec, dict) else None
    for index, container in enumerate(containers if isinstance(containers, list) else ()):
        if not isinstance(container, dict) or container.get("name") != CONTAINER:
            continue
        variables = container.get("env")
        for each in variables if isinstance(variables, list) else ():
            name = str(each.get("name")) if isinstance(each, dict) else ""
            if name in _UNREAD:
                here = ("spec", "flink", "podTemplate", "spec", "containers", index, "env")
                yield Mistake(here, name, _EXPECTED_VARIABLES, _UNREAD[name])


def _refusals_of_memory(app: StreamApp) -> list[str]:
    config = app.spec.flink.config or {}
    process = {pool.name: pool.memory.bytes // MIB for pool in app.spec.node_pools}
    job_manager = app.spec.flink.job_manager.memory.bytes // MIB
    found = _sentences_of(lambda: split_job_manager(config, process=job_manager))
    for needs in set(memory_needs_of(app).values()):
        for pool in needs.pools:
            alone = replace(needs, pools=(pool,))
            found += _sentences_of(
                partial(size_memory, alone, pool, process=process, config=config)
            )
    return sorted(found)


def _describe(mistakes: Iterator[Mistake]) -> list[str]:
    found: list[str] = []
    ended_by = _sentences_of(lambda: found.extend(map(sentence, mistakes)))
    return [*found, *ended_by]


def _sentences_of(make: Callable[[], object]) -> list[str]:
    try:
        make()
    except (PermanentError, WeirPolicyError) as error:
        return [str(error)]
    return []


def _make_loops(app: StreamApp) -> None:
    policy = app.spec.operator_manager.policy.name
    job = assembly.job_spec(app, beside=Path("/nonexistent"))
    assembly.loop_settings(app)
    directives_of(app)
    assembly.rescale_settings(app)
    if app.spec.flink.ref is None:
        assembly.revision_of(app, job)
        assembly.initial_deployments(app)
    assembly.application_manager(app)
    assembly.tuning_settings(app, policy=policy, tuner_deadline=_TUNER_DEADLINE)


def _make_pods(app: StreamApp) -> None:
    """Make the JobManager, and the TaskManagers of one operator: others differ in memory alone."""
    pods = FlinkPods.of(app, uid="", controller_namespace="")
    job_manager_files(pods)
    manifests.job_manager(pods, "config")
    operator, needs = next(iter(pods.memory_needs.items()))
    pool = needs.pools[0]
    task_manager_files(pods, operator, pool)
    size = str(pods.pools[pool].sizes[0])
    manifests.task_managers(pods, operator, pool, size=size, replicas=1, config_map="config")


def _mistakes_of_policy(app: StreamApp) -> Iterator[Mistake]:
    chosen = app.spec.operator_manager.policy
    known = registry.names()
    if chosen.name not in known:
        otherwise = f"choose one of {', '.join(known)}"
        yield Mistake(
            (*_POLICY, "name"), chosen.name, "a policy of Weir",
            suggest(chosen.name, known, otherwise=otherwise),
        )  # fmt: skip
        return
    one_by_one = [
        mistake
        for name, value in chosen.settings.items()
        for mistake in _mistakes_of_settings(chosen.name, {name: value}, (name,))
    ]
    yield from one_by_one
    if not one_by_one:
        settings = assembly.policy_settings(app, policy=chosen.name)
        yield from _mistakes_of_settings(chosen.name, settings, ())


def _mistakes_of_operators(app: StreamApp) -> Iterator[Mistake]:
    """Refuse operators that the policy cannot decide for together, where it decides for all."""
    chosen = app.spec.operator_manager.policy
    try:
        assembly.refuse_operators(app)
    except ParameterError as error:
        yield Mistake(
            (*_POLICY, "settings"), chosen.settings,
            f"settings with which {chosen.name} can decide for all operators together",
            str(error).replace("Expected", "expected", 1),
        )  # fmt: skip


def _mistakes_of_settings(
    policy: str, settings: dict[str, object], path: tuple[str, ...]
) -> Iterator[Mistake]:
    try:
        registry.refuse_parameters(policy, settings)
    except MissingExtraError:
        return  # of this machine, not of the manifest
    except UnknownSettingError as error:
        yield Mistake(
            (*_POLICY, "settings", error.setting), settings[error.setting],
            f"a setting of {policy} ({', '.join(error.known)})",
            suggest(error.setting, error.known, otherwise="choose one of them, or remove it"),
        )  # fmt: skip
    except ParameterError as error:
        words = _REFUSED.fullmatch(str(error))
        expected = words["expected"] if words else str(error)
        got: object = settings[path[0]] if path else settings
        yield Mistake(
            (*_POLICY, "settings", *path), got, expected,
            f"see what {policy} takes in docs/policies.md, or leave it out",
        )  # fmt: skip
