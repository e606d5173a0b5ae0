"""Requests as they come in, with all that is recorded of them, and answers before any fault is put into them."""
import base64
import hashlib
import re
import urllib.parse
from dataclasses import dataclass, field
from time import monotonic, time

MOST_HEAD_BYTES = 1 << 20
REQUEST_LINE = re.compile(r"([!-~]+) (\S+) (HTTP/1\.[01])")


class Malformed(Exception):
    """The client sent something that is no HTTP/1.1 request."""


@dataclass
class Request:
    method: str
    target: str
    version: str
    headers: list  # pairs in the order of arrival, names as they were written
    connection: int = 0  # the first connection of a server is 1
    on_connection: int = 0  # the how-manieth request of its connection, from 1
    listener: str = ""
    number: int = 0  # the how-manieth request of the server, from 1
    time: float = field(default_factory=time)
    monotonic: float = field(default_factory=monotonic)
    body: bytearray = field(default_factory=bytearray)
    body_complete: bool = False
    continued: bool = False  # a 100 Continue was sent
    rule: str | None = None  # the name of the rule that acted
    nth: int = 0  # and the how-manieth match this was
    outcome: str = "open"  # "answered 200", "cut body:10 reset", "client gone", "malformed", ...
    finished: float | None = None  # monotonic
    trimmed: tuple | None = None  # length and SHA-256 of a body that was not kept whole

    @property
    def path(self):
        return self.target.partition("?")[0]

    @property
    def query(self):
        return self.target.partition("?")[2]

    def parameters(self):
        """Those of the query and of a form in the body, decoded; the last of a name counts."""
        form = self.header("Content-Type", "").startswith("application/x-www-form-urlencoded")
        text = self.query + ("&" + self.body.decode("latin-1") if form else "")
        return dict(urllib.parse.parse_qsl(text, keep_blank_values=True))

    def header(self, name, default=None):
        """All values of one name, joined by commas."""
        found = [value for key, value in self.headers if key.lower() == name.lower()]
        return ", ".join(found) if found else default

    def body_length(self):
        return self.trimmed[0] if self.trimmed else len(self.body)

    def body_sha256(self):
        return self.trimmed[1] if self.trimmed else hashlib.sha256(self.body).hexdigest()

    def trim_body(self, keep_bytes):
        if keep_bytes is not None and len(self.body) > keep_bytes:
            self.trimmed = len(self.body), hashlib.sha256(self.body).hexdigest()
            del self.body[keep_bytes:]

    def to_json(self):
        plain = ("number connection on_connection listener method target version headers time monotonic finished "
                 "body_complete continued rule nth outcome").split()
        return {**{name: getattr(self, name) for name in plain}, "body_length": self.body_length(),
                "body_sha256": self.body_sha256(), "body_base64": base64.b64encode(self.body).decode()}


@dataclass
class Answer:
    """What a handler returns."""
    status: int = 200
    headers: list = field(default_factory=list)
    body: bytes = b""
    length: int | None = None  # the Content-Length of an answer to HEAD, where it is not that of `body`


def read_request(connection):
    """The head of the next request, None where the client has closed instead of asking again."""
    raw = connection.receive_until(b"\r\n\r\n", MOST_HEAD_BYTES)
    if not raw:
        return None
    request = Request("", raw[:200].decode("latin-1"), "", [], connection.number, listener=connection.listener)
    try:
        fill_head(request, raw)
    except Malformed as error:
        request.outcome = f"malformed: {error}"
    return request


def fill_head(request, raw):
    if not raw.endswith(b"\r\n\r\n"):
        raise Malformed(f"head of {len(raw)} bytes without an end")
    first, *lines = raw[:-4].decode("latin-1").split("\r\n")
    parts = REQUEST_LINE.fullmatch(first)
    if not parts:
        raise Malformed("request line")
    headers = []
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not re.fullmatch(r"[!#-'*+\-.^-z|~0-9A-Z]+", name):
            raise Malformed(f"header line {line[:80]!r}")
        headers.append((name, value.strip(" \t")))
    request.method, request.target, request.version = parts.groups()
    request.headers = headers
    coding, length = request.header("Transfer-Encoding"), request.header("Content-Length")
    if coding is not None and (coding.lower() != "chunked" or length is not None):
        raise Malformed(f"Transfer-Encoding {coding}, Content-Length {length}")
    if length is not None and not re.fullmatch("[0-9]+", length):
        raise Malformed(f"Content-Length {length}")


def body_pieces(connection, request, piece_bytes):
    """The body in pieces of at most `piece_bytes`; each is in request.body before it is handed on."""
    if request.header("Transfer-Encoding"):
        while True:
            line = connection.receive_until(b"\r\n", 200)
            if not re.fullmatch(rb"[0-9a-fA-F]+(;[^\r\n]*)?\r\n", line):
                raise Malformed(f"chunk size {line!r}")
            size = int(line.split(b";")[0], 16)
            if not size:
                while connection.receive_until(b"\r\n", 65536) not in (b"\r\n", b""):
                    pass  # trailers
                break
            yield from sized_pieces(connection, request, size, piece_bytes)
            if connection.receive_until(b"\r\n", 2) != b"\r\n":
                raise Malformed("chunk without an end")
    else:
        yield from sized_pieces(connection, request, int(request.header("Content-Length", "0")), piece_bytes)
    request.body_complete = True


def sized_pieces(connection, request, size, piece_bytes):
    while size:
        piece = connection.receive(min(size, piece_bytes))
        if not piece:
            raise Malformed(f"the body ends {size} bytes early")
        request.body += piece
        size -= len(piece)
        yield piece
