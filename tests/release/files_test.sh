#!/usr/bin/env bash
# Tests the files that release.sh makes, without a registry: two runs produce the same bytes, and the files are consistent.
# Uses the images that images/build.sh has built.
set -euo pipefail
repository=$(cd "$(dirname "$0")/../.." && pwd)
programs=$("$repository/deploy/local/build.sh" --print)/bin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }
release() { "$repository/release/release.sh" --no-push --dirty --images-as-they-are --output "$1" registry.example.com/team >"$work/log" 2>&1 || fail "release.sh: $(cat "$work/log")"; }

release "$work/first"
release "$work/second"
diff -r "$work/first" "$work/second" || fail "two releases of the same commit differ"

cd "$work/first"
sha256sum --check --quiet SHA256SUMS || fail "a checksum of SHA256SUMS does not match"
[ "$(find . -type f ! -name SHA256SUMS | wc -l)" = "$(wc -l <SHA256SUMS)" ] || fail "SHA256SUMS does not list all files"
commit=$(git -C "$repository" rev-parse HEAD)
jq -e --arg commit "$commit" '.predicateType == "https://slsa.dev/provenance/v1" and
  (.predicate.buildDefinition.resolvedDependencies[0].digest.gitCommit | startswith($commit))' provenance.json >/dev/null || fail "provenance.json does not name the commit"
while read -r digest file; do
  [ "$file" = provenance.json ] || jq -e --arg digest "$digest" '[.subject[].digest.sha256] | index($digest)' provenance.json >/dev/null || fail "provenance.json does not name $file"
done <SHA256SUMS
for digest in $(jq -r '.[].digest | ltrimstr("sha256:")' images.json); do
  jq -e --arg digest "$digest" '[.subject[].digest.sha256] | index($digest)' provenance.json >/dev/null || fail "provenance.json does not name the image $digest"
done

# An SBOM has the required fields, names its image, and lists the C library, which is in every image.
for sbom in sbom/*.json; do
  jq -e '.spdxVersion == "SPDX-2.3" and .dataLicense == "CC0-1.0" and .documentNamespace and .creationInfo.created and
    (.packages | all(.SPDXID and .name and .downloadLocation and .externalRefs[0].referenceLocator)) and
    ([.packages[].SPDXID] | length == (unique | length)) and
    ([.relationships[].relatedSpdxElement] - [.packages[].SPDXID] == []) and
    (.packages | any(.name == "ringmaster" and .versionInfo)) and (.packages | any(.name | startswith("libc6")))' "$sbom" >/dev/null || fail "$sbom"
done
jq -e '[.packages[].externalRefs[0].referenceLocator] | any(startswith("pkg:pypi/torch@")) and any(startswith("pkg:github/pytorch/gloo@"))' \
  sbom/worker-debian13-linux-amd64.spdx.json >/dev/null || fail "the worker's SBOM lacks LibTorch or Gloo"

# The chart can be installed without any values, and install.yaml is the rendered chart.
image=registry.example.com/team/ringmaster-operator@$(jq -r '.[] | select(.layout == "operator") | .digest' images.json)
"$programs/helm" template ringmaster ringmaster-*.tgz | grep -F "image: $image" >/dev/null || fail "the chart does not name $image"
grep -F "image: $image" install.yaml >/dev/null || fail "install.yaml does not name $image"

# The plugin is a static program, and krew finds it by its SHA-256.
tar -xzf kubectl-trainingjob-*.tar.gz -C "$work"
[ -s "$work/LICENSE" ] || fail "the plugin's archive has no licence"
[ -x "$work/kubectl_complete-trainingjob" ] || fail "the archive lacks kubectl_complete-trainingjob"
! readelf --program-headers "$work/kubectl-trainingjob" | grep INTERP >/dev/null || fail "the plugin is not static"
"$work/kubectl-trainingjob" --version | grep -F " $("$repository/release/version.sh")" >/dev/null || fail "the plugin's version differs from the release's"
grep -F "sha256: $(sha256sum kubectl-trainingjob-*.tar.gz | cut -d' ' -f1)" trainingjob.yaml >/dev/null || fail "the SHA-256 in krew's manifest does not match"

# release.sh does not replace a folder with other files.
mkdir "$work/else" && touch "$work/else/file"
! release_log=$("$repository/release/release.sh" --no-push --dirty --images-as-they-are --output "$work/else" registry.example.com/team 2>&1) || fail "release.sh replaced a folder with other files"
grep -F 'not of a release' <<<"$release_log" >/dev/null || fail "unexpected error for a folder with other files: $release_log"
[ -e "$work/else/file" ] || fail "a file that does not belong to a release was removed"

# The whole tree must have one version.
mkdir -p "$work/other/charts/ringmaster" "$work/other/release"
cp "$repository/CMakeLists.txt" "$work/other"
cp "$repository/release/version.sh" "$work/other/release"
sed 's/^version: .*/version: 9.9.9/' "$repository/charts/ringmaster/Chart.yaml" >"$work/other/charts/ringmaster/Chart.yaml"
if "$work/other/release/version.sh" 2>"$work/log"; then fail "version.sh accepted a chart of another version"; fi
grep -F 'Chart.yaml version: 9.9.9' "$work/log" >/dev/null || fail "$(cat "$work/log")"
version=$("$repository/release/version.sh")
for file in "ringmaster-$version.tgz" "ringmaster-$version-py3-none-any.whl"; do [ -f "$file" ] || fail "$file does not exist"; done
