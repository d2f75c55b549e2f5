# shellcheck shell=bash
# Loads images into the nodes without a registry. An archive is unpacked once, by a containerd that is started only for this and
# keeps its snapshots in the cache; each node then gets the same layers as hard links, and the image's manifest and config.
# The files of a layer never change: overlayfs copies a file before a container writes to it.
#
# Cache entry of an image, $CACHE/unpacked/<name>/: image (its name), digest, config (digest), layers (one line each, lowest
# first: chain id, folder), thin.tar (the archive without its layers).

cached_name() { tr '/:@' '___' <<<"$1"; }

command_load() { # archive...
  local archive entries=() node job jobs=()
  need_root
  lock_cluster
  need_up
  need_commands ctr jq tar
  mkdir -p "$CACHE/unpacked"
  # Only one cluster at a time unpacks or links: unpacking a newer image of the same name removes layers, which another cluster
  # may be linking at that time.
  exec 7>"$CACHE/unpacked/.lock"
  flock 7
  for archive in "$@"; do
    [ -f "$archive" ] || die "while loading $archive: no such file"
    entries+=("$(unpack_once "$archive")")
  done
  for node in $(node_names); do
    for archive in "${entries[@]}"; do give_image "$node" "$archive"; done &
    jobs+=($!)
  done
  for job in "${jobs[@]}"; do wait "$job" || die "failed to load an image into every node"; done
  for archive in "${entries[@]}"; do say "loaded $(cat "$archive/image") into $(node_names | wc -l) nodes"; done
}

node_names() { seq -f 'node%g' "$(setting nodes)"; }

# --- Unpacking into the cache --------------------------------------------------------------------------------------

unpack_once() { # archive -> prints the cache entry; takes the lock of the cache
  local index name digest entry
  index=$(from_archive "$1" index.json) || die "while loading $1: not an OCI archive (a plain tar with an index.json)"
  [ "$(jq '.manifests | length' <<<"$index")" = 1 ] || die "while loading $1: it must hold exactly one image"
  name=$(jq -r '.manifests[0].annotations | .["io.containerd.image.name"] // .["org.opencontainers.image.ref.name"] // ""' <<<"$index")
  digest=$(jq -r '.manifests[0].digest' <<<"$index")
  [[ $name == */*:* ]] || die "while loading $1: the image in it is named '$name'; name it localhost/NAME:TAG when writing the archive"
  entry=$CACHE/unpacked/$(cached_name "$name")
  if [ "$(cat "$entry/digest" 2>/dev/null)" != "$digest" ] || ! layers_are_there "$entry"; then
    unpack "$1" "$name" "$digest" "$entry"
  fi
  echo "$entry"
}

layers_are_there() { # entry
  local folder
  [ -e "$1/config" ] || return 1
  while read -r _ folder; do [ -d "$folder" ] || return 1; done <"$1/layers"
}

unpack() { # archive name digest entry
  local entry=$4 socket=$STATE/unpack.sock
  rm -rf "$entry"
  mkdir -p "$entry"
  start_unpacker "$socket"
  ctr --address "$socket" --namespace k8s.io image import "$1" >/dev/null || die "while unpacking $1: containerd rejected it; see its output above"
  tar -cf "$entry/thin.tar" -C "$(thin_archive "$1" "$3")" .
  rm -rf "$STATE/thin"
  echo "$2" >"$entry/image"
  write_layers "$socket" "$entry"
  remove_garbage "$socket" "$2"
  stop_unpacker
  echo "$3" >"$entry/digest"
}

start_unpacker() { # socket
  cat >"$STATE/unpack.toml" <<C
version = 2
root = "$CACHE/unpacked/containerd"
state = "$STATE/unpack-run"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]
[grpc]
  address = "$1"
# While one image replaces another, nothing refers to the layers that both images have, and containerd must not collect these
# layers as garbage.
[plugins."io.containerd.gc.v1.scheduler"]
  startup_delay = "24h"
  deletion_threshold = 0
  mutation_threshold = 0
C
  start unpacker containerd --config "$STATE/unpack.toml"
  wait_until 20 unpacker "containerd, to unpack the image" ctr --address "$1" version
}

# Removes the layers that only a replaced image had. The tag is created only to be removed: with --sync, its removal makes
# containerd collect garbage before the command returns.
remove_garbage() { # socket name
  ctr --address "$1" --namespace k8s.io image tag --force "$2" "$2-collect" >/dev/null
  ctr --address "$1" --namespace k8s.io image rm --sync "$2-collect" >/dev/null
}

stop_unpacker() {
  local pid
  pid=$(cat "$STATE/pid/unpacker")
  # Send SIGTERM and not SIGKILL, because containerd's databases in the cache are used again.
  kill "$pid"
  for _ in $(seq 200); do
    running unpacker || break
    sleep 0.05
  done
  rm -f "$STATE/pid/unpacker"
}

# Prints one document of an archive; some tools write the paths with a leading ./
from_archive() { # archive path
  tar -xOf "$1" "$2" 2>/dev/null || tar -xOf "$1" "./$2" 2>/dev/null
}

# Unpacks the archive's documents, without its layers, into a folder.
thin_archive() { # archive digest
  local thin=$STATE/thin manifest=blobs/sha256/${2#sha256:} config
  rm -rf "$thin"
  mkdir -p "$thin/blobs/sha256"
  from_archive "$1" oci-layout >"$thin/oci-layout"
  from_archive "$1" index.json >"$thin/index.json"
  from_archive "$1" "$manifest" >"$thin/$manifest"
  config=blobs/sha256/$(jq -r '.config.digest | ltrimstr("sha256:")' "$thin/$manifest")
  from_archive "$1" "$config" >"$thin/$config"
  echo "$thin"
}

# Writes the file `layers`: for each layer its chain id, which is also the name of its snapshot, and the folder of its files.
write_layers() { # socket entry
  local manifest config diff chain='' chains=() folders
  manifest=$(from_archive "$2/thin.tar" index.json | jq -r '.manifests[0].digest | ltrimstr("sha256:")')
  config=$(from_archive "$2/thin.tar" "blobs/sha256/$manifest" | jq -r '.config.digest | ltrimstr("sha256:")')
  while read -r diff; do
    if [ -z "$chain" ]; then chain=$diff; else chain=sha256:$(printf '%s %s' "$chain" "$diff" | sha256sum | cut -d' ' -f1); fi
    chains+=("$chain")
  done < <(from_archive "$2/thin.tar" "blobs/sha256/$config" | jq -r '.rootfs.diff_ids[]')
  folders=$(ctr --address "$1" --namespace k8s.io snapshots view --mounts "look-$$" "$chain" | lower_folders)
  ctr --address "$1" --namespace k8s.io snapshots rm "look-$$"
  echo "sha256:$config" >"$2/config"
  paste -d' ' <(printf '%s\n' "${chains[@]}") <(tac <<<"$folders") >"$2/layers"
}

# Reads the mounts of a view and prints its lower folders, topmost first. If there is only one layer, its folder is bind-mounted.
lower_folders() {
  jq -r '.[0] | if .Type == "bind" then .Source else .Options[] | select(startswith("lowerdir=")) | ltrimstr("lowerdir=") end' |
    tr ':' '\n'
}

# --- Giving an unpacked image to a node ------------------------------------------------------------------------------

give_image() { # node cache-entry
  local control chain folder parent='' upper
  control=(ctr --address "$STATE/$1/containerd.sock" --namespace k8s.io)
  while read -r chain folder; do
    if ! "${control[@]}" snapshots info "$chain" >/dev/null 2>&1; then
      "${control[@]}" snapshots rm "give-$chain" >/dev/null 2>&1 || true
      # shellcheck disable=SC2086  # the lowest layer has no parent: no argument
      upper=$("${control[@]}" snapshots prepare --mounts "give-$chain" $parent | upper_folder)
      copy_layer "$folder" "$upper"
      "${control[@]}" snapshots commit "$chain" "give-$chain"
    fi
    parent=$chain
  done <"$2/layers"
  # The CRI plugin of containerd would keep using the old image of the same name, so remove it first.
  image_is_listed "$(cat "$2/config")" "${control[@]}" || "${control[@]}" image rm --sync "$(cat "$2/image")" >/dev/null 2>&1 || true
  "${control[@]}" image import --no-unpack "$2/thin.tar" >/dev/null
  # The CRI plugin of containerd learns of the image a moment later and then also lists the image under its config's digest.
  # Wait until then: a Pod that is created earlier would start only at the kubelet's next attempt.
  wait_until 20 "containerd-$1" "containerd of $1 to offer $(cat "$2/image")" image_is_listed "$(cat "$2/config")" "${control[@]}"
}

image_is_listed() { # name ctr...
  local name=$1
  shift
  [ "$("$@" image ls -q "name==$name")" = "$name" ]
}

upper_folder() {
  jq -r '.[0] | if .Type == "bind" then .Source else .Options[] | select(startswith("upperdir=")) | ltrimstr("upperdir=") end'
}

copy_layer() { # from to: copies a folder; makes hard links if both folders are on one file system
  if [ "$(stat -c %d "$1")" = "$(stat -c %d "$2")" ]; then
    cp -al "$1/." "$2/"
  else
    cp -a --reflink=auto "$1/." "$2/"
  fi
}

# --- The pause image ---------------------------------------------------------------------------------------------------

# Builds the pause image, whose container keeps a Pod's namespaces open: a static program that waits and reaps child processes.
# This script writes the archive, which is simple because the image has only one file.
pause_image() {
  local archive work
  mkdir -p "$CACHE/unpacked"
  archive=$CACHE/unpacked/pause-$(sha256sum "$here/lib/pause.c" | cut -c -12).tar
  if [ ! -e "$archive" ]; then
    work=$(mktemp -d "$STATE/pause.XXXXXX")
    write_pause_archive "$work" "$archive"
    rm -rf "$work"
  fi
  (
    flock 7
    unpack_once "$archive" >/dev/null
  ) 7>"$CACHE/unpacked/.lock"
}

write_pause_archive() { # work archive
  local layer config manifest blobs=$1/oci/blobs/sha256
  mkdir -p "$blobs" "$1/root"
  gcc -static -O2 -o "$1/root/pause" "$here/lib/pause.c"
  tar -C "$1/root" --owner=0 --group=0 --numeric-owner --mtime=@0 -cf "$1/layer" pause
  layer=$(sha256sum "$1/layer" | cut -d' ' -f1)
  printf '{"architecture":"%s","os":"linux","config":{"Entrypoint":["/pause"]},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
    "$(dpkg --print-architecture)" "$layer" >"$1/config"
  config=$(sha256sum "$1/config" | cut -d' ' -f1)
  printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:%s","size":%d},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar","digest":"sha256:%s","size":%d}]}' \
    "$config" "$(stat -c %s "$1/config")" "$layer" "$(stat -c %s "$1/layer")" >"$1/manifest"
  manifest=$(sha256sum "$1/manifest" | cut -d' ' -f1)
  printf '{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:%s","size":%d,"annotations":{"org.opencontainers.image.ref.name":"localhost/pause:1"}}]}' \
    "$manifest" "$(stat -c %s "$1/manifest")" >"$1/oci/index.json"
  echo '{"imageLayoutVersion":"1.0.0"}' >"$1/oci/oci-layout"
  mv "$1/layer" "$blobs/$layer"
  mv "$1/config" "$blobs/$config"
  mv "$1/manifest" "$blobs/$manifest"
  tar -C "$1/oci" -cf "$2.$$" oci-layout index.json blobs
  mv "$2.$$" "$2"
}
