"""training.float8 is refused by name wherever it cannot be had: on CPUs, and with sizes it does not take (on GPUs:
test_float8_runs.py)."""
import pytest

from tiny_runs import TinyRuns


@pytest.fixture(scope="module")
def refused(wmtp, tmp_path_factory):
    runs = TinyRuns(wmtp, tmp_path_factory.mktemp("float8"), steps=4, every=2)

    def validate(*overrides):
        words = [word for override in overrides for word in ("--override", override)]
        return wmtp.error("validate", "--config", runs.config, "--defaults", "none", *words, code=78)["message"]

    return validate


def test_a_cpu_is_refused_by_name(refused):
    assert ("training.float8: tensorwise needs a GPU of compute capability 9.0 or newer"
            in refused("training.float8=tensorwise", "runtime.device=cpu"))


def test_sizes_that_are_no_multiples_of_16_are_named(refused):
    message = refused("training.float8=rowwise", "models.policy.params={dim: 24, ffn_dim: 40}")
    assert "training.float8: products in float8 take multiples of 16, but the model has dim 24, " in message
    assert "ffn_dim 40" in message


def test_the_benchmark_refuses_it_alike(wmtp):
    message = wmtp.error("bench", "step", "--preset", "micro", "--device", "cpu", "--float8", "rowwise", code=78)["message"]
    assert "--float8: rowwise needs a GPU of compute capability 9.0 or newer" in message
