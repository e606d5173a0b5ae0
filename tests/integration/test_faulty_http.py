"""The HTTP server that fails on request (tests/support/servers/faulty_http): each fault, seen by a plain client."""
import base64
import calendar
import email.utils
import gzip
import hashlib
import http.client
import json
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import warnings
import xml.etree.ElementTree as ElementTree
import zlib
from pathlib import Path

import pytest

SERVERS = Path(__file__).resolve().parents[1] / "support/servers"
sys.path.insert(0, str(SERVERS))

from faulty_http import (TLS_KINDS, ContainerCredentials, FaultyServer, InstanceMetadata, Proxy,  # noqa: E402
                         ScriptError, StaticFiles, WebIdentity)

TIMEOUT_S = 20  # only a test that fails waits so long


def serve(action, **rule):
    """A server with one rule, which takes every request unless `rule` says otherwise."""
    return FaultyServer(rules=[{"action": action, **rule}], default={"body": "default"})


def ask(server, method="GET", target="/", body=None, headers=None, port=None):
    """One request on a connection of its own: the response, its body read."""
    client = http.client.HTTPConnection("127.0.0.1", port or server.ports["plain"], timeout=TIMEOUT_S)
    client.request(method, target, body, headers or {})
    response = client.getresponse()
    response.content = response.read()
    client.close()
    return response


def talk(server, data=b"GET / HTTP/1.1\r\nHost: test\r\n\r\n", port=None):
    """All bytes that come back until the server ends the connection."""
    with socket.create_connection(("127.0.0.1", port or server.ports["plain"]), TIMEOUT_S) as sock:
        sock.sendall(data)
        seen = b""
        while more := sock.recv(65536):
            seen += more
        return seen


def test_answers_headers_and_templates():
    action = {"status": 418, "reason": "Teapot", "headers": [["X-Two", "a"], ["X-Two", "b"], ["Date", None]],
              "body": "${method} ${path} ${query} ${g1} ${key} ${n} ${header_x_mine} ${url} ${nothing}"}
    with serve(action, path="^/(b[a-z]+)/(?P<key>.*)$") as server:
        got = ask(server, "POST", "/bucket/a/b?x=1&y", b"", {"X-Mine": "mine"})
        assert (got.status, got.reason) == (418, "Teapot")
        assert got.content.decode() == f"POST /bucket/a/b x=1&y bucket a/b 1 mine {server.url} ${{nothing}}"
        assert got.headers.get_all("X-Two") == ["a", "b"] and "Date" not in got.headers
        assert ask(server, target="/other").content == b"default"
    with serve({"json": {"a": [1]}}) as server:
        got = ask(server)
        assert got.headers["Content-Type"] == "application/json" and json.loads(got.content) == {"a": [1]}
    with serve({"body_base64": "AP8="}) as server:
        assert ask(server).content == b"\x00\xff"
    with serve({"body_bytes": 100000}) as server:
        assert ask(server).content == b"0123456789abcdef" * 6250
    with serve({"json": {}, "headers": {"Content-Type": "text/html"}}) as server:
        assert ask(server).headers["Content-Type"] == "text/html"
    with FaultyServer() as server:
        got = ask(server, target="/x")
        assert got.status == 404 and got.content == b"no rule for GET /x\n"


def test_matching_counts_and_order():
    rules = [{"name": "put twice", "method": "PUT|POST", "path": "^/b", "nth": "1-2", "action": {"status": 503}},
             {"name": "parts", "query": "partNumber=", "nth": "2,4+", "action": {"status": 500}},
             {"name": "range", "header": {"Range": "^bytes="}, "action": {"status": 206}},
             {"name": "first tries", "path": "^/t", "count_by": "target", "nth": 1, "action": {"status": 429}},
             {"name": "nameless", "header": {"User-Agent": None}, "path": "^/u", "action": {"status": 400}}]
    with FaultyServer(rules=rules, default={"status": 200}) as server:
        def statuses(method, *targets, headers=None):
            return [ask(server, method, target, headers=headers).status for target in targets]
        assert statuses("GET", "/b") == [200]  # another method does not count
        assert statuses("PUT", "/b", "/a", "/b", "/b") == [503, 200, 503, 200]
        assert statuses("GET", *["/p?partNumber=1"] * 5) == [200, 500, 200, 500, 500]
        assert statuses("GET", "/r", headers={"Range": "bytes=0-"}) == [206]
        assert statuses("GET", "/t1", "/t2", "/t1", "/t2") == [429, 429, 200, 200]
        assert statuses("GET", "/u") == [400] and statuses("GET", "/u", headers={"User-Agent": "a"}) == [200]
        assert server.acted == {"put twice": 2, "parts": 3, "range": 1, "first tries": 2, "nameless": 1}
        assert [one.rule for one in server.requests[:3]] == [None, "put twice", None]


@pytest.mark.parametrize("script", [
    {"rulez": []}, {"rules": [{"acton": {}}]}, {"rules": [{"action": {"stattus": 200}}]}, {"rules": [{}]},
    {"rules": [{"action": {}, "nth": "2-"}]}, {"rules": [{"action": {}, "path": "("}]},
    {"rules": [{"action": {"handler": "nobody"}}]}, {"rules": [{"action": {}, "listener": "nobody"}]},
    {"rules": [{"action": {"cut": {"at": "body"}}}]}, {"rules": [{"action": {"cut": {"at": "end", "how": "bang"}}}]},
    {"rules": [{"action": {"cut": {"at": "accept"}}, "path": "x"}]}, {"rules": [{"action": {"framing": "odd"}}]},
    {"rules": [{"action": {"body": "a", "json": 1}}]}, {"handlers": {"x": {"type": "y"}}},
    {"handlers": {"files": {}}}, {"rules": [{"action": {"pace": {"bytes": 0, "delay_s": 1}}}]},
])
def test_a_script_with_a_mistake_is_refused(script):
    with pytest.raises(ScriptError):
        FaultyServer(script=script)


def test_random_failures_are_the_same_in_every_run():
    def run(seed):
        rules = [{"rate": 0.2, "action": {"status": 500}}]
        with FaultyServer(rules=rules, default={"status": 200}, seed=seed) as server:
            client = http.client.HTTPConnection("127.0.0.1", server.ports["plain"], timeout=TIMEOUT_S)
            statuses = []
            for _ in range(200):
                client.request("GET", "/")
                response = client.getresponse()
                response.read()
                statuses.append(response.status)
            client.close()
            return statuses
    first = run(1)
    assert first == run(1) != run(2)
    assert 20 <= first.count(500) <= 60  # 40 expected; 3.5 standard deviations to either side


def test_everything_is_recorded():
    body = bytes(range(256)) * 300
    with serve({}) as server:
        before = time.time()
        client = http.client.HTTPConnection("127.0.0.1", server.ports["plain"], timeout=TIMEOUT_S)
        for target in ("/one?a=%20", "/two"):
            client.request("PUT", target, body, {"X-Case": "Kept As Is"})
            client.getresponse().read()
        client.request("POST", "/chunked", iter([b"abc", b"defg"]), {"Transfer-Encoding": "chunked"},
                       encode_chunked=True)
        client.getresponse().read()
        ask(server, target="/three")
        one, two, chunked, three = server.requests
        assert (one.method, one.target, bytes(one.body), one.version) == ("PUT", "/one?a=%20", body, "HTTP/1.1")
        assert ("X-Case", "Kept As Is") in one.headers and before <= one.time <= two.time <= time.time()
        assert bytes(chunked.body) == b"abcdefg" and chunked.body_complete
        assert [request.connection for request in server.requests] == [1, 1, 1, 2]
        assert [request.on_connection for request in server.requests] == [1, 2, 3, 1]
        assert one.outcome == three.outcome == "answered 200"
        assert one.to_json()["body_sha256"] == hashlib.sha256(body).hexdigest()
        client.close()
    with FaultyServer(default={}, keep_body_bytes=10) as server:
        ask(server, "PUT", "/", body)
        [request] = server.wait_for(lambda server: [one for one in server.requests if one.finished])
        assert request.body == body[:10] and request.body_length() == len(body)
        assert request.body_sha256() == hashlib.sha256(body).hexdigest()


@pytest.mark.parametrize("data", [
    b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nno colon\r\n\r\n", b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    b"PUT / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc", b"GET /a b HTTP/1.1\r\n\r\n"])
def test_a_malformed_request_is_told_and_recorded(data):
    with serve({}) as server:
        assert talk(server, data).startswith(b"HTTP/1.1 400 ")
        assert server.requests[0].outcome.startswith("malformed") and server.acted == {"rule 1": 0}


def test_delays():
    with serve({"delay_s": 0.2}) as server:
        begin = time.monotonic()
        assert ask(server).status == 200 and time.monotonic() - begin >= 0.2
    with serve({"delay_s": 60}) as server:  # the end of the server does not wait for it, nor for a client that left
        with pytest.raises(TimeoutError):
            client = http.client.HTTPConnection("127.0.0.1", server.ports["plain"], timeout=0.1)
            client.request("GET", "/")
            client.getresponse()
        client.close()
        assert server.wait_for(lambda server: server.requests[0].outcome.startswith("client gone"))


@pytest.mark.parametrize("key", ["pace", "head_pace"])
def test_bytes_come_one_by_one(key):
    with serve({"body": "abcd", key: {"bytes": 1 if key == "pace" else 30, "delay_s": 0.08}}) as server:
        begin = time.monotonic()
        with socket.create_connection(("127.0.0.1", server.ports["plain"]), TIMEOUT_S) as sock:
            sock.sendall(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")
            pieces = []
            while more := sock.recv(65536):
                pieces.append(more)
        assert time.monotonic() - begin >= 4 * 0.08 and len(pieces) >= 2  # a busy machine joins some of them
        assert b"".join(pieces).endswith(b"\r\n\r\nabcd")


CUTS = [("request_head", b""), ("request_body:3", b""), ("request", b""), ("answer", b""), ("head:12", b"HTTP/1.1 200"),
        ("body:0", b"\r\n\r\n"), ("body:5", b"\r\n\r\nhello")]


@pytest.mark.parametrize("at, last", CUTS)
def test_cut_by_closing(at, last):
    with serve({"handler": "echo", "body": "hello world", "cut": {"at": at, "how": "close"}}) as server:
        seen = talk(server, b"PUT / HTTP/1.1\r\nContent-Length: 6\r\n\r\nabc" + (b"" if "body:3" in at else b"def"))
        assert seen.endswith(last) and bool(seen) == bool(last)
        if at.startswith("body"):
            assert b"Content-Length: 11\r\n" in seen
        assert server.requests[0].outcome == f"cut {at} close"
        assert server.requests[0].body_complete == (not at.startswith("request_"))


@pytest.mark.parametrize("at", ["accept", "request", "answer", "body:5", "end"])
def test_cut_by_a_reset(at):
    with serve({"body": "hello world", "cut": {"at": at, "how": "reset", "after_s": 0.05}}) as server:
        with pytest.raises(ConnectionResetError):
            talk(server)
        assert server.acted == {"rule 1": 1} and len(server.requests) == (at != "accept")


@pytest.mark.parametrize("at, size", [("accept", 0), ("request", 0), ("head:9", 9), ("body:5", None)])
def test_stall(at, size):
    with serve({"body": "hello world", "cut": {"at": at, "how": "stall"}}) as server:
        with socket.create_connection(("127.0.0.1", server.ports["plain"]), TIMEOUT_S) as sock:
            sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
            seen = b""
            while not seen.endswith(b"hello") if size is None else len(seen) < size:
                more = sock.recv(65536)
                assert more, "closed instead of stalled"
                seen += more
            assert size is None or len(seen) == size
            sock.settimeout(0.1)
            with pytest.raises(TimeoutError):
                sock.recv(1)
    with serve({"cut": {"at": "answer", "how": "stall", "for_s": 0.1}}) as server:
        begin = time.monotonic()
        assert talk(server) == b"" and time.monotonic() - begin >= 0.1


def test_keep_alive_that_is_closed_between_requests():
    request = b"GET / HTTP/1.1\r\nHost: test\r\n\r\n"
    with serve({"body": "whole", "cut": {"at": "end"}}) as server:
        seen = talk(server)
        assert seen.endswith(b"\r\n\r\nwhole") and b"onnection: close" not in seen
    # The same, but the server dies when the second request is on its way.
    with serve({"cut": {"at": "request_head"}}, on_connection="2+") as server:
        assert talk(server, request + request).endswith(b"default")
        assert ask(server).content == b"default"
        assert [one.outcome for one in server.requests] == ["answered 200", "cut request_head close", "answered 200"]
    with serve({"cut": {"at": "accept"}}, connection="2") as server:
        assert ask(server).status == 200
        with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
            ask(server)
        assert ask(server).status == 200


def test_lengths_that_lie():
    with serve({"body": "hello", "content_length": "+5"}) as server:
        with pytest.raises(http.client.IncompleteRead) as error:
            ask(server)
        assert error.value.partial == b"hello" and error.value.expected == 5
    with serve({"body": "hello", "content_length": "-2"}) as server:
        assert ask(server).content == b"hel" and talk(server).endswith(b"hello")
    with serve({"body": "hello", "content_length": 99999999999999999999}) as server:
        assert b"Content-Length: 99999999999999999999\r\n" in talk(server)
    with serve({"body": "hello", "framing": "close"}) as server:
        got = ask(server)
        assert got.content == b"hello" and "Content-Length" not in got.headers


@pytest.mark.parametrize("framing, end", [
    ("chunked", b"\r\n\r\n5\r\nhello\r\n5\r\nworld\r\n0\r\n\r\n"), ("chunk_bad_size", b"zz\r\nworld\r\n0\r\n\r\n"),
    ("chunk_huge_size", b"\r\n" + b"f" * 17 + b"\r\nworld\r\n0\r\n\r\n"), ("chunk_short", b"hello\r\nf\r\nworld"),
    ("chunk_no_end", b"5\r\nworld\r\n")])
def test_chunks(framing, end):
    close = b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n"
    with serve({"body": "helloworld", "framing": framing}) as server:
        assert talk(server, close).endswith(end)
        if framing == "chunked":
            assert ask(server).content == b"helloworld"
        else:
            with pytest.raises((http.client.HTTPException, OverflowError)):
                ask(server)


def test_codings():
    text = "compressible " * 200
    with serve({"body": text, "coding": "gzip"}) as server:
        got = ask(server)
        assert got.headers["Content-Encoding"] == "gzip" and gzip.decompress(got.content).decode() == text
    with serve({"body": text, "coding": "gzip_truncated"}) as server, pytest.raises(EOFError):
        gzip.decompress(ask(server).content)
    with serve({"body": text, "coding": "gzip_damaged"}) as server, pytest.raises((zlib.error, gzip.BadGzipFile)):
        gzip.decompress(ask(server).content)


def test_no_http_at_all():
    with serve({"raw": "SSH-2.0-nothing\r\n"}) as server:
        assert talk(server) == b"SSH-2.0-nothing\r\n"
        with pytest.raises(http.client.BadStatusLine):
            ask(server)
    with serve({"raw_base64": base64.b64encode(bytes(range(256))).decode()}) as server:
        assert talk(server) == bytes(range(256))


def test_headers_without_measure():
    with serve({"header_bytes": 300000}) as server:
        assert b"X-Filler: " + b"x" * 300000 + b"\r\n" in talk(server, b"GET / HTTP/1.0\r\n\r\n")
        with pytest.raises(http.client.LineTooLong):
            ask(server)
    with serve({"header_count": 5000}) as server, pytest.raises(http.client.HTTPException, match="headers"):
        ask(server)


def test_interim_responses():
    with serve({"body": "done", "interim": [100, 102, {"status": 103, "headers": {"Link": "</x>"}}]}) as server:
        seen = talk(server, b"GET / HTTP/1.0\r\n\r\n")
        assert [line.split()[1] for line in seen.split(b"\r\n") if line.startswith(b"HTTP/")] == [
            b"100", b"102", b"103", b"200"]
        assert b"Link: </x>\r\n\r\nHTTP/1.1 200" in seen


def test_redirects():
    with serve({"redirect": "self"}) as server:
        got = ask(server, target="/a?b=1")
        assert (got.status, got.headers["Location"]) == (307, f"{server.url}/a?b=1")
        with pytest.raises(urllib.error.HTTPError, match="infinite loop"):
            urllib.request.urlopen(server.url, timeout=TIMEOUT_S)
    with serve({"redirect": "longer", "status": 302}) as server:
        places = [ask(server, target=target).headers["Location"] for target in ("/a", "/a/1")]
        assert places == [f"{server.url}/a/1", f"{server.url}/a/1/2"]
    rules = [{"listener": "plain", "action": {"redirect": "${url_other}${target}"}}]
    with FaultyServer(rules=rules, default={"body": "there"}, listeners={"plain": "plain", "other": "plain"}) as server:
        assert urllib.request.urlopen(f"{server.url}/x", timeout=TIMEOUT_S).read() == b"there"
        assert [(one.listener, one.target) for one in server.requests] == [("plain", "/x"), ("other", "/x")]


def test_retry_after_and_a_skewed_clock():
    with serve({"status": 429, "retry_after": 3}) as server:
        assert ask(server).headers["Retry-After"] == "3"
    with serve({"status": 503, "retry_after": "date:60"}) as server:
        then = email.utils.parsedate_to_datetime(ask(server).headers["Retry-After"]).timestamp()
        assert 55 < then - time.time() <= 60
    with serve({"date_skew_s": -86400}) as server:
        then = email.utils.parsedate_to_datetime(ask(server).headers["Date"]).timestamp()
        assert -86410 < then - time.time() < -86390


EXPECTING = b"PUT / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 5\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize("action, before, delay_s", [
    ({}, b"HTTP/1.1 100 Continue\r\n\r\n", 0), ({"continue_delay_s": 0.2}, b"HTTP/1.1 100 Continue\r\n\r\n", 0.2),
    ({"expect": "ignore"}, None, 0), ({"read": "none", "status": 417}, b"HTTP/1.1 417 Expectation Failed\r\n", 0)])
def test_100_continue(action, before, delay_s):
    with serve(action) as server:
        with socket.create_connection(("127.0.0.1", server.ports["plain"]), TIMEOUT_S) as sock:
            begin = time.monotonic()
            sock.sendall(EXPECTING)
            if before is None:
                sock.settimeout(0.1)
                with pytest.raises(TimeoutError):
                    sock.recv(65536)
                sock.settimeout(TIMEOUT_S)
            else:
                assert sock.recv(65536).startswith(before) and time.monotonic() - begin >= delay_s
            if "read" not in action:
                sock.sendall(b"hello")
                assert sock.recv(65536).startswith(b"HTTP/1.1 200 OK")
        [request] = server.requests
        assert bytes(request.body) == (b"" if "read" in action else b"hello")
        assert request.continued == (before == b"HTTP/1.1 100 Continue\r\n\r\n")


def test_a_body_is_refused_while_it_is_sent():
    with serve({"read": "none", "status": 403, "body": "no"}) as server:
        got = ask(server, "PUT", "/", b"x" * 200000)  # as much as the buffers of the kernel take
        assert got.status == 403 and got.content == b"no" and got.headers["Connection"] == "close"
        assert not server.requests[0].body_complete


def test_a_body_is_read_slowly():
    rules = [{"action": {"read_pace": {"bytes": 50000, "delay_s": 0.05}}}]
    with FaultyServer(rules=rules) as server:
        begin = time.monotonic()
        ask(server, "PUT", "/", b"x" * 200000)
        assert time.monotonic() - begin >= 0.2 and server.requests[0].body_length() == 200000
    # A reader that stands still presses back: far less leaves the client than it has.
    with FaultyServer(rules=[{"action": {"cut": {"at": "request_body:10", "how": "stall"}}}],
                      receive_buffer_bytes=4096) as server:
        with socket.create_connection(("127.0.0.1", server.ports["plain"]), TIMEOUT_S) as sock:
            sock.sendall(b"PUT / HTTP/1.1\r\nContent-Length: 30000000\r\n\r\n")
            sock.settimeout(0.2)
            with pytest.raises(TimeoutError):
                sock.sendall(b"x" * 30000000)


def test_echo_and_a_handler_that_breaks():
    with FaultyServer(default={"handler": "echo"}) as server:
        seen = json.loads(ask(server, "PUT", "/a?b", b"\x00\x01", {"X-Mine": "1"}).content)
        assert (seen["method"], seen["target"], seen["body_base64"]) == ("PUT", "/a?b", "AAE=")
        assert ["X-Mine", "1"] in seen["headers"]
    with pytest.raises(RuntimeError, match="division"):
        with FaultyServer(default={"handler": "mine"}, handlers={"mine": lambda request: 1 // 0}) as server:
            assert ask(server).status == 599


def test_static_files(tmp_path):
    (tmp_path / "root").mkdir()
    (tmp_path / "root/a b.bin").write_bytes(bytes(range(100)))
    (tmp_path / "secret").write_text("outside")
    with FaultyServer(default={"handler": "files"}, handlers={"files": StaticFiles(tmp_path / "root", "/b")}) as server:
        def get(**headers):
            got = ask(server, target="/b/a%20b.bin", headers=headers)
            return got.status, got.content, got.headers["Content-Range"]
        whole = bytes(range(100))
        assert get() == (200, whole, None)
        assert get(Range="bytes=10-19") == (206, whole[10:20], "bytes 10-19/100")
        assert get(Range="bytes=90-") == (206, whole[90:], "bytes 90-99/100")
        assert get(Range="bytes=-5") == (206, whole[95:], "bytes 95-99/100")
        assert get(Range="bytes=98-200") == (206, whole[98:], "bytes 98-99/100")
        assert get(Range="bytes=100-") == (416, b"", "bytes */100")
        assert get(Range="bytes=0-1,5-6") == (200, whole, None)
        head = ask(server, "HEAD", "/b/a%20b.bin")
        assert head.headers["Content-Length"] == "100" and head.content == b"" and head.headers["ETag"]
        assert ask(server, target="/b/../secret").status == ask(server, target="/b/%2e%2e/secret").status == 404
        assert ask(server, "PUT", "/b/a%20b.bin", b"").status == 405


def test_proxy_fails_before_and_after_the_upstream_has_acted(tmp_path):
    with FaultyServer(default={"handler": "echo"}) as upstream:
        rules = [{"path": "before", "action": {"handler": "up", "cut": {"at": "request"}}},
                 {"path": "lost", "action": {"handler": "up", "cut": {"at": "answer", "how": "close"}}},
                 {"path": "after", "action": {"handler": "up", "status": 500, "body": "took it"}}]
        with FaultyServer(rules=rules, default={"handler": "up"},
                          handlers={"up": {"type": "proxy", "upstream": upstream.url}}) as server:
            seen = json.loads(ask(server, "PUT", "/k%20ey?a=&b", b"body", {"X-Mine": "1"}).content)
            assert (seen["method"], seen["target"], seen["body_base64"]) == ("PUT", "/k%20ey?a=&b", "Ym9keQ==")
            assert ["Host", f"127.0.0.1:{server.ports['plain']}"] in seen["headers"]  # signatures hold
            for target in ("/before", "/lost"):
                with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
                    ask(server, target=target)
            got = ask(server, target="/after")
            assert (got.status, got.content) == (500, b"took it")
            head = ask(server, "HEAD", "/head")
            assert int(head.headers["Content-Length"]) > 100 and head.content == b""
            assert [one.target for one in upstream.requests] == ["/k%20ey?a=&b", "/lost", "/after", "/head"]
            upstream.down()
            assert ask(server).status == 502
    with pytest.raises(ScriptError):
        Proxy("ftp://127.0.0.1")


def test_down_and_up_on_the_same_port():
    with FaultyServer(default={"cut": {"at": "answer", "how": "stall"}}) as server:
        hung = threading.Thread(target=lambda: talk(server))
        hung.start()
        assert server.wait_for(lambda server: server.requests)
        port = server.ports["plain"]
        server.down()
        hung.join(TIMEOUT_S)
        assert not hung.is_alive()
        with pytest.raises(ConnectionRefusedError):
            ask(server)
        server.set_script({"default": {"body": "again"}})
        server.up()
        assert server.ports["plain"] == port and ask(server).content == b"again"


@pytest.fixture(scope="module")
def tls_server():
    kinds = [kind for kind in TLS_KINDS if kind != "old_tls" or ssl.HAS_TLSv1_1]
    rules = [{"listener": "good", "path": "cut", "action": {"body": "hello", "cut": {"at": "body:2"}}},
             {"listener": "good", "path": "reset", "action": {"cut": {"at": "answer", "how": "reset"}}},
             {"listener": "good", "path": "early", "action": {"read": "none", "status": 403, "body": "no"}}]
    with FaultyServer(rules=rules, default={"body": "safe"}, listeners=kinds) as server:
        yield server


def ask_tls(server, kind, target="/", body=None, context=None):
    context = context or ssl.create_default_context(cafile=server.ca_file)
    client = http.client.HTTPSConnection("127.0.0.1", server.ports[kind], timeout=TIMEOUT_S, context=context)
    client.request("PUT" if body else "GET", target, body)
    response = client.getresponse()
    response.content = response.read()
    client.close()
    return response


def test_tls_that_is_good(tls_server):
    assert tls_server.url.startswith("https://")
    assert ask_tls(tls_server, "good").content == b"safe"
    with pytest.raises((http.client.IncompleteRead, ssl.SSLEOFError)):
        ask_tls(tls_server, "good", "/cut")
    with pytest.raises((ConnectionResetError, ssl.SSLEOFError)):
        ask_tls(tls_server, "good", "/reset")
    assert ask_tls(tls_server, "good", "/early", b"x" * 100000).content == b"no"


@pytest.mark.parametrize("kind, reason", [
    ("expired", "certificate has expired"), ("not_yet", "not yet valid"), ("wrong_name", "IP address mismatch"),
    ("self_signed", "self.signed certificate"), ("unknown_ca", "unable to get local issuer certificate")])
def test_tls_that_must_be_refused(tls_server, kind, reason):
    asked = len(tls_server.requests)
    with pytest.raises(ssl.SSLCertVerificationError, match=reason):
        ask_tls(tls_server, kind)
    assert len(tls_server.requests) == asked
    careless = ssl.create_default_context()
    careless.check_hostname, careless.verify_mode = False, ssl.CERT_NONE
    assert ask_tls(tls_server, kind, context=careless).content == b"safe"


@pytest.mark.skipif(not ssl.HAS_TLSv1_1, reason="this Python has no TLS 1.1")
def test_tls_that_is_too_old(tls_server):
    strict = ssl.create_default_context(cafile=tls_server.ca_file)
    strict.minimum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError, match="(?i)protocol.version"):
        ask_tls(tls_server, "old_tls", context=strict)
    lax = ssl.create_default_context(cafile=tls_server.ca_file)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        lax.minimum_version = ssl.TLSVersion.TLSv1_1
    lax.set_ciphers("DEFAULT:@SECLEVEL=0")
    assert ask_tls(tls_server, "old_tls", context=lax).content == b"safe"


def expiry(text):
    return calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ"))


def test_instance_metadata():
    metadata = InstanceMetadata(lifetime_s=600, refuse="1", region="eu-west-7")
    ttl, keys = "X-aws-ec2-metadata-token-ttl-seconds", "/latest/meta-data/iam/security-credentials/"
    with FaultyServer(default={"handler": "imds"}, handlers={"imds": metadata}) as server:
        def get(target, token):
            return ask(server, target=target, headers={"X-aws-ec2-metadata-token": token})
        assert ask(server, target=keys).status == 401 and get(keys, "wrong").status == 401
        assert ask(server, "PUT", "/latest/api/token", headers={}).status == 400
        assert ask(server, "PUT", "/latest/api/token", headers={ttl: "21601"}).status == 400
        assert ask(server, "PUT", "/latest/api/token", headers={ttl: "60", "X-Forwarded-For": "x"}).status == 403
        made = ask(server, "PUT", "/latest/api/token", headers={ttl: "60"})
        token = made.content.decode()
        assert made.status == 200 and made.headers[ttl] == "60"
        assert get(keys, token).content == b"test-role"
        assert get(keys + "test-role", token).status == 403  # once
        first, second = (json.loads(get(keys + "test-role", token).content) for _ in range(2))
        assert first["Code"] == "Success" and first["AccessKeyId"] != second["AccessKeyId"]
        assert abs(expiry(first["Expiration"]) - time.time() - 600) < 5
        assert [one["secret_key"] for one in metadata.issued] == [first["SecretAccessKey"], second["SecretAccessKey"]]
        assert get("/latest/meta-data/placement/region", token).content == b"eu-west-7"
        metadata.drop_tokens()
        assert get(keys, token).status == 401


def test_container_credentials(tmp_path):
    (tmp_path / "token").write_text("Bearer one\n")
    given = [{"access_key": "A", "secret_key": "wrong"}, {"access_key": "A", "secret_key": "right", "token": "t"}]
    handler = ContainerCredentials(authorization_file=tmp_path / "token", lifetime_s=-1, refuse="1", keys=given)
    with FaultyServer(default={"handler": "ecs"}, handlers={"ecs": handler}) as server:
        def get(text):
            return ask(server, target="/v2/credentials/uuid", headers={"Authorization": text})
        assert ask(server, target="/v2/credentials/uuid").status == get("Bearer two").status == 401
        assert get("Bearer one").status == 403  # once
        (tmp_path / "token").write_text("Bearer two")  # tokens in files are renewed in place
        assert get("Bearer one").status == 401
        secrets = [json.loads(get("Bearer two").content) for _ in range(3)]
        assert [one["SecretAccessKey"] for one in secrets] == ["wrong", "right", "right"]
        assert secrets[1]["Token"] == "t" and expiry(secrets[0]["Expiration"]) < time.time()


def test_web_identity(tmp_path):
    (tmp_path / "identity").write_text("e30.e30.sig+/=")
    handler = WebIdentity(identity_file=tmp_path / "identity", lifetime_s=900, renew=False, refuse="1")
    with FaultyServer(default={"handler": "sts"}, handlers={"sts": handler}) as server:
        def post(**form):
            asked = {"Action": "AssumeRoleWithWebIdentity", "Version": "2011-06-15", "RoleArn": "arn:aws:iam::1:role/r",
                     "RoleSessionName": "s<1>", "WebIdentityToken": "e30.e30.sig+/=", **form}
            got = ask(server, "POST", "/", urllib.parse.urlencode(asked),
                      {"Content-Type": "application/x-www-form-urlencoded"})
            fields = ElementTree.fromstring(got.content).iter()
            return got.status, {one.tag.partition("}")[2]: one.text for one in fields}
        assert post()[0] == 403  # once
        status, first = post()
        assert status == 200 and first["SessionToken"] and abs(expiry(first["Expiration"]) - time.time() - 900) < 5
        assert post()[1]["SecretAccessKey"] == first["SecretAccessKey"] == handler.issued[0]["secret_key"]
        assert first["Arn"] == "arn:aws:iam::1:role/r/s<1>"
        for name, text, code in (("WebIdentityToken", "other", "InvalidIdentityToken"),
                                 ("RoleArn", "", "MissingParameter"), ("Action", "AssumeRole", "InvalidAction")):
            status, fields = post(**{name: text})
            assert (status, fields["Code"]) == (400, code)


def test_the_program(tmp_path):
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"rules": [{"name": "once", "nth": 1, "action": {"status": 503}}],
                                  "default": {"handler": "keys"}, "handlers": {"keys": {"type": "ecs"}}}))
    program = subprocess.Popen([sys.executable, SERVERS / "faulty_http", "--port", "0", "--script", script, "--listen",
                                "plain", "--listen", "safe=good", "--until-eof"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    try:
        ready = json.loads(program.stdout.readline())
        admin = int(ready["admin"].rpartition(":")[2])
        port = ready["ports"]["plain"]
        assert Path(ready["ca_file"]).exists() and ready["urls"]["safe"].startswith("https://")

        def manage(method, target, body=None):
            got = ask(None, method, target, body, port=admin)
            return got.status, json.loads(got.content)
        assert [ask(None, "POST", "/x", b"abc", port=port).status for _ in range(2)] == [503, 405]
        keys = json.loads(ask(None, port=port).content)
        status, log = manage("GET", "/__log")
        assert status == 200 and [(one["method"], one["outcome"]) for one in log] == [
            ("POST", "answered 503"), ("POST", "answered 405"), ("GET", "answered 200")]
        assert base64.b64decode(log[0]["body_base64"]) == b"abc" and log[0]["rule"] == "once"
        assert [one["number"] for one in manage("GET", "/__log?since=2")[1]] == [3]
        assert manage("GET", "/__acted")[1] == {"once": 1}
        assert manage("GET", "/__issued")[1]["keys"][0]["access_key"] == keys["AccessKeyId"]
        assert manage("POST", "/__script", '{"rule": []}')[0] == 400
        assert manage("POST", "/__script", '{"default": {"body": "new"}}')[0] == 200
        assert ask(None, port=port).content == b"new"
        assert manage("POST", "/__clear")[0] == 200 and manage("GET", "/__log")[1] == []
        manage("POST", "/__down")
        with pytest.raises(ConnectionRefusedError):
            ask(None, port=port)
        manage("POST", "/__up")
        assert ask(None, port=port).content == b"new"
        program.stdin.close()
        assert program.wait(TIMEOUT_S) == 0 and not Path(ready["ca_file"]).exists()
    finally:
        program.kill()
        program.wait()
