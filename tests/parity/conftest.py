import pytest
from bitsandbytes_oracle import Oracle
from model_cases import make_model, random_rows, write_rows
from vectors import VECTORS_BINARY, Vectors


@pytest.fixture(scope="module")
def ask():
    """The C++ functions of the vectors, in a process of their own."""
    if not VECTORS_BINARY.exists():
        pytest.fail(f"no tool at {VECTORS_BINARY}: build the tests, or set WMTP_VECTORS")
    vectors = Vectors(VECTORS_BINARY)
    yield vectors
    vectors.process.stdin.close()
    assert vectors.process.wait(timeout=60) == 0


@pytest.fixture(scope="session")
def bnb():
    """bitsandbytes, in a process of its own."""
    oracle = Oracle()
    yield oracle
    oracle.close()


@pytest.fixture
def rows_file(tmp_path):
    return write_rows(tmp_path / "rows.jsonl", random_rows())


@pytest.fixture
def llama(tmp_path):
    model = make_model("llama grouped")
    model.save_pretrained(tmp_path / "llama")
    return tmp_path / "llama", model
