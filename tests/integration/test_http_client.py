"""The HTTP client (src/wmtp/http) against a server that fails on request: what a healthy one gets, and each fault."""
import hashlib
import sys
from pathlib import Path

import pytest
from http_probe import probes

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support/servers"))

from faulty_http import FaultyServer

PATTERN = b"0123456789abcdef"
SOON = {"connect_ms": 5000, "total_ms": 5000, "stall_ms": 400}


@pytest.fixture
def start_probe(wmtp):
    with probes(wmtp) as start:
        yield start


@pytest.fixture
def probe(start_probe):
    return start_probe()


def pattern(size):
    return (PATTERN * (size // 16 + 1))[:size]


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def serve(action, **rule):
    """One rule for what is below /faulty; everything else is answered by an echo."""
    return FaultyServer(rules=[{"name": "fault", "path": "/faulty", "action": action, **rule}],
                        default={"handler": "echo"})


def test_a_healthy_server_gets_what_was_asked_and_nothing_else(probe):
    with serve({}) as server:
        target = "/a/../b%20c//d;e?x=&y=%2F&a"
        got = probe.ask(server.url + target, method="PUT", headers=[["X-Mine", "kept as is"], ["X-Empty", ""]], body="body")
        assert got.status == 200 and got.headers["content-type"] == "application/json"
        request = server.requests[0]
        assert (request.method, request.target, bytes(request.body)) == ("PUT", target, b"body")
        headers = dict(request.headers)
        assert headers.pop("User-Agent").startswith("wmtp/0.")
        assert headers == {"Host": f"127.0.0.1:{server.ports['plain']}", "Accept": "*/*", "X-Mine": "kept as is", "X-Empty": "",
                           "Content-Length": "4"}
        for method, length in (("GET", None), ("HEAD", None), ("DELETE", None), ("POST", "0"), ("PUT", "0")):
            assert probe.ask(server.url + "/x", method=method).status == 200
            assert (server.requests[-1].method, server.requests[-1].header("Content-Length")) == (method, length)
        assert {one.connection for one in server.requests} == {1}, "connections are kept"


def test_large_bodies_go_out_and_come_in(probe):
    size = 3_000_001
    with serve({"body_bytes": size}) as server:
        got = probe.ask(server.url + "/x", method="PUT", source={"bytes": size})
        assert got.status == 200 and server.requests[0].body_sha256() == sha256(pattern(size))
        assert server.requests[0].header("Content-Length") == str(size) and "Expect" not in dict(server.requests[0].headers)
        got = probe.ask(server.url + "/faulty", sink=True)
        assert got.sink == {"begins": 1, "bytes": size, "sha256": sha256(pattern(size))} and got.body == ""


@pytest.mark.serial
def test_interim_answers_and_slow_bodies_are_no_fault(probe):
    with serve({"interim": [102, {"status": 103, "headers": {"Link": "x"}}], "body_bytes": 40, "framing": "chunked",
                "pace": {"bytes": 10, "delay_s": 0.15}}) as server:
        got = probe.ask(server.url + "/faulty", options={**SOON, "stall_ms": 1000})
        assert got.status == 200 and got.body.encode() == pattern(40) and "link" not in got.headers


SLOW = {"bytes": 1, "delay_s": 0.1}
FAULTS = {
    "head too slow": ({"head_pace": SLOW}, "timeout", "not over after|not a byte"),
    "answer too late": ({"delay_s": 9}, "timeout", "not a byte came or went for"),
    "body too slow": ({"body_bytes": 100, "pace": SLOW}, "timeout", "not over after|not a byte"),
    "body stalls": ({"body_bytes": 100, "cut": {"at": "body:10", "how": "stall"}}, "timeout", "not a byte"),
    "accept stalls": ({"cut": {"at": "request_head", "how": "stall"}}, "timeout", "not a byte"),
    "upload stalls": ({"cut": {"at": "request_body:1000", "how": "stall"}}, "timeout", "not a byte"),
    "cut before the answer": ({"cut": {"at": "answer"}}, "reset", "without an answer"),
    "reset before the answer": ({"cut": {"at": "answer", "how": "reset"}}, "reset", "Connection reset|without an answer"),
    "cut in the head": ({"cut": {"at": "head:20"}}, "reset", "inside the answer's head"),
    "cut in the body": ({"body_bytes": 100, "cut": {"at": "body:10"}}, "reset", "inside the answer's body"),
    "reset in the body": ({"body_bytes": 100, "cut": {"at": "body:10", "how": "reset"}}, "reset", "GET|PUT"),
    "reset in the upload": ({"cut": {"at": "request_body:1000", "how": "reset"}}, "reset", "PUT"),
    "length too long": ({"body_bytes": 100, "content_length": "+5"}, "reset", "inside the answer's body"),
    "chunk too short": ({"body_bytes": 100, "framing": "chunk_short"}, "reset", "inside the answer's body"),
    "no last chunk": ({"body_bytes": 100, "framing": "chunk_no_end"}, "reset", "inside the answer's body"),
    "size of a chunk": ({"body_bytes": 100, "framing": "chunk_bad_size"}, "malformed", "chunks"),
    "huge size of a chunk": ({"body_bytes": 100, "framing": "chunk_huge_size"}, "malformed", "chunks"),
    "no HTTP": ({"raw": "SSH-2.0-OpenSSH_9.2\r\n"}, "malformed", "no answer of HTTP/1.1"),
    "status": ({"raw": "HTTP/1.1 2xx OK\r\n\r\n"}, "malformed", "answer"),
    "header": ({"raw": "HTTP/1.1 200 OK\r\nA B: c\r\nContent-Length: 0\r\n\r\n"}, "malformed", "header line without a name"),
    "long header": ({"header_bytes": 90_000}, "too_large", "a head of more than 65536 bytes"),
    "longer header": ({"header_bytes": 200_000}, "too_large", "100 kB"),
    "many headers": ({"header_count": 1001}, "too_large", "a head of more than 65536 bytes or 1000 lines"),
    "large body": ({"body_bytes": 2001}, "too_large", "a body of more than 2000 bytes"),
    "large chunks": ({"body_bytes": 2001, "framing": "chunked"}, "too_large", "a body of more than 2000 bytes"),
}
CODES = {"timeout": 75, "reset": 75, "connect": 75, "cancelled": 75, "malformed": 65, "too_large": 65, "tls": 78}


def matches(text, parts):
    return any(part in text for part in parts.split("|"))


def marked(name):
    """Limits short enough for a test may pass on a busy machine, so nothing runs beside those."""
    return pytest.param(name, marks=pytest.mark.serial) if FAULTS[name][1] == "timeout" else name


@pytest.mark.parametrize("name", [marked(name) for name in FAULTS])
def test_each_fault_has_its_kind_and_leaves_the_client_usable(probe, name):
    action, kind, parts = FAULTS[name]
    with serve(action) as server:
        upload = {"method": "PUT", "source": {"bytes": 30_000_000}} if "upload" in name else {}
        options = {**SOON, "total_ms": 900} if kind == "timeout" else {}
        got = probe.ask(server.url + "/faulty", max_body_bytes=2000, options=options, **upload)
        assert (got.failure, got.code) == (kind, CODES[kind]), got
        assert matches(got.text, parts) and f"{server.url}/faulty" in got.text, got.text
        assert got.seconds < (3 if kind == "timeout" else 20) and server.acted == {"fault": 1}
        assert probe.ask(server.url + "/good").status == 200


@pytest.mark.serial
def test_without_its_fault_the_same_request_succeeds(probe):
    with serve({"body_bytes": 2000}) as server:
        got = probe.ask(server.url + "/faulty", max_body_bytes=2000, options={**SOON, "total_ms": 900})
        assert got.status == 200 and got.body.encode() == pattern(2000)


def test_a_connection_that_ends_at_once_is_a_reset(probe):
    for how in ("close", "reset"):
        with FaultyServer(rules=[{"action": {"cut": {"at": "accept", "how": how}}}]) as server:
            assert probe.ask(server.url).failure == "reset"


def test_nobody_there_is_a_failure_to_connect(probe):
    with serve({}) as server:
        assert probe.ask(server.url).status == 200
        server.down()
        got = probe.ask(server.url)
        assert got.failure == "connect" and "cannot connect: Connection refused" in got.text
        server.up()
        assert probe.ask(server.url).status == 200
    got = probe.ask("http://no-such-host.invalid/x")
    assert got.failure == "connect" and "no address for the host no-such-host.invalid" in got.text


def test_redirects_are_answers(probe):
    with serve({"redirect": "${url}/good", "body": "see there"}) as server:
        got = probe.ask(server.url + "/faulty")
        assert (got.status, got.headers["location"], got.body) == (307, server.url + "/good", "see there")
        assert len(server.requests) == 1


def test_an_early_refusal_is_heard(probe):
    with serve({"status": 413, "body": "too much", "read": "none"}) as server:
        got = probe.ask(server.url + "/faulty", method="PUT", source={"bytes": 20_000_000})
        assert (got.status, got.body) == (413, "too much")


def test_bodies_of_errors_do_not_go_to_the_sink(probe):
    with serve({"status": 404, "body": "no such key"}) as server:
        got = probe.ask(server.url + "/faulty", sink=True)
        assert (got.status, got.body, got.sink["begins"]) == (404, "no such key", 0)


def test_a_body_that_ends_early_is_an_error_of_this_side(probe):
    with serve({}) as server:
        got = probe.ask(server.url, method="PUT", source={"bytes": 1000, "ends_at": 600})
        assert got.code == 74 and "ends after 600 of 1000 bytes" in got.text
        assert probe.ask(server.url).status == 200


def test_a_dead_kept_connection_is_replaced(probe):
    with serve({"cut": {"at": "end", "how": "reset"}}) as server:
        assert probe.ask(server.url + "/faulty").status == 200
        got = probe.ask(server.url + "/good", method="PUT", source={"bytes": 100_000})
        assert got.status == 200 and server.requests[-1].body_sha256() == sha256(pattern(100_000))
        assert server.requests[-1].connection == 2


def test_ranges_are_checked(probe, tmp_path):
    (tmp_path / "file").write_bytes(pattern(1000))
    rules = [{"path": "/ignored", "action": {"body_bytes": 1000}},
             {"path": "/other", "action": {"status": 206, "body_bytes": 10, "headers": {"Content-Range": "bytes 0-9/1000"}}},
             {"path": "/silent", "action": {"status": 206, "body_bytes": 10}},
             {"path": "/less", "action": {"status": 206, "body_bytes": 9, "framing": "close", "headers": {"Content-Range": "bytes 5-14/1000"}}},
             {"path": "/more", "action": {"status": 206, "body_bytes": 11, "framing": "close", "headers": {"Content-Range": "bytes 5-14/1000"}}}]
    with FaultyServer(rules=rules, default={"handler": "files"},
                      handlers={"files": {"type": "files", "root": str(tmp_path)}}) as server:
        got = probe.ask(server.url + "/file", range=[5, 10])
        assert (got.status, got.body.encode()) == (206, pattern(1000)[5:15])
        assert probe.ask(server.url + "/file", range=[0, 1000], sink=True).sink["sha256"] == sha256(pattern(1000))
        assert probe.ask(server.url + "/file", range=[2000, 10]).status == 416
        for path, text in (("/ignored", "the status 200"), ("/other", "bytes 0 to 9 where 5 to 14"), ("/silent", "Content-Range"),
                           ("/less", "9 of the 10 bytes"), ("/more", "more than the 10 bytes"), ("/file", "bytes 995 to 999")):
            got = probe.ask(server.url + path, range=[995 if path == "/file" else 5, 10], sink=True)
            assert got.failure == "malformed" and text in got.text, got


@pytest.mark.serial
def test_cancellation_is_heard_within_a_fifth_of_a_second(probe):
    with serve({"delay_s": 9}) as server:
        for job in ({}, {"method": "PUT", "source": {"bytes": 50_000_000}}):
            server.set_script({"rules": [{"action": {"cut": {"at": "request_body:1000" if job else "answer", "how": "stall"}}}]})
            got = probe.ask(server.url, cancel_after_ms=300, **job)
            assert got.failure == "cancelled" and 0.3 <= got.seconds < 0.5 + 0.3, got  # 0.3 s for a busy machine
        server.set_script({"default": {"status": 503, "retry_after": 30}})
        got = probe.ask(server.url, cancel_after_ms=300, retry={})
        assert got.failure == "cancelled" and got.seconds < 0.8 and "cancelled after 1 tries" in got.text
        server.set_script({"default": {"handler": "echo"}})
        assert probe.ask(server.url).status == 200


ONCE = {
    "500": {"status": 500, "body": "first"}, "503": {"status": 503, "retry_after": 0}, "429": {"status": 429},
    "cut": {"body_bytes": 5000, "cut": {"at": "body:4000"}}, "reset": {"cut": {"at": "answer", "how": "reset"}},
    "stall": {"body_bytes": 5000, "cut": {"at": "body:4000", "how": "stall"}}, "length": {"body_bytes": 90, "content_length": "+9"},
    "upload": {"cut": {"at": "request_body:1000", "how": "reset"}},
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.serial] * (name == "stall")) for name in ONCE])
def test_what_fails_once_succeeds_with_retries(probe, name):
    with FaultyServer(rules=[{"name": "once", "nth": 1, "action": ONCE[name]}], default={"body_bytes": 5000}) as server:
        upload = {"method": "PUT", "source": {"bytes": 2_000_000}} if name == "upload" else {}
        got = probe.ask(server.url, sink=True, retry={}, options={"stall_ms": 600} if name == "stall" else {}, **upload)
        assert got.status == 200 and server.acted == {"once": 1} and len(server.requests) == 2
        assert got.sink["sha256"] == sha256(pattern(5000)), "the second try begins anew"
        assert not upload or (got.rewinds == 2 and server.requests[1].body_sha256() == sha256(pattern(2_000_000)))
        alone = FaultyServer(rules=[{"action": ONCE[name]}])
        with alone:  # the control: without retries the fault is seen
            assert probe.ask(alone.url, **upload).status != 200


def test_retries_end(probe):
    with serve({"status": 503, "body": "busy"}) as server:
        got = probe.ask(server.url + "/faulty", retry={"max_tries": 4})
        assert (got.status, got.body, server.acted) == (503, "busy", {"fault": 4})
    with serve({"status": 404}) as server:
        assert probe.ask(server.url + "/faulty", retry={}).status == 404 and server.acted == {"fault": 1}
    with serve({"cut": {"at": "answer"}}) as server:
        got = probe.ask(server.url + "/faulty", retry={"max_tries": 3})
        assert got.failure == "reset" and "(3 tries in" in got.text and server.acted["fault"] >= 3


@pytest.mark.serial
@pytest.mark.parametrize("wish, least_s", [(1, 1), ("date:2", 1)])
def test_retry_after_is_honoured(probe, wish, least_s):
    with serve({"status": 503, "retry_after": wish}, nth=1) as server:
        got = probe.ask(server.url + "/faulty", retry={})
        assert got.status == 200 and least_s <= got.seconds < least_s + 4
        first, second = server.requests
        assert second.monotonic - first.finished >= least_s - 0.05


def test_threads_with_a_client_each_keep_a_connection_each(probe):
    with serve({}) as server:
        replies = probe.ask(server.url, threads=4).threads
        assert [one["status"] for replies_of_one in replies for one in replies_of_one] == [200] * 20
        assert {one.connection for one in server.requests} == {1, 2, 3, 4}


def test_proxies_are_those_of_the_environment(start_probe):
    with serve({}) as server, FaultyServer(default={"body": "proxied"}, rules=[{"method": "CONNECT", "action": {"status": 407}}]) as way:
        probe = start_probe({"http_proxy": way.url, "https_proxy": way.url, "no_proxy": "localhost"})
        assert probe.ask(server.url + "/x").body == "proxied"
        assert way.requests[0].target == server.url + "/x"
        assert probe.ask(f"http://localhost:{server.ports['plain']}/x").status == 200 and len(way.requests) == 1
        got = probe.ask("https://elsewhere.example/", options={"verify_tls": False})
        assert got.failure == "connect" and "the proxy answered CONNECT with 407" in got.text


CANARIES = {"header": "canaryhdr1", "token": "canarytok2", "query": "canaryqry3", "user": "canaryusr4", "password": "canarypwd5"}


def test_no_secret_is_ever_written(start_probe):
    """Every way to fail, with secrets in all places where a request has them."""
    broken = [action for action, _, _ in FAULTS.values()] + [{"status": 503, "retry_after": 0}]
    rules = [{"path": f"^/{at}$", "action": action} for at, action in enumerate(broken)]
    probe = start_probe()
    with FaultyServer(rules=rules, default={"body": "fine"}) as server:
        secrets = [["Authorization", f"Bearer {CANARIES['header']}"], ["X-Amz-Security-Token", CANARIES["token"]]]
        query = f"?X-Amz-Signature={CANARIES['query']}"
        for at in range(len(broken) + 1):
            got = probe.ask(f"{server.url}/{at}{query}", headers=secrets, max_body_bytes=2000, retry={"max_tries": 2},
                            options={"stall_ms": 80, "total_ms": 200})
            assert got.failure or got.status
            assert server.requests[-1].header("Authorization") == f"Bearer {CANARIES['header']}", "it was sent"
            assert CANARIES["query"] in server.requests[-1].query
        known = f"{CANARIES['user']}:{CANARIES['password']}@"
        for url in (server.url.replace("//", f"//{known}"), f"https://{known}127.0.0.1:1/", f"https://{known}host:99999/",
                    f"http://{known}ho st/{query}", f"http://127.0.0.1:1/{query}", f"http://no-such-host.invalid/{query}",
                    f"{server.url}/{query}\n", f"{server.url}/{query}%"):
            got = probe.ask(url, headers=secrets if "invalid" not in url else [])
            assert got.text, url
        got = probe.ask("http://192.0.2.1/", headers=secrets)
        assert got.code == 78 and "credentials (Authorization)" in got.text
        got = probe.ask(server.url, headers=[["Authorization", CANARIES["header"] + "\r\n"]])
        assert got.code == 78 and "control character" in got.text
    written = probe.close()
    assert "tries in" in written or "follows in" in written, "the log is on"
    for place, secret in CANARIES.items():
        assert secret not in written, place
