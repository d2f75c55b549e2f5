#!/usr/bin/env python3
"""Makes an image that a node can load from a folder: foreign_image.py NAME FOLDER ARCHIVE.

The image is an OCI archive with one layer, whose files belong to root, without a user and without an entrypoint.
"""

import gzip
import hashlib
import io
import json
import sys
import tarfile


def main():
    name, folder, archive = sys.argv[1:]
    blobs = {}

    def blob(data, media_type):
        digest = hashlib.sha256(data).hexdigest()
        blobs[digest] = data
        return {"mediaType": media_type, "digest": "sha256:" + digest, "size": len(data)}

    def as_root(entry):
        entry.uid = entry.gid = entry.mtime = 0
        entry.uname = entry.gname = ""
        return entry

    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        tar.add(folder, arcname=".", filter=as_root)
    oci = "application/vnd.oci.image."
    config = json.dumps({
        "architecture": "amd64", "os": "linux", "config": {"Env": ["PATH=/usr/local/bin:/usr/bin:/bin"]},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer.getvalue()).hexdigest()]}})
    manifest = blob(json.dumps({
        "schemaVersion": 2, "mediaType": oci + "manifest.v1+json",
        "config": blob(config.encode(), oci + "config.v1+json"),
        "layers": [blob(gzip.compress(layer.getvalue(), mtime=0), oci + "layer.v1.tar+gzip")]}).encode(), oci + "manifest.v1+json")
    manifest["annotations"] = {"org.opencontainers.image.ref.name": name}
    files = {"oci-layout": json.dumps({"imageLayoutVersion": "1.0.0"}).encode(),
             "index.json": json.dumps({"schemaVersion": 2, "manifests": [manifest]}).encode()}
    files |= {"blobs/sha256/" + digest: data for digest, data in blobs.items()}
    with tarfile.open(archive, mode="w") as tar:
        for path, data in files.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))


main()
