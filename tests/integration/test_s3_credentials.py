"""Where src/wmtp/s3 gets its keys: the services of clouds, played by a server that fails on request."""
import sys
import time
from pathlib import Path

import pytest
from s3_probe import s3_probes

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support/servers"))

from faulty_http import FaultyServer

OPTIONS = {"bucket": "my-bucket", "endpoint": "http://127.0.0.1:9", "retries": 2, "first_wait_ms": 1}
OFF = {"AWS_EC2_METADATA_DISABLED": "true"}


@pytest.fixture
def start_probe(wmtp):
    with s3_probes(wmtp) as start:
        yield start


def serve(kind, rules=(), **settings):
    return FaultyServer(rules=rules, default={"handler": kind}, handlers={kind: settings})


def is_pair(got, issued):
    return (got.access_key, got.secret_key, got.token) == (issued["access_key"], issued["secret_key"], issued["token"])


def log_of(probe):
    probe.close()
    return "".join(probe.err)


def test_the_container_endpoint_with_its_token(start_probe, tmp_path):
    token = tmp_path / "token"
    token.write_text("Basic canary-one\n")
    with serve("ecs", authorization_file=str(token), refuse="2") as server:
        probe = start_probe({**OFF, "AWS_CONTAINER_CREDENTIALS_FULL_URI": server.url + "/v1/credentials",
                             "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(token)})
        got = probe.ask("keys", options=OPTIONS)
        issued = server.handlers["ecs"].issued
        assert is_pair(got, issued[0]) and got.source == "the container endpoint" and 3500 < got.seconds_left <= 3600
        assert got.printed == "***"
        assert is_pair(probe.ask("keys"), issued[0]) and len(server.requests) == 1, "kept"
        token.write_text("Basic canary-two\n")
        got = probe.ask("keys", options=OPTIONS)  # another session reads them anew, and is refused
        assert (got.exit, "the container endpoint answers 403" in got.text) == (78, True)
        assert is_pair(probe.ask("keys"), issued[-1]) and len(server.requests) == 3, "and once more after the refusal"
        log = log_of(probe)
        assert "canary" not in log and "secret/" not in log and "token/" not in log


def test_keys_that_end_are_renewed(start_probe):
    with serve("ecs", lifetime_s=2) as server:  # whole seconds are handed out
        probe = start_probe({**OFF, "AWS_CONTAINER_CREDENTIALS_FULL_URI": server.url})
        first = probe.ask("keys", options=OPTIONS)
        time.sleep(2.1)
        second = probe.ask("keys")
        assert first.access_key != second.access_key and is_pair(second, server.handlers["ecs"].issued[1])
    with serve("ecs", lifetime_s=-5) as server:
        probe = start_probe({**OFF, "AWS_CONTAINER_CREDENTIALS_FULL_URI": server.url})
        assert "have expired already" in probe.ask("keys", options=OPTIONS).text


def test_broken_answers_are_errors_without_their_text(start_probe):
    for body, fact in (("{canary", "no JSON document"), ('{"AccessKeyId": "canary"}', "no AccessKeyId or no SecretAccessKey"),
                       ('{"Code": "canary"}', "Code is not Success"), ("[]", "no JSON object"),
                       ('{"AccessKeyId":"a","SecretAccessKey":"canary","Expiration":"soon"}', "is no time")):
        with FaultyServer(default={"body": body}) as server:
            probe = start_probe({**OFF, "AWS_CONTAINER_CREDENTIALS_FULL_URI": server.url})
            got = probe.ask("keys", options=OPTIONS)
            assert fact in got.text and got.exit == 65 and "canary" not in got.text


def test_instance_metadata_of_version_2(start_probe):
    with serve("imds", role="a role/x") as server:
        probe = start_probe({"AWS_EC2_METADATA_SERVICE_ENDPOINT": server.url})
        server.handlers["imds"].role = "role"
        got = probe.ask("keys", options=OPTIONS)
        assert is_pair(got, server.handlers["imds"].issued[0]) and got.source == "the instance metadata"
        assert [one.method for one in server.requests] == ["PUT", "GET", "GET"]
        assert "metadata-" not in log_of(probe)


def test_instance_metadata_of_version_1_is_refused_by_name(start_probe):
    with serve("imds", rules=[{"path": "/latest/api/token", "action": {"status": 404}}]) as server:
        got = start_probe({"AWS_EC2_METADATA_SERVICE_ENDPOINT": server.url}).ask("keys", options=OPTIONS)
        assert (got.exit, "only version 1 of it answers" in got.text) == (78, True)
    got = start_probe({"AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://example.org"}).ask("keys", options=OPTIONS)
    assert "is not the metadata service" in got.text


def test_a_web_identity_is_exchanged_at_sts(start_probe, tmp_path):
    token = tmp_path / "token"
    token.write_text("canary.jwt+/=\n")
    env = {**OFF, "AWS_WEB_IDENTITY_TOKEN_FILE": str(token), "AWS_ROLE_ARN": "arn:aws:iam::1:role/x"}
    with serve("sts", identity_file=str(token), role_arn="arn:aws:iam::1:role/x", refuse="2") as server:
        probe = start_probe({**env, "AWS_ENDPOINT_URL_STS": server.url})
        assert is_pair(probe.ask("keys", options=OPTIONS), server.handlers["sts"].issued[0])
        assert server.requests[0].parameters()["RoleSessionName"] == "wmtp"
        got = probe.ask("keys", options=OPTIONS)
        assert (got.exit, "answers 403 (AccessDenied)" in got.text) == (78, True)
        assert "canary" not in log_of(probe)
    got = start_probe({**env, "AWS_ENDPOINT_URL_STS": "http://192.0.2.1"}).ask("keys", options=OPTIONS)
    assert "leads over http to another machine" in got.text


def test_the_order_of_places_and_what_none_of_them_has(start_probe, tmp_path):
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws/credentials").write_text("[default]\naws_access_key_id=d\naws_secret_access_key=s\n"
                                               "[work]\naws_access_key_id=w\naws_secret_access_key=s\n")
    with serve("ecs") as server:
        env = {**OFF, "HOME": str(tmp_path), "AWS_CONTAINER_CREDENTIALS_FULL_URI": server.url}
        own = {"AWS_ACCESS_KEY_ID": "e", "AWS_SECRET_ACCESS_KEY": "s"}
        assert start_probe({**env, **own}).ask("keys", options=OPTIONS).access_key == "e"
        assert start_probe({**env, **own}).ask("keys", options={**OPTIONS, "profile": "work"}).access_key == "w"
        assert start_probe(env).ask("keys", options=OPTIONS).access_key == "d"
        assert start_probe({**env, "AWS_PROFILE": "work"}).ask("keys", options=OPTIONS).access_key == "w"
        assert start_probe({**env, "HOME": "/nonexistent"}).ask("keys", options=OPTIONS).access_key.startswith("ASIA")
    got = start_probe(OFF).ask("keys", options=OPTIONS)
    assert got.exit == 78
    for place in ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "profile", "AWS_CONTAINER", "AWS_EC2_METADATA_DISABLED"):
        assert place in got.text


@pytest.mark.parametrize(("status", "code"), [(403, "InvalidAccessKeyId"), (400, "ExpiredToken")])
def test_keys_that_the_server_refuses_are_read_again_once(start_probe, status, code):
    refusal = {"status": status, "body": f"<Error><Code>{code}</Code><Message>${{header_x_amz_security_token}}</Message></Error>"}
    with serve("ecs") as keys:
        env = {**OFF, "AWS_CONTAINER_CREDENTIALS_FULL_URI": keys.url}
        with FaultyServer(rules=[{"nth": 1, "action": refusal}], default={"status": 200}) as server:
            probe = start_probe(env)
            assert probe.ask("put", options={**OPTIONS, "endpoint": server.url}, name="k", body="x").text is None
            used = [one.header("Authorization").split("Credential=")[1].split("/")[0] for one in server.requests]
            assert used == [one["access_key"] for one in keys.handlers["ecs"].issued] and len(used) == 2
        with FaultyServer(default=refusal) as server:
            probe = start_probe(env)
            got = probe.ask("put", options={**OPTIONS, "endpoint": server.url}, name="k", body="x")
            assert (got.problem, got.exit, len(server.requests)) == ("bad_keys", 78, 2), "a renewal and no more tries"
            assert "***" in got.text and "token/" not in got.text, "a server that repeats a secret"
