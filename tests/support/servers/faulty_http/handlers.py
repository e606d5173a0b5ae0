"""Ready-made answers. A handler is anything that can be called with a Request and returns an Answer; in a script it is
an entry {"type": "echo" | "files" | "proxy" | "imds" | "ecs" | "sts", ...settings} of "handlers". The type "echo"
needs no settings and no entry."""
import base64
import hashlib
import http.client
import json
import mimetypes
import re
import ssl
import urllib.parse
from pathlib import Path

from .action import ScriptError
from .credentials import ContainerCredentials, InstanceMetadata, WebIdentity
from .message import Answer

HOP_BY_HOP = {"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}


class Echo:
    """Tells the client what arrived."""

    def __call__(self, request):
        seen = {"method": request.method, "target": request.target, "headers": request.headers,
                "connection": request.connection, "length": len(request.body), "sha256": request.body_sha256(),
                "body_base64": base64.b64encode(request.body).decode()}
        return Answer(200, [("Content-Type", "application/json")], json.dumps(seen).encode())


class StaticFiles:
    """The files below a folder, for GET and HEAD, with one byte range per request. `strip` is a part of the path that
    stands for the folder itself."""

    def __init__(self, root, strip="/"):
        self.root, self.strip = Path(root).resolve(), strip

    def __call__(self, request):
        if request.method not in ("GET", "HEAD"):
            return Answer(405, [("Allow", "GET, HEAD")])
        path = urllib.parse.unquote(request.path).removeprefix(self.strip).lstrip("/")
        file = (self.root / path).resolve()
        if not file.is_relative_to(self.root) or not file.is_file():
            return Answer(404)
        content = file.read_bytes()
        headers = [("Content-Type", mimetypes.guess_type(file.name)[0] or "application/octet-stream"),
                   ("Accept-Ranges", "bytes"), ("ETag", f'"{hashlib.md5(content).hexdigest()}"')]
        wanted = byte_range(request.header("Range"), len(content))
        if wanted is None:
            return Answer(200, headers, content)
        if not wanted:
            return Answer(416, [("Content-Range", f"bytes */{len(content)}")])
        headers.append(("Content-Range", f"bytes {wanted[0]}-{wanted[-1]}/{len(content)}"))
        return Answer(206, headers, content[wanted.start:wanted.stop])


def byte_range(header, size):
    """The positions that a Range header asks for: None for all of them, an empty range where it cannot be met. As the
    standard wants, a header that is not understood (another unit, several ranges) is ignored."""
    found = re.fullmatch(r"bytes=([0-9]*)-([0-9]*)", header or "")
    if not found or found[0] == "bytes=-" or (found[1] and found[2] and int(found[2]) < int(found[1])):
        return None
    if not found[1]:
        return range(max(0, size - int(found[2])), size)
    return range(int(found[1]), min(size, int(found[2]) + 1) if found[2] else size)


class Proxy:
    """Hands the request to a real server as it came. The Host header stays the client's, so a signature made for this
    server holds there too. BLOCKS until the upstream server has answered; one connection for each request."""

    def __init__(self, upstream, ca_file=None, timeout_s=60):
        parts = urllib.parse.urlsplit(upstream)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ScriptError(f"no upstream server: {upstream!r}")
        self.address, self.prefix, self.timeout_s = (parts.hostname, parts.port), parts.path.rstrip("/"), timeout_s
        self.context = ssl.create_default_context(cafile=ca_file) if parts.scheme == "https" else None

    def __call__(self, request):
        try:
            return self.forward(request)
        except (OSError, http.client.HTTPException) as error:
            return Answer(502, [("Content-Type", "text/plain")], f"upstream: {error!r}\n".encode())

    def forward(self, request):
        if self.context:
            upstream = http.client.HTTPSConnection(*self.address, timeout=self.timeout_s, context=self.context)
        else:
            upstream = http.client.HTTPConnection(*self.address, timeout=self.timeout_s)
        try:
            upstream.putrequest(request.method, self.prefix + request.target, skip_host=True, skip_accept_encoding=True)
            for name, value in request.headers:
                if name.lower() not in HOP_BY_HOP | {"expect", "content-length"}:
                    upstream.putheader(name, value)
            if request.body or request.header("Content-Length") is not None:
                upstream.putheader("Content-Length", str(len(request.body)))
            upstream.putheader("Connection", "close")
            upstream.endheaders(bytes(request.body) or None)
            response = upstream.getresponse()
            body = response.read()
            headers = [pair for pair in response.getheaders() if pair[0].lower() not in HOP_BY_HOP | {"content-length"}]
            stated = response.getheader("Content-Length")
            length = int(stated) if request.method == "HEAD" and stated else None
            return Answer(response.status, headers, body, length)
        finally:
            upstream.close()


TYPES = {"echo": Echo, "files": StaticFiles, "proxy": Proxy, "imds": InstanceMetadata, "ecs": ContainerCredentials,
         "sts": WebIdentity}


def make_handlers(given):
    """Handlers by name from those of a script; objects that can be called are taken as they are."""
    made = {"echo": Echo()}
    for name, settings in given.items():
        if callable(settings):
            made[name] = settings
            continue
        settings = dict(settings)
        kind = settings.pop("type", name)
        if kind not in TYPES:
            raise ScriptError(f"handler {name}: no type {kind!r}")
        try:
            made[name] = TYPES[kind](**settings)
        except TypeError as error:
            raise ScriptError(f"handler {name}: {error}") from error
    return made
