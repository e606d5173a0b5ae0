"""What tests of uploads see of a bucket: what is in it, and a watcher of manifests."""
import contextlib
import threading

BUCKET = "wmtp-uploads"


class Uploaded:
    """The bucket of these tests in a gateway."""

    def __init__(self, gateway):
        self.variables, self.url, self.boto, self.turn = gateway.variables, gateway.url, gateway.boto, gateway.turn
        gateway.make_bucket(BUCKET)

    def objects(self, prefix):
        """{name below the prefix: size}."""
        pages = self.boto.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix + "/")
        return {one["Key"][len(prefix) + 1:]: one["Size"] for page in pages for one in page.get("Contents", [])}

    def body(self, prefix, name):
        return self.boto.get_object(Bucket=BUCKET, Key=f"{prefix}/{name}")["Body"].read()

    def uploads(self, prefix):
        """Keys of multipart uploads that nobody has ended."""
        found = self.boto.list_multipart_uploads(Bucket=BUCKET, Prefix=prefix + "/").get("Uploads", [])
        return [one["Key"] for one in found]


class Watcher(threading.Thread):
    """Looks at a prefix again and again: a manifest must never be there without all files that it stands for.

    `wanted` is {folder: {path: size}}. A folder counts as shown while its manifest is in a list before and in one after
    the list that is looked at: lists take time, and retention removes manifests first."""

    def __init__(self, gateway, prefix, wanted):
        super().__init__(daemon=True)
        self.gateway, self.prefix, self.wanted = gateway, prefix, wanted
        self.ended, self.complaints, self.looks = threading.Event(), [], 0

    def look(self):
        before, found, after = (self.gateway.objects(self.prefix) for _ in range(3))
        for folder, files in self.wanted.items():
            if f"{folder}/manifest.json" not in before or f"{folder}/manifest.json" not in after:
                continue
            self.complaints += [f"{folder}: a manifest without {path}" for path, size in files.items()
                                if found.get(f"{folder}/{path}") != size]
        self.looks += 1

    def run(self):
        while not self.ended.wait(0.05):
            with contextlib.suppress(Exception):  # the gateway is down on purpose
                self.look()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.join()
