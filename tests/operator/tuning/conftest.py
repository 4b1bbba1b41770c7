"""The slow loop with a tuner that answers as the test says."""

from itertools import count

import pytest

from tests.operator.tuning.tuning_setting import Setting


@pytest.fixture
def setting_of(tmp_path):
    settings = []
    number = count()

    def build(*answers, **fields):
        folder = tmp_path / str(next(number))
        folder.mkdir()
        settings.append(Setting(folder, *answers, **fields))
        return settings[-1]

    yield build
    for setting in settings:
        setting.records.close()
