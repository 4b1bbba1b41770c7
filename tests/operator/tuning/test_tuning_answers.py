"""Works and answers on their way: whole, or not at all."""

import io

import pytest

from weir_operator.tuning.testing import a_work, an_answer
from weir_operator.tuning.work import (
    TuningLostError,
    TuningRefusedError,
    pack_work,
    read_answer,
    unpack_work,
)
from weir_operator.tuning.worker import WIDTH, read_frames, write_frames


def framed(text):
    out = io.StringIO()
    write_frames(text, out)
    return out.getvalue()


def test_work_comes_out_as_it_went_in_and_equal_work_is_the_same_bytes():
    packed = pack_work(a_work())

    assert unpack_work(packed) == a_work()
    assert pack_work(a_work()) == packed


@pytest.mark.parametrize("packed", [b"", b"not gzip", pack_work(a_work())[:-20]])
def test_work_that_is_not_whole_is_refused(packed):
    with pytest.raises(TuningRefusedError, match="Expected the work of a tuning"):
        unpack_work(packed)


def test_an_answer_comes_out_as_it_went_in():
    answer = an_answer({"op": 0.025})

    assert read_answer(answer.model_dump_json(by_alias=True)) == answer


@pytest.mark.parametrize("text", ["", "null", '{"version": 2}', '{"version": 1}'])
def test_what_is_no_answer_counts_as_lost(text):
    with pytest.raises(TuningLostError, match="Expected the answer of a tuning"):
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

    with pytest.raises(TuningLostError, match="do not make it whole"):
        read_frames("\n".join(lines[:1] + lines[2:]))


def test_a_log_without_an_answer_is_a_lost_one():
    with pytest.raises(TuningLostError, match="found none"):
        read_frames("Traceback (most recent call last):")
