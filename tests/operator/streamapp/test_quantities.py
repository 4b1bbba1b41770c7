"""Quantities parse to one unit and keep their text."""

import copy
import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError

from weir_operator.streamapp.objective import A_DURATION
from weir_operator.streamapp.quantities import Cpu, Duration, Memory, Percentage, Quantity


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("200ms", 0.2), ("5s", 5), ("1m", 60), ("1h", 3600), ("1h30m", 5400), ("1.5s", 1.5)],
)
def test_a_duration_is_seconds(text, seconds):
    assert Duration(text).seconds == pytest.approx(seconds)


@pytest.mark.parametrize(("text", "cores"), [("250m", 0.25), ("1", 1), ("1.5", 1.5)])
def test_cpu_is_cores(text, cores):
    assert Cpu(text).cores == cores


@pytest.mark.parametrize(
    ("text", "size"), [("512Mi", 512 * 2**20), ("1Gi", 2**30), ("1.5k", 1500), ("2G", 2 * 10**9)]
)
def test_memory_is_bytes(text, size):
    assert Memory(text).bytes == size


@pytest.mark.parametrize(("text", "share"), [("0%", 0), ("5%", 0.05), ("2.5%", 0.025), ("100%", 1)])
def test_a_percentage_is_a_share(text, share):
    assert Percentage(text).share == pytest.approx(share)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Duration, ""), (Duration, "5"), (Duration, "5 s"), (Duration, "1d"), (Duration, "0s"),
        (Duration, "-1s"), (Duration, "5s\n"),
        (Cpu, "m"), (Cpu, "1.5m"), (Cpu, "0"), (Cpu, "-1"), (Cpu, "1.0001"),
        (Memory, "512"), (Memory, "1GB"), (Memory, "0Gi"),
        (Percentage, "5"), (Percentage, "101%"), (Percentage, "-1%"),
    ],
)  # fmt: skip
def test_other_texts_are_refused_with_an_example(kind: type[Quantity], text: str):
    with pytest.raises(PydanticCustomError, match=r"expected a.*such as"):
        kind.read(text)


def is_a_duration(text):
    try:
        Duration(text)
    except PydanticCustomError:
        return False
    return True


@given(st.from_regex(rf"\A{Duration.pattern}\Z"))
def test_the_servers_patterns_take_every_duration_that_is_long_enough(text):
    (whole, part) = (limit["pattern"] for limit in A_DURATION)
    # A pattern does not add up: a part of the text has to be long enough.
    if not is_a_duration(text) or not any(map(is_a_duration, re.findall(r"[\d.]+[a-z]+", text))):
        return

    assert re.search(whole, text)
    assert re.search(part, text)


@pytest.mark.parametrize("text", ["0s", "0.5ms", "0.0005s", "0h0m0s", "0.9ms0.9ms"])
def test_the_servers_patterns_refuse_what_has_no_part_of_a_millisecond(text):
    _, part = (limit["pattern"] for limit in A_DURATION)

    assert not re.search(part, text)


def test_equal_values_are_equal_however_they_are_written():
    assert Duration("60s") == Duration("1m")
    assert hash(Cpu("500m")) == hash(Cpu("0.5"))
    assert Memory("512Mi") < Memory("1Gi")


@pytest.mark.parametrize("quantity", [Duration("1h30m"), Cpu("250m"), Memory("1Gi")])
def test_a_quantity_survives_copying_and_pickling_with_its_text(quantity):
    copies = [copy.deepcopy(quantity), pickle.loads(pickle.dumps(quantity))]

    assert [(each, str(each)) for each in copies] == [(quantity, str(quantity))] * 2
