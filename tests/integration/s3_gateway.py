"""A Ceph object gateway for tests, its variables and boto3 as the other side."""
import contextlib
import os
import re
import shutil
import subprocess
from pathlib import Path

import boto3
import botocore.config

SERVERS = Path(__file__).resolve().parents[1] / "support/servers"
PROGRAMS = ("ceph-mon", "ceph-osd", "radosgw", "radosgw-admin", "ceph")


class Gateway:
    """One that runs; the fixture `ceph` is one for all tests of a process."""

    def __init__(self, folder, variables):
        self.folder, self.variables = str(folder), variables
        self.url = variables["AWS_ENDPOINT_URL_S3"]
        self.boto = boto_client(variables)

    def turn(self, verb):
        """`down` or `up`; objects are kept."""
        subprocess.run([SERVERS / "radosgw.sh", verb, self.folder], check=True, capture_output=True)

    def make_bucket(self, name):
        self.boto.create_bucket(Bucket=name)
        return name


@contextlib.contextmanager
def running_gateway(folder):
    missing = [program for program in PROGRAMS if not shutil.which(program)]
    assert not missing, f"{missing} missing: tools/setup --python installs them"
    room = {"WMTP_S3_BYTES": str(12 << 30)} if os.environ.get("WMTP_SOAK") else {}
    started = subprocess.run([SERVERS / "radosgw.sh", "start", folder], capture_output=True, text=True, env={**os.environ, **room})
    try:
        assert started.returncode == 0, started.stderr
        yield Gateway(folder, dict(re.findall(r"export (\w+)=(.*)", started.stdout)))
    finally:
        subprocess.run([SERVERS / "radosgw.sh", "stop", folder], capture_output=True)


def set_variables(patch, variables):
    """The keys of a gateway and its address in the environment, and no others."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        patch.delenv(name)
    for name, value in variables.items():
        patch.setenv(name, value)


def boto_client(variables):
    config = botocore.config.Config(request_checksum_calculation="when_required", response_checksum_validation="when_required",
                                    retries={"max_attempts": 1}, s3={"addressing_style": "path"})
    return boto3.client("s3", endpoint_url=variables["AWS_ENDPOINT_URL_S3"], region_name="us-east-1", config=config,
                        aws_access_key_id=variables["AWS_ACCESS_KEY_ID"], aws_secret_access_key=variables["AWS_SECRET_ACCESS_KEY"])


def keys_below(boto, bucket, prefix):
    pages = boto.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix + "/")
    return [one["Key"][len(prefix) + 1:] for page in pages for one in page.get("Contents", [])]
