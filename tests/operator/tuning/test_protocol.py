"""Works and answers on their way: whole, or not at all."""

import gzip
import io
import json

import pytest

from tests.operator.tuning.fakes import a_request, an_answer
from weir_operator.tuning.protocol import (
    WIDTH,
    TuningLostError,
    TuningRefusedError,
    pack_request,
    read_answer,
    read_frames,
    unpack_request,
    write_frames,
)


def framed(text):
    out = io.StringIO()
    write_frames(text, out)
    return out.getvalue()


def test_work_comes_out_as_it_went_in_and_equal_work_is_the_same_bytes():
    packed = pack_request(a_request())

    assert unpack_request(packed) == a_request()
    assert pack_request(a_request()) == packed


@pytest.mark.parametrize("packed", [b"", b"not gzip", pack_request(a_request())[:-20]])
def test_work_that_is_not_whole_is_refused(packed):
    with pytest.raises(TuningRefusedError, match="Expected the work of a tuning"):
        unpack_request(packed)


def test_work_as_another_version_nests_it_is_refused_with_the_remedy():
    nested = {"version": 1, "order": {"experiment": {}}, "rates": [1.0]}

    with pytest.raises(TuningRefusedError, match="tuner of the same version as the controller"):
        unpack_request(gzip.compress(json.dumps(nested).encode()))


def test_what_was_trained_must_be_an_operator_with_a_budget():
    answer = json.loads(an_answer({"op": 0.025}).model_dump_json(by_alias=True))

    with pytest.raises(TuningLostError, match="operators that have no budget"):
        read_answer(json.dumps(answer | {"trained": {"other": {}}}))


@pytest.mark.parametrize("text", ["", "null", '{"version": 1, "result": {}, "forecast": {}}'])
def test_what_is_no_answer_counts_as_lost(text):
    with pytest.raises(TuningLostError, match="Expected the result of a tuning"):
        read_answer(text)


def test_an_answer_is_found_among_other_lines():
    text = "".join(chr(33 + (7 * i) % 90) for i in range(3 * WIDTH))
    first, *rest = framed(text).splitlines()

    log = "\n".join(["Numba compiles", first, "a warning", *rest, "the end"])

    assert read_frames(log) == text


def test_the_last_of_several_answers_counts():
    assert read_frames(framed("one") + framed("two")) == "two"


def test_an_answer_that_lost_a_line_is_lost():
    numbers = " ".join(str(i**3) for i in range(4000))
    lines = framed(numbers).splitlines()
    assert len(lines) > 2

    with pytest.raises(TuningLostError, match="which is incomplete"):
        read_frames("\n".join(lines[:1] + lines[2:]))
