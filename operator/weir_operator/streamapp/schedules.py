"""What the CRD can say of a schedule and of a time zone; Python checks the rest."""

from __future__ import annotations

from pydantic.types import JsonValue

from weir_operator.streamapp.section import Rule, validations
from weir_simulator.schedules import EXPECTED, FIELDS


def _field_pattern(lowest: int, highest: int, names: tuple[str, ...]) -> str:
    """Return a regular expression for one field, its range included but not a range's order."""
    value = "|".join((*(f"0*{number}" for number in range(lowest, highest + 1)), *names))
    item = rf"(\*|({value})(-({value}))?)(/0*[1-9][0-9]*)?"
    return f"{item}(,{item})*"


SCHEDULE_SCHEMA = {
    "pattern": r"^[0-9A-Za-z*/,-]+( [0-9A-Za-z*/,-]+){4}$",
    "maxLength": 128,
    **validations(
        Rule(
            rule="self.matches(r'(?i)^"
            + " ".join(
                _field_pattern(lowest, highest, names) for _, lowest, highest, names in FIELDS
            )
            + "$')",
            expected=EXPECTED,
            remedy="correct the field that is out of range",
        )
    ),
}
"""What the CRD can say of a schedule; that a range does not run backwards, and that some
month has the day, is checked here alone."""

TIME_ZONE_SCHEMA: dict[str, JsonValue] = {"pattern": "^[A-Za-z][A-Za-z0-9_+/-]*$", "maxLength": 64}
