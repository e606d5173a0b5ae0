"""A real MLflow server for tests, and what its own client reads back."""
import fcntl
import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[1] / "support/servers/mlflow.sh"
ENVIRONMENT = Path(sys.prefix)  # the tests' own, which has mlflow


class MlflowServer:
    """`start` after `down` serves the same runs at the same address."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.uri = None

    def start(self):
        done = subprocess.run([SCRIPT, "start", self.folder, ENVIRONMENT], capture_output=True, text=True, check=True)
        self.uri = done.stdout.strip().rpartition("=")[2]
        return self

    def down(self):
        """Ends it as a crash would."""
        subprocess.run([SCRIPT, "down", self.folder], check=True, capture_output=True)

    def client(self):
        from mlflow.tracking import MlflowClient
        return MlflowClient(self.uri)

    def runs(self, experiment):
        client = self.client()
        found = client.get_experiment_by_name(experiment)
        return client.search_runs([found.experiment_id]) if found else []

    def the_run(self, experiment):
        runs = self.runs(experiment)
        assert len(runs) == 1, [run.info.run_id for run in runs]
        return runs[0]

    def history(self, run):
        """(key, step) -> the values it has there, with their times, in the order in which they came."""
        client = self.client()
        found = {}
        for key in run.data.metrics:
            for metric in client.get_metric_history(run.info.run_id, key):
                found.setdefault((key, metric.step), []).append((metric.value, metric.timestamp))
        return found


class SharedServer:
    """One server for all processes of a test session: its start takes as long as a dozen tests."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.server = MlflowServer(self.folder / "shared")

    def _count_users(self, change):
        with open(self.folder / "users", "a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            users = int(file.read() or 0) + change
            file.truncate(0)
            file.write(str(users))
            return users

    def __enter__(self):
        self._count_users(1)
        return self.server.start()  # of one that runs this only says where

    def __exit__(self, *_):
        if self._count_users(-1) == 0:
            self.server.down()


def without_mlflow(env=os.environ):
    """An environment in which nobody has set up MLflow."""
    return {name: value for name, value in env.items() if not name.startswith("MLFLOW_")}
