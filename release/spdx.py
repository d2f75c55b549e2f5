"""Reads the list of packages in an image from its layers, and writes the list as an SPDX 2.3 document.

Debian's packages are those in dpkg's status file, or, if an image starts from scratch, in one file per package
(images/record-packages.sh). Wheels are those whose licences images/worker/install-torch.sh keeps, and Gloo is the copy in third_party.
"""

import pathlib
import re
import subprocess
import tarfile
import urllib.parse

TREE = pathlib.Path(__file__).resolve().parent.parent
STATUS = "var/lib/dpkg/status"
OS_RELEASE = "usr/lib/os-release"
WHEELS = "usr/share/doc/libtorch/"
GLOO = "usr/share/doc/gloo/LICENSE"
# The release of Debian on which images/build.sh compiles the images that start from scratch.
BUILDER = "12"
PROGRAMS = {b"\x28\xb5\x2f\xfd": "zstd", b"\x1f\x8b\x08\x00": "gzip"}


def tar_of(layer):
    with layer.open("rb") as file:
        program = PROGRAMS.get(file.read(4))
    if program is None:
        raise SystemExit(f"spdx.py: {layer} is neither compressed with zstd nor with gzip")
    return subprocess.Popen([program, "-dc", str(layer)], stdout=subprocess.PIPE)


def contents(layers):
    """Returns the texts of the files that list packages, by path, and the names of the wheels' folders."""
    texts, wheels = {}, set()
    for layer in layers:
        with tar_of(layer) as unpacked, tarfile.open(fileobj=unpacked.stdout, mode="r|") as tar:
            for member in tar:
                name = member.name.removeprefix("./")
                if name in (STATUS, OS_RELEASE, GLOO) or name.startswith(STATUS + ".d/"):
                    if member.isfile():
                        texts[name] = tar.extractfile(member).read().decode()
                elif name.startswith(WHEELS) and "/" in name[len(WHEELS) :]:
                    wheels.add(name[len(WHEELS) :].split("/")[0])
            unpacked.stdout.read()  # drop the bytes after the tar's end
        if unpacked.returncode:
            raise SystemExit(f"spdx.py: {layer} cannot be unpacked")
    return texts, wheels


def fields_of(paragraph):
    lines = (re.match(r"([A-Za-z-]+): (.*)", line) for line in paragraph.splitlines())
    return {line[1]: line[2] for line in lines if line}


def packages_in(layers):
    """Returns the packages, each a dict of name, version, purl and other known fields."""
    texts, wheels = contents(layers)
    release = re.search(r'VERSION_ID="?([0-9.]+)', texts.get(OS_RELEASE, ""))
    release = release[1] if release else BUILDER
    found = []
    for path, text in texts.items():
        if path.startswith(STATUS):
            for paragraph in text.split("\n\n"):
                fields = fields_of(paragraph)
                if " installed" in fields.get("Status", ""):
                    found.append(debian_package(fields, release))
    for wheel in wheels:
        name, _, version = wheel.rpartition("-")
        if name:
            found.append({"name": name, "version": version, "purl": f"pkg:pypi/{name.replace('_', '-').lower()}@{version}"})
    if GLOO in texts:
        text = (TREE / "third_party" / "gloo" / "README.md").read_text(encoding="utf-8")
        commit = re.search(r"commit\s+`([0-9a-f]{40})`", text)[1]
        found.append({"name": "gloo", "version": commit, "purl": f"pkg:github/pytorch/gloo@{commit}", "license": "BSD-3-Clause"})
    return sorted(found, key=lambda package: (package["purl"], package["name"]))


def debian_package(fields, release):
    source = re.match(r"(\S+)(?: \((.*)\))?", fields.get("Source", fields["Package"]))
    upstream = source[1] + (f"@{source[2]}" if source[2] else "")
    qualifiers = urllib.parse.urlencode({"arch": fields["Architecture"], "distro": f"debian-{release}", "upstream": upstream})
    version = urllib.parse.quote(fields["Version"], safe="+~:")
    purl = f"pkg:deb/debian/{urllib.parse.quote(fields['Package'], safe='')}@{version}?{qualifiers}"
    return {"name": fields["Package"], "version": fields["Version"], "purl": purl, "supplier": "Organization: Debian"}


def element(number, package):
    return {
        "SPDXID": f"SPDXRef-Package-{number}",
        "name": package["name"],
        "versionInfo": package["version"],
        "supplier": package.get("supplier", "NOASSERTION"),
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": package.get("license", "NOASSERTION"),
        "copyrightText": "NOASSERTION",
        "externalRefs": [
            {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": package["purl"]},
        ],
    }


def document(image, created, descriptor, packages):
    """Returns the SPDX document. `image` has name, version and commit; `descriptor` is that of the platform's manifest."""
    if not packages:
        raise SystemExit(f"spdx.py: no package was found in {image.name}, so images/record-packages.sh did not run in its build; build it again with images/build.sh")
    digest, platform = descriptor["digest"], "-".join(descriptor["platform"].values())
    whole = element("Image", {"name": image.name, "version": image.version, "license": "NOASSERTION",
                              "purl": f"pkg:oci/{image.name}@{digest.replace(':', '%3A')}?arch={descriptor['platform']['architecture']}"})
    whole |= {"SPDXID": "SPDXRef-Image", "primaryPackagePurpose": "CONTAINER"}
    whole["checksums"] = [{"algorithm": "SHA256", "checksumValue": digest.removeprefix("sha256:")}]
    ours = element("ringmaster", {"name": "ringmaster", "version": image.version, "license": "Apache-2.0",
                                  "purl": f"pkg:generic/ringmaster@{image.version}"})
    ours["sourceInfo"] = f"built from git commit {image.commit}"
    inside = [ours] + [element(number, package) for number, package in enumerate(packages, 1)]
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"{image.name}-{image.version}-{platform}",
        "documentNamespace": f"https://ringmaster.dev/spdx/{image.name}/{digest.removeprefix('sha256:')}",
        "creationInfo": {"created": created, "creators": [f"Tool: ringmaster-release-{image.version}"]},
        "packages": [whole, *inside],
        "relationships": [
            {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-Image"},
            *({"spdxElementId": "SPDXRef-Image", "relationshipType": "CONTAINS", "relatedSpdxElement": package["SPDXID"]} for package in inside),
        ],
    }
