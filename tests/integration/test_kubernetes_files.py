"""The Kubernetes files without a cluster: against the published schemas, each other, and what wmtp makes of their variables."""
import json
import re

import pytest
from kubernetes_files import documents, pods, problems


@pytest.fixture(scope="module")
def train_help(wmtp):
    return wmtp.run("train", "--help").stdout


@pytest.mark.parametrize("name, kinds", [("pytorchjob.yaml", ["PyTorchJob"]), ("indexed_job.yaml", ["Service", "Job"]),
                                         ("network_policy.yaml", ["NetworkPolicy"])])
def test_a_file_is_what_the_schemas_say(name, kinds):
    found = documents(name)
    assert [document["kind"] for document in found] == kinds
    assert [line for document in found for line in problems(document)] == []


def test_the_schemas_find_what_is_wrong_in_a_job():
    """The control: each of these is refused by an API server as well."""
    def changed(change):
        job = documents("indexed_job.yaml")[1]
        change(job, job["spec"]["template"]["spec"]["containers"][0])
        return problems(job)

    assert changed(lambda job, container: None) == []
    assert changed(lambda job, container: job.update(apiVersion="batch/v2"))
    assert changed(lambda job, container: job["spec"].pop("template"))
    assert changed(lambda job, container: job["spec"].update(paralelism=4))
    assert changed(lambda job, container: job["spec"]["podFailurePolicy"]["rules"][0].pop("action"))
    assert changed(lambda job, container: container.update(comand=["wmtp"]))
    assert changed(lambda job, container: container["env"][1].update(value=4))
    assert changed(lambda job, container: container["ports"][0].update(containerPort="store"))
    assert changed(lambda job, container: job["metadata"].update(name="Wmtp_Train"))


def test_the_schemas_find_what_is_wrong_in_a_pytorchjob():
    def changed(change):
        (job,) = documents("pytorchjob.yaml")
        change(job["spec"], job["spec"]["pytorchReplicaSpecs"]["Master"])
        return problems(job)

    assert changed(lambda spec, master: None) == []
    assert changed(lambda spec, master: spec.pop("runPolicy"))
    assert changed(lambda spec, master: spec["runPolicy"].update(backofLimit=3))
    assert changed(lambda spec, master: spec["runPolicy"].update(backoffLimit="3"))
    assert changed(lambda spec, master: master.update(replica=1))
    assert changed(lambda spec, master: master["template"]["spec"]["containers"][0].update(comand=["wmtp"]))


def test_a_port_has_a_name_that_services_take():
    for name, _template, container in pods():
        for port in container["ports"]:
            assert re.fullmatch("(?=.*[a-z])[a-z0-9-]{1,15}", port["name"]), name


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
