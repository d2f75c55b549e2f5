#!/usr/bin/env python3
"""Makes one image of a release, ready to be copied into a registry: an OCI layout with an index of the platforms in the archives of
images/build.sh. Each platform's image has labels with version and commit, and an SBOM. Equal archives produce identical output.

    images.py LAYOUT SBOMS --name ringmaster-tools --version 0.1.0 --commit ID --epoch SECONDS ARCHIVE...

Writes the folders LAYOUT and SBOMS (NAME-OS-ARCHITECTURE.spdx.json) and prints a line of JSON that lists the digests.
"""

import argparse
import datetime
import hashlib
import json
import pathlib
import shutil
import tarfile

import spdx

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
EMPTY = "application/vnd.oci.empty.v1+json"
SPDX = "application/spdx+json"


def json_bytes(value):
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


class Layout:
    """An OCI image layout: blobs by digest, and index.json, which names the roots."""

    def __init__(self, folder):
        self.folder = folder
        self.roots = []
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "blobs" / "sha256").mkdir(parents=True)

    def path(self, digest):
        return self.folder / "blobs" / digest.replace(":", "/")

    def read(self, digest):
        return json.loads(self.path(digest).read_bytes())

    def add(self, content, media_type):
        digest = "sha256:" + hashlib.sha256(content).hexdigest()
        self.path(digest).write_bytes(content)
        return {"mediaType": media_type, "digest": digest, "size": len(content)}

    def close(self):
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": self.roots}
        (self.folder / "index.json").write_bytes(json_bytes(index))
        (self.folder / "oci-layout").write_bytes(json_bytes({"imageLayoutVersion": "1.0.0"}))


def unpack(layout, archive):
    """Puts an archive's blobs into the layout; returns its manifest."""
    with tarfile.open(archive) as tar:
        index = json.load(tar.extractfile("index.json"))
        for member in tar:
            if member.isfile() and member.name.startswith("blobs/sha256/"):
                with tar.extractfile(member) as blob, open(layout.folder / member.name, "wb") as file:
                    shutil.copyfileobj(blob, file)
    digests = [manifest["digest"] for manifest in index["manifests"]]
    if len(digests) != 1:
        raise SystemExit(f"images.py: {archive} holds {len(digests)} images; images/build.sh writes one into each archive")
    manifest = layout.read(digests[0])
    layout.path(digests[0]).unlink()
    return manifest


def label(layout, manifest, labels):
    """Adds the labels to the image's config, which runtimes show, and to its manifest, which registries show."""
    old = manifest["config"]["digest"]
    config = layout.read(old)
    layout.path(old).unlink()
    config["created"] = labels["org.opencontainers.image.created"]
    config["config"].setdefault("Labels", {}).update(labels)
    manifest["config"] = layout.add(json_bytes(config), manifest["config"]["mediaType"])
    manifest["mediaType"] = MANIFEST
    manifest["annotations"] = labels
    descriptor = layout.add(json_bytes(manifest), MANIFEST)
    descriptor["platform"] = {"os": config["os"], "architecture": config["architecture"]}
    return descriptor


def attach(layout, subject, document):
    """Adds the SBOM as an artifact that refers to the image; returns the artifact's digest."""
    empty = layout.add(b"{}", EMPTY)
    refers = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "artifactType": SPDX,
        "config": empty,
        "layers": [layout.add(document, SPDX)],
        "subject": {key: subject[key] for key in ("mediaType", "digest", "size")},
    }
    descriptor = layout.add(json_bytes(refers), MANIFEST)
    layout.roots.append({**descriptor, "artifactType": SPDX})
    return descriptor["digest"]


def make(options):
    created = datetime.datetime.fromtimestamp(options.epoch, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    labels = {
        "org.opencontainers.image.title": options.name,
        "org.opencontainers.image.version": options.version,
        "org.opencontainers.image.revision": options.commit,
        "org.opencontainers.image.created": created,
        "org.opencontainers.image.licenses": "Apache-2.0",
    }
    layout = Layout(options.layout)
    platforms, sboms = [], []
    for archive in options.archives:
        manifest = unpack(layout, archive)
        platform = label(layout, manifest, labels)
        layers = [layout.path(layer["digest"]) for layer in manifest["layers"]]
        words = "-".join(platform["platform"].values())
        document = spdx.document(options, created, platform, spdx.packages_in(layers))
        text = (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()
        options.sboms.mkdir(parents=True, exist_ok=True)
        (options.sboms / f"{options.layout.name}-{words}.spdx.json").write_bytes(text)
        platforms.append(platform)
        sboms.append(attach(layout, platform, text))
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": platforms, "annotations": labels}
    descriptor = layout.add(json_bytes(index), INDEX)
    layout.roots.insert(0, {**descriptor, "annotations": {"org.opencontainers.image.ref.name": options.version}})
    layout.close()
    return {
        "name": options.name,
        "layout": options.layout.name,
        "digest": descriptor["digest"],
        "platforms": ["/".join(platform["platform"].values()) for platform in platforms],
        "sboms": sboms,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("layout", type=pathlib.Path)
    parser.add_argument("sboms", type=pathlib.Path)
    for name in ("--name", "--version", "--commit"):
        parser.add_argument(name, required=True)
    parser.add_argument("--epoch", type=int, required=True)
    parser.add_argument("archives", nargs="+")
    print(json.dumps(make(parser.parse_args())))


if __name__ == "__main__":
    main()
