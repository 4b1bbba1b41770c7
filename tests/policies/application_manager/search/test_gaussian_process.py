"""Our own Gaussian process: what it interpolates, and that BoTorch says the same."""

import math

import numpy as np
import pytest
from scipy.optimize import check_grad

from weir_policies.application_manager.search import gaussian_process
from weir_policies.application_manager.search.gaussian_process import (
    condition,
    fit_process,
)
from weir_policies.application_manager.search.surrogate import (
    expected_improvement,
)


def a_hill(points):
    return np.sin(3 * points[:, 0]) + points[:, 1] ** 2


def drawn(count, seed=1):
    return np.random.default_rng(seed).random((count, 2))


def test_it_predicts_a_smooth_function_between_what_it_saw():
    seen, unseen = drawn(40), drawn(20, seed=2)

    process = fit_process(seen, a_hill(seen))
    means, deviations = process.predict(unseen)

    assert means == pytest.approx(a_hill(unseen), abs=0.1)
    assert (np.abs(means - a_hill(unseen)) < 4 * deviations + 1e-3).all()


def test_a_coordinate_that_does_not_matter_gets_the_longer_scale():
    points = drawn(40)

    process = fit_process(points, np.sin(6 * points[:, 0]))

    assert process.parameters[1] > process.parameters[0] + 1


def test_a_believed_point_changes_no_mean_and_takes_its_uncertainty_away():
    process = fit_process(drawn(10), a_hill(drawn(10)))
    point = np.array([0.9, 0.05])
    mean, deviation = process.predict(point[None])

    believed_mean, believed_deviation = process.believe(point).predict(point[None])

    assert believed_mean == pytest.approx(mean)
    assert believed_deviation < deviation / 2


def test_the_gradient_of_the_fit_is_that_of_its_loss():
    points = drawn(12)
    outputs = a_hill(points) - a_hill(points).mean()
    medians = np.array([1.7, 1.7, -4.0])
    given = (points, outputs, medians)

    def loss(at):
        return gaussian_process._loss(at, *given)[0]

    def gradient(at):
        return gaussian_process._loss(at, *given)[1]

    error = check_grad(loss, gradient, np.array([0.3, -0.4, -3.0]))

    assert error < 1e-4


def test_equal_outputs_are_no_mistake():
    process = fit_process(drawn(5), np.full(5, 3.0))

    means, _ = process.predict(drawn(3, seed=2))

    assert means == pytest.approx(np.full(3, 3.0))


def test_one_output_is_enough():
    process = fit_process(drawn(1), np.array([2.0]))

    means, deviations = process.predict(drawn(4, seed=2))

    assert means == pytest.approx(np.full(4, 2.0))
    assert (deviations > 0).all()


def test_it_predicts_what_gpytorch_does_with_equal_parameters():
    gpytorch = pytest.importorskip("gpytorch")
    torch = pytest.importorskip("torch")
    points, outputs, unseen = drawn(15), a_hill(drawn(15)), drawn(6, seed=2)
    parameters = np.array([math.log(0.4), math.log(0.7), -5.0])
    ours = condition(points, outputs, parameters, centre=0.0, scale=1.0)
    kernel = gpytorch.kernels.MaternKernel(nu=2.5, ard_num_dims=2).double()
    kernel.lengthscale = torch.tensor([[0.4, 0.7]])
    known, new = torch.as_tensor(points), torch.as_tensor(unseen)

    with torch.no_grad():
        among = (kernel(known).to_dense() + 1).numpy() + math.exp(-5.0) * np.eye(15)
        between = (kernel(new, known).to_dense() + 1).numpy()
    means = between @ np.linalg.solve(among, outputs)
    variances = 2 - (between * np.linalg.solve(among, between.T).T).sum(axis=1)

    assert ours.predict(unseen)[0] == pytest.approx(means, abs=1e-6)
    assert ours.predict(unseen)[1] == pytest.approx(np.sqrt(variances), abs=1e-6)


def test_botorch_fits_nearly_the_same_function():
    botorch_process = pytest.importorskip(
        "weir_policies.application_manager.search.botorch_process"
    )
    points, outputs, unseen = drawn(25), a_hill(drawn(25)), drawn(10, seed=2)

    ours = fit_process(points, outputs)
    theirs = botorch_process.fit_botorch(points, outputs)

    assert ours.predict(unseen)[0] == pytest.approx(theirs.predict(unseen)[0], abs=0.1)
    assert theirs.believe(unseen[0]).predict(unseen[:1])[0] == pytest.approx(
        theirs.predict(unseen[:1])[0], abs=1e-2
    )


def test_expected_improvement_is_botorchs():
    analytic = pytest.importorskip("botorch.acquisition.analytic")
    torch = pytest.importorskip("torch")
    mean, deviation = np.array([0.0, 1.0, -1.0]), np.array([1.0, 0.5, 0.1])

    ours = expected_improvement(mean, deviation, 0.3)

    theirs = torch.as_tensor(deviation) * analytic._ei_helper(
        torch.as_tensor((0.3 - mean) / deviation)
    )
    assert ours == pytest.approx(theirs.numpy())
