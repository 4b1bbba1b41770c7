"""Durations, CPU, memory, percentages and decimal numbers, as people write them in a manifest.

Each keeps the text that the user wrote (a round trip changes nothing) and its value in one unit.
Two quantities are equal if their values are, so `60s` equals `1m`. The patterns are those of
the CRD. A pattern cannot express a range, which is a CEL rule there and a check here. Each has a
very large maximum, so that no later calculation can overflow.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Self

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from weir_operator.streamapp.section import Rule, validations
from weir_simulator.validation import refusal

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_BYTES = {
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40,
    "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12,
}  # fmt: skip


SHORTEST, LONGEST = 0.001, 8760 * 3600.0
"""Seconds of a duration."""
MOST_CORES = 1024
MOST_MEMORY = 16 * 2**40
"""Bytes."""


def _schema(pattern: str, longest: int, rule: Rule) -> JsonSchemaValue:
    """Return what the CRD says of a text: the pattern for tools, the rule for a sentence."""
    return {
        "type": "string",
        "maxLength": longest,
        "pattern": f"^{pattern}$",
        **validations(rule),
    }


class Quantity:
    """What all quantities share: how pydantic reads and writes them."""

    __slots__ = ()

    text: str
    """As the user wrote it."""

    pattern: ClassVar[str]
    expected: ClassVar[str]
    """What an error message says was expected."""
    longest: ClassVar[int]
    """Characters."""
    within: ClassVar[str | None] = None
    """CEL for its range, `self` being a text that the pattern has."""
    remedy: ClassVar[str] = "correct the number or its unit"

    def __str__(self) -> str:
        """Return the text as written."""
        return self.text

    @classmethod
    def read(cls, value: object) -> Self:
        """Return `value` as a quantity.

        Raises:
            PydanticCustomError: It is not one; says what was expected and how to write it.
        """
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            return cls(value)  # type: ignore[call-arg]  # subclasses are dataclasses of one text
        if isinstance(value, int | float) and not isinstance(value, bool):
            raise cls.refuse_number(value)
        raise cls.refusal("write it as text")

    @classmethod
    def refuse_number(cls, number: float) -> PydanticCustomError:
        """Return the error for a number that is not written as text."""
        return cls.refusal("write it as text with a unit")

    @classmethod
    def refusal(cls, remedy: str) -> PydanticCustomError:
        """Return the error for a value that is not such a quantity."""
        return refusal(cls.expected, remedy)

    def _check(self) -> None:
        if len(self.text) > self.longest or not re.fullmatch(self.pattern, self.text):
            raise self.refusal(self.remedy)

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[Any], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Read with `read`, write as text."""
        return core_schema.no_info_plain_validator_function(
            cls.read, serialization=core_schema.to_string_ser_schema()
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Describe the text for the CRD."""
        right = f"self.matches(r'^{cls.pattern}$')"
        rule = Rule(
            rule=f"{right} && {cls.within}" if cls.within else right,
            expected=cls.expected,
            remedy=cls.remedy,
        )
        return _schema(cls.pattern, cls.longest, rule)


@dataclass(frozen=True, order=True, slots=True)
class Duration(Quantity):
    """A time between a millisecond and a year, such as `200ms`, `5s` or `1h30m`."""

    text: str = field(compare=False)
    seconds: float = field(init=False)

    # No more digits than a year needs: CEL's own durations would overflow before the comparison.
    pattern = (
        r"([0-9]{1,5}(\.[0-9]+)?h|[0-9]{1,7}(\.[0-9]+)?m|[0-9]{1,9}(\.[0-9]+)?s"
        r"|[0-9]{1,12}(\.[0-9]+)?ms)+"
    )
    expected = "a duration from 1ms to 8760h, such as 200ms, 5s, 1m or 1h30m"
    longest = 32
    within = "duration(self) >= duration('1ms') && duration(self) <= duration('8760h')"

    def __post_init__(self) -> None:
        """Add up the parts."""
        self._check()
        parts = re.findall(r"([0-9.]+)(ms|s|m|h)", self.text)
        seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
        if seconds <= 0:
            raise self.refusal("write a duration above zero")
        if not SHORTEST <= seconds <= LONGEST:
            raise self.refusal("choose a duration in that range")
        object.__setattr__(self, "seconds", seconds)


@dataclass(frozen=True, order=True, slots=True)
class Cpu(Quantity):
    """A share of CPU above zero: cores (`"1"`, `"1.5"`, at most 1024) or thousandths (`250m`)."""

    text: str = field(compare=False)
    cores: float = field(init=False)

    pattern = r"([0-9]+m|[0-9]+(\.[0-9]{1,3})?)"
    expected = f'a CPU quantity above zero and at most {MOST_CORES}, such as 250m, "1" or "1.5"'
    longest = 16
    within = (
        "quantity(self).isGreaterThan(quantity('0'))"
        f" && quantity(self).compareTo(quantity('{MOST_CORES}')) <= 0"
    )

    def __post_init__(self) -> None:
        """Turn thousandths into cores."""
        self._check()
        thousandths = self.text.endswith("m")
        cores = float(self.text.removesuffix("m")) / (1000 if thousandths else 1)
        if cores <= 0:
            raise self.refusal("write a number above zero")
        if cores > MOST_CORES:
            raise self.refusal("choose a size that fits on a node")
        object.__setattr__(self, "cores", cores)

    @classmethod
    def refuse_number(cls, number: float) -> PydanticCustomError:
        """Return the error for a number without quotes, in which it may be wrong, too."""
        try:
            text = cls(write_number(number)).text
        except PydanticCustomError as wrong_in_quotes:
            return wrong_in_quotes
        return cls.refusal(f'write "{text}" in quotes')


@dataclass(frozen=True, order=True, slots=True)
class Memory(Quantity):
    """An amount of memory above zero and at most 16Ti, with its unit, such as `512Mi` or `1Gi`."""

    text: str = field(compare=False)
    bytes: int = field(init=False)

    pattern = r"[0-9]+(\.[0-9]+)?(Ki|Mi|Gi|Ti|k|M|G|T)"
    expected = "an amount of memory above zero and at most 16Ti, such as 512Mi or 1Gi"
    longest = 16
    within = (
        "quantity(self).isGreaterThan(quantity('0'))"
        " && quantity(self).compareTo(quantity('16Ti')) <= 0"
    )

    def __post_init__(self) -> None:
        """Multiply by the unit."""
        self._check()
        number, unit = re.findall(r"([0-9.]+)(\w+)", self.text)[0]
        amount = int(float(number) * _BYTES[unit])
        if amount <= 0:
            raise self.refusal("write an amount above zero")
        if amount > MOST_MEMORY:
            raise self.refusal("choose an amount that fits on a node")
        object.__setattr__(self, "bytes", amount)


@dataclass(frozen=True, order=True, slots=True)
class Percentage(Quantity):
    """A share between `0%` and `100%`."""

    text: str = field(compare=False)
    share: float = field(init=False)
    """In [0, 1]."""

    pattern = r"(100|[0-9]{1,2}(\.[0-9]{1,3})?)%"
    expected = "a percentage between 0% and 100%, such as 5%"
    longest = 8

    def __post_init__(self) -> None:
        """Divide by a hundred."""
        self._check()
        object.__setattr__(self, "share", float(self.text.removesuffix("%")) / 100)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Number:
    """How a `float` is read and written: as text, because a float is not the same everywhere."""

    most: str
    with_zero: bool = False
    example: str

    @property
    def _expected(self) -> str:
        most = f"{float(self.most):,.16g}"
        within = f"from 0 to {most}" if self.with_zero else f"above 0 and at most {most}"
        return f'a decimal number {within} in quotes, such as "{self.example}"'

    def _read(self, value: object) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool):
            text = write_number(value)
            self._read(text)  # raises where it is wrong in quotes, too
            raise refusal(self._expected, f'write "{text}" in quotes')
        if not isinstance(value, str):
            raise refusal(self._expected, "write it as text")
        if len(value) > _LONGEST_NUMBER or not re.fullmatch(_NUMBER, value):
            raise refusal(self._expected, "correct the number")
        number = float(value)
        if number == 0 and not self.with_zero:
            raise refusal(self._expected, "choose a larger number")
        if number > float(self.most):
            raise refusal(self._expected, "choose a smaller number")
        return number

    def __get_pydantic_core_schema__(
        self, source: type[Any], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Read text; write text."""
        return core_schema.no_info_plain_validator_function(
            self._read,
            serialization=core_schema.plain_serializer_function_ser_schema(
                write_number, return_schema=core_schema.str_schema(), when_used="unless-none"
            ),
        )

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Describe the text for the CRD."""
        rules = [
            f"self.matches(r'^{_NUMBER}$')",
            f"!quantity(self).isGreaterThan(quantity('{self.most}'))",
            *(() if self.with_zero else ("quantity(self).isGreaterThan(quantity('0'))",)),
        ]
        rule = Rule(rule=" && ".join(rules), expected=self._expected, remedy="correct the number")
        return _schema(_NUMBER, _LONGEST_NUMBER, rule)


_NUMBER = r"[0-9]{1,7}(\.[0-9]{1,6})?"
_LONGEST_NUMBER = 14


def write_number(value: float) -> str:
    """Return a number as a manifest has it, with at most six digits behind the point."""
    if isinstance(value, int):  # it may be too large for a float
        return str(value)
    return f"{value:.6f}".rstrip("0").rstrip(".")


Price = Annotated[float, _Number(most="1000000", example="0.04")]
"""Currency per hour, above zero."""
Speedup = Annotated[float, _Number(most="1000", example="1.6")]
"""Speed relative to another one, above zero."""
Level = Annotated[float, _Number(most="10", with_zero=True, example="0.9")]
"""Part of the objective, from 0 to 10."""
MinSpeed = Annotated[float, _Number(most="0.9", example="0.7")]
"""Part of the usual speed, above zero and at most 0.9."""
