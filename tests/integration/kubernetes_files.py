"""The files of packaging/k8s, and what the published schemas have against an object of theirs.

Kubernetes' own are in the package kubernetes-validate, which refuses unknown fields too. A PyTorchJob's envelope is held
against the classes that Kubeflow's client was generated with, its pods against Kubernetes again.
"""
import ast
import copy
import functools
import re
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "packaging/k8s"
VERSION = "1.31.0"  # the first with podFailurePolicy for good
NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
PLAIN = {"str": str, "int": int, "bool": bool}


@functools.cache
def extra_packages():
    setup = subprocess.run([ROOT / "tools/setup", "--print-extra"], capture_output=True, text=True)
    assert setup.returncode == 0, setup.stderr
    return Path(setup.stdout.strip())


@functools.cache
def parsed(name):
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


def documents(name):
    return copy.deepcopy(parsed(name))


def pods():
    """File, template and container of every pod that the files make."""
    (operator,) = documents("pytorchjob.yaml")
    specs = operator["spec"]["pytorchReplicaSpecs"]
    templates = [("pytorchjob.yaml", specs["Master"]["template"]), ("pytorchjob.yaml", specs["Worker"]["template"]),
                 ("indexed_job.yaml", documents("indexed_job.yaml")[1]["spec"]["template"])]
    return [(name, template, template["spec"]["containers"][0]) for name, template in templates]


def of_kubernetes(document):
    if str(extra_packages()) not in sys.path:
        sys.path.append(str(extra_packages()))
    import kubernetes_validate
    try:
        kubernetes_validate.validate(document, VERSION, strict=True)
    except kubernetes_validate.ValidationError as error:
        return [f"{'.'.join(map(str, error.path))}: {error.message}"]
    except kubernetes_validate.SchemaNotFoundError as error:
        return [error.message]
    return []


@functools.cache
def kubeflow_class(name):
    """(JSON name -> type, JSON names that must be there), read without the import, which wants Kubernetes' whole client."""
    file = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=V1)(?=[A-Z])", "_", name).lower()
    tree = ast.parse((extra_packages() / f"kubeflow/training/models/{file}.py").read_text())
    (body,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name]
    tables = {node.targets[0].id: ast.literal_eval(node.value) for node in body.body if isinstance(node, ast.Assign)}
    required = set(re.findall(r"`(\w+)`, must not be `None`", ast.unparse(body)))
    json_name = tables["attribute_map"]
    return ({json_name[field]: kind for field, kind in tables["openapi_types"].items()}, {json_name[field] for field in required})


def of_kubeflow(value, kind, place):
    if kind == "V1PodTemplateSpec":
        return of_kubernetes({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "a"}, "template": value})
    if kind == "V1ObjectMeta":
        return of_kubernetes({"apiVersion": "v1", "kind": "ConfigMap", "metadata": value})
    if kind in PLAIN:
        return [] if type(value) is PLAIN[kind] else [f"{place}: {value!r} is no {kind}"]
    if not isinstance(value, dict):
        return [f"{place}: {value!r} is no map"]
    if of_map := re.fullmatch(r"dict\(str, (\w+)\)", kind):
        return [line for key, item in value.items() for line in of_kubeflow(item, of_map[1], f"{place}.{key}")]
    fields, required = kubeflow_class(kind)
    lines = [f"{place}: no {name}" for name in required - set(value)]
    lines += [f"{place}: unknown field {name}" for name in value if name not in fields]
    return lines + [line for name in value if name in fields for line in of_kubeflow(value[name], fields[name], f"{place}.{name}")]


def problems(document):
    """Lines; names are checked here, since the schemas take any text for one."""
    if document["apiVersion"] == "kubeflow.org/v1":
        lines = of_kubeflow(document, f"KubeflowOrgV1{document['kind']}", document["kind"])
    else:
        lines = of_kubernetes(document)
    name = document["metadata"]["name"]
    return lines if NAME.fullmatch(name) else [*lines, f"metadata.name: {name!r} is no name"]
