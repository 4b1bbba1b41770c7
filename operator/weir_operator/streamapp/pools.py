"""The section `nodePools`: the kinds of nodes that replicas can run on, and what they cost."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field

from weir_operator.streamapp.quantities import Cpu, Duration, Memory, Price, Speedup
from weir_operator.streamapp.section import LABEL_KEY, Checked, Name, Rule, validations
from weir_simulator.validation import Mistake, refusal

_PRICE_OF_ONLY_POOL = 1.0
"""Currency per CPU and hour where the only pool has no price: cost is then in CPU hours."""

_GIB = 2**30

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


class Toleration(Checked):
    """A taint that the pods tolerate, as in Kubernetes."""

    rules = (
        Rule(
            rule="self.operator != 'Exists' || !has(self.value)",
            holds=lambda self: self.operator != "Exists" or self.value is None,
            field=".value",
            expected="no value, because operator is Exists",
            remedy="remove value, or write operator: Equal",
        ),
        Rule(
            rule="self.operator != 'Equal' || has(self.key)",
            holds=lambda self: self.operator != "Equal" or self.key is not None,
            field=".key",
            expected="a key, because operator is Equal",
            remedy="add it, or write operator: Exists",
        ),
    )

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


class NodePool(Checked):
    """A kind of node with its sizes, price and limit."""

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

    sizes: tuple[Cpu, ...] = Field(
        default=(Cpu("1"),),
        min_length=1,
        max_length=8,
        examples=[["250m", "500m"]],
        json_schema_extra=validations(
            Rule(
                rule="self.all(a, self.exists_one(b, quantity(a).compareTo(quantity(b)) == 0))",
                expected="each size once",
                remedy="remove the second one",
            )
        ),
    )
    """CPU that a replica's container may have in this pool. A replica changes its size within a
    pool without a restart. If unset, defaults to one core. At least one. Format: CPU quantities."""

    memory: Memory = Field(default=Memory("2Gi"), examples=["2Gi"])
    """Memory of a replica's container, the same for all sizes. Flink itself takes 640Mi and a tenth
    of the rest; a replica needs at least about 900Mi. If unset, defaults to 2Gi. Format: memory
    quantity."""

    price: Price | None = Field(default=None, examples=["0.04"])
    """Price of one CPU per hour, in the same currency for all pools. May be left out only if there
    is one pool; Weir then counts cost in CPU hours. Above zero, and at most 1,000,000. Format:
    decimal number in quotes."""

    memory_price: Price | None = Field(default=None, examples=["0.005"])
    """Price of 1Gi of memory per hour, in the currency of `price`. If unset, memory costs nothing
    beside `price`. Above zero, and at most 1,000,000. Format: decimal number in quotes."""

    speedup: Speedup | None = Field(default=None, examples=["1.6"])
    """Speed of one core of the pool relative to the other pools' cores. If unset, Weir learns it,
    starting at 1. Above zero, and at most 1000. Format: decimal number in quotes."""

    max_replicas: int | None = Field(default=None, ge=1, le=10_000, examples=[20])
    """Maximum number of replicas in the pool, of all operators together and of all sizes. If unset,
    only the operators' `maxReplicas` limit them. Minimum: 1."""

    provisioning: Duration | None = Field(default=None, examples=["5m"])
    """How long a node autoscaler (Cluster Autoscaler, Karpenter) may take to add a node. Weir waits
    that long for a node, or 1.5 times as long as earlier nodes took, if that is longer; the job
    keeps running. A job that is down does not wait, but starts with fewer replicas. If unset, the
    pool counts as full after `rescale.startDeadline`. Format: duration."""

    def mistakes(self) -> Iterator[Mistake]:
        """Yield keys that no node can have as labels, and sizes that there are twice."""
        for key in self.node_selector or {}:
            if not re.fullmatch(LABEL_KEY, key):
                yield Mistake(("nodeSelector", key), key, _EXPECTED_KEYS, _REMEDY_FOR_KEY)
        for index, size in enumerate(self.sizes):
            if size in self.sizes[:index]:
                yield Mistake(
                    ("sizes", index), size.text, "each size once", "remove the second one"
                )


def price_of(pool: NodePool, *, cores: float, memory: float) -> float:
    """Return what a container in a pool costs, currency per hour.

    Args:
        pool: The pool.
        cores: CPU of the container.
        memory: Bytes of it, which cost nothing beside the CPU where the pool has no price for them.
    """
    price = cores * (_PRICE_OF_ONLY_POOL if pool.price is None else pool.price)
    return price if pool.memory_price is None else price + memory / _GIB * pool.memory_price
