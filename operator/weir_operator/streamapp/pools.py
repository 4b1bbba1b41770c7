"""The section `nodePools`: the kinds of nodes that replicas can run on, and what they cost."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    Field,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic.types import JsonValue
from pydantic_core import CoreSchema

from weir_operator.streamapp.quantities import MIB, Cpu, Duration, Memory, described
from weir_operator.streamapp.section import LABEL_KEY, LONGEST_NAME, Name, Rule, validations
from weir_simulator.validation import Mistake, Section, refusal, refuse

_LABEL_VALUE = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"


def _check_label_value(value: str) -> str:
    if not re.fullmatch(_LABEL_VALUE, value):
        raise refusal(
            "a Kubernetes label value: letters, digits, '-', '_', '.'",
            "begin and end it with a letter or digit",
        )
    return value


def _check_taint_key(key: str) -> str:
    if not re.fullmatch(LABEL_KEY, key):
        raise refusal("the key of a Kubernetes taint, such as dedicated", "write the taint's key")
    return key


LabelValue = Annotated[
    str,
    AfterValidator(_check_label_value),
    Field(max_length=63, examples=["small"], json_schema_extra={"pattern": f"^{_LABEL_VALUE}$"}),
]
"""What Kubernetes allows as the value of a label."""


_EXPECTED_KEYS = "keys of Kubernetes labels, such as weir.dev/pool"
_REMEDY_FOR_KEY = "write the key of the nodes' label"


class TolerationOperator(StrEnum):
    """How a toleration compares with a taint."""

    EXISTS = "Exists"
    EQUAL = "Equal"


class TaintEffect(StrEnum):
    """What a taint does to pods that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class Toleration(Section):
    """A taint that the pods tolerate, as in Kubernetes."""

    model_config = Section.model_config | {
        "json_schema_extra": validations(
            Rule(
                rule="self.operator != 'Exists' || !has(self.value)",
                field=".value",
                expected="no value, because operator is Exists",
                remedy="remove value, or write operator: Equal",
            ),
            Rule(
                rule="self.operator != 'Equal' || has(self.key)",
                field=".key",
                expected="a key, because operator is Equal",
                remedy="add it, or write operator: Exists",
            ),
        )
    }

    key: Annotated[str, AfterValidator(_check_taint_key)] | None = Field(
        default=None,
        min_length=1,
        max_length=317,
        examples=["dedicated"],
        json_schema_extra={"pattern": f"^{LABEL_KEY}$"},
    )
    """Key of the taint. May be left out only if `operator` is Exists; the pods then tolerate every
    taint."""

    operator: TolerationOperator = TolerationOperator.EQUAL
    """How to compare `value`. If unset, defaults to Equal. Format: `Exists` or `Equal`."""

    value: LabelValue | None = Field(default=None, examples=["streams"])
    """Value of the taint. May not be set together with operator Exists. If unset, defaults to an
    empty string."""

    effect: TaintEffect | None = None
    """Effect of the taint. If unset, defaults to every effect. Format: `NoSchedule`,
    `PreferNoSchedule` or `NoExecute`."""

    @model_validator(mode="after")
    def _check_fields_agree(self) -> Self:
        if self.operator is TolerationOperator.EXISTS and self.value is not None:
            refuse([Mistake(("value",), self.value, "no value, because operator is Exists",
                            "remove value, or write operator: Equal")])  # fmt: skip
        if self.operator is TolerationOperator.EQUAL and self.key is None:
            refuse([Mistake(("key",), None, "a key, because operator is Equal",
                            "add it, or write operator: Exists")])  # fmt: skip
        return self


# The range of a quantity in patterns, because CEL cannot look into a value without a type. More
# memory than 16Ti is for the models alone to refuse.
_A_CPU: tuple[dict[str, Any], ...] = (
    {"pattern": f"^{Cpu.pattern}$"},
    {"pattern": "[1-9]"},
    {
        "pattern": r"^0*([0-9]{1,6}m|10[01][0-9]{4}m|102[0-3][0-9]{3}m|1024000m"
        r"|([0-9]{1,3}|10[01][0-9]|102[0-3])(\.[0-9]+)?|1024(\.0+)?)$"
    },
)
_A_MEMORY: tuple[dict[str, Any], ...] = (
    {"pattern": f"^{Memory.pattern}$"},
    {"pattern": "[1-9]"},
)


class Size(Section):
    """What a replica's container may have: `500m`, or `{cpu: 500m, memory: 1Gi}`."""

    cpu: Cpu = Field(examples=["500m"])
    """CPU of the container. Format: CPU quantity."""

    memory: Memory | None = Field(default=None, examples=["1Gi"])
    """Memory of the container. A replica changes its CPU without a restart, but not its memory. If
    unset, defaults to the pool's `memory`. Format: memory quantity."""

    @property
    def cores(self) -> float:
        """CPU, in cores."""
        return self.cpu.cores

    def __str__(self) -> str:
        """Return the CPU as written, which is the size's name within a pool of one memory."""
        return self.cpu.text

    def __lt__(self, other: Size) -> bool:
        """Order sizes of one memory by their CPU."""
        return self.cpu < other.cpu

    @model_validator(mode="before")
    @classmethod
    def _read_short_form(cls, value: object) -> object:
        """Take a text alone as the CPU; say of anything else what both forms are."""
        if isinstance(value, dict | Size):
            return value
        return {"cpu": Cpu.read(value)}  # refuses here, where the user wrote it

    @model_serializer(mode="wrap")
    def _write_as_read(self, write: SerializerFunctionWrapHandler) -> JsonValue:
        """Write the short form where there is no memory."""
        written: JsonValue = write(self)
        return self.cpu.text if self.memory is None else written

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Describe both forms at once, as `ResponseTime` does."""
        long_form: dict[str, Any] = handler.resolve_ref_schema(handler(schema))
        properties = long_form["properties"]
        for name, quantity, limits in (("cpu", Cpu, _A_CPU), ("memory", Memory, _A_MEMORY)):
            properties[name] = {
                "type": "string",
                "maxLength": quantity.longest,
                "examples": properties[name]["examples"],
                "description": properties[name]["description"],
                **described(quantity.expected, *limits),
            }
        return {
            "x-kubernetes-preserve-unknown-fields": True,
            "maxLength": Cpu.longest,
            **described(
                f"{Cpu.expected}, or {{cpu: 500m, memory: 1Gi}}",
                *_A_CPU,
                {"minimum": 1, "maximum": 0, "minItems": 1, "maxItems": 0},
                {"not": {"enum": [True, False]}},
            ),
            "properties": properties,
            "required": ["cpu"],
        }


_EXPECTED_STANDBY = "standby of at most the pool's maxReplicas"
_REMEDY_FOR_STANDBY = "lower standby, or raise maxReplicas"


class NodePool(Section):
    """A kind of node with its sizes, price and limit."""

    model_config = Section.model_config | {
        "json_schema_extra": validations(
            Rule(
                rule="!has(self.maxReplicas) || self.standby <= self.maxReplicas",
                field=".standby",
                expected=_EXPECTED_STANDBY,
                remedy=_REMEDY_FOR_STANDBY,
            )
        )
    }

    name: Name = Field(examples=["small"])
    """Name of the pool, unique in the list. Format: at most 63 lower-case letters, digits and
    `-`."""

    node_selector: dict[str, LabelValue] | None = Field(
        default=None,
        max_length=20,
        examples=[{"weir.dev/pool": "small"}],
        json_schema_extra=validations(
            Rule(
                rule=f"self.all(k, k.matches(r'^{LABEL_KEY}$'))",
                expected=_EXPECTED_KEYS,
                remedy=_REMEDY_FOR_KEY,
            )
        ),
    )
    """Labels of the pool's nodes; no effect with `weir local`. If you change it, Weir moves the
    replicas with one rescale. If unset, the pool includes every node."""

    tolerations: tuple[Toleration, ...] = Field(
        default=(), max_length=16, examples=[[{"key": "dedicated", "value": "streams"}]]
    )
    """Taints of the pool's nodes that its pods tolerate; no effect with `weir local`. If unset,
    defaults to none."""

    sizes: tuple[Size, ...] = Field(
        default=(Size(cpu=Cpu("1")),),
        min_length=1,
        max_length=8,
        examples=[["250m", "500m"]],
    )
    """CPU, and where written memory, that a replica's container may have in this pool. A replica
    changes its CPU within a pool without a restart; other memory takes a restart of the job. With
    several amounts of memory, Weir treats the sizes of each amount as a pool with the name of this
    one and the amount, such as `small-2gi`, which is also what `operators[].fixed` and
    `operators[].initial` call it. If unset, defaults to one core. At least one. Format: CPU
    quantities, or `{cpu: 500m, memory: 1Gi}`."""

    memory: Memory = Field(default=Memory("2Gi"), examples=["2Gi"])
    """Memory of a replica's container, for all sizes that name none. Flink itself takes 640Mi and a
    tenth of the rest; a replica needs at least about 900Mi. If unset, defaults to 2Gi. Format:
    memory quantity."""

    price: float | None = Field(default=None, gt=0, le=1_000_000, examples=[0.04])
    """Price of one CPU per hour, in the same currency for all pools. May be left out only if there
    is one pool; Weir then counts cost in CPU hours. Above zero, and at most 1,000,000."""

    memory_price: float | None = Field(default=None, gt=0, le=1_000_000, examples=[0.005])
    """Price of 1Gi of memory per hour, in the currency of `price`. May be left out only if all
    sizes of the pool have the same memory; memory then costs nothing beside `price`. Above zero,
    and at most 1,000,000."""

    speedup: float | None = Field(default=None, gt=0, le=1000, examples=[1.6])
    """Speed of one core of the pool relative to the other pools' cores. If unset, Weir learns it,
    starting at 1. Above zero, and at most 1000."""

    max_replicas: int | None = Field(default=None, ge=1, le=10_000, examples=[20])
    """Maximum number of replicas in the pool, of all operators together and of all sizes. May not
    be set if sizes have several amounts of memory. If unset, only the operators' `maxReplicas`
    limit them. Minimum: 1."""

    standby: int = Field(default=0, ge=0, le=100, examples=[2])
    """How many TaskManagers wait in the pool, started and without an operator, so that a change of
    replicas need not start its own. They have the smallest size of the pool, of the least memory,
    and are part of the cost. May not be set together with `flink.ref`. A pool that is nearly full
    has fewer. If unset, defaults to 0. Maximum: 100, and `maxReplicas`."""

    provisioning: Duration | None = Field(default=None, examples=["5m"])
    """How long a node autoscaler (Cluster Autoscaler, Karpenter) may take to add a node. Weir waits
    that long for a node, or 1.5 times as long as earlier nodes took, if that is longer; the job
    keeps running. A job that is down does not wait, but starts with fewer replicas. If unset, the
    pool counts as full after `rescale.startDeadline`. Format: duration."""

    @model_validator(mode="after")
    def _check_standby_fits(self) -> Self:
        if self.max_replicas is not None and self.standby > self.max_replicas:
            refuse([Mistake(("standby",), self.standby, _EXPECTED_STANDBY, _REMEDY_FOR_STANDBY)])
        return self

    @model_validator(mode="after")
    def _check_label_keys(self) -> Self:
        refuse(
            Mistake(("nodeSelector", key), key, _EXPECTED_KEYS, _REMEDY_FOR_KEY)
            for key in self.node_selector or {}
            if not re.fullmatch(LABEL_KEY, key)
        )
        return self

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        refuse((*self._repeated_sizes(), *self._without_price_of_memory()))
        return self

    def _repeated_sizes(self) -> Iterator[Mistake]:
        seen: set[tuple[float, int]] = set()
        for index, size in enumerate(self.sizes):
            key = size.cores, self._memory_of(size).bytes
            if key in seen:
                got = size.model_dump(mode="json")
                yield Mistake(("sizes", index), got, "each size once", "remove the second one")
            seen.add(key)

    def _without_price_of_memory(self) -> Iterator[Mistake]:
        if not self.has_several_memories:
            return
        if self.memory_price is None:
            yield Mistake(
                ("memoryPrice",), None, "a price, because sizes have several amounts of memory",
                "add the price of 1Gi of memory per hour",
            )  # fmt: skip
        if self.max_replicas is not None:
            yield Mistake(
                ("maxReplicas",), self.max_replicas,
                "no limit, because sizes have several amounts of memory",
                "remove it, and set operators[].maxReplicas",
            )  # fmt: skip
        for part in self.by_memory():
            if len(part.name) > LONGEST_NAME:
                yield Mistake(
                    ("name",), self.name,
                    f"a name that leaves room for the amount of memory, as in {part.name}",
                    "shorten it",
                )  # fmt: skip

    @property
    def has_several_memories(self) -> bool:
        """Whether sizes differ in their memory."""
        return len({self._memory_of(size).bytes for size in self.sizes}) > 1

    def by_memory(self) -> tuple[NodePool, ...]:
        """Return the pool as pools whose sizes differ in CPU alone, the least memory first.

        A change of CPU leaves a container running and a change of memory does not. So this is what
        everything else sees of pools. Standby TaskManagers wait with the least memory.
        """
        sizes: dict[int, list[Size]] = {}
        for size in self.sizes:
            sizes.setdefault(self._memory_of(size).bytes, []).append(size)
        if len(sizes) == 1 and all(size.memory is None for size in self.sizes):
            return (self,)
        parts = []
        for number, amount in enumerate(sorted(sizes)):
            changes = {
                "name": self.name if len(sizes) == 1 else f"{self.name}-{_written_amount(amount)}",
                "memory": self._memory_of(sizes[amount][0]),
                "sizes": tuple(Size(cpu=size.cpu) for size in sizes[amount]),
                "standby": self.standby if number == 0 else 0,
            }
            parts.append(self.model_copy(update=changes))
        return tuple(parts)

    def _memory_of(self, size: Size) -> Memory:
        return self.memory if size.memory is None else size.memory


def whole_pool(part: str) -> str:
    """Return the name of the pool whose sizes of one amount of memory have the name `part`.

    Any other name is returned as it is, unless it ends like an amount.
    """
    return re.sub("-[0-9]+[mg]i$", "", part)


def _written_amount(amount: int) -> str:
    """Return an amount of memory as part of a name, such as `2gi` or `1536mi`."""
    mib = -(-amount // MIB)
    return f"{mib}mi" if mib % 1024 else f"{mib // 1024}gi"
