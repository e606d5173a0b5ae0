"""Training runs as MLflow has them: what its own client reads back is what the run told, however it ended."""
import json
import os
import signal
import subprocess

import pytest
from mlflow_server import without_mlflow
from s3_gateway import set_variables
from tiny_runs import TinyRuns, environment, events, metrics, result_of, wait_for


@pytest.fixture(scope="module")
def runs(wmtp, tmp_path_factory):
    return TinyRuns(wmtp, tmp_path_factory.mktemp("mlflow-runs"), steps=12, every=4)


def tracked(mlflow, name, **more):
    return {"mlflow__experiment": name, "mlflow__tracking_uri": mlflow.uri, "training__log_interval": 1, **more}


def told(runs, name):
    """(key, step) -> (value, time in ms) as metrics.jsonl has them; of a step told twice the first one."""
    found = {}
    for point in metrics(runs, name):
        if "event" in point:
            continue
        for key, value in point.items():
            if key not in ("step", "time"):
                found.setdefault((key, point["step"]), (float(value), round(point["time"] * 1000)))
    return found


def assert_one_telling_of_each(history, runs, name):
    """Of a step that was told before and after a kill MLflow has one telling: which one depends on whether the kill came
    between metrics.jsonl and MLflow's spool."""
    tellings = {}
    for point in metrics(runs, name):
        for key, value in point.items():
            if "event" not in point and key not in ("step", "time"):
                tellings.setdefault((key, point["step"]), set()).add((float(value), round(point["time"] * 1000)))
    values = only_values(history)
    assert values.keys() == tellings.keys()
    assert {place: value for place, value in values.items() if value not in tellings[place]} == {}


def only_values(history):
    assert all(len(values) == 1 for values in history.values()), history
    return {place: values[0] for place, values in history.items()}


def run_folder_of(runs, name):
    return runs.folder / name


def test_what_mlflow_holds_is_what_the_run_told(runs, mlflow, tmp_path):
    done = runs.run("whole", ranks=2, **tracked(mlflow, "whole", checkpoint__export_on_finish="hf",
                                                mlflow__upload_artifacts=True, mlflow__run_name="by another name"))
    run = mlflow.the_run("whole")
    assert only_values(mlflow.history(run)) == told(runs, "whole")
    assert run.info.status == "FINISHED" and run.info.run_name == "by another name"
    assert run.data.params["training.learning_rate"] == "0.003"
    assert run.data.params["training.max_steps"] == "12" and run.data.params["experiment.stage"] == "baseline"
    assert run.data.tags["wmtp.exit_code"] == "0"
    names = [item.dataset.name for item in run.inputs.dataset_inputs]
    assert len(names) == 2, names
    client = mlflow.client()
    folder = run_folder_of(runs, "whole")
    for name in ("config.yaml", "environment.json", "summary.json", "metrics.jsonl", "report.html"):
        sent = client.download_artifacts(run.info.run_id, name, str(tmp_path))
        assert open(sent, "rb").read() == (folder / name).read_bytes(), name
    finals = {item.path for item in client.list_artifacts(run.info.run_id, "final")}
    assert finals == {f"final/{path.name}" for path in (folder / "final").iterdir() if path.is_file()}
    manifests = {item.path for item in client.list_artifacts(run.info.run_id, "checkpoints")}
    assert manifests == {f"checkpoints/{saved['name']}" for saved in events(done.stdout, "saved")}
    assert result_of(done)["status"] == "completed"


def test_a_dry_run_asks_and_writes_nothing(runs, mlflow):
    before = {found.name for found in mlflow.client().search_experiments()}
    done = runs.run("tried", "--dry-run", **tracked(mlflow, "tried"))
    assert "answers" in result_of(done)["mlflow"]
    assert {found.name for found in mlflow.client().search_experiments()} == before and not mlflow.runs("tried")
    assert not run_folder_of(runs, "tried").exists()


def test_artifacts_go_to_the_bucket_of_the_experiment(runs, mlflow, ceph, tmp_path, monkeypatch):
    bucket = ceph.make_bucket("wmtp-mlflow")
    set_variables(monkeypatch, ceph.variables)
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3")
    monkeypatch.setenv("MLFLOW_S3_ENDPOINT_URL", ceph.url)
    client = mlflow.client()
    client.create_experiment("bucket", artifact_location=f"s3://{bucket}/experiment")
    done = runs.run("bucket", **tracked(mlflow, "bucket", mlflow__upload_artifacts=True))
    run = mlflow.the_run("bucket")
    assert run.info.artifact_uri == f"s3://{bucket}/experiment/{run.info.run_id}/artifacts"
    for name in ("config.yaml", "environment.json", "summary.json", "metrics.jsonl", "report.html"):
        sent = client.download_artifacts(run.info.run_id, name, str(tmp_path))
        assert open(sent, "rb").read() == (run_folder_of(runs, "bucket") / name).read_bytes(), name
    manifests = {item.path for item in client.list_artifacts(run.info.run_id, "checkpoints")}
    assert manifests == {f"checkpoints/{saved['name']}" for saved in events(done.stdout, "saved")}


def test_a_killed_run_goes_on_in_its_mlflow_run_with_one_value_a_step(runs, mlflow):
    options = tracked(mlflow, "killed")
    process = runs.start("killed", failpoint="step.begin:nth=11=kill", **options)
    process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL
    runs.run("killed", **options)
    run = mlflow.the_run("killed")
    assert run.info.status == "FINISHED"
    assert_one_telling_of_each(mlflow.history(run), runs, "killed")
    assert {step for key, step in mlflow.history(run) if key == "train/loss"} == set(range(1, 13))


def test_a_run_killed_before_its_first_checkpoint_is_not_begun_twice(runs, mlflow):
    options = tracked(mlflow, "early")
    process = runs.start("early", failpoint="step.begin:nth=3=kill", **options)
    process.communicate(timeout=120)
    runs.run("early", **options)
    run = mlflow.the_run("early")
    assert_one_telling_of_each(mlflow.history(run), runs, "early")


def test_a_stopped_run_is_killed_for_mlflow_and_running_again_when_it_goes_on(runs, mlflow):
    options = tracked(mlflow, "stopped")
    process = runs.start("stopped", failpoint="step.begin:nth=6=sleep:3000", **options)
    folder = run_folder_of(runs, "stopped")
    wait_for(lambda: (folder / "metrics.jsonl").exists() and "train/loss" in (folder / "metrics.jsonl").read_text())
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=120)
    assert process.returncode == 80
    run = mlflow.the_run("stopped")
    assert run.info.status == "KILLED" and run.data.tags["wmtp.exit_code"] == "80"
    runs.run("stopped", **options)
    run = mlflow.the_run("stopped")
    assert run.info.status == "FINISHED" and run.data.tags["wmtp.exit_code"] == "0"
    assert only_values(mlflow.history(run)) == told(runs, "stopped")


def test_a_failed_run_says_so_with_its_reason(runs, mlflow):
    runs.run("failed", code=17, failpoint="step.loss:nth=3+=damage", **tracked(mlflow, "failed",
                                                                            training__max_bad_steps=2))
    run = mlflow.the_run("failed")
    assert run.info.status == "FAILED" and run.data.tags["wmtp.exit_code"] == "17"
    assert "2 steps in a row were not finite" in run.data.tags["wmtp.exit_reason"]


def test_a_run_whose_rank_hangs_is_failed_for_mlflow(runs, mlflow):
    runs.run("hung", code=75, ranks=2, failpoint="step.begin:rank=1:nth=5=stop",
             **tracked(mlflow, "hung", distributed__step_timeout_s=2, distributed__first_step_timeout_s=60))
    run = mlflow.the_run("hung")
    assert run.info.status == "FAILED" and run.data.tags["wmtp.exit_code"] == "75"


def test_without_a_server_all_stays_in_the_spool_until_it_is_sent(runs, mlflow, wmtp):
    gone = "http://127.0.0.1:9"  # nobody listens there
    done = runs.run("offline", mlflow__experiment="offline", mlflow__tracking_uri=gone, training__log_interval=1)
    assert "--sync-mlflow" in done.stderr and result_of(done)["status"] == "completed"
    assert not mlflow.runs("offline")
    folder = run_folder_of(runs, "offline")
    assert wmtp.run("report", folder, "--sync-mlflow", check=False, env={"MLFLOW_TRACKING_URI": gone}).returncode == 75
    sent = wmtp.json("report", folder, "--sync-mlflow", env={"MLFLOW_TRACKING_URI": mlflow.uri})
    run = mlflow.the_run("offline")
    assert sent["run_id"] == run.info.run_id and sent["left"] == 0
    assert only_values(mlflow.history(run)) == told(runs, "offline")
    assert run.info.status == "FINISHED"
    again = wmtp.json("report", folder, "--sync-mlflow", env={"MLFLOW_TRACKING_URI": mlflow.uri})
    assert again["sent"] == 0


def test_a_killed_run_that_nobody_starts_again_is_killed_once_it_is_sent(runs, mlflow, wmtp):
    process = runs.start("gone", failpoint="step.begin:nth=6=kill", **tracked(mlflow, "gone"))
    process.communicate(timeout=120)
    wmtp.run("report", run_folder_of(runs, "gone"), "--sync-mlflow")
    run = mlflow.the_run("gone")
    assert run.info.status == "KILLED"
    assert only_values(mlflow.history(run)) == told(runs, "gone")


def test_offline_sends_nothing_although_a_server_is_named(runs, mlflow):
    spool = runs.folder / "a-spool"
    runs.run("quiet", "--offline", **tracked(mlflow, "quiet", mlflow__spool_dir=str(spool)))
    assert not mlflow.runs("quiet")
    assert len(list(spool.glob("*/run.json"))) == 1 and not (run_folder_of(runs, "quiet") / "mlflow-spool").exists()


@pytest.mark.serial
def test_training_hardly_waits_for_tracking(runs, mlflow):
    summary = result_of(runs.run("timed", **tracked(mlflow, "timed", tracking__tensorboard=True)))
    spent = summary["timings_s"]["tracking"] / summary["timings_s"]["whole run"]
    print(f"the training thread spent {spent:.5%} of the run in tracking")
    assert spent <= 0.002


def test_changed_params_of_a_resumed_run_become_tags(runs, mlflow):
    runs.run("changed", **tracked(mlflow, "changed", training__max_steps=8))
    runs.run("changed", **tracked(mlflow, "changed", training__learning_rate=0.001))
    run = mlflow.the_run("changed")
    assert run.data.params["training.learning_rate"] == "0.003"
    assert run.data.tags["wmtp.changed.training.learning_rate"] == "0.001"


@pytest.mark.parametrize(("variable", "value", "fact"), [
    ("MLFLOW_TRACKING_URI", "sqlite:///runs.db", "an SQLite database"),
    ("MLFLOW_TRACKING_URI", "http://", "names no host"),
    ("MLFLOW_TRACKING_PASSWORD", "alone-51c2", "MLFLOW_TRACKING_USERNAME is not"),
    ("MLFLOW_TRACKING_SERVER_CERT_PATH", "/nowhere/ca.pem", "/nowhere/ca.pem"),
])
def test_settings_that_reach_no_server_are_refused_before_the_first_step(runs, mlflow, variable, value, fact):
    env = {**without_mlflow(environment()), "MLFLOW_TRACKING_URI": mlflow.uri, variable: value}
    command = runs.command("unset", mlflow__experiment="unset")
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 78 and fact in done.stdout, done.stdout
    assert "alone-51c2" not in done.stdout + done.stderr


def test_a_machine_without_libcurl_is_told_so_before_the_first_step(runs, mlflow, tmp_path):
    """A library of that name that is none stands in the way of the real one."""
    (tmp_path / "libcurl.so.4").write_text("no library")
    env = {**environment(), "LD_LIBRARY_PATH": f"{tmp_path}:{os.environ.get('LD_LIBRARY_PATH', '')}"}
    done = subprocess.run(runs.command("nocurl", **tracked(mlflow, "nocurl")), capture_output=True, text=True, env=env)
    assert done.returncode == 78
    errors = [json.loads(line) for line in done.stdout.splitlines() if '"error"' in line]
    assert "libcurl" in errors[-1]["message"] and errors[-1]["hint"]
