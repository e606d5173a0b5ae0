"""Signatures of src/wmtp/s3 against those of botocore: the same request, the same Authorization header."""
import datetime
import hashlib
import random
import sys
import urllib.parse
from pathlib import Path

import botocore.auth
import botocore.awsrequest
import botocore.credentials

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))

from s3_probe import encoded, s3_probes

ODD = "abcXYZ019 /+%&=~.-_*'()!@:,;$?#[]\"<>\\^`{|}\u00e9\u1234\U0001f600\t\x7f"
TIME = datetime.datetime(2026, 11, 16, 10, 0, 0, tzinfo=datetime.UTC)


def text(draw, most, alphabet=ODD):
    return "".join(draw.choice(alphabet) for _ in range(draw.randrange(most)))


def random_request(draw):
    scheme = draw.choice(["http", "https"])
    port = draw.choice(["", ":9000", ":80", ":443"])
    path = "/" + text(draw, 40)
    query = [(text(draw, 8) or "q", text(draw, 12)) for _ in range(draw.randrange(5))]
    query = list({name: (name, value) for name, value in query}.values())  # botocore takes a dict
    body = draw.randbytes(draw.randrange(200))
    headers = [(f"x-amz-meta-{draw.randrange(1000)}", "v " + text(draw, 10, "abc 019+/=").strip()) for _ in range(draw.randrange(3))]
    if draw.random() < 0.5:
        headers.append(("Content-MD5", "1B2M2Y8AsgTpgAmY7PhCfg=="))
    keys = ["AKIA" + text(draw, 16, "ABC0129"), text(draw, 60, "abcXYZ019/+"), draw.choice(["", "token/+=" + text(draw, 30, "abc019/+=")])]
    return {"method": draw.choice(["GET", "PUT", "POST", "DELETE", "HEAD"]), "url": f"{scheme}://127.0.0.1{port}/", "path": path,
            "query": query, "headers": headers, "keys": keys, "body": body, "region": draw.choice(["us-east-1", "eu-west-3", "auto"])}


def signed_by_botocore(given, monkeypatch):
    # The URL as it is sent: encoded once, with a query in the order of our own.
    url = given["url"].rstrip("/") + urllib.parse.quote(given["path"], safe="/~")
    if given["query"]:
        url += "?" + "&".join(f"{urllib.parse.quote(name, safe='~')}={urllib.parse.quote(value, safe='~')}" for name, value in given["query"])
    request = botocore.awsrequest.AWSRequest(method=given["method"], url=url, data=given["body"], headers=dict(given["headers"]))
    keys = botocore.credentials.Credentials(given["keys"][0], given["keys"][1], given["keys"][2] or None)
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda *_, **__: TIME.replace(tzinfo=None))
    botocore.auth.S3SigV4Auth(keys, "s3", given["region"]).add_auth(request)
    return request.headers["Authorization"]


def test_500_random_requests_have_the_signatures_of_botocore(wmtp, monkeypatch):
    draw = random.Random(20261116)
    with s3_probes(wmtp) as start:
        probe = start()
        for _ in range(500):
            given = random_request(draw)
            got = probe.ask("sign", method=given["method"], url=given["url"], path=encoded(given["path"]),
                            query=[[encoded(name), encoded(value)] for name, value in given["query"]], headers=given["headers"],
                            keys=given["keys"], region=given["region"], seconds=int(TIME.timestamp()),
                            payload=hashlib.sha256(given["body"]).hexdigest())
            assert got.text is None, got.text
            assert got.authorization == signed_by_botocore(given, monkeypatch), given
