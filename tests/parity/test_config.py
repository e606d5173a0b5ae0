"""The JSON Schema of configurations, as an editor would use it."""
import json
import pathlib
import re

import jsonschema
import pytest
import yaml

CONFIGS = pathlib.Path(__file__).resolve().parents[2] / "configs"


class Yaml12Loader(yaml.SafeLoader):
    """PyYAML takes 1e-5 for text; YAML 1.2, which wmtp reads, has it as a number."""


Yaml12Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)[eE][-+]?[0-9]+$"), list("-+.0123456789"))


@pytest.fixture(scope="module")
def checker(wmtp):
    schema = json.loads(wmtp.run("validate", "--schema").stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("path", sorted(CONFIGS.rglob("*.yaml")), ids=lambda p: p.name)
def test_shipped_files_fit_the_schema(checker, path):
    checker.validate(yaml.load(path.read_text(), Yaml12Loader))


def test_resolved_text_fits_the_schema(checker, wmtp):
    done = wmtp.run("validate", "--config", str(CONFIGS / "micro/baseline.yaml"), "--no-check-paths", "--resolved")
    checker.validate(yaml.load(done.stdout, Yaml12Loader))


@pytest.mark.parametrize("text", ["trainin: {}", "training: {learning_rate: 2}", "training: {batch_size: 1.5}",
                                  "logging: {level: loud}", "dataset: {train: []}", "experiment: null"])
def test_mistakes_do_not(checker, text):
    assert not checker.is_valid(yaml.load(text, Yaml12Loader))
