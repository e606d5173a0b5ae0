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
