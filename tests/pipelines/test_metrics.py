from weir_operator.metrics import names
from weir_pipelines import metrics

ONLY_IN_HISTORY = {metrics.METRICS[metrics.IDLE]}
"""The controller needs no idle time; history makes a clock of it."""


def test_every_series_of_the_history_is_one_that_the_controller_reads():
    assert set(metrics.ROLES) - ONLY_IN_HISTORY <= names.NAMES
