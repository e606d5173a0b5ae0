"""What a rule does to a request. An action is a dict of these keys, all optional:

The answer
  handler          name of a handler that makes the answer (see handlers.py); the keys below then replace parts of it,
                   so {"handler": "proxy", "status": 500} fails a request that the upstream server has carried out
  status, reason, version
  headers          dict, or list of pairs where a name occurs twice; a value of null removes the header
  body | body_base64 | body_bytes (so many bytes of a pattern) | json
                   texts are templates: ${method} ${target} ${path} ${query} ${n} ${connection} ${url} ${url_NAME} (of
                   the listener NAME), ${header_host} and so on, groups of the rule's path pattern as ${g1} or ${name}
  retry_after      seconds, or "date:SECONDS" for the form with a date
  redirect         "self" (a loop), "longer" (each answer names a new place, without end) or a template; status 307
  date_skew_s      the Date header is off by so much
Time
  delay_s          before the response, after the handler has acted
  head_pace, pace  {"bytes": 1, "delay_s": 0.1}: the head, the body goes out so slowly
Shape
  interim          list of 1xx statuses, or of {"status", "headers"}, sent before the response
  coding           gzip | gzip_truncated | gzip_damaged
  framing          length | chunked | close (no length, ends with the connection) | and broken ones: chunk_bad_size,
                   chunk_huge_size, chunk_short (the connection ends inside), chunk_no_end (no last chunk)
  content_length   a number, or "+5" / "-5" relative to the truth; the connection is closed after the body
  header_bytes     one more header of so many bytes; header_count: so many more headers
  raw | raw_base64 these bytes instead of any HTTP, then the connection is closed
The request's body
  read             all | none: the answer comes without a look at the body, then the connection is closed
  read_pace        like pace
  expect           send | ignore: whether a client that asks for 100 Continue gets it
  continue_delay_s before the 100 Continue
The end
  cut              {"at": PLACE, "how": "close" | "reset" | "stall", "after_s": 0, "for_s": null}. PLACE is one of
                   accept (before TLS; for rules without request patterns), request_head, request_body:N (N bytes came),
                   request (before the handler acts), answer (after it acted, nothing sent), head:N (N bytes of the
                   response head were sent), body:N (of the body as framed), end (a whole response that promised
                   keep-alive). "after_s" waits before, "for_s" ends a stall by closing; without it a stall lasts until
                   the client or the server gives up.
"""
import base64
import json as json_text
import re
from dataclasses import dataclass, fields

CODINGS = (None, "gzip", "gzip_truncated", "gzip_damaged")
FRAMINGS = ("length", "chunked", "close", "chunk_bad_size", "chunk_huge_size", "chunk_short", "chunk_no_end")
PLACES = re.compile("accept|request_head|request|answer|end|(?:request_body|head|body):[0-9]+")


class ScriptError(ValueError):
    """A script with a mistake in it: a rule that silently did nothing would let every test pass."""


def require(condition, text):
    if not condition:
        raise ScriptError(text)


@dataclass
class Cut:
    at: str
    how: str = "close"
    after_s: float = 0
    for_s: float | None = None

    def __post_init__(self):
        require(PLACES.fullmatch(self.at), f"no place to cut: {self.at!r}")
        require(self.how in ("close", "reset", "stall"), f"no way to cut: {self.how!r}")
        self.place, _, number = self.at.partition(":")
        self.bytes = int(number or 0)


@dataclass
class Action:
    handler: str | None = None
    status: int | None = None
    reason: str | None = None
    version: str = "HTTP/1.1"
    headers: dict | list = ()
    body: str | None = None
    body_base64: str | None = None
    body_bytes: int | None = None
    json: object = None
    retry_after: float | str | None = None
    redirect: str | None = None
    date_skew_s: float = 0
    delay_s: float = 0
    head_pace: dict | None = None
    pace: dict | None = None
    interim: list = ()
    coding: str | None = None
    framing: str = "length"
    content_length: int | str | None = None
    header_bytes: int = 0
    header_count: int = 0
    raw: str | None = None
    raw_base64: str | None = None
    read: str = "all"
    read_pace: dict | None = None
    expect: str = "send"
    continue_delay_s: float = 0
    cut: Cut | None = None

    def __post_init__(self):
        if isinstance(self.headers, dict):
            self.headers = list(self.headers.items())
        if isinstance(self.cut, dict):
            self.cut = made(Cut, self.cut)
        require(self.coding in CODINGS, f"no coding: {self.coding!r}")
        require(self.framing in FRAMINGS, f"no framing: {self.framing!r}")
        require(self.read in ("all", "none"), f"no way to read: {self.read!r}")
        require(self.expect in ("send", "ignore"), f"no answer to Expect: {self.expect!r}")
        require(self.content_length is None or re.fullmatch(r"[+-]?[0-9]+", str(self.content_length)),
                f"no content_length: {self.content_length!r}")
        for pace in (self.head_pace, self.pace, self.read_pace):
            require(pace is None or (set(pace) == {"bytes", "delay_s"} and pace["bytes"] > 0), f"no pace: {pace!r}")
        bodies = [self.body, self.body_base64, self.body_bytes, self.json]
        require(sum(body is not None for body in bodies) <= 1, "more than one body")

    def own_body(self):
        """The body that the action itself gives and whether it is a template; None where it gives none."""
        if self.body is not None:
            return self.body.encode(), True
        if self.json is not None:
            return json_text.dumps(self.json).encode(), True
        if self.body_base64 is not None:
            return base64.b64decode(self.body_base64), False
        if self.body_bytes is not None:
            pattern = b"0123456789abcdef"
            return (pattern * (self.body_bytes // len(pattern) + 1))[:self.body_bytes], False
        return None, False

    def raw_bytes(self):
        if self.raw_base64 is not None:
            return base64.b64decode(self.raw_base64)
        return None if self.raw is None else self.raw.encode("latin-1")


def made(kind, given):
    """A dataclass from a dict of a script; a key that it does not know is an error."""
    require(isinstance(given, dict), f"{kind.__name__} is no object: {given!r}")
    unknown = set(given) - {field.name for field in fields(kind)}
    require(not unknown, f"{kind.__name__} has no {', '.join(sorted(unknown))}")
    try:
        return kind(**given)
    except TypeError as error:
        raise ScriptError(f"{kind.__name__}: {error}") from error
