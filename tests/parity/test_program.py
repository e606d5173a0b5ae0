"""The program's own frame: versions, help, errors of the command line."""
import importlib.metadata


def test_version_names_the_libtorch_that_python_has(wmtp):
    assert wmtp.json("version")["libtorch"] == importlib.metadata.version("torch")


def test_results_go_to_stdout_and_nothing_to_stderr(wmtp):
    done = wmtp.run("version")
    assert done.stdout.startswith("wmtp ") and done.stderr == ""


def test_unknown_command_is_78(wmtp):
    done = wmtp.run("no-such-command", check=False)
    assert done.returncode == 78 and done.stdout == "" and done.stderr != ""


def test_a_number_below_an_open_range_is_too_small(wmtp):
    """CLI11 would print the largest double, 309 digits."""
    assert wmtp.error("train", "--config", "x.yaml", "--max-steps", 0, code=78)["message"] == "--max-steps: Value 0 is too small"
