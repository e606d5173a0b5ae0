"""The files for clusters, without a cluster: batch scripts under a srun and scontrol that only write down what they are
asked, Kubernetes files against the fields they may have, the Dockerfile against what it copies.
"""
import copy
import functools
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from dockerfile import instructions
from fake_slurm import PLAIN_FLAGS, Cluster, find_shellcheck

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


# --- Kubernetes --------------------------------------------------------------------------------------

# The fields that the files use, as the API has them: "name!" must be there, a list of one holds items of that kind, a
# set holds the words that are allowed, ANY is a map whose keys are the user's. Whatever is not named here is refused.
ANY = "any map"
NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
META = {"name!": NAME, "labels": ANY, "annotations": ANY}
ENV = {"name!": str, "value": str,
       "valueFrom": {"secretKeyRef": {"name!": NAME, "key!": str}, "fieldRef": {"fieldPath!": str}}}
CONTAINER = {
    "name!": NAME, "image!": str, "command!": [str], "env": [ENV],
    "ports": [{"name": re.compile("(?=.*[a-z])[a-z0-9-]{1,15}"), "containerPort!": int}],
    "lifecycle": {"preStop": {"exec": {"command!": [str]}}},
    "resources": {"requests": ANY, "limits": ANY},
    "volumeMounts": [{"name!": NAME, "mountPath!": str}],
}
POD = {
    "restartPolicy": {"Never", "OnFailure"}, "subdomain": NAME, "terminationGracePeriodSeconds!": int,
    "securityContext": {"runAsNonRoot": bool, "runAsUser": int, "fsGroup": int,
                        "fsGroupChangePolicy": {"OnRootMismatch", "Always"}},
    "containers!": [CONTAINER],
    "volumes": [{"name!": NAME, "persistentVolumeClaim": {"claimName!": NAME},
                 "emptyDir": {"medium": {"Memory", ""}, "sizeLimit": str}}],
}
TEMPLATE = {"metadata": {"labels!": ANY, "annotations": ANY}, "spec!": POD}
EXIT_CODES = {"containerName": NAME, "operator!": {"In", "NotIn"}, "values!": [int]}
CONDITION = {"type!": {"DisruptionTarget"}, "status!": {"True", "False", "Unknown"}}
JOB = {
    "completionMode!": {"Indexed", "NonIndexed"}, "completions!": int, "parallelism!": int, "backoffLimit": int,
    "podFailurePolicy": {"rules!": [{"action!": {"FailJob", "Ignore", "Count", "FailIndex"},
                                     "onExitCodes": EXIT_CODES, "onPodConditions": [CONDITION]}]},
    "template!": TEMPLATE,
}
SERVICE = {"clusterIP": {"None"}, "publishNotReadyAddresses": bool, "selector!": ANY,
           "ports!": [{"name": str, "port!": int, "targetPort": str}]}
REPLICA = {"replicas!": int, "restartPolicy!": {"Always", "OnFailure", "Never", "ExitCode"}, "template!": TEMPLATE}
PYTORCH_JOB = {"runPolicy": {"cleanPodPolicy": {"Running", "All", "None"}, "backoffLimit": int},
               "pytorchReplicaSpecs!": {"Master!": REPLICA, "Worker!": REPLICA}}
SELECTOR = {"matchLabels!": ANY}
POLICY = {"podSelector!": SELECTOR, "policyTypes!": [{"Ingress", "Egress"}],
          "ingress": [{"from": [{"podSelector!": SELECTOR}]}]}
KINDS = {("v1", "Service"): SERVICE, ("batch/v1", "Job"): JOB, ("kubeflow.org/v1", "PyTorchJob"): PYTORCH_JOB,
         ("networking.k8s.io/v1", "NetworkPolicy"): POLICY}


def problems(value, shape, place):
    """What in `value` is not of `shape`, as lines."""
    if shape is ANY:
        right = isinstance(value, dict) and all(isinstance(key, str) for key in value)
        return [] if right else [f"{place}: {value!r} is no map of names"]
    if isinstance(shape, re.Pattern):
        return [] if isinstance(value, str) and shape.fullmatch(value) else [f"{place}: {value!r} is no name"]
    if isinstance(shape, set):
        return [] if value in shape else [f"{place}: {value!r} is none of {sorted(shape)}"]
    if isinstance(shape, type):
        return [] if type(value) is shape else [f"{place}: {value!r} is no {shape.__name__}"]
    if isinstance(shape, list):
        if not isinstance(value, list) or not value:
            return [f"{place}: {value!r} is no list of things"]
        return [line for i, item in enumerate(value) for line in problems(item, shape[0], f"{place}[{i}]")]
    if not isinstance(value, dict):
        return [f"{place}: {value!r} is no map"]
    fields = {name.rstrip("!"): kind for name, kind in shape.items()}
    lines = [f"{place}: no {name[:-1]}" for name in shape if name.endswith("!") and name[:-1] not in value]
    lines += [f"{place}: unknown field {name}" for name in value if name not in fields]
    return lines + [line for name in value if name in fields
                    for line in problems(value[name], fields[name], f"{place}.{name}")]


def check_object(document):
    kind = (document.get("apiVersion"), document.get("kind"))
    if kind not in KINDS:
        return [f"no such kind: {kind}"]
    return problems(document, {"apiVersion!": str, "kind!": str, "metadata!": META, "spec!": KINDS[kind]}, kind[1])


@functools.cache
def parsed(name):
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: the Kubernetes files cannot be read")
    return list(yaml.safe_load_all((PACKAGING / "k8s" / name).read_text()))


def documents(name):
    return copy.deepcopy(parsed(name))


def pods():
    """File, template and container of every pod that the files make."""
    (operator,) = documents("pytorchjob.yaml")
    specs = operator["spec"]["pytorchReplicaSpecs"]
    templates = [("pytorchjob.yaml", specs["Master"]["template"]), ("pytorchjob.yaml", specs["Worker"]["template"]),
                 ("indexed_job.yaml", documents("indexed_job.yaml")[1]["spec"]["template"])]
    return [(name, template, template["spec"]["containers"][0]) for name, template in templates]


@names("name, kinds", [("pytorchjob.yaml", ["PyTorchJob"]), ("indexed_job.yaml", ["Service", "Job"]),
                       ("network_policy.yaml", ["NetworkPolicy"])])
def test_a_kubernetes_file_has_only_fields_that_there_are(name, kinds):
    found = documents(name)
    assert [document["kind"] for document in found] == kinds
    assert [line for document in found for line in check_object(document)] == []


def test_the_check_of_fields_finds_wrong_ones():
    """The control: each of these is refused by the API server as well."""
    def changed(change):
        job = documents("indexed_job.yaml")[1]
        change(job, job["spec"]["template"]["spec"]["containers"][0])
        return check_object(job)

    assert changed(lambda job, container: None) == []
    assert changed(lambda job, container: job.update(apiVersion="batch/v2"))
    assert changed(lambda job, container: job["spec"].pop("template"))
    assert changed(lambda job, container: job["spec"].update(paralelism=4))
    assert changed(lambda job, container: container.update(comand=["wmtp"]))
    assert changed(lambda job, container: container["env"][1].update(value=4))
    assert changed(lambda job, container: container["ports"][0].update(name="a-name-that-is-too-long"))
    assert changed(lambda job, container: job["metadata"].update(name="Wmtp_Train"))


def test_names_labels_and_ports_fit_together():
    service, job = documents("indexed_job.yaml")
    (policy,) = documents("network_policy.yaml")
    for name, template, container in pods():
        labels = template["metadata"]["labels"].items()
        assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels, name
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        assert mounted == {volume["name"] for volume in template["spec"]["volumes"]}
    template = job["spec"]["template"]
    container = template["spec"]["containers"][0]
    environment = {entry["name"]: entry.get("value") for entry in container["env"]}
    assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
    assert template["spec"]["subdomain"] == service["metadata"]["name"]
    assert environment["MASTER_ADDR"] == f"{job['metadata']['name']}-0.{service['metadata']['name']}"
    (port,) = service["spec"]["ports"]
    assert port["targetPort"] == container["ports"][0]["name"]
    assert environment["MASTER_PORT"] == str(port["port"]) == str(container["ports"][0]["containerPort"])
    assert job["spec"]["completions"] == job["spec"]["parallelism"] == int(environment["WORLD_SIZE"])


def test_only_pods_of_the_job_are_admitted():
    (policy,) = documents("network_policy.yaml")
    assert policy["spec"]["policyTypes"] == ["Ingress"]
    (rule,) = policy["spec"]["ingress"]
    (peer,) = rule["from"]  # one entry with one selector: neither other namespaces nor addresses
    assert peer == {"podSelector": policy["spec"]["podSelector"]}
    assert "ports" not in rule, "Gloo and NCCL take free ports between the pods"


def test_pods_have_time_to_save_and_memory_to_share():
    for name, template, container in pods():
        spec = template["spec"]
        grace = spec["terminationGracePeriodSeconds"]
        assert grace >= 300, name
        if "lifecycle" in container:
            command = container["lifecycle"]["preStop"]["exec"]["command"]
            run_dir = container["command"][container["command"].index("--run-dir") + 1]
            waits = int(re.fullmatch(rf"touch {run_dir}/STOP && sleep (\d+)", command[2])[1])
            assert waits + 30 < grace, "torchrun waits 30 s for its workers"
        shared = {mount["name"] for mount in container["volumeMounts"] if mount["mountPath"] == "/dev/shm"}
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        assert [volumes[volume]["emptyDir"]["medium"] for volume in shared] == ["Memory"]
        assert container["resources"]["limits"]["nvidia.com/gpu"] >= 1
        assert spec["securityContext"]["runAsNonRoot"] is True


def test_torchrun_and_wmtp_get_flags_that_they_know(train_help):
    for name, _template, container in pods():
        command = container["command"]
        own = command[command.index("wmtp") + 2:]
        assert command[command.index("wmtp") + 1] == "train"
        assert all(re.search(rf"^ *{flag}\b", train_help, re.M) for flag in own if flag.startswith("--")), name
    (operator,) = documents("pytorchjob.yaml")
    specs = operator["spec"]["pytorchReplicaSpecs"]
    container = specs["Master"]["template"]["spec"]["containers"][0]
    flags = dict(word.partition("=")[::2] for word in container["command"] if word.startswith("--"))
    assert int(flags["--nnodes"]) == specs["Master"]["replicas"] + specs["Worker"]["replicas"]
    assert int(flags["--nproc-per-node"]) == container["resources"]["limits"]["nvidia.com/gpu"]
    assert container["name"] == "pytorch" and container["ports"][0]["name"] == "pytorchjob-port"
    assert specs["Master"]["template"] == specs["Worker"]["template"]


def test_the_job_is_ended_by_final_codes_and_only_by_those():
    rules = documents("indexed_job.yaml")[1]["spec"]["podFailurePolicy"]["rules"]
    by_action = {rule["action"]: set(rule["onExitCodes"]["values"]) for rule in rules if "onExitCodes" in rule}
    assert by_action == {"FailJob": {17, 65, 70, 74, 78}, "Ignore": {80}}
    assert documents("indexed_job.yaml")[1]["spec"]["template"]["spec"]["restartPolicy"] == "Never"


def test_wmtp_finds_its_place_by_the_variables_of_the_indexed_job(wmtp, tmp_path):
    container = documents("indexed_job.yaml")[1]["spec"]["template"]["spec"]["containers"][0]
    given = {entry["name"]: entry.get("value") for entry in container["env"]}
    assert given.pop("RANK") is None and given.pop("WMTP_RUN_TOKEN") is None  # of the pod, of the secret
    given.update(RANK="0", WMTP_RUN_TOKEN="0123456789abcdef0123456789abcdef", XDG_CACHE_HOME=str(tmp_path))
    done = wmtp.run("--json", "doctor", env=given, cwd=tmp_path)
    (checks,) = [json.loads(line)["checks"] for line in done.stdout.splitlines()]
    (launcher,) = [check for check in checks if check["name"] == "launcher"]
    facts = [" ".join(line.split()) for line in launcher["details"]]
    assert launcher["status"] == "OK"
    assert {"rank 0 of 4", "local rank 0 of 1", "node 0 of 4", "run token set",
            "meeting place wmtp-train-0.wmtp-train:29400, served by rank 0"} <= set(facts)


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
