"""What all sections of a StreamApp have in common, and how they report mistakes.

A section is strict (no "5" for 5), closed (an unknown field is a mistake) and immutable. A field's
docstring is its description in the CRD. Error messages suggest its `examples`.

A check between fields is one `Rule`: its condition stands there twice, in CEL for the API server
and in Python, and its sentence once. Both conditions must give the same result with and without the
API server's defaults, so neither may ask whether a field with a default was set.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic.types import JsonValue

from weir_simulator.naming import plain_name
from weir_simulator.validation import Mistake, Section, refusal, refuse

DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
"""Pattern of a DNS-1123 label, what Kubernetes allows in names of pods and values of labels."""
LONGEST_NAME = 63

_EXPECTED_NAME = f"a name of at most {LONGEST_NAME} lower-case letters, digits and '-'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A check of a field, or between the fields of a section, with the sentence of its refusal."""

    rule: str
    """In CEL; `self` is the section or field that has the rule."""
    expected: str
    remedy: str
    field: str = ""
    """The field at fault, below the one that has the rule, such as `.flink.ref`."""
    got: str = ""
    """CEL for a text, the first wrong value, evaluated where the rule does not hold; empty where
    the sentence is the same for every value. (Joining several is beyond the cost limit.)"""
    holds: Callable[..., bool] | None = None
    """The same in Python, of the section, or of the sections of the spec that its parameters name;
    `None` where Python has a check of its own, which can say which item of a list is wrong."""
    shows: Callable[..., object] | None = None
    """Returns what Python says is wrong, of the same; `None` is the value of `field`."""

    def written(self) -> dict[str, JsonValue]:
        """Return the rule in the words of a CustomResourceDefinition."""
        written: dict[str, JsonValue] = {
            "rule": self.rule,
            "message": f"expected {self.expected}; {self.remedy}",
        }
        if self.got:
            written["messageExpression"] = (
                # A text in JSON is a literal of CEL.
                f"{json.dumps(f'expected {self.expected}, got ')} + {self.got}"
                f" + {json.dumps(f'; {self.remedy}')}"
            )
        if self.field:
            written["fieldPath"] = self.field
        return written


def validations(*rules: Rule) -> dict[str, JsonValue]:
    """Return rules as a field's or section's extra JSON schema."""
    return {"x-kubernetes-validations": [rule.written() for rule in rules]}


def _add_rules(schema: dict[str, JsonValue], model: type[Checked]) -> None:
    if model.rules:
        schema.update(validations(*model.rules))


class Checked(Section):
    """A section whose fields have to agree."""

    model_config = Section.model_config | {"json_schema_extra": _add_rules}
    rules: ClassVar[tuple[Rule, ...]] = ()

    def mistakes(self) -> Iterator[Mistake]:
        """Yield what is wrong between the fields; each of them is right in itself."""
        names = {field.alias: name for name, field in type(self).model_fields.items()}
        for rule in self.rules:
            if rule.holds is None or rule.holds(self):
                continue
            field = rule.field.removeprefix(".")
            got = rule.shows(self) if rule.shows is not None else getattr(self, names[field])
            path = (field,) if field else ()
            yield Mistake(
                path, getattr(got, "text", got), self._fill_in(rule.expected), rule.remedy
            )

    def _fill_in(self, expected: str) -> str:
        """Return what was expected, with the numbers of the fields that it names."""
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if isinstance(value, int | float):
                expected = re.sub(rf"\b{field.alias}\b", rf"\g<0> = {value}", expected)
        return expected

    @model_validator(mode="after")
    def _check_fields_agree(self) -> Self:
        refuse(self.mistakes())
        return self


def map_list_by(key: str) -> dict[str, JsonValue]:
    """Return the extra JSON schema of a list whose items are identified by the field `key`."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}


def _check_name(name: str) -> str:
    if len(name) > LONGEST_NAME or not re.fullmatch(DNS_LABEL, name):
        right = plain_name(name, longest=LONGEST_NAME, otherwise="small")
        raise refusal(_EXPECTED_NAME, f"write, for example, {right!r}")
    return name


LABEL_KEY = f"({DNS_LABEL}(\\.{DNS_LABEL})*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?"
"""Pattern of what Kubernetes allows as the key of a label or of a taint."""


Name = Annotated[
    str,
    AfterValidator(_check_name),
    Field(
        examples=["small"],
        json_schema_extra={"pattern": f"^{DNS_LABEL}$", "maxLength": LONGEST_NAME, "minLength": 1}
        | validations(
            Rule(
                rule=f"self.matches('^{DNS_LABEL}$')",
                expected=_EXPECTED_NAME,
                remedy="write, for example, small",
            )
        ),
    ),
]
"""A DNS-1123 label."""

Deployment = dict[str, Annotated[int, Field(ge=1, le=10_000, examples=[1])]]
"""Replicas per node type `pool/size`, such as `{small/250m: 2}`."""
