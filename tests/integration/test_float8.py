"""training.float8 is refused by name wherever it cannot be had: on CPUs, on GPUs as yet, and for sizes it does not take."""
import pytest
from tiny_runs import TinyRuns
