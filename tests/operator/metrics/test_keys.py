"""What the agent counted of keys, as Weir reads it."""

import numpy as np
import pytest

from weir_operator.errors import PermanentError
from weir_operator.limits import KEY_LINE, MAX_KEY_GROUPS
from weir_operator.metrics.keys import read_keys as read_keys_of


def read_keys(texts):
    return read_keys_of(texts, {"sums", "other", "one", "two"})


def test_counts_of_several_tasks_are_added_each_with_its_own_shift():
    texts = ["sums 4 a 0 1 1,2,3,4", "sums 4 5 2 1 1,0,0,0\nother 2 1 0 1 1,1"]

    found = read_keys(texts)

    assert found["sums"].by_group == pytest.approx((5 / 14, 2 / 14, 3 / 14, 4 / 14))
    assert found["sums"].counted == 15
    assert found["sums"].heaviest == 0
    assert found["other"].by_group == (0.5, 0.5)


def test_the_heaviest_keys_are_named_in_order_with_their_shares():
    texts = [
        "sums 4 2s 0 1 a,0,0,2i =hot+key:3:1y,abcd0123:0:a",
        "sums 4 2s 0 1 0,0,0,2s ffff0000:3:1",
    ]

    found = read_keys(texts)["sums"]

    assert [(key.name, key.group) for key in found.heavy] == [("=hot key", 3), ("abcd0123", 0)]
    assert found.heavy[0].share == pytest.approx(70 / 200)


def test_a_heavy_key_is_in_its_own_group_where_counts_are_of_several():
    [keys] = read_keys(["sums 4 2s 0 2 2g,c abcd0123:1:28"]).values()

    assert keys.by_group == pytest.approx((0.04, 0.84, 0.06, 0.06))


def test_the_last_block_may_have_fewer_groups():
    [keys] = read_keys(["sums 5 a 0 2 4,4,2"]).values()

    assert keys.by_group == pytest.approx((0.2,) * 5)


def test_counts_for_two_operators_are_those_of_both():
    found = read_keys(["one,two 2 1 0 1 1,3"])

    assert found["one"] == found["two"]


def test_the_time_of_its_own_key_groups_says_which_have_most_of_an_operators_work():
    texts = [
        "sums 2 rs 0 1 dw,dw",
        ".sums 2 rs 3 1 2s,0",
        ".sums 2 rs 0 1 0,334",
        ".none 1 a 0 1 a",
    ]

    found = read_keys(texts)

    assert found.keys() == {"sums"}
    assert found["sums"].by_group == (0.5, 0.5)
    assert found["sums"].counted == 1000
    assert found["sums"].work == pytest.approx((1 / 6, 5 / 6))


def test_shares_of_work_sum_to_one_where_records_of_a_group_were_timed_and_none_counted():
    [keys] = read_keys(["sums 3 rs 0 1 dw,0,dw", ".sums 3 rs 0 1 5k,5k,rs"]).values()

    assert keys.work == pytest.approx((1 / 6, 0, 5 / 6))
    assert read_keys(["sums 2 rs 0 1 rs,0", ".sums 2 rs 0 1 0,rs"])["sums"].work == ()


def test_a_key_brings_no_more_than_its_key_group():
    [keys] = read_keys(["sums 2 a 0 1 3,7 abcd0123:1:8"]).values()

    assert keys.heavy[0].share == pytest.approx(0.7)


def test_records_that_take_as_long_everywhere_need_no_shares_of_work():
    assert read_keys(["sums 2 rs 0 1 dw,5k", ".sums 2 rs 0 1 dw,5k"])["sums"].work == ()


def test_neighbours_whose_time_is_not_known_apart_share_it_by_their_records():
    [keys] = read_keys(["sums 5 rs 0 2 5k,5k,5k", ".sums 5 rs 0 2 5k,5k,rs"]).values()

    assert keys.work == pytest.approx((1 / 14, 1 / 14, 1 / 14, 1 / 14, 5 / 7))


def test_an_operator_without_records_is_not_known():
    assert read_keys(["sums 2 0 0 1 0,0", ""]) == {}


def test_signs_that_cannot_be_printed_reach_nobody():
    [keys] = read_keys(["sums 1 a 0 1 a =%1B%5B2Jred:0:a"]).values()

    assert keys.heavy[0].name == "=?[2Jred"


@pytest.mark.parametrize(
    "line",
    [
        "sums",
        "sums 4 a 0 1 1,2",
        "sums 4 a 0 0 1,2,3,4",
        "sums zzzzzz a 0 1 1",
        "sums 2 a 0 1 -1,2",
        "sums 2 a 2s 1 1,2",
        "sums 2 a 0 1 1,2 key",
        "sums 2 a 0 1 1,2 key:2:1",
        "sums 2 a 0 1 x,?",
        "s" * KEY_LINE + " 1 1 0 1 1",
        f"sums 2 {'z' * 300} 0 1 1,1",
        f"sums 2 a 0 1 {'z' * 200},1",
        f"sums 2 a 0 1 1,1 key:0:{'z' * 13}",
    ],
)
def test_what_the_agent_does_not_write_is_refused(line):
    with pytest.raises(PermanentError, match="as Weir's agent writes them"):
        read_keys([line])


def test_lines_of_operators_that_the_job_does_not_have_are_left_out():
    assert read_keys([",,gone,sums 2 a 0 1 1,3"]).keys() == {"sums"}


def test_more_key_groups_than_are_held_in_memory_are_refused():
    groups = range(MAX_KEY_GROUPS - 40, MAX_KEY_GROUPS + 1)
    lines = [f"sums {(number := np.base_repr(each, 36))} a 0 {number} a" for each in groups]

    assert read_keys(lines[:32]).keys() == {"sums"}
    with pytest.raises(PermanentError, match="at most 1,048,576 key groups over all operators"):
        read_keys(lines)


def test_as_many_keys_and_records_as_the_agent_can_count_are_read():
    most = np.base_repr(2**63 - 1, 36)

    [keys] = read_keys([f"sums 2 {most} 1R 1 {most},{most} key:0:{most}"] * 20).values()

    assert keys.by_group == (0.5, 0.5)
