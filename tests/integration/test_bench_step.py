"""`wmtp bench step` refuses flags that would change nothing, and names of nothing."""
import pytest


@pytest.mark.parametrize("flags, told", [
    (["--lora-targets", "q_proj"], "--lora-targets requires --lora"),
    (["--quantize", "nf4"], "--quantize nf4 without --lora: nothing is frozen"),
    (["--lora", "4", "--lora-targets", "q_proj,attention"], "unknown target_modules attention"),
])
def test_flags_that_cannot_be_followed_are_refused(wmtp, flags, told):
    assert told in wmtp.error("bench", "step", "--preset", "micro", "--device", "cpu", *flags, code=78)["message"]
