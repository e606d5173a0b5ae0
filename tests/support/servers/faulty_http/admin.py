"""The admin port of the program: a server apart, so that what a test asks is neither recorded nor hit by faults.

  GET  /__log[?since=N]   the requests after the N-th as JSON, bodies in base64
  GET  /__acted           how often each rule acted
  GET  /__issued          the keys that each credential handler handed out
  POST /__script          the body is the new script; its counts begin anew
  POST /__clear           forgets the requests so far
  POST /__down, /__up     ends all listeners and connections; listens again on the same ports
"""
import http.server
import json
import threading
import urllib.parse

from .action import ScriptError


class AdminHandler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        faulty = self.server.faulty
        place = urllib.parse.urlsplit(self.path)
        if place.path == "/__log":
            since = int(urllib.parse.parse_qs(place.query).get("since", ["0"])[0])
            self.reply([request.to_json() for request in faulty.requests if request.number > since])
        elif place.path == "/__acted":
            self.reply(faulty.acted)
        elif place.path == "/__issued":
            self.reply({name: one.issued for name, one in faulty.handlers.items() if hasattr(one, "issued")})
        else:
            self.reply({"error": f"no {self.path}"}, 404)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        faulty = self.server.faulty
        work = {"/__clear": faulty.clear_log, "/__down": faulty.down, "/__up": faulty.up,
                "/__script": lambda: faulty.set_script(json.loads(body))}.get(self.path)
        if not work:
            self.reply({"error": f"no {self.path}"}, 404)
            return
        try:
            work()
        except (ScriptError, json.JSONDecodeError, OSError) as error:
            self.reply({"error": str(error)}, 400)
        else:
            self.reply({})

    def reply(self, value, status=200):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass  # standard error belongs to mistakes


class Admin:
    """with Admin(server) as admin: admin.url"""

    def __init__(self, faulty, port=0):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), AdminHandler)
        self.server.faulty = faulty
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
