#!/usr/bin/env bash
# Makes a release of this commit and pushes it to a registry: images, chart, wheel, plugin, SBOMs, checksums and provenance.
# docs/release.md describes the files.
#
#   release.sh [OPTION]... REGISTRY      for example registry.example.com/team; credentials are those of `oras login`, `helm registry login`
#     --output FOLDER                    folder for the files (default build/release/VERSION); an earlier release in it is replaced
#     --no-push                          makes the files but pushes nothing
#     --images-as-they-are               uses the existing archives of images/build.sh, which may be of another commit: labels end in -dirty
#     --dirty                            allows a tree with uncommitted changes: labels end in -dirty
#     --plain-http                       uses a registry without TLS, for tests
#
# The same commit with the same images produces identical files. Needs root for the images, like images/build.sh.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tree=$(dirname "$here")
archives=${RINGMASTER_CACHE:-$HOME/.cache/ringmaster}/images
programs=$("$tree/deploy/local/build.sh" --print)/bin
# Images of the release: folder, name, tags, then one archive for each platform.
images=(
  "operator ringmaster-operator VERSION operator"
  "tools ringmaster-tools VERSION tools tools-arm64"
  "worker-debian13 ringmaster-worker VERSION,VERSION-debian13 worker-debian13"
  "worker-debian12 ringmaster-worker VERSION-debian12 worker-debian12"
)

step() { printf '[%3d s] %s\n' "$SECONDS" "$*"; }
fail() { printf 'release.sh: %s\n' "$*" >&2 && exit 1; }
usage() { sed -n '2,/^set -/{/^set -/!s/^# \{0,1\}//p}' "$here/release.sh" >&2 && exit 2; }

registry='' output='' push=yes build_images=yes dirty=no plain=()
while [ $# -gt 0 ]; do
  case $1 in
    --output) output=${2:?--output needs a folder} && shift ;;
    --no-push) push=no ;;
    --images-as-they-are) build_images=no ;;
    --dirty) dirty=yes ;;
    --plain-http) plain=(--plain-http) ;;
    -*) usage ;;
    *)
      [ -z "$registry" ] || usage
      registry=$1
      ;;
  esac
  shift
done
[ -n "$registry" ] || usage
[[ $registry =~ ^[A-Za-z0-9.-]+(:[0-9]+)?(/[a-z0-9._-]+)*$ ]] || fail "'$registry' does not name a registry; write HOST[:PORT][/FOLDER], without https://"

version=$("$here/version.sh")
commit=$(git -C "$tree" rev-parse HEAD) || fail "a release requires a git checkout, because its labels contain the commit"
epoch=$(git -C "$tree" log -1 --format=%ct)
differs=$(git -C "$tree" status --porcelain)
[ -z "$differs" ] || [ $dirty = yes ] || fail "the tree differs from commit $commit; commit the changes or pass --dirty"
[ -z "$differs" ] && [ $build_images = yes ] || commit+=-dirty
[ -z "$output" ] || [ -z "$(ls -A "$output" 2>/dev/null)" ] || [ -f "$output/SHA256SUMS" ] ||
  fail "$output contains files that are not of a release; name another folder, or an empty one"
output=${output:-$tree/build/release/$version}
export SOURCE_DATE_EPOCH=$epoch

prepare() {
  "$tree/deploy/local/build.sh" helm oras
  rm -rf "$output"
  mkdir -p "$output"
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
}

make_images() {
  local image folder name tags built archive files
  [ $build_images = no ] || "$tree/images/build.sh" operator tools tools-arm64 worker-debian13 worker-debian12
  for image in "${images[@]}"; do
    read -r folder name tags built <<<"$image"
    files=()
    for archive in $built; do
      [ -f "$archives/$archive.oci.tar" ] || fail "the image $archive is not built; run images/build.sh $archive, or leave out --images-as-they-are"
      files+=("$archives/$archive.oci.tar")
    done
    "$here/images.py" "$work/oci/$folder" "$output/sbom" --name "$name" --version "$version" --commit "$commit" --epoch "$epoch" "${files[@]}"
  done >"$work/images"
  jq --sort-keys --slurp . "$work/images" >"$output/images.json"
}
digest_of() { jq -r --arg layout "$1" '.[] | select(.layout == $layout) | .digest' "$output/images.json"; } # folder

# Makes the chart, with this registry and the images' digests as default values, and renders install.yaml from it.
make_chart() {
  local chart=$work/ringmaster values=$work/ringmaster/values.yaml key folder
  cp -r "$tree/charts/ringmaster" "$chart"
  sed -i "/^image:/,/^[a-z]/ s|^  registry: .*|  registry: $registry|" "$values"
  for key in image:operator toolsImage:tools workerImage:worker-debian13; do
    folder=${key#*:} key=${key%:*}
    sed -i "/^$key:/,/^[a-z]/ s|^  digest: .*|  digest: $(digest_of "$folder")|" "$values"
  done
  printf 'annotations:\n  org.opencontainers.image.revision: %s\n' "$commit" >>"$chart/Chart.yaml"
  # helm stores the files' modification times in the package.
  find "$chart" -exec touch --date="@$epoch" {} +
  "$programs/helm" package "$chart" --destination "$output" >/dev/null
  # The package file's time becomes the time of the pushed artifact.
  touch --date="@$epoch" "$output/ringmaster-$version.tgz"
  "$tree/deploy/render-install.sh" --print "$output/ringmaster-$version.tgz" >"$output/install.yaml"
  for folder in operator tools worker-debian13; do
    grep -F "$registry/ringmaster-${folder%-*}@$(digest_of "$folder")" "$output/install.yaml" >/dev/null ||
      fail "the chart does not name the image $folder of this release: look at its values.yaml, which this script fills in"
  done
}

make_wheel() { "$tree/worker/python/build_wheel.py" "$output" >/dev/null; }

# Packs the kubectl plugin, built with the preset `tools`, with its licence, and writes krew's manifest.
make_plugin() {
  local architecture archive folder=$work/plugin
  architecture=$(dpkg --print-architecture)
  archive=kubectl-trainingjob-$version-linux-$architecture.tar.gz
  (cd "$tree" && CCACHE_BASEDIR=$tree CCACHE_NOHASHDIR=1 cmake --preset tools) >"$work/log" || fail "the plugin cannot be configured: $(cat "$work/log")"
  CCACHE_BASEDIR=$tree CCACHE_NOHASHDIR=1 cmake --build "$tree/build/tools" --target kubectl-plugin >"$work/log" ||
    fail "the plugin cannot be built: $(tail -n 40 "$work/log")"
  cp -rP "$tree/build/tools/plugin" "$folder"
  install -m 0644 "$tree/LICENSE" "$folder/"
  tar -C "$folder" --sort=name --mtime="@$epoch" --owner=0 --group=0 --numeric-owner -c . | gzip -n >"$output/$archive"
  sed "s/VERSION/$version/; s/ARCHITECTURE/$architecture/; s/ARCHIVE/$archive/g; s/SHA256/$(sha256sum "$output/$archive" | cut -d' ' -f1)/" \
    "$here/krew.yaml" >"$output/trainingjob.yaml"
}

write_provenance() {
  local tools=() name
  for name in helm.sh/helm/v4 oras.land/oras; do
    tools+=(--tool "$name@$(awk -v name="$name" '$2 == name {print $3}' "$tree"/deploy/local/tools/{helm,oras}/go.mod)")
  done
  find "$output" -type f -print0 | sort -z | xargs -0 "$here/provenance.py" "$work/provenance.json" --registry "$registry" --version "$version" \
    --commit "$commit" --images "$output/images.json" "${tools[@]}"
  mv "$work/provenance.json" "$output/provenance.json"
  (cd "$output" && find . -type f -printf '%P\n' | LC_ALL=C sort | xargs sha256sum >"$work/SHA256SUMS")
  mv "$work/SHA256SUMS" "$output/SHA256SUMS"
}

push_images() {
  local image folder name tags digest
  for image in "${images[@]}"; do
    read -r folder name tags _ <<<"$image"
    digest=$(digest_of "$folder")
    "$programs/oras" cp --no-tty --from-oci-layout "${plain[@]/#--/--to-}" "$work/oci/$folder@$digest" "$registry/$name:$tags" >/dev/null
    for digest in $(jq -r --arg layout "$folder" '.[] | select(.layout == $layout) | .sboms[]' "$output/images.json"); do
      "$programs/oras" cp --no-tty --from-oci-layout "${plain[@]/#--/--to-}" "$work/oci/$folder@$digest" "$registry/$name" >/dev/null
    done
  done
}
push_chart() { "$programs/helm" push "${plain[@]}" "$output/ringmaster-$version.tgz" "oci://$registry/charts" 2>&1 | tail -n 2; }

say_what_is_there() {
  jq -r --arg registry "$registry" '.[] | "  \($registry)/\(.name)@\(.digest)  \(.platforms | join(", "))\(if (.platforms | length) == 1 then " only" else "" end)"' "$output/images.json"
  echo "  $output: $(wc -l <"$output/SHA256SUMS") files, by their SHA-256 in SHA256SUMS; provenance.json is not signed"
}

images=("${images[@]//VERSION/$version}")
prepare
step "images of ringmaster $version, commit $commit"
make_images
step "chart, wheel, plugin, checksums and provenance"
make_chart
make_wheel
make_plugin
write_provenance
if [ $push = yes ]; then
  step "push to $registry"
  push_images
  push_chart
fi
step "the release is ready"
say_what_is_there
[ $push = no ] || echo "  helm install ringmaster oci://$registry/charts/ringmaster --version $version --namespace ringmaster-system --create-namespace"
