"""What the tests of whole training runs share: a folder with the demo corpus and small runs in it, an MLflow server, one that speaks S3."""
import pytest
from mlflow_server import SharedServer
from s3_gateway import running_gateway
from training_runs import Workshop


@pytest.fixture(scope="session")
def workshop(wmtp, tmp_path_factory):
    """The corpus, with a baseline and a critic of a few steps for the stages that build on them."""
    made = Workshop(wmtp, tmp_path_factory.mktemp("workshop"), rows=400)
    few = ("training.max_steps=4", "training.eval_every_steps=4", "training.log_interval=1")
    made.baseline = made.train("micro/baseline.yaml", "micro-baseline", *few)
    made.critic = made.train("micro/critic.yaml", "micro-critic", *few)
    return made


@pytest.fixture(scope="session")
def mlflow(tmp_path_factory, worker_id):
    """A real MLflow server that nobody stops."""
    folder = tmp_path_factory.getbasetemp()
    folder = (folder if worker_id == "master" else folder.parent) / "mlflow"
    folder.mkdir(exist_ok=True)
    with SharedServer(folder) as server:
        yield server


@pytest.fixture(scope="session")
def ceph(tmp_path_factory):
    """A Ceph object gateway; who takes it down brings it back. Tests have buckets of their own in it."""
    with running_gateway(tmp_path_factory.mktemp("ceph")) as gateway:
        yield gateway
