"""Guards the hooks: the file is valid, and its one pattern catches what it is for."""


def test_the_configuration_is_valid(run, bin_folder):
    checked = run([bin_folder / "pre-commit", "validate-config"])

    assert checked.returncode == 0, checked.stdout
