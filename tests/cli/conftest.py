import pytest


@pytest.fixture
def experiment(request, tmp_path):
    """The file of the experiment that the module of a test names `EXPERIMENT`."""
    path = tmp_path / "small.yaml"
    path.write_text(request.module.EXPERIMENT)
    return path
