"""python tests/support/servers/faulty_http --port 0 --script FILE.json [--listen NAME[=KIND]]...

Prints one JSON line when it is ready: ports and urls by listener, the URL of the admin port, the file of the CA (null
without TLS). Ends on SIGTERM or SIGINT, with --until-eof also when its standard input ends, as it does when the test
that started it dies.
"""
import argparse
import json
import signal
import sys
import threading
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])  # run as a folder, Python takes this one for a place of modules

from faulty_http.action import ScriptError  # noqa: E402
from faulty_http.admin import Admin  # noqa: E402
from faulty_http.server import FaultyServer  # noqa: E402


def read_arguments():
    parser = argparse.ArgumentParser(prog="faulty_http", description="An HTTP server that fails on request.")
    parser.add_argument("--port", type=int, default=0, help="of the first listener; 0: any that is free")
    parser.add_argument("--admin-port", type=int, default=0)
    parser.add_argument("--script", type=Path, help="JSON file with the rules")
    parser.add_argument("--listen", action="append", metavar="NAME[=KIND]",
                        help="plain (the only one by default), good, expired, not_yet, wrong_name, self_signed, "
                             "unknown_ca or old_tls; may be repeated")
    parser.add_argument("--keep-body-bytes", type=int, help="how much of each request body is kept; default: all")
    parser.add_argument("--receive-buffer-bytes", type=int)
    parser.add_argument("--until-eof", action="store_true", help="end when standard input does")
    return parser.parse_args()


def main():
    args = read_arguments()
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    listeners = {text.partition("=")[0]: text.partition("=")[2] or text for text in args.listen or ["plain"]}
    try:
        script = json.loads(args.script.read_text()) if args.script else {}
        server = FaultyServer(script=script, listeners=listeners, port=args.port, keep_body_bytes=args.keep_body_bytes,
                              receive_buffer_bytes=args.receive_buffer_bytes)
    except (OSError, ScriptError, json.JSONDecodeError) as error:
        sys.exit(f"faulty_http: {error}")
    with server, Admin(server, args.admin_port) as admin:
        print(json.dumps({"ports": server.ports, "urls": server.urls, "admin": admin.url, "ca_file": server.ca_file}),
              flush=True)
        if args.until_eof:
            threading.Thread(target=lambda: (sys.stdin.buffer.read(), ended.set()), daemon=True).start()
        ended.wait()


if __name__ == "__main__":
    main()
