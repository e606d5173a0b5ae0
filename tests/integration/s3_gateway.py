"""A Ceph object gateway for tests, its variables and boto3 as the other side."""
import contextlib
import re
import shutil
import subprocess
from pathlib import Path

import boto3
import botocore.config

SERVERS = Path(__file__).resolve().parents[1] / "support/servers"
PROGRAMS = ("ceph-mon", "ceph-osd", "radosgw", "radosgw-admin", "ceph")


@contextlib.contextmanager
def running_gateway(folder, bucket):
    """The variables of a gateway with an empty bucket, for as long as the block lasts."""
    missing = [program for program in PROGRAMS if not shutil.which(program)]
    assert not missing, f"{missing} missing: tools/setup --python installs them"
    started = subprocess.run([SERVERS / "radosgw.sh", "start", folder], capture_output=True, text=True)
    try:
        assert started.returncode == 0, started.stderr
        variables = dict(re.findall(r"export (\w+)=(.*)", started.stdout))
        boto_client(variables).create_bucket(Bucket=bucket)
        yield variables
    finally:
        subprocess.run([SERVERS / "radosgw.sh", "stop", folder], capture_output=True)


def boto_client(variables):
    config = botocore.config.Config(request_checksum_calculation="when_required", response_checksum_validation="when_required",
                                    retries={"max_attempts": 1}, s3={"addressing_style": "path"})
    return boto3.client("s3", endpoint_url=variables["AWS_ENDPOINT_URL_S3"], region_name="us-east-1", config=config,
                        aws_access_key_id=variables["AWS_ACCESS_KEY_ID"], aws_secret_access_key=variables["AWS_SECRET_ACCESS_KEY"])


def keys_below(boto, bucket, prefix):
    pages = boto.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix + "/")
    return [one["Key"][len(prefix) + 1:] for page in pages for one in page.get("Contents", [])]
