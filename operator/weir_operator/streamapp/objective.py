"""The section `objective`: the response time that the job must meet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import (
    Field,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic.types import JsonValue
from pydantic_core import CoreSchema

from weir_operator.streamapp.quantities import Duration, Percentage, Price
from weir_operator.streamapp.section import Checked, Name, map_list_by
from weir_policies.model.objective import Statistic
from weir_simulator.validation import Mistake, Section

A_DURATION: tuple[dict[str, Any], ...] = (
    {"pattern": f"^{Duration.pattern}$"},
    # A part of at least a millisecond: whole units, or a fraction of more than milliseconds.
    {
        "pattern": r"(^|[a-z])0*[1-9][0-9]*(\.[0-9]+)?(ms|s|m|h)"
        r"|\.[0-9]{0,2}[1-9][0-9]*s|\.[0-9]*[1-9][0-9]*(m$|m[0-9]|h)"
    },
)


def _described(expected: str, *limits: dict[str, Any]) -> dict[str, Any]:
    """Return limits as a schema of which each refusal says in words what is expected.

    For values without a type, where no CEL rule can be stated. An API server quotes of what a value
    could have been the first, so that comes as a list of "supported values".
    """
    told = {"enum": [expected]}
    return {"allOf": [{"anyOf": [told, limit]} for limit in limits]}


class ResponseTime(Section):
    """A bound on the response time: `200ms`, or `{bound: 500ms, statistic: P95}`."""

    bound: Duration = Field(examples=["200ms"])
    """The longest response time that meets the objective. Format: duration."""

    statistic: Statistic = Statistic.MEAN
    """Statistic of the response times that the bound applies to. If unset, defaults to Mean."""

    @model_validator(mode="before")
    @classmethod
    def _read_short_form(cls, value: object) -> object:
        """Take a duration alone as the bound; say of anything else what both forms are."""
        if isinstance(value, str):
            return {"bound": Duration(value)}  # refuses here, where the user wrote it
        if not isinstance(value, dict | ResponseTime):
            raise Duration.refusal("write it with its unit, or as {bound: 500ms, statistic: P95}")
        return value

    @model_serializer(mode="wrap")
    def _write_as_read(self, write: SerializerFunctionWrapHandler) -> JsonValue:
        """Write the short form where the statistic was not set."""
        written: JsonValue = write(self)
        return written if "statistic" in self.model_fields_set else self.bound.text

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Describe both forms at once.

        A structural schema knows no "text or object". A field without a type takes anything: the
        patterns then judge texts, the properties judge objects, and the rest refuses numbers,
        lists and truth values. CEL rules cannot be stated there. An API server quotes of what a
        value could have been the first, so that comes as a list of "supported values" that says
        in words what is expected.
        """
        long_form: dict[str, Any] = handler.resolve_ref_schema(handler(schema))
        bound = long_form["properties"]["bound"]
        del bound["x-kubernetes-validations"], bound["pattern"]
        bound |= _described(Duration.expected, *A_DURATION)
        return {
            "x-kubernetes-preserve-unknown-fields": True,
            **_described(
                f"{Duration.expected}, or {{bound: 500ms, statistic: P95}}",
                *A_DURATION,
                {"minimum": 1, "maximum": 0, "minItems": 1, "maxItems": 0},
                {"not": {"enum": [True, False]}},
            ),
            "properties": long_form["properties"],
            "required": ["bound"],
        }


class PathObjective(Section):
    """A tighter bound for the paths that end at one sink."""

    sink: Name = Field(examples=["alerts"])
    """Operator of the job at which the paths end; need not be listed in `operators`."""

    response_time: ResponseTime = Field(examples=["100ms"])
    """Bound on the time from source to this sink; at most the bound of the whole job. Format:
    duration, or `{bound: 500ms, statistic: P95}`."""


class Objective(Checked):
    """The response time that the job must meet; Weir looks for the cheapest deployment."""

    response_time: ResponseTime = Field(examples=["200ms"])
    """Bound on the time from source to sink on the longest path, above zero. Format: duration, or
    `{bound: 500ms, statistic: P95}`; a duration alone bounds the mean."""

    paths: tuple[PathObjective, ...] = Field(
        default=(), max_length=50, json_schema_extra=map_list_by("sink")
    )
    """Tighter bounds for single sinks, one for each. If unset, defaults to none."""

    max_cost_per_hour: Price | None = Field(default=None, examples=["2.50"])
    """Most that the StreamApp may cost per hour, all TaskManagers and the JobManager together, in
    the currency of the pools' prices; during a change it may cost more. It counts more than floors
    and the response time. If unset, cost has no limit. Above zero, and at most 1,000,000. Format:
    decimal number in quotes."""

    event_time: Duration | None = Field(default=None, examples=["5s"])
    """Bound on the age of a record at the sink, including the time it waits at the source. If
    unset, the age has no bound. Format: duration."""

    catch_up: Duration = Field(default=Duration("5m"), examples=["5m"])
    """Time allowed to work off a backlog. If unset, defaults to 5m. Format: duration."""

    max_violations: Percentage = Field(default=Percentage("5%"), examples=["5%"])
    """Share of control intervals that may exceed the bound, including intervals with a backlog. If
    unset, defaults to 5%. Minimum: 0%. Format: percentage."""

    max_restarts_per_day: int | None = Field(default=None, ge=0, le=10_000, examples=[12])
    """Maximum number of restarts in 24 hours that scaling may cause. If unset, only the restart
    budget of `applicationManager` limits them. Minimum: 0."""

    def mistakes(self) -> Iterator[Mistake]:
        """Yield sinks that there are twice, and paths with a bound that changes nothing."""
        yield from self._repeated_sinks()
        yield from self._looser_paths()

    def _repeated_sinks(self) -> Iterator[Mistake]:
        seen: set[str] = set()
        for index, path in enumerate(self.paths):
            if path.sink in seen:
                yield Mistake(
                    ("paths", index, "sink"), path.sink, "each sink once", "keep the tighter bound"
                )
            seen.add(path.sink)

    def _looser_paths(self) -> Iterator[Mistake]:
        """Refuse a path's bound above the whole's, of the same statistic or of one below it.

        A larger bound on a higher statistic, such as p95 beside the mean, can be useful.

        In Python only: CEL cannot read a field without a type.
        """
        whole, order = self.response_time, list(Statistic)
        for index, path in enumerate(self.paths):
            own = path.response_time
            is_below = order.index(own.statistic) <= order.index(whole.statistic)
            if is_below and own.bound > whole.bound:
                yield Mistake(
                    ("paths", index, "responseTime"),
                    own.bound.text,
                    f"at most the bound of the whole job, {whole.bound} ({whole.statistic})",
                    "lower it, or remove the path",
                )
