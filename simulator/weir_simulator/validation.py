"""What the sections of every file that people write have in common: experiments and StreamApps.

A section is strict (no "5" for 5), closed (an unknown field is a mistake) and immutable; it is
camelCase in the file and snake_case in Python. Pydantic finds what is wrong with one field,
`Mistake`s say what is wrong between fields, and both become sentences for people. How a sentence is
worded, and what it shows of a value, is decided where the file is read.
"""

from __future__ import annotations

import difflib
import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError


class Section(BaseModel):
    """A part of a file: camelCase there, snake_case in Python."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )


@dataclass(frozen=True, slots=True)
class Mistake:
    """One thing that cannot be right."""

    path: tuple[str | int, ...]
    """The field, in the file's words, relative to the section that refuses."""
    got: object
    expected: str
    remedy: str


def refuse(mistakes: Iterable[Mistake]) -> None:
    """Raise one validation error that holds every mistake; return where there is none.

    Raises:
        ValidationError: There is a mistake. Inside a validator, pydantic puts the section's own
            path before the mistakes'.
    """
    details = [
        InitErrorDetails(
            type=refusal(mistake.expected, mistake.remedy), loc=mistake.path, input=mistake.got
        )
        for mistake in mistakes
    ]
    if details:
        raise ValidationError.from_exception_data("file", details)


MOST_MISTAKES = 50
"""Mistakes that are told of a file. It may have thousands, and each takes some time to put into
words: an unknown name is compared with all known ones."""


def judge(
    rules: Iterable[Callable[..., Iterable[Mistake]]], sections: Mapping[str, object]
) -> list[Mistake]:
    """Return the first mistakes that the rules find whose sections are all given.

    Args:
        rules: Their parameters name the sections that they read.
        sections: Those that are right in themselves, by their Python names.
    """
    mistakes: list[Mistake] = []
    for rule in rules:
        needed = inspect.signature(rule).parameters
        if needed.keys() <= sections.keys():
            found = rule(**{name: sections[name] for name in needed})
            mistakes += islice(found, MOST_MISTAKES - len(mistakes))
    return mistakes


def refusal(expected: str, remedy: str) -> PydanticCustomError:
    """Return the error for one value, to be raised where it is read."""
    return PydanticCustomError(
        "rule", "expected {expected}; {remedy}", {"expected": expected, "remedy": remedy}
    )


def list_errors(error: ValidationError) -> Iterator[ErrorDetails]:
    """Yield each mistake that pydantic found, in the file's order.

    A list that is called too short only because its items have mistakes is left out.
    """
    found = error.errors(include_url=False)
    for each in found:
        path = each["loc"]
        if each["type"] != "too_short" or not any(
            len(other["loc"]) > len(path) and other["loc"][: len(path)] == path for other in found
        ):
            yield each


def written_path(path: Sequence[str | int], *, whole: str) -> str:
    """Return a field's path as people write it, such as `spec.nodePools[1].price`.

    Args:
        path: Keys and indices that lead to the field.
        whole: What the file is called, which stands for an empty path.
    """
    steps = []
    for step in path:
        if isinstance(step, int):
            steps.append(f"[{step}]")
        elif re.fullmatch(r"[A-Za-z_][\w-]*", step):
            steps.append(f".{step}")
        else:
            steps.append(f'["{step}"]')
    return "".join(steps).removeprefix(".") or whole


def read_right_fields(model: type[BaseModel], document: object) -> dict[str, object]:
    """Return those fields of a model that are right in themselves, by their name in Python.

    So the rules between fields can be checked although other fields have mistakes.
    """
    if not isinstance(document, Mapping):
        return {}
    right: dict[str, object] = {}
    for name, field in model.model_fields.items():
        if field.alias not in document:
            if not field.is_required():
                right[name] = field.get_default(call_default_factory=True)
            continue
        adapter: TypeAdapter[object] = TypeAdapter(field.rebuild_annotation())
        try:
            right[name] = adapter.validate_json(
                json.dumps(document[field.alias], default=str), by_alias=True, by_name=False
            )
        except ValidationError:
            continue
    return right


_LONGEST_WORD = 63
"""No known word is longer, and the search takes time with the word's length."""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that `word` was probably meant to be, if any is close."""
    if len(word) > _LONGEST_WORD:
        return None
    return _nearest(word, tuple(known))


@lru_cache(maxsize=2 * MOST_MISTAKES)  # the rules judge a manifest twice
def _nearest(word: str, known: tuple[str, ...]) -> str | None:
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.75)
    return close[0] if close else None


def suggest(word: str, known: Iterable[str], *, otherwise: str) -> str:
    """Return the remedy for an unknown word: the nearest known one, or `otherwise`."""
    close = nearest(word, known)
    return f"did you mean {close!r}?" if close else otherwise
