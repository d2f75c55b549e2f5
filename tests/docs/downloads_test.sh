#!/usr/bin/env bash
# Tests that our scripts download only pinned files: wheels by SHA-256 (Go modules are pinned by go.sum, Debian's packages signed).
# shellcheck disable=SC2016  # awk and the planted scripts expand them
set -euo pipefail
cd "$(dirname "$0")/../.."
fail() { echo "FAILED: $*" >&2; exit 1; }

# unpinned ROOT: prints each command of a script or Dockerfile under ROOT that downloads something without a checksum.
unpinned() {
  find "$1" \( -name build -o -name .git -o -path '*/tests/docs' \) -prune -o \( -name '*.sh' -o -name '*Dockerfile' -o -name Makefile \) -type f -print0 |
    xargs -0 awk '
      FNR == 1 {line = ""}
      {line = line $0}
      /\\$/ {sub(/\\$/, "", line); next}
      line !~ /^ *#/ && line ~ /pip3? +(install|download)/ && line !~ /--require-hashes/ {print FILENAME ": " line}
      line !~ /^ *#/ && line ~ /(^|[ (&|;])(curl|wget) [^#]*https:\/\/[a-z]/ && line !~ /sha256sum/ {print FILENAME ": " line}
      {line = ""}'
}
found=$(unpinned .)
[ -z "$found" ] || fail "downloads without a checksum: $found"
for file in images/worker/*.requirements tests/runtime/programs/*.requirements; do
  awk '/^[a-z]/ {if (open) bad = bad " " open; open = $1} /--hash=sha256:[0-9a-f]/ {open = ""} END {if (bad open != "") {print bad, open; exit 1}}' "$file" ||
    fail "$file contains a package without a hash"
done

# The search must find such commands in a small tree.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf 'python3 -m pip install \\\n  torch==1.0\n' >"$work/a.sh"
printf 'RUN curl -L https://example.com/a | tar x\n' >"$work/Dockerfile"
printf 'pip install --require-hashes -r a\ncurl https://$address/healthz\n' >"$work/b.sh"
[ "$(unpinned "$work" | wc -l)" = 2 ] || fail "expected two downloads without a checksum, got: $(unpinned "$work")"
