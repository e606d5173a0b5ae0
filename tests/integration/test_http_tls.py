"""The HTTP client's TLS, and where its library comes from."""
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from http_probe import probes

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support/servers"))

from faulty_http import FaultyServer

BAD = {
    "expired": ("expired", "has expired"),
    "not_yet": ("not_yet_valid", "is not valid yet"),
    "wrong_name": ("wrong_host", "is for another host than 127.0.0.1"),
    "self_signed": ("unknown_ca", "not from an authority that this machine trusts"),
    "unknown_ca": ("unknown_ca", "not from an authority that this machine trusts"),
    "old_tls": ("protocol", "TLS 1.2 or later"),
}


@pytest.fixture
def start_probe(wmtp):
    with probes(wmtp) as start:
        yield start


@pytest.fixture
def probe(start_probe):
    return start_probe()


@pytest.fixture(scope="module")
def server():
    rules = [{"name": how, "listener": how, "nth": "1-2", "action": {"cut": {"at": "accept", "how": how}}}
             for how in ("close", "reset", "stall")]
    rules.append({"path": "^/cut", "action": {"body_bytes": 100, "cut": {"at": "body:10"}}})
    listeners = {kind: kind for kind in ("good", *BAD)} | dict.fromkeys(("close", "reset", "stall"), "good")
    with FaultyServer(rules=rules, default={"handler": "echo"}, listeners=listeners) as made:
        yield made


def test_a_good_certificate_is_trusted(probe, server):
    for _ in range(2):
        got = probe.ask(server.urls["good"] + "/x", options={"ca_file": server.ca_file})
        assert got.status == 200, got
    assert probe.ask(server.urls["good"].replace("127.0.0.1", "localhost")).status == 200
    got = probe.ask(server.urls["good"] + "/cut")
    assert got.failure == "reset" and "inside the answer's body" in got.text


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_one_is_refused_in_words(probe, server, kind):
    reason, text = BAD[kind]
    before = len(server.requests)
    got = probe.ask(server.urls[kind] + "/x", options={"ca_file": server.ca_file}, retry={}, headers=[["Authorization", "Bearer x"]])
    assert (got.failure, got.tls, got.code) == ("tls", reason, 78), got
    assert text in got.text and "; " in got.text
    assert len(server.requests) == before, "nothing was sent"


def test_old_tls_is_refused_whatever_the_machine_allows(start_probe, server, tmp_path):
    """Debian's own settings refuse it too: without them, only the client's limit is left."""
    (tmp_path / "lax.cnf").write_text("openssl_conf = init\n[init]\nssl_conf = modules\n[modules]\nsystem_default = lax\n"
                                      "[lax]\nMinProtocol = TLSv1\nCipherString = DEFAULT:@SECLEVEL=0\n")
    lax = start_probe({"OPENSSL_CONF": str(tmp_path / "lax.cnf")})
    assert lax.ask(server.urls["good"], options={"ca_file": server.ca_file}).status == 200
    assert lax.ask(server.urls["old_tls"]).tls == "protocol"


def test_verification_can_be_switched_off_only_on_purpose(probe, server):
    for kind in ("expired", "wrong_name", "self_signed", "unknown_ca"):
        assert probe.ask(server.urls[kind], options={"verify_tls": False}).status == 200
    assert probe.ask(server.urls["expired"], options={"ca_file": server.ca_file}).failure == "tls"


def test_the_authorities_are_those_of_the_environment_or_the_machine(start_probe, server, tmp_path):
    for name in ("CURL_CA_BUNDLE", "SSL_CERT_FILE"):
        assert start_probe({name: server.ca_file}).ask(server.urls["good"]).status == 200
        got = start_probe({name: str(tmp_path / "absent.pem")}).ask(server.urls["good"])
        assert got.code == 78 and f"{name} names {tmp_path}/absent.pem" in got.text
    assert start_probe().ask(server.urls["good"]).tls == "unknown_ca"
    (tmp_path / "no.pem").write_text("no certificate\n")
    got = start_probe().ask(server.urls["good"], options={"ca_file": str(tmp_path / "no.pem")})
    assert got.failure == "tls" and "holds no certificates" in got.text


def answer_as_plain_servers_do(listening):
    client, _ = listening.accept()
    with client:
        client.recv(65536)
        client.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


def test_a_server_without_tls_is_named(probe, server):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=answer_as_plain_servers_do, args=(listening,))
        thread.start()
        got = probe.ask(f"https://127.0.0.1:{listening.getsockname()[1]}/", options={"ca_file": server.ca_file})
        thread.join()
    assert (got.failure, got.tls) == ("tls", "protocol") and "not plain http" in got.text


@pytest.mark.parametrize("listener", ["close", "reset"])
def test_a_handshake_that_is_cut_is_worth_another_try(probe, server, listener):
    assert probe.ask(server.urls[listener], options={"ca_file": server.ca_file}).failure == "reset"
    assert probe.ask(server.urls[listener], retry={}).status == 200
    assert server.acted[listener] == 2, "the second try was cut too"


def test_a_handshake_that_does_not_end_is_a_failure_to_connect(probe, server):
    got = probe.ask(server.urls["stall"], options={"connect_ms": 300, "ca_file": server.ca_file})
    assert got.failure == "connect" and "no connection within 0.3 s" in got.text


def needed(binary):
    done = subprocess.run(["readelf", "-d", str(binary)], capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if "NEEDED" in line]


def test_libcurl_is_not_linked_and_plain_commands_do_not_open_it(wmtp, probe):
    for name in ("wmtp", "wmtp_http_probe"):
        lines = needed(wmtp.binary.parent / name)
        assert lines and not any("curl" in line for line in lines), lines
    for command in (["version"], ["validate", "no-such-file.yaml"]):
        done = wmtp.run(*command, check=False, env={"LD_DEBUG": "files"})
        assert "libc.so.6" in done.stderr and "libcurl" not in done.stderr
    assert not probe.ask().opened_curl
    assert not probe.ask("http://user@127.0.0.1:1/").opened_curl
    assert probe.ask("http://127.0.0.1:1/").opened_curl, "the control: this is how it would be seen"


def test_a_machine_without_libcurl_is_told_what_to_install(start_probe, tmp_path):
    (tmp_path / "libcurl.so.4").write_text("no library\n")
    got = start_probe({"LD_LIBRARY_PATH": str(tmp_path)}).ask("http://127.0.0.1:1/")
    assert got.code == 78 and "cannot load libcurl.so.4" in got.text and "apt-get install libcurl4" in got.text
    (tmp_path / "libcurl.so.4").unlink()
    subprocess.run(["g++", "-shared", "-fPIC", "-x", "c++", "/dev/null", "-o", tmp_path / "libcurl.so.4"], check=True)
    got = start_probe({"LD_LIBRARY_PATH": str(tmp_path)}).ask("http://127.0.0.1:1/")
    assert got.code == 78 and "libcurl.so.4 has no curl_global_init" in got.text
