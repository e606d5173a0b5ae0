"""Plays one action on one request: reads the body, makes the answer, sends it with the fault in it."""
import email.utils
import gzip
import http.client
import string
import time

from .action import Action
from .connection import ClientGone, Stopped
from .message import Answer, Malformed, body_pieces


class Cut(Exception):
    """The connection was ended, or is to be ended in order, in the middle of an exchange."""


def cut_connection(connection, cut):
    """Ends a connection as a Cut says. A client that hangs up first has ended it too."""
    try:
        if cut.after_s:
            connection.pause(cut.after_s)
        if cut.how == "stall":
            connection.pause(cut.for_s)
    except ClientGone:
        pass
    if cut.how == "reset":
        connection.reset()
    else:
        connection.close()


class Exchange:
    """OWNS nothing; the connection is closed when `run` returns False, whoever closed it."""

    def __init__(self, server, connection, request, action: Action, groups):
        self.server, self.connection, self.request, self.action = server, connection, request, action
        self.groups = groups
        self.close_after = False

    def run(self):
        """Whether the connection can take another request."""
        try:
            self.cut_at("request_head")
            self.read_body()
            self.cut_at("request")
            answer = self.make_answer()
            self.cut_at("answer")
            self.connection.pause(self.action.delay_s)
            self.respond(answer)
            self.cut_at("end")
        except Cut:
            return False
        except Stopped:
            self.request.outcome = "server stopped"
            self.connection.close()
            return False
        except ClientGone as error:
            self.request.outcome = f"client gone: {error}"
            self.connection.close()
            return False
        except Malformed as error:
            self.request.outcome = f"malformed: {error}"
            self.connection.finish()
            return False
        if self.close_after:
            self.connection.finish()
        return not self.close_after

    def cut_at(self, place):
        cut = self.action.cut
        if cut and cut.place == place:
            self.request.outcome = f"cut {cut.at} {cut.how}"
            cut_connection(self.connection, cut)
            raise Cut

    def read_body(self):
        action, request = self.action, self.request
        if action.read == "none":
            self.close_after = not self.no_body()
            return
        if action.expect == "send" and request.header("Expect", "").lower() == "100-continue":
            self.connection.pause(action.continue_delay_s)
            self.connection.send(b"HTTP/1.1 100 Continue\r\n\r\n")
            request.continued = True
        pace = action.read_pace or {"bytes": 65536, "delay_s": 0}
        cut_bytes = action.cut.bytes if action.cut and action.cut.place == "request_body" else None
        if cut_bytes == 0:
            self.cut_at("request_body")
        for _ in body_pieces(self.connection, request, min(pace["bytes"], cut_bytes or pace["bytes"])):
            if cut_bytes is not None and len(request.body) >= cut_bytes:
                self.cut_at("request_body")
            if pace["delay_s"]:
                self.connection.pause(pace["delay_s"])

    def no_body(self):
        return self.request.header("Transfer-Encoding") is None and int(self.request.header("Content-Length", "0")) == 0

    def make_answer(self):
        """What the handler says, with the parts replaced that the action names itself."""
        action = self.action
        answer = self.server.handle(action.handler, self.request) if action.handler else Answer()
        body, is_template = action.own_body()
        if body is not None:
            answer.body = self.fill(body.decode()).encode() if is_template else body
            answer.length = None
        if action.redirect is not None:
            answer.status = 307
            set_header(answer.headers, "Location", self.location())
        if action.status is not None:
            answer.status = action.status
        if action.json is not None:
            set_header(answer.headers, "Content-Type", "application/json")
        if action.retry_after is not None:
            set_header(answer.headers, "Retry-After", self.retry_after())
        for name, value in action.headers:
            if sum(key == name for key, _ in action.headers) > 1:
                answer.headers.append((name, self.fill(value)))  # a name that is to occur more than once
            else:
                set_header(answer.headers, name, None if value is None else self.fill(value))
        return answer

    def location(self):
        if self.action.redirect == "self":
            return self.fill("${url}${target}")
        if self.action.redirect == "longer":
            return self.fill("${url}${path}/${n}")
        return self.fill(self.action.redirect)

    def retry_after(self):
        text = str(self.action.retry_after)
        if text.startswith("date:"):
            return email.utils.formatdate(time.time() + float(text[5:]), usegmt=True)
        return text

    def fill(self, text):
        """Puts values into a template; an unknown ${name} stays as it is."""
        request = self.request
        values = {f"header_{name.lower().replace('-', '_')}": value for name, value in request.headers}
        values |= {f"url_{name}": url for name, url in self.server.urls.items()}
        values |= {"method": request.method, "target": request.target, "path": request.path, "query": request.query,
                   "n": request.nth or request.number, "connection": request.connection,
                   "url": self.server.urls[request.listener]}
        return string.Template(str(text)).safe_substitute(values | self.groups)

    def respond(self, answer):
        for interim in self.action.interim:
            interim = interim if isinstance(interim, dict) else {"status": interim}
            self.connection.send(head_bytes("HTTP/1.1", interim["status"], None, interim.get("headers", {}).items()))
        raw = self.action.raw_bytes()
        if raw is not None:
            self.request.outcome = f"sent {len(raw)} raw bytes"
            self.connection.send(raw, self.action.pace)
            self.close_after = True
            return
        body = self.frame(answer)
        head = self.head(answer)
        self.request.outcome = f"answered {answer.status}"
        self.send_part("head", head, self.action.head_pace)
        self.send_part("body", body, self.action.pace)

    def send_part(self, part, data, pace):
        cut = self.action.cut
        if cut and cut.place == part:
            self.connection.send(data[:cut.bytes], pace)
            self.cut_at(part)
        self.connection.send(data, pace)

    def frame(self, answer):
        """The body's bytes on the wire; the headers that describe them are set in the answer."""
        action, body = self.action, answer.body
        if action.coding:
            body = gzip.compress(body, mtime=0)
            if action.coding == "gzip_truncated":
                body = body[:len(body) * 2 // 3]
            elif action.coding == "gzip_damaged":
                body = body[:-8] + bytes(byte ^ 0xFF for byte in body[-8:])  # CRC and length at the end
            set_header(answer.headers, "Content-Encoding", "gzip")
        bodiless = self.request.method == "HEAD" or answer.status in (204, 304) or answer.status < 200
        if action.framing == "length":
            length = len(body) if answer.length is None else answer.length
            if action.content_length is not None:
                text = str(action.content_length)
                length = length + int(text) if text[0] in "+-" else int(text)
                self.close_after = True
            if answer.status not in (204, 304):
                set_header(answer.headers, "Content-Length", str(length))
        elif action.framing == "close":
            set_header(answer.headers, "Content-Length", None)
            self.close_after = True
        else:
            set_header(answer.headers, "Content-Length", None)
            set_header(answer.headers, "Transfer-Encoding", "chunked")
            body = chunks(action.framing, body)
            self.close_after |= action.framing != "chunked"
        return b"" if bodiless else body

    def head(self, answer):
        action, headers = self.action, answer.headers
        named = {name.lower() for name, _ in headers} | {name.lower() for name, _ in action.headers}
        if "date" not in named or action.date_skew_s:
            set_header(headers, "Date", email.utils.formatdate(time.time() + action.date_skew_s, usegmt=True))
        if self.request.version == "HTTP/1.0" or self.request.header("Connection", "").lower() == "close":
            self.close_after = True
        # A wrong length or a broken chunk announces nothing: it is to come as a surprise.
        honest = action.content_length is None and action.framing in ("length", "chunked", "close")
        if self.close_after and honest and "connection" not in named:
            headers.append(("Connection", "close"))
        headers.extend((f"X-Filler-{at}", "filler") for at in range(action.header_count))
        if action.header_bytes:
            headers.append(("X-Filler", "x" * action.header_bytes))
        return head_bytes(action.version, answer.status, action.reason, headers)


def set_header(headers, name, value):
    headers[:] = [pair for pair in headers if pair[0].lower() != name.lower()]
    if value is not None:
        headers.append((name, value))


def head_bytes(version, status, reason, headers):
    if reason is None:
        reason = http.client.responses.get(status, "Unknown")
    lines = [f"{version} {status} {reason}", *(f"{name}: {value}" for name, value in headers)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def chunks(framing, body):
    """Two chunks where there is enough for two; a broken form shows its fault in the second."""
    half = len(body) // 2
    parts = [part for part in (body[:half], body[half:]) if part]
    framed = [b"%x\r\n%s\r\n" % (len(part), part) for part in parts] or [b""]
    last = parts[-1] if parts else b""
    if framing == "chunk_bad_size":
        framed[-1] = b"zz\r\n" + last + b"\r\n"
    elif framing == "chunk_huge_size":
        framed[-1] = b"f" * 17 + b"\r\n" + last + b"\r\n"  # more than 64 bits
    elif framing == "chunk_short":
        return b"".join(framed[:-1]) + b"%x\r\n%s" % (len(last) + 10, last)
    elif framing == "chunk_no_end":
        return b"".join(framed)
    return b"".join(framed) + b"0\r\n\r\n"
