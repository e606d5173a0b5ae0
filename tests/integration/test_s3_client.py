"""The client of src/wmtp/s3 against a real server, a Ceph object gateway, with boto3 as the other side; and the same through
a proxy that fails on request."""
import hashlib
import random
import re
import sys
import time
from pathlib import Path

import pytest
from s3_probe import S3Probe, decoded, s3_probes

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support/servers"))

from faulty_http import FaultyServer

BUCKET = "wmtp-test"
MIB = 1 << 20
ODD_NAMES = ["a b", "a+b", "a%20b", "\u00fc/\u1234/\U0001f600", "a=b&c~d", "..", "a/../b", "a//b", "trailing/", "q?x#y", "'\"<>&;", "(*)!$@:,",
             "new\nline", "\\back", "x" * 1000]


@pytest.fixture(scope="module")
def gateway(ceph):
    """The variables of a gateway with an empty bucket."""
    ceph.make_bucket(BUCKET)
    return ceph.variables


@pytest.fixture
def boto(gateway, ceph):
    return ceph.boto


@pytest.fixture
def start_probe(wmtp):
    with s3_probes(wmtp) as start:
        yield start


@pytest.fixture
def prefix(request):
    """One for each test: they share the bucket."""
    return re.sub(r"\W+", "-", request.node.name)[-60:].strip("-")


@pytest.fixture
def probe(start_probe, gateway, prefix):
    made = start_probe(gateway)
    assert made.ask(options=options(prefix)).text is None
    return made


def options(prefix, **more):
    return {"bucket": BUCKET, "prefix": prefix, "part_bytes": 5 * MIB, "first_wait_ms": 2, **more}


def stored(boto, key):
    return boto.get_object(Bucket=BUCKET, Key=key)["Body"].read()


def random_file(path, size, seed=1):
    path.write_bytes(random.Random(seed).randbytes(size))
    return path


def test_bytes_are_equal_both_ways(probe, boto, prefix):
    for size in (0, 1, 65536, 3_000_001):
        body = random.Random(size).randbytes(size)
        etag = probe.ask("put", name=f"ours-{size}", body=body).etag
        assert etag == hashlib.md5(body).hexdigest() and stored(boto, f"{prefix}/ours-{size}") == body
        boto.put_object(Bucket=BUCKET, Key=f"{prefix}/theirs-{size}", Body=body)
        assert (probe.ask("get", name=f"theirs-{size}").body or b"") == body
        assert probe.ask("head", name=f"theirs-{size}").facts == {"bytes": size, "etag": etag}
    assert probe.ask("get", name="theirs-3000001", range=[1_000_000, 77]).body == body[1_000_000:1_000_077]
    assert probe.ask("head", name="absent").facts is None
    got = probe.ask("get", name="absent")
    assert (got.problem, got.code, got.exit) == ("not_found", "NoSuchKey", 74)
    assert probe.ask("remove", name="ours-1").text is None and probe.ask("remove", name="ours-1").text is None
    assert probe.ask("head", name="ours-1").facts is None


def test_names_with_odd_characters(probe, boto, prefix):
    for name in ODD_NAMES:
        name = name[:1024 - len(prefix) - 1]
        got = probe.ask("put", name=name, body=name)
        assert got.text is None, (name, got.text)
        assert stored(boto, f"{prefix}/{name}") == name.encode()
        assert probe.ask("get", name=name).body == name.encode()
    listed = probe.ask("list", name="")
    theirs = boto.list_objects_v2(Bucket=BUCKET, Prefix=prefix + "/")["Contents"]
    assert [prefix + "/" + decoded(one[0]).decode() for one in listed.objects] == [one["Key"] for one in theirs]
    assert len(theirs) == len(ODD_NAMES)
    assert [one[1:3] for one in listed.objects] == [[one["Size"], one["ETag"].strip('"')] for one in theirs]
    assert all(abs(one[3] - time.time()) < 600 for one in listed.objects)
    assert "more than 1024 bytes" in probe.ask("put", name="x" * 1024, body="").text


def test_buckets_as_hosts_of_their_own(wmtp, ceph, gateway, boto, prefix, tmp_path):
    """http://BUCKET.localhost:PORT/KEY, which the gateway takes apart; only a list of hosts of the probe's own knows the name."""
    hosts, wrapper = tmp_path / "hosts", tmp_path / "probe"
    hosts.write_text(f"127.0.0.1 localhost {BUCKET}.localhost\n")
    wrapper.write_text(f'#!/bin/sh\nexec unshare -m sh -c \'mount --bind "{hosts}" /etc/hosts && exec "{wmtp.binary.parent}/wmtp_s3_probe"\'\n')
    wrapper.chmod(0o755)
    probe = S3Probe(str(wrapper), {**gateway, "HOME": "/nonexistent", "AWS_ENDPOINT_URL_S3": ceph.url.replace("127.0.0.1", "localhost")})
    try:
        assert probe.ask(options=options(prefix, path_style=False, allow_http=True)).text is None
        for name in ("plain", "a b+c%20d/\u00fc"):
            assert probe.ask("put", name=name, body=b"bytes").text is None
            assert stored(boto, f"{prefix}/{name}") == b"bytes"
            assert probe.ask("get", name=name).body == b"bytes"
    finally:
        probe.kill()


def test_lists_come_in_pages_and_folders(probe, boto, prefix):
    for name in ("a/1", "a/2", "b", "c/d/3", "e+f/4"):
        boto.put_object(Bucket=BUCKET, Key=f"{prefix}/{name}", Body=b"x")
    seen, token = [], ""
    for count in (2, 2, 1):
        page = probe.ask("list", name="", page_size=2, token=token)
        seen += [decoded(one[0]).decode() for one in page.objects]
        token = page.next
        assert len(page.objects) == count and bool(token) == (count == 2)
    assert seen == ["a/1", "a/2", "b", "c/d/3", "e+f/4"]
    page = probe.ask("list", name="", delimiter="/")
    assert [decoded(one).decode() for one in page.prefixes] == ["a/", "c/", "e+f/"]
    assert [decoded(one[0]).decode() for one in page.objects] == ["b"]
    assert (probe.ask("count", name="").count, probe.ask("count", name="a/").count, probe.ask("count", name="z").count) == (5, 2, 0)


@pytest.mark.parametrize("checksum", ["md5", "crc32c", "none"])
def test_files_go_up_in_parts_and_come_back(probe, boto, prefix, tmp_path, checksum):
    path = random_file(tmp_path / "file", 12 * MIB + 7)
    small = random_file(tmp_path / "small", 1000)
    probe.ask(options=options(prefix, checksum=checksum))
    got = probe.ask("upload", name="large", path=str(path))
    assert (got.text, got.bytes, got.sent, got.reused) == (None, 12 * MIB + 7, 3, 0)
    assert got.etag.endswith("-3") and got.state["upload_id"] == "" and got.changes == 5
    assert probe.ask("upload", name="small", path=str(small)).sent == 0
    assert stored(boto, f"{prefix}/large") == path.read_bytes() and stored(boto, f"{prefix}/small") == small.read_bytes()
    for name, source in (("large", path), ("small", small)):
        got = probe.ask("download", name=name, path=str(tmp_path / "back"))
        assert (got.text, got.verified) == (None, True) and (tmp_path / "back").read_bytes() == source.read_bytes()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["back", "file", "small"], "no temporary files"


def test_memory_does_not_grow_with_the_parts(probe, prefix, tmp_path):
    path = random_file(tmp_path / "file", 64 * MIB)
    probe.ask(options=options(prefix, part_bytes=16 * MIB, concurrency=4))
    assert probe.ask("upload", name="k", path=str(path)).sent == 4
    assert probe.ask("download", name="k", path=str(tmp_path / "back")).verified
    most = int(re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{probe.process.pid}/status").read_text())[1])
    assert most < 48 * 1024, f"{most} KiB with four parts of 16 MiB on the way"


def test_objects_of_other_tools_come_back(probe, boto, prefix, tmp_path):
    path = random_file(tmp_path / "file", 9 * MIB)
    boto.upload_file(str(path), BUCKET, f"{prefix}/theirs")  # in parts of 8 MiB
    boto.put_object(Bucket=BUCKET, Key=f"{prefix}/empty", Body=b"")
    got = probe.ask("download", name="theirs", path=str(tmp_path / "back"))
    assert (got.verified, got.etag[-2:]) == (True, "-2") and (tmp_path / "back").read_bytes() == path.read_bytes()
    assert probe.ask("download", name="empty", path=str(tmp_path / "back")).bytes == 0 and (tmp_path / "back").read_bytes() == b""
    got = probe.ask("download", name="absent", path=str(tmp_path / "new"))
    assert got.problem == "not_found" and not (tmp_path / "new").exists()


@pytest.mark.parametrize("checksum", ["md5", "none"])
def test_an_upload_that_was_interrupted_goes_on(start_probe, gateway, boto, prefix, tmp_path, checksum):
    path = random_file(tmp_path / "file", 16 * MIB)
    with FaultyServer(rules=[{"method": "PUT", "query": "partNumber=4", "action": {"status": 500}}], default={"handler": "proxy"},
                      handlers={"proxy": {"upstream": gateway["AWS_ENDPOINT_URL_S3"]}}) as server:
        probe = start_probe({**gateway, "AWS_ENDPOINT_URL_S3": server.url})
        got = probe.ask("upload", options=options(prefix, retries=0, concurrency=1, checksum=checksum), name="k", path=str(path))
        assert [bool(part[1]) for part in got.state["parts"].values()] == 3 * [checksum == "md5"], "none: no MD5 is made"
        assert "the server answers 500" in got.text and sorted(got.state["parts"]) == ["1", "2", "3"] and got.last == got.state
        state = got.state
    probe = start_probe(gateway)
    probe.ask(options=options(prefix, checksum=checksum))
    uploads = probe.ask("uploads", name="").uploads
    assert [(decoded(one[0]), one[1]) for one in uploads] == [(b"k", state["upload_id"])] and abs(uploads[0][2] - time.time()) < 600
    data = bytearray(path.read_bytes())
    data[0] ^= 1
    path.write_bytes(data)  # part 1 has changed since
    got = probe.ask("upload", name="k", path=str(path), state=state)
    assert (got.text, got.sent, got.reused) == (None, 2, 2) and stored(boto, f"{prefix}/k") == path.read_bytes()
    assert probe.ask("uploads", name="").uploads == []
    got = probe.ask("upload", name="k", path=str(path), state=state)  # it is over, so all of it is sent anew
    assert (got.text, got.sent, got.reused) == (None, 4, 0)
    aborted = probe.ask("create", name="other").upload_id
    assert [one[1] for one in probe.ask("uploads", name="").uploads] == [aborted]
    assert probe.ask("abort", name="other", upload_id=aborted).text is None
    assert probe.ask("abort", name="other", upload_id=aborted).text is None and probe.ask("uploads", name="").uploads == []


COMPLETE = {"method": "POST", "query": "^uploadId="}
ERROR = {"status": 200, "body": "<Error><Code>InternalError</Code><Message>broken</Message></Error>"}


@pytest.mark.parametrize(("rule", "text"), [
    ({"nth": 1, "action": ERROR}, None),
    ({"action": {"handler": "proxy", **ERROR}}, None),  # carried out, and never admitted
    ({"action": {"handler": "proxy", "cut": {"at": "answer", "how": "reset"}}}, None),
    ({"action": {"handler": "proxy", "body": ""}}, None),
    ({"action": ERROR}, "InternalError: broken"),
], ids=["error once", "error and done", "lost and done", "empty and done", "never done"])
def test_whether_an_upload_was_completed_is_decided_by_the_object(start_probe, gateway, boto, prefix, tmp_path, rule, text):
    path = random_file(tmp_path / "file", 5 * MIB + 1)
    with FaultyServer(rules=[{"name": "complete", **COMPLETE, **rule}], default={"handler": "proxy"},
                      handlers={"proxy": {"upstream": gateway["AWS_ENDPOINT_URL_S3"]}}) as server:
        probe = start_probe({**gateway, "AWS_ENDPOINT_URL_S3": server.url})
        got = probe.ask("upload", options=options(prefix, retries=2), name="k", path=str(path))
        assert server.acted["complete"] > 0
    if text is None:
        assert got.text is None and stored(boto, f"{prefix}/k") == path.read_bytes() and got.state["upload_id"] == ""
    else:
        assert text in got.text and got.exit == 75 and len(got.state["parts"]) == 2, "kept for another try"
        assert boto.list_objects_v2(Bucket=BUCKET, Prefix=prefix)["KeyCount"] == 0


@pytest.mark.parametrize(("etag_after", "is_done"), [("old", False), ("new", True)])
def test_an_object_that_was_there_before_is_not_taken_for_the_upload(start_probe, tmp_path, etag_after, is_done):
    """Of a server whose ETags say nothing, and that has lost the upload, or completed it."""
    path = random_file(tmp_path / "file", 5 * MIB + 1)
    facts = {"body_bytes": 5 * MIB + 1}
    begun = "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>"
    gone = {"status": 404, "body": "<Error><Code>NoSuchUpload</Code></Error>"}
    with FaultyServer(rules=[
            {"method": "POST", "query": "^uploads=", "action": {"body": begun}},
            {"method": "PUT", "action": {"headers": {"ETag": '"opaque"'}}},
            {"method": "POST|GET", "query": "uploadId=", "action": gone},
            {"method": "HEAD", "nth": 1, "action": {**facts, "headers": {"ETag": '"old"'}}},
            {"method": "HEAD", "action": {**facts, "headers": {"ETag": f'"{etag_after}"'}}}]) as server:
        probe = start_probe({"AWS_ACCESS_KEY_ID": "AKIATEST", "AWS_SECRET_ACCESS_KEY": "made/up", "AWS_ENDPOINT_URL_S3": server.url})
        got = probe.ask("upload", options=options(""), name="k", path=str(path))
        assert (got.text is None) == is_done, got.text
        assert is_done or ("NoSuchUpload" in got.text and got.exit == 74)


def test_a_clock_that_is_wrong_is_set_by_the_server(probe):
    for seconds in (86400, -86400):
        assert probe.ask("shift_clock", seconds=seconds).text is None
        assert probe.ask("head", name="k").text is None, "an answer without a text"
        assert probe.ask("shift_clock", seconds=seconds).text is None
        got = probe.ask("put", name="k", body="x")
        assert got.text is None, got.text
    assert "differ by" in "".join(probe.err)


def test_a_secret_that_is_put_right_is_taken_without_a_new_start(start_probe, gateway, prefix, tmp_path):
    (tmp_path / ".aws").mkdir()

    def write_profile(secret):
        (tmp_path / ".aws/credentials").write_text(f"[default]\naws_access_key_id={gateway['AWS_ACCESS_KEY_ID']}\naws_secret_access_key={secret}\n")
    write_profile("canary")
    keyless = {name: value for name, value in gateway.items() if "KEY" not in name}
    probe = start_probe({**keyless, "HOME": str(tmp_path)})
    assert probe.ask("put", options=options(prefix), name="k", body="x").problem == "bad_keys"
    write_profile(gateway["AWS_SECRET_ACCESS_KEY"])
    time.sleep(2.1)  # keys are read again after a refusal, not more often than every two seconds
    assert probe.ask("put", name="k", body="x").text is None


def test_over_tls_bodies_are_sent_unsigned(start_probe, gateway, boto, prefix, tmp_path):
    path = random_file(tmp_path / "file", 5 * MIB + 1)
    with FaultyServer(default={"handler": "proxy"}, handlers={"proxy": {"upstream": gateway["AWS_ENDPOINT_URL_S3"]}}, listeners=("good",)) as server:
        probe = start_probe({**gateway, "AWS_ENDPOINT_URL_S3": server.url})
        got = probe.ask("upload", options=options(prefix, ca_file=server.ca_file), name="k", path=str(path))
        assert got.text is None and stored(boto, f"{prefix}/k") == path.read_bytes()
        hashes = {one.header("X-Amz-Content-SHA256") for one in server.requests if one.method == "PUT"}
        assert hashes == {"UNSIGNED-PAYLOAD"} and all(one.header("Content-MD5") for one in server.requests if one.method == "PUT")
        got = start_probe({**gateway, "AWS_ENDPOINT_URL_S3": server.url}).ask("head", options=options(prefix, retries=0), name="k")
        assert got.exit == 78 and "certificate" in got.text, "an authority that nobody trusts"


def test_refusals_have_types_and_hints(start_probe, gateway, prefix):
    probe = start_probe({**gateway, "AWS_SECRET_ACCESS_KEY": "canary/secret"})
    got = probe.ask("put", options=options(prefix), name="k", body="x")
    assert (got.problem, got.code, got.exit) == ("bad_keys", "SignatureDoesNotMatch", 78) and "AWS_SECRET_ACCESS_KEY" in got.text
    got = start_probe({**gateway, "AWS_ACCESS_KEY_ID": "canary"}).ask("put", options=options(prefix), name="k", body="x")
    assert (got.problem, got.code) == ("bad_keys", "InvalidAccessKeyId") and "canary" not in got.text
    probe = start_probe(gateway)
    got = probe.ask("put", options=options(prefix, bucket="wmtp-absent"), name="k", body="x")
    assert (got.problem, got.exit) == ("no_bucket", 78) and "storage.s3.bucket" in got.text
    assert probe.ask("list", name="").problem == "no_bucket"
    for bucket in ("Capital", "a_b", "x", "s3://wmtp-test", "1.2.3.4"):
        assert "is no name of a bucket" in probe.ask(options=options(prefix, bucket=bucket)).text
    with FaultyServer(default={"status": 301, "headers": {"x-amz-bucket-region": "eu-west-3"}}) as server:
        got = start_probe({**gateway, "AWS_ENDPOINT_URL_S3": server.url}).ask("head", options=options(prefix), name="k")
        assert got.problem == "wrong_region" and "storage.s3.region: eu-west-3" in got.text
    with FaultyServer(default={"status": 503, "retry_after": 0}) as server:
        got = start_probe({**gateway, "AWS_ENDPOINT_URL_S3": server.url}).ask("head", options=options(prefix, retries=3), name="k")
        assert (got.problem, got.exit, len(server.requests)) == ("busy", 75, 4)


def test_bytes_that_were_changed_on_the_way_are_seen(start_probe, gateway, boto, prefix, tmp_path):
    boto.put_object(Bucket=BUCKET, Key=f"{prefix}/k", Body=b"right")
    with FaultyServer(rules=[{"method": "GET", "action": {"handler": "proxy", "body": "wrong"}}], default={"handler": "proxy"},
                      handlers={"proxy": {"upstream": gateway["AWS_ENDPOINT_URL_S3"]}}) as server:
        probe = start_probe({**gateway, "AWS_ENDPOINT_URL_S3": server.url})
        got = probe.ask("download", options=options(prefix), name="k", path=str(tmp_path / "back"))
        assert (got.problem, got.exit) == ("bad_digest", 74) and list(tmp_path.iterdir()) == []
        got = probe.ask("download", name="k", path=str(tmp_path / "back"), check_etag=False)
        assert (got.text, got.verified) == (None, False), "left to the caller"
        (tmp_path / "back").unlink()
    with FaultyServer(rules=[{"method": "GET", "action": {"handler": "proxy", "headers": {"ETag": '"other"'}}}], default={"handler": "proxy"},
                      handlers={"proxy": {"upstream": gateway["AWS_ENDPOINT_URL_S3"]}}) as server:
        probe = start_probe({**gateway, "AWS_ENDPOINT_URL_S3": server.url})
        got = probe.ask("download", options=options(prefix), name="k", path=str(tmp_path / "back"))
        assert "was replaced while it was being read" in got.text and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("cut_at", [1000, 700_000])
def test_a_range_that_was_cut_is_written_anew(start_probe, gateway, boto, prefix, tmp_path, cut_at):
    path = random_file(tmp_path / "file", 6 * MIB)
    boto.put_object(Bucket=BUCKET, Key=f"{prefix}/k", Body=path.read_bytes())
    rule = {"name": "cut", "method": "GET", "nth": 1, "action": {"handler": "proxy", "cut": {"at": f"body:{cut_at}", "how": "close"}}}
    with FaultyServer(rules=[rule], default={"handler": "proxy"}, handlers={"proxy": {"upstream": gateway["AWS_ENDPOINT_URL_S3"]}}) as server:
        probe = start_probe({**gateway, "AWS_ENDPOINT_URL_S3": server.url})
        got = probe.ask("download", options=options(prefix), name="k", path=str(tmp_path / "back"))
        assert server.acted["cut"] == 1
    assert (got.text, got.verified) == (None, True) and (tmp_path / "back").read_bytes() == path.read_bytes()


def test_a_fifth_of_all_requests_failing_damages_nothing(start_probe, gateway, boto, prefix, tmp_path):
    faults = [{"status": 503}, {"handler": "proxy", "status": 500}, {"handler": "proxy", "cut": {"at": "request_body:1000", "how": "reset"}},
              {"handler": "proxy", "cut": {"at": "answer", "how": "reset"}}, {"handler": "proxy", "cut": {"at": "body:1000", "how": "close"}}]
    rules = [{"name": str(at), "rate": 0.2 / (len(faults) - at * 0.2), "action": action} for at, action in enumerate(faults)]
    with FaultyServer(rules=rules, default={"handler": "proxy"}, seed=7,
                      handlers={"proxy": {"upstream": gateway["AWS_ENDPOINT_URL_S3"]}}) as server:
        probe = start_probe({**gateway, "AWS_ENDPOINT_URL_S3": server.url})
        probe.ask(options=options(prefix, retries=12))
        sizes = [1, 3000, 100_000, 1 * MIB, 4 * MIB, 11 * MIB, 20 * MIB + 3, 26 * MIB]
        for size in sizes:
            path = random_file(tmp_path / str(size), size, size)
            got = probe.ask("upload", name=str(size), path=str(path))
            assert got.text is None, got.text
            assert stored(boto, f"{prefix}/{size}") == path.read_bytes()
            got = probe.ask("download", name=str(size), path=str(tmp_path / "back"))
            assert (got.text, got.verified) == (None, True) and (tmp_path / "back").read_bytes() == path.read_bytes()
        acted = server.acted
        share = sum(acted.values()) / len(server.requests)
        assert all(acted.values()) and 0.1 < share < 0.35, (acted, len(server.requests))


def test_no_secret_reaches_the_log(start_probe, gateway, prefix, tmp_path):
    probe = start_probe({**gateway, "AWS_SESSION_TOKEN": "canary-token"})
    path = random_file(tmp_path / "file", 6 * MIB)
    probe.ask("upload", options=options(prefix, retries=1), name="k", path=str(path))
    probe.ask("put", name="k", body="x")
    text = probe.close()
    for secret in (gateway["AWS_SECRET_ACCESS_KEY"], gateway["AWS_ACCESS_KEY_ID"], "canary-token"):
        assert secret not in text
