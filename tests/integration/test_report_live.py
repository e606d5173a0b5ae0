"""`wmtp report --follow` and `--serve`: pages that grow with their runs, and a server that has one page and nothing else."""
import http.client
import json
import re
import signal
import socket
import subprocess
import threading
import xml.etree.ElementTree as tree

import pytest

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


def grow(folder, *steps):
    folder.mkdir(exist_ok=True)
    with open(folder / "metrics.jsonl", "a") as file:
        for step in steps:
            file.write(json.dumps({"step": step, "time": 1e9 + step, "train/loss": 4 / step}) + "\n")
    return folder


def end(folder, code=0, reason="completed"):
    (folder / "last_exit.json").write_text(json.dumps({"code": code, "reason": reason}))


class Live:
    """A report that goes on; its lines arrive as they are printed."""

    def __init__(self, wmtp, *args):
        self.process = subprocess.Popen([str(wmtp.binary), "report", *map(str, args)], text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def line(self):
        return self.process.stdout.readline().rstrip("\n")

    def stop(self, with_signal=signal.SIGINT):
        self.process.send_signal(with_signal)
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


class Served(Live):
    def __init__(self, wmtp, *args):
        super().__init__(wmtp, *args, "--serve", "127.0.0.1:0")
        line = self.line()
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/ \(Ctrl-C ends it\)", line)
        assert found, line + self.process.stderr.read()
        self.port = int(found[1])

    def get(self, method="GET", path="/", **headers):
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        client.request(method, path, headers=headers)
        answer = client.getresponse()
        return answer, answer.read().decode()

    def raw(self, data):
        """All that the server says to these bytes until it closes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as peer:
            peer.sendall(data)
            return b"".join(iter(lambda: peer.recv(65536), b"")).decode()

    def page_with(self, part):
        """The first page that has this part."""
        for _ in range(600):
            text = self.get()[1]
            if part in text:
                return text
            threading.Event().wait(0.1)
        pytest.fail(f"no page has {part!r}")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return grow(tmp_path_factory.mktemp("served") / "one", 1, 2)


@pytest.fixture(scope="module")
def served(wmtp, run):
    with Served(wmtp, run) as served:
        yield served


def test_the_page_is_served_with_its_protections(served, run):
    answer, text = served.get()
    assert answer.status == 200 and answer.getheader("Content-Type") == "text/html; charset=utf-8"
    tree.fromstring(text)
    assert '<meta http-equiv="refresh" content="10"/>' in text, "the run has not ended"
    policy = answer.getheader("Content-Security-Policy")
    assert policy.startswith("default-src 'none';") and policy.endswith("frame-ancestors 'none'")
    for name, value in {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "X-Frame-Options": "DENY",
                        "Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "same-origin"}.items():
        assert answer.getheader(name) == value
    head, nothing = served.get("HEAD")
    assert head.status == 200 and nothing == "" and head.getheader("Content-Length") == answer.getheader("Content-Length")
    assert not (run / "report.html").exists(), "serving writes nothing"


@pytest.mark.parametrize("path", ["/report.html", "/metrics.jsonl", "/../../etc/passwd", "/..%2f..%2fetc/passwd", "//", "/?a", "/."])
def test_nothing_else_is_there(served, path):
    assert served.get(path=path)[0].status == 404
    assert served.raw(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode()).startswith("HTTP/1.1 404 Not Found\r\n")


def test_requests_that_are_refused(served):
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        answer, text = served.get(method)
        assert (answer.status, answer.getheader("Allow"), text) == (405, "GET, HEAD", "405 Method Not Allowed\n")
    assert served.raw(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 30000\r\n\r\n" + b"x" * 30000).startswith("HTTP/1.1 405 ")
    for host in ("evil.example", f"evil.example:{served.port}", "127.0.0.1.evil.example", "0.0.0.0"):
        assert served.get(Host=host)[0].status == 403
    for host in ("localhost", "127.0.0.1:9", "[::1]:8000"):
        assert served.get(Host=host)[0].status == 200
    assert served.raw(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 30000).startswith("HTTP/1.1 431 ")
    assert served.raw(b"GET /" + b"x" * 30000).startswith("HTTP/1.1 431 ")
    assert served.raw(b"GET / HTTP/1.1\r\n\r\n").startswith("HTTP/1.1 400 ")
    assert served.raw(b"\x16\x03\x01\x02\x00\r\n\r\n").startswith("HTTP/1.1 400 ")


def test_slow_clients_and_crowds_keep_nobody_waiting(served):
    """More silent connections than the server holds, some with half a request, one that never reads its page."""
    crowd = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(40)]
    for peer in crowd[::2]:
        peer.send(GET[:20])
    crowd[-1].send(GET)
    asking = [threading.Thread(target=lambda: pages.append(served.get()[1])) for _ in range(6)]
    pages = []
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    assert len(pages) == 6 and all("</html>" in page for page in pages)
    for peer in crowd:
        peer.close()


def test_a_page_grows_survives_damage_and_stops_refreshing_at_the_end(wmtp, tmp_path):
    run = grow(tmp_path / "grows")
    with Served(wmtp, run) as served:
        assert "no step was recorded" in served.page_with("cannot be read now")
        grow(run, 1, 2)
        assert "<td>2</td>" in served.page_with("<h2>Overview</h2>")
        with open(run / "metrics.jsonl", "a") as file:
            file.write("garbage <b>\n")
        damaged = served.page_with("cannot be read now")
        tree.fromstring(damaged)
        assert "metrics.jsonl:3" in damaged and "<td>2</td>" in damaged, "what was read before stays"
        (run / "metrics.jsonl").unlink()
        grow(run, 1, 2, 3)
        assert "cannot be read" not in served.page_with("<td>3</td>")
        (run / "environment.json").symlink_to("/etc/passwd")
        assert "outside its run folder" in served.page_with("cannot be read now")
        (run / "environment.json").unlink()
        end(run, 75, "lost rank 1")
        assert "refresh" not in served.page_with("ended with 75: lost rank 1")
        code, out, err = served.stop(signal.SIGTERM)
        assert code == 0 and out == "grows: ended with 75: lost rank 1\n" and err.count("metrics.jsonl:3") == 1
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", served.port))


def test_a_followed_page_is_written_again_until_the_runs_have_ended(wmtp, tmp_path):
    a, b, out = grow(tmp_path / "a", 1), grow(tmp_path / "b", 1, 2), tmp_path / "both.html"
    end(b)
    with Live(wmtp, a, b, "--follow", "--out", out) as live:
        assert live.line() == f"{out}: step 1, 2"
        assert "refresh" not in out.read_text()
        grow(a, 2, 3)
        assert live.line() == f"{out}: step 3, 2"
        assert "<td>3</td>" in out.read_text()
        end(a)
        assert [live.line() for _ in range(3)] == [f"{out}: step 3, 2", "a: ended", "b: ended"]
        assert live.process.wait(60) == 0


def test_followed_and_served_at_once_and_stopped(wmtp, tmp_path):
    run = grow(tmp_path / "a", 1)
    with Served(wmtp, run, "--follow") as served:
        assert served.line() == f"{run / 'report.html'}: step 1"
        assert "<td>1</td>" in served.get()[1]
        assert served.stop()[:2] == (0, "")
    with Live(wmtp, "--json", run, "--follow") as live:
        line = json.loads(live.line())
        assert live.stop()[0] == 0
    assert (line["type"], line["steps"], line["out"]) == ("rewritten", [1], str(run / "report.html"))


def test_what_cannot_be_served_is_named(wmtp, run):
    message = wmtp.error("report", run, "--serve", "0.0.0.0:8000", code=78)["message"]
    assert message == '--serve: "0.0.0.0:8000" is not on this machine\'s loopback'
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"cannot listen on 127.0.0.1:{port}" in wmtp.error("report", run, "--serve", f"127.0.0.1:{port}", code=78)["message"]
    wmtp.error("report", run, "--follow", "--format", "json", code=78)
    wmtp.error("report", run, "--serve", "127.0.0.1:0", "--out", "x.html", code=78)
    assert "nowhere" in wmtp.error("report", run / "nowhere", "--follow", code=78)["message"]
    ended = grow(run.parent / "ended")
    (ended / "metrics.jsonl").write_text("garbage\n")
    end(ended)
    assert "metrics.jsonl:1" in wmtp.error("report", ended, "--follow", code=65)["message"]
