#!/usr/bin/env python3
"""Writes a release's provenance: an unsigned in-toto statement with SLSA's predicate, version 1, about all files of the release.

    provenance.py OUTPUT --registry R --version V --commit ID --images IMAGES.json [--tool NAME@VERSION]... FILE...
"""

import argparse
import hashlib
import json
import pathlib
import re

TREE = pathlib.Path(__file__).resolve().parent.parent
REQUIREMENTS = TREE / "images" / "worker" / "libtorch.requirements"


def wheels():
    """Returns the PyPI packages of the worker image, each with its SHA-256."""
    text = REQUIREMENTS.read_text(encoding="utf-8").replace("\\\n", " ")
    for name, version, rest in re.findall(r"^([A-Za-z0-9_.-]+)==([^\s;]+)(.*)$", text, re.MULTILINE):
        for digest in re.findall(r"--hash=sha256:([0-9a-f]{64})", rest):
            yield {"uri": f"pkg:pypi/{name}@{version}", "digest": {"sha256": digest}}


def subjects(options):
    for path in sorted(options.files):
        yield {"name": path.name, "digest": {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()}}
    for image in json.loads(options.images.read_text(encoding="utf-8")):
        yield {"name": f"{options.registry}/{image['name']}", "digest": {"sha256": image["digest"].removeprefix("sha256:")}}


def statement(options):
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": list(subjects(options)),
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "https://ringmaster.dev/release/v1",
                "externalParameters": {"registry": options.registry, "version": options.version},
                "resolvedDependencies": [
                    {"name": "ringmaster", "digest": {"gitCommit": options.commit}},
                    *wheels(),
                    *({"uri": f"pkg:golang/{tool}"} for tool in options.tool),
                ],
            },
            "runDetails": {"builder": {"id": "https://ringmaster.dev/release/release.sh"}},
        },
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=pathlib.Path)
    for name in ("--registry", "--version", "--commit"):
        parser.add_argument(name, required=True)
    parser.add_argument("--images", type=pathlib.Path, required=True)
    parser.add_argument("--tool", action="append", default=[])
    parser.add_argument("files", type=pathlib.Path, nargs="+")
    options = parser.parse_args()
    options.output.write_text(json.dumps(statement(options), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
