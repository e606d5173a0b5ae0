"""The files for clusters, without a cluster: batch scripts under a srun and scontrol that only write down what they are
asked, the Dockerfile against what it copies. Kubernetes files: test_kubernetes_files.py.
"""
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from dockerfile import instructions
from fake_slurm import PLAIN_FLAGS, Cluster, find_shellcheck
from kubernetes_files import pods

ROOT = Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"
SBATCH = sorted((PACKAGING / "slurm").glob("*.sbatch"))
SCRIPTS = [*SBATCH, *sorted(PACKAGING.glob("*.sh"))]
DIRECT = [path for path in SBATCH if "torchrun" not in path.name]
REQUEUING = [path for path in SBATCH if "scontrol requeue" in path.read_text()]
names = pytest.mark.parametrize


def by_name(path):
    return path.name


# --- batch scripts -----------------------------------------------------------------------------------

@pytest.fixture
def cluster(tmp_path):
    return Cluster(tmp_path)


def script_named(name):
    return PACKAGING / "slurm" / name


@names("script", SCRIPTS, ids=by_name)
def test_a_script_is_executable_and_the_shell_can_read_it(script):
    assert os.access(script, os.X_OK)
    subprocess.run(["bash", "-n", str(script)], check=True)
    if script.suffix == ".sbatch":
        assert script.read_text().startswith("#!/bin/bash\n") and "\nset -euo pipefail\n" in script.read_text()


def test_shellcheck_finds_nothing():
    program = find_shellcheck()
    new = [path for path in SCRIPTS if path.name not in ("bundle.sh", "link-torch.sh")]
    done = subprocess.run([program, *map(str, new)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@names("script", SBATCH, ids=by_name)
def test_sbatch_sees_all_of_its_lines(script):
    """sbatch reads #SBATCH lines up to the first command, one option each as we write them."""
    lines = script.read_text().splitlines()
    first_command = next(i for i, line in enumerate(lines) if line and not line.startswith("#"))
    marked = [i for i, line in enumerate(lines) if line.startswith("#SBATCH")]
    assert max(marked) < first_command
    options = dict(lines[i].removeprefix("#SBATCH --").partition("=")[::2] for i in marked)
    assert set(options) <= {"job-name", "nodes", "ntasks-per-node", "gpus-per-node", "exclusive", "time", "signal",
                            "requeue", "output", "open-mode"}
    seconds = int(re.fullmatch(r"(?:B:)?USR1@(\d+)", options["signal"])[1])
    assert 120 < seconds <= 65535
    assert options["signal"].startswith("B:") == ("torchrun" in script.name), "wmtp itself handles USR1, torchrun dies"
    assert ("requeue" in options) == (script in REQUEUING)
    if script in REQUEUING:
        assert options["open-mode"] == "append"


def test_what_the_scripts_share_is_the_same_in_all():
    def blocks(begin, end):
        found = {path.name: re.search(begin + ".*?" + end, path.read_text(), re.S) for path in SBATCH}
        return {name: match[0] for name, match in found.items() if match}

    network = blocks("# --- network", "# --- end of network ---")
    assert len(network) == len(SBATCH) - 1 and len(set(network.values())) == 1
    time_limit = blocks("# --- time limit", "# --- end of time limit ---")
    assert len(time_limit) == len(SBATCH) and len(set(time_limit.values())) == 1
    way_back = blocks("# --- the way back", r"esac\n")
    assert set(way_back) == {path.name for path in REQUEUING} and len(set(way_back.values())) == 1


@names("script", DIRECT, ids=by_name)
def test_the_ranks_are_started_by_one_srun(cluster, script):
    job = cluster.run(script, "--override", "training.max_steps=3", SLURM_CPUS_PER_TASK="12",
                      HYPERPOD_DIR=str(cluster.folder / "none"))
    assert job.returncode == 0, job.err
    (step,) = cluster.steps
    assert step["flags"] == PLAIN_FLAGS
    assert step["command"] == ["wmtp", "train", "--config", "run.yaml", "--resume", "auto", "--run-dir",
                               str(cluster.folder), "--override", "training.max_steps=3"]
    environment = step["environment"]
    assert re.fullmatch("[0-9a-f]{32}", environment["WMTP_RUN_TOKEN"])
    assert environment["WMTP_RUN_TOKEN"] not in " ".join(step["flags"] + step["container"] + step["command"])
    assert environment["SRUN_CPUS_PER_TASK"] == "12"
    assert not {"MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LD_PRELOAD"} & set(environment)
    assert cluster.asked("scontrol") == []


@names("script", DIRECT, ids=by_name)
def test_the_folder_of_the_run_and_the_program_may_be_left_to_their_defaults(cluster, script):
    assert cluster.run(script, RUN_DIR=None, HYPERPOD_DIR=str(cluster.folder / "none")).returncode == 0
    assert cluster.steps[0]["command"] == ["wmtp", "train", "--config", "run.yaml", "--resume", "auto"]
    assert "SRUN_CPUS_PER_TASK" not in cluster.steps[0]["environment"]


@names("script", SBATCH, ids=by_name)
def test_without_a_configuration_nothing_starts(cluster, script):
    job = cluster.run(script, CONFIG=None)
    assert job.returncode != 0 and "CONFIG" in job.err
    assert cluster.steps == [] and cluster.asked("scontrol") == []


@pytest.fixture(scope="module")
def train_help(wmtp):
    return wmtp.run("train", "--help").stdout


def test_every_flag_of_the_command_is_one_of_wmtp_train(cluster, train_help):
    for script in SBATCH:
        cluster.run(script, FAKE_RC="0")
    flags = {word for step in cluster.steps for word in step["command"][step["command"].index("train"):]
             if word.startswith("--")}
    assert flags == {"--config", "--resume", "--run-dir"}
    assert all(re.search(rf"^ *{flag}\b", train_help, re.M) for flag in flags)


@names("given, told", [({"FAKE_END": "2026-11-16T12:00:00", "TZ": "UTC"}, "1794830400"), ({"FAKE_END": "N/A"}, None),
                       ({"FAKE_END": "2026-11-16T12:00:00", "SLURM_JOB_END_TIME": "1794830000"}, None)])
def test_the_ranks_are_told_the_end_of_the_job_where_slurm_does_not(cluster, given, told):
    assert cluster.run(script_named("requeue.sbatch"), **given).returncode == 0
    assert cluster.steps[0]["environment"].get("WMTP_STOP_AT") == told


@names("efa, there", [("yes", True), ("no", False)])
def test_efa_is_asked_for_only_where_it_is(cluster, efa, there):
    cluster.run(script_named("several_nodes.sbatch"), EFA=efa, NCCL_DEBUG="INFO")
    environment = cluster.steps[0]["environment"]
    assert (environment.get("FI_PROVIDER") == "efa") == there
    assert ("FI_EFA_USE_HUGE_PAGE" in environment) == there
    assert environment["NCCL_DEBUG"] == "INFO" and environment["NCCL_SOCKET_IFNAME"] == "^docker,lo,veth"


def test_the_container_gets_image_mounts_and_names_of_variables(cluster):
    job = cluster.run(script_named("container.sbatch"), MOUNTS="/a:/a,/b:/b", WORKDIR="/a", EFA="yes",
                      NCCL_IB_HCA="mlx5")
    assert job.returncode == 0, job.err
    (step,) = cluster.steps
    flags = dict(flag.partition("=")[::2] for flag in step["container"])
    passed = flags.pop("--container-env").split(",")
    assert flags == {"--container-image": "wmtp.sqsh", "--container-mounts": "/a:/a,/b:/b",
                     "--container-workdir": "/a", "--no-container-mount-home": "", "--no-container-entrypoint": ""}
    assert set(passed) == {"WMTP_RUN_TOKEN", "NCCL_DEBUG", "NCCL_SOCKET_IFNAME", "NCCL_IB_HCA", "FI_PROVIDER",
                           "FI_EFA_USE_HUGE_PAGE", "FI_EFA_SET_CUDA_SYNC_MEMOPS"}
    assert set(passed) <= set(step["environment"])
    assert step["flags"] == PLAIN_FLAGS and step["command"][:2] == ["wmtp", "train"]


def test_a_container_sees_its_working_folder_unless_told_otherwise(cluster):
    assert cluster.run(script_named("container.sbatch"), IMAGE=None).returncode != 0 and cluster.steps == []
    cluster.run(script_named("container.sbatch"))
    here = str(cluster.folder)
    assert f"--container-mounts={here}:{here}" in cluster.steps[0]["container"]


# The end of the script is the same text in all that requeue, so every code is tried on one of them alone.
ENDS = [("requeue.sbatch", code) for code in (80, 81, 75, 134, 137, 139)]
ENDS += [("container.sbatch", 80), ("hyperpod.sbatch", 80)]
FINAL = [("requeue.sbatch", code) for code in (0, 78, 17, 65, 70, 74, 1)]
FINAL += [("container.sbatch", 78), ("hyperpod.sbatch", 78)]


@names("name, code", ENDS)
def test_what_another_start_can_mend_goes_back_into_the_queue_once(cluster, name, code):
    job = cluster.run(script_named(name), FAKE_RC=str(code))
    assert job.returncode == code and len(cluster.steps) == 1
    assert cluster.asked("scontrol") == ["requeue 77"]
    assert cluster.asked("sleep") == ["60"], "a script that ends before Slurm ends it would be a finished job"


@names("name, code", FINAL)
def test_nothing_else_does_and_the_job_keeps_the_code(cluster, name, code):
    assert cluster.run(script_named(name), FAKE_RC=str(code)).returncode == code
    assert len(cluster.steps) == 1 and cluster.asked("scontrol") == [] and cluster.asked("sleep") == []


def test_a_job_whose_requeue_is_switched_off_ends(cluster):
    """scontrol update JobId=N Requeue=0: the way to stop for good."""
    assert cluster.run(script_named("requeue.sbatch"), FAKE_RC="80", FAKE_SCONTROL_RC="1").returncode == 80
    assert cluster.asked("scontrol") == ["requeue 77"] and cluster.asked("sleep") == []


@names("name", ["one_node.sbatch", "several_nodes.sbatch"])
@names("code", [80, 75, 78])
def test_without_requeue_the_job_ends_with_the_code_of_the_run(cluster, name, code):
    job = cluster.run(script_named(name), FAKE_RC=str(code))
    assert job.returncode == code and cluster.asked("scontrol") == []
    assert ("to go on" in job.err) == (code == 80)


@names("there", [True, False])
def test_auto_resume_is_asked_for_on_hyperpod_only(cluster, there):
    folder = cluster.folder / "sagemaker_cluster"
    if there:
        folder.mkdir()
    cluster.run(script_named("hyperpod.sbatch"), HYPERPOD_DIR=str(folder))
    assert cluster.steps[0]["flags"] == PLAIN_FLAGS + ["--auto-resume=1"] * there
    assert cluster.steps[0]["command"][:2] == ["wmtp", "train"]


TORCHRUN = script_named("several_nodes_torchrun.sbatch")


def test_torchrun_gets_its_numbers_and_the_program_without_python(cluster):
    assert cluster.run(TORCHRUN).returncode == 0
    (step,) = cluster.steps
    assert step["flags"] == PLAIN_FLAGS
    assert step["command"] == ["torchrun", "--no-python", "--nnodes=2", "--nproc-per-node=8", "--rdzv-backend=c10d",
                               "--rdzv-id=77", "--rdzv-endpoint=n1:20077", "--max-restarts=0", "wmtp", "train",
                               "--config", "run.yaml", "--resume", "auto", "--run-dir", str(cluster.folder)]


@names("said, code, requeued", [(80, 80, 1), (75, 75, 1), (78, 78, 0), (None, 1, 0)])
def test_under_torchrun_the_code_is_that_of_last_exit(cluster, said, code, requeued):
    """The agent makes 1 of all codes; without the file nobody knows, and what an earlier run left does not count."""
    (cluster.folder / "last_exit.json").write_text('{\n  "code": 80\n}\n')
    job = cluster.run(TORCHRUN, FAKE_RC="1", FAKE_LAST_EXIT=said and str(said))
    assert job.returncode == code
    assert cluster.asked("scontrol") == ["requeue 77"] * requeued


def test_under_torchrun_the_signal_becomes_the_stop_file(cluster):
    stop = cluster.folder / "STOP"
    job = cluster.start(TORCHRUN, FAKE_RC="1", FAKE_LAST_EXIT="80", FAKE_STOP_FILE=str(stop))
    deadline = time.monotonic() + 30
    while not (cluster.folder / "started").exists():
        assert job.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    job.send_signal(signal.SIGUSR1)
    job.communicate(timeout=60)
    assert job.returncode == 80 and stop.exists() and cluster.asked("scontrol") == ["requeue 77"]


# --- images ------------------------------------------------------------------------------------------


def all_of(word):
    return [rest for name, rest in instructions() if name == word]


def test_the_image_copies_what_is_there():
    version = re.search(r"^project\(wmtp VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text(), re.M)[1]
    assert all_of("ARG") == [f"VERSION={version}"]
    bundle = re.search(r"^name=(.*)$", (PACKAGING / "bundle.sh").read_text(), re.M)[1].replace("$version", version)
    seen_by_docker = re.findall(r"^!(.*)$", (PACKAGING / "Dockerfile.dockerignore").read_text(), re.M)
    for rest in all_of("COPY"):
        for source in rest.split()[:-1]:
            source = source.replace("${VERSION}", version).rstrip("/")
            assert source == f"dist/{bundle}" or (ROOT / source).exists(), source
            assert any(source == kept or source.startswith(kept + "/") for kept in seen_by_docker), source


def test_every_command_of_the_image_finds_its_files():
    """In the order of the file: what a RUN names below /tmp or /opt was copied or made before."""
    there = set()
    in_bundle = set(re.findall(r'^cp .*?packaging/(\S+) "\$stage/"', (PACKAGING / "bundle.sh").read_text(), re.M))
    assert in_bundle == {"link-torch.sh"}
    for word, rest in instructions():
        if word == "COPY":
            *sources, target = rest.split()
            is_bundle = sources[0].startswith("dist/")
            there |= {target + name for name in ({"bin/wmtp", *in_bundle} if is_bundle else
                                                 {Path(source).name for source in sources})}
        if word == "RUN":
            subprocess.run(["bash", "-n", "-c", rest], check=True)
            if "venv /opt/torch" in rest:
                there |= {"/opt/torch", "/opt/torch/bin/pip", "/opt/torch/bin/python3"}
            for path in re.findall(r"(?<![\w/])/(?:tmp|opt)/[\w./-]+", rest):
                assert path in there, f"{path} in: {rest}"


def test_the_image_runs_wmtp_as_a_plain_user():
    assert all_of("FROM") == ["debian:12-slim"] and all_of("ENTRYPOINT") == ['["wmtp"]']
    (path,) = [rest for rest in all_of("ENV") if rest.startswith("PATH=")]
    assert path == "PATH=/opt/wmtp/bin:/opt/torch/bin:${PATH}", "useradd is in /usr/sbin"
    (user,) = all_of("USER")
    assert any(f"useradd --uid {user} " in rest for rest in all_of("RUN")) and int(user) > 0
    for name, template, _container in pods():
        assert template["spec"]["securityContext"]["runAsUser"] == int(user), name


class Enroot:
    """A stand-in for enroot that writes a file, or fails half-way."""

    def __init__(self, folder):
        (folder / "bin").mkdir()
        self.program = folder / "bin/enroot"
        self.program.write_text('#!/bin/sh\necho "$*" >> "$FAKE_DIR/enroot"\necho image > "$3"\nexit $FAKE_RC\n')
        self.program.chmod(0o755)
        self.folder = folder

    def run(self, *words, code=0):
        environment = {"PATH": f"{self.folder}/bin:/usr/bin:/bin", "FAKE_DIR": str(self.folder), "FAKE_RC": str(code)}
        return subprocess.run([str(PACKAGING / "enroot_import.sh"), *words], env=environment, cwd=self.folder,
                              capture_output=True, text=True)

    def files(self):
        return sorted(path.name for path in self.folder.iterdir() if path.is_file() and path.name != "enroot")


def test_enroot_import_leaves_a_whole_image_or_none(tmp_path):
    enroot = Enroot(tmp_path)
    assert enroot.run(code=1).returncode == 1 and enroot.files() == []
    done = enroot.run()
    assert done.returncode == 0 and done.stdout.startswith("[enroot] wmtp.sqsh: ") and enroot.files() == ["wmtp.sqsh"]
    words = (tmp_path / "enroot").read_text().split()
    assert words[-4:-2] == ["import", "--output"] and words[-1] == "dockerd://wmtp:0.1.0"
    again = enroot.run()
    assert again.returncode == 1 and "wmtp.sqsh exists" in again.stderr and enroot.files() == ["wmtp.sqsh"]


def test_enroot_import_says_what_is_wrong(tmp_path):
    enroot = Enroot(tmp_path)
    assert "begin with dockerd://" in enroot.run("wmtp:0.1.0", "other.sqsh").stderr
    enroot.program.unlink()
    assert "enroot is missing" in enroot.run().stderr
    assert enroot.files() == []


# --- documentation -----------------------------------------------------------------------------------


def test_the_page_names_every_file_and_every_variable_that_the_files_set():
    page = (ROOT / "docs/clusters.md").read_text()
    files = [path for folder in ("slurm", "k8s") for path in (PACKAGING / folder).iterdir()]
    files += [PACKAGING / name for name in ("Dockerfile", "enroot_import.sh")]
    assert [path.name for path in files if path.name not in page] == []
    text = "".join(path.read_text() for path in files)
    names_set = set(re.findall(r"\b(?:(?:TORCH_)?NCCL|FI|GLOO|WMTP)_[A-Z_]+\b", text))
    assert [name for name in sorted(names_set) if f"`{name}" not in page] == []
    assert "checked, never run" in page
