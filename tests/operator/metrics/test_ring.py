from __future__ import annotations

from weir_operator.metrics.direct import SampleRing


def test_a_series_without_a_sample_inside_is_left_out():
    ring = SampleRing(keep=100)
    ring.add(1.0, [("x", {}, 1.0)])

    assert ring.window(2.0, 3.0).series == ()


def test_samples_older_than_the_ring_keeps_are_dropped():
    ring = SampleRing(keep=10)
    ring.add(1.0, [("gone", {}, 1.0), ("x", {}, 1.0)])
    ring.add(5.0, [("x", {}, 2.0)])
    ring.add(12.0, [("x", {}, 3.0)])

    (series,) = ring.window(0.0, 100.0).series

    assert series.times == (5.0, 12.0)


def test_after_the_clock_was_set_back_samples_go_on():
    ring = SampleRing(keep=100)
    for time in (50.0, 60.0, 20.0, 21.0):
        ring.add(time, [("x", {}, time)])

    (series,) = ring.window(0.0, 100.0).series

    assert series.times == (20.0, 21.0)


def test_a_series_that_has_ended_is_forgotten_and_leaves_its_place_to_another():
    ring = SampleRing(keep=10, most=1)
    ring.add(1.0, [("gone", {}, 1.0)])

    assert ring.add(5.0, [("new", {}, 1.0)]) == 1
    assert ring.add(12.0, [("new", {}, 2.0)]) == 0

    assert [each.name for each in ring.window(0.0, 100.0).series] == ["new"]


def test_a_series_too_many_takes_nothing_from_those_that_are_there():
    ring = SampleRing(keep=100, most=2)
    ring.add(1.0, [("a", {}, 1.0), ("b", {}, 1.0)])

    left_out = ring.add(2.0, [("c", {}, 2.0), ("b", {}, 2.0), ("d", {}, 2.0)])

    assert left_out == 2
    assert {each.name: each.times for each in ring.window(0.0, 9.0).series} == {
        "a": (1.0,),
        "b": (1.0, 2.0),
    }
