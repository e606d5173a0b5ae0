"""A bucket as a file system (src/wmtp/s3/files) against a real server, a Ceph object gateway."""
import errno
import random
import sys
from multiprocessing.pool import ThreadPool
from pathlib import Path

import pytest
from s3_probe import s3_probes

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support/servers"))

from faulty_http import FaultyServer

BUCKET = "wmtp-files"
ROOT = f"s3://{BUCKET}"
MISSING, FILE, FOLDER = 0, 1, 2
MIB = 1 << 20
OPTIONS = {"bucket": BUCKET, "part_bytes": 5 * MIB, "first_wait_ms": 2, "retries": 2}


@pytest.fixture(scope="module")
def gateway(ceph):
    ceph.make_bucket(BUCKET)
    return ceph.variables


@pytest.fixture(scope="module")
def boto(gateway, ceph):
    return ceph.boto


@pytest.fixture
def start(wmtp, gateway):
    """A probe of the bucket, through another server where one is named."""
    with s3_probes(wmtp) as start_probe:
        def made(endpoint=None):
            probe = start_probe({**gateway, **({"AWS_ENDPOINT_URL_S3": endpoint} if endpoint else {})})
            assert probe.ask(options=OPTIONS).text is None
            return probe
        yield made


def proxy(gateway, *rules):
    return FaultyServer(rules=rules, default={"handler": "proxy"}, handlers={"proxy": {"upstream": gateway["AWS_ENDPOINT_URL_S3"]}})


def test_keys_are_files_and_folders(start, boto):
    for key in ("tree/a", "tree/b/c", "tree/b/d/e", "tree/", "tree/both", "tree/both/x"):
        boto.put_object(Bucket=BUCKET, Key=key, Body=key.encode())
    probe = start()
    assert probe.ask("list_files", name=f"{ROOT}/tree").entries == [["a", FILE], ["b", FOLDER], ["both", FOLDER]]
    assert probe.ask("list_files", name=f"{ROOT}/tree/b/").entries == [["c", FILE], ["d", FOLDER]]
    for name, kind, size in (("tree", FOLDER, 0), ("tree/a", FILE, 6), ("tree/b", FOLDER, 0), ("tree/b/d/e", FILE, 10), ("tree/c", MISSING, 0),
                             ("absent/x", MISSING, 0), ("tre", MISSING, 0)):
        got = probe.ask("status", name=f"{ROOT}/{name}")
        assert (got.kind, got.bytes) == (kind, size), name
    got = probe.ask("list_files", name=f"{ROOT}/absent")
    assert got.errno == errno.ENOENT and "there is nothing below" in got.text
    assert probe.ask("open", name=f"{ROOT}/tree/absent").errno == errno.ENOENT


def test_folders_of_many_pages(start, boto, gateway):
    with ThreadPool(8) as pool:
        pool.map(lambda number: boto.put_object(Bucket=BUCKET, Key=f"many/{number:04}/x", Body=b""), range(1005))
    probe = start()
    assert [probe.ask("status", name=f"{ROOT}/many/{name}").kind for name in ("0000", "1004", "2000")] == [FOLDER, FOLDER, MISSING]
    entries = probe.ask("list_files", name=f"{ROOT}/many").entries
    assert entries == [[f"{number:04}", FOLDER] for number in range(1005)]


def test_one_list_answers_for_a_folder(start, boto, gateway):
    for number in range(30):
        boto.put_object(Bucket=BUCKET, Key=f"few/{number}", Body=b"x")
    with proxy(gateway) as server:
        probe = start(server.url)
        assert all(probe.ask("status", name=f"{ROOT}/few/{number}").kind == FILE for number in range(30))
        assert len(server.requests) == 1


def test_any_range_is_read_and_small_ones_ahead(start, boto, gateway):
    body = random.Random(1).randbytes(17 * MIB + 3)
    boto.put_object(Bucket=BUCKET, Key="large", Body=body)
    with proxy(gateway) as server:
        probe = start(server.url)
        assert probe.ask("open", name=f"{ROOT}/large").bytes == len(body)
        for first, length in ((0, 8), (8, 100_000), (len(body) - 5, 5), (3 * MIB, 12 * MIB + 1), (MIB - 7, 2 * MIB)):
            assert probe.ask("read", range=[first, length]).body == body[first:first + length]
        server.clear_log()
        for first in range(0, 8 * MIB, 65536):
            assert probe.ask("read", range=[first, 65536]).body == body[first:first + 65536]
        gets = [one for one in server.requests if one.method == "GET"]
        assert 2 <= len(gets) <= 6 and all(one.header("Range") for one in gets)
        got = probe.ask("read", range=[len(body) - 4, 5])
        assert got.errno == errno.EIO and "beyond its end" in got.text


def test_an_opened_file_is_one_object(start, boto):
    boto.put_object(Bucket=BUCKET, Key="pinned", Body=b"a" * 3 * MIB)
    probe = start()
    probe.ask("open", name=f"{ROOT}/pinned")
    assert probe.ask("read", range=[0, 3]).body == b"aaa"
    for body in (b"b" * 3 * MIB, b"b"):
        boto.put_object(Bucket=BUCKET, Key="pinned", Body=body)
        got = probe.ask("read", range=[2 * MIB, 3])
        assert (got.errno, got.exit) == (errno.ESTALE, 74), got.text
    boto.delete_object(Bucket=BUCKET, Key="pinned")
    assert probe.ask("read", range=[2 * MIB, 3]).errno == errno.ENOENT


def test_failures_are_those_of_a_file_system(start, boto, gateway):
    boto.put_object(Bucket=BUCKET, Key="fails/x", Body=b"right")
    denied = {"status": 403, "body": "<Error><Code>AccessDenied</Code><Message>no</Message></Error>"}
    with proxy(gateway, {"query": "list-type", "action": denied}) as server:
        probe = start(server.url)
        assert probe.ask("status", name=f"{ROOT}/fails/x").kind == FILE, "objects can be read that cannot be listed"
        got = probe.ask("list_files", name=f"{ROOT}/fails")
        assert got.errno == errno.EACCES and "AccessDenied" in got.text and "s3:ListBucket" in got.text
    with proxy(gateway, {"method": "GET", "path": "fails/x", "action": {"status": 503, "retry_after": 0}}) as server:
        probe = start(server.url)
        probe.ask("open", name=f"{ROOT}/fails/x")
        got = probe.ask("read", range=[0, 5])
        assert (got.errno, got.exit) == (errno.EIO, 74) and len([one for one in server.requests if one.method == "GET"]) == 3
    with proxy(gateway, {"method": "GET", "path": "fails/x", "nth": 1, "action": {"status": 500}}) as server:
        probe = start(server.url)
        probe.ask("open", name=f"{ROOT}/fails/x")
        assert probe.ask("read", range=[0, 5]).body == b"right"
