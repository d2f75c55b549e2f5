#!/usr/bin/env bash
# Tests that docs/troubleshooting.md links to every section of docs/reasons.md, which is rendered from the code (docs_rendered), and
# uses only reasons of that page, of Kubernetes or of the API.
# shellcheck disable=SC2016  # the backticks are those of Markdown
set -euo pipefail
cd "$(dirname "$0")/../.."
fail() { echo "FAILED: $*" >&2; exit 1; }
page=docs/troubleshooting.md
others='ErrImagePull ImagePullBackOff InPlace' # words of Kubernetes and of the API

sections=$(sed -n 's/^## //p' docs/reasons.md | tr '[:upper:] ' '[:lower:]-' | tr -cd 'a-z0-9_\n-')
[ "$(wc -l <<<"$sections")" -ge 15 ] || fail "found only the sections $sections in docs/reasons.md"
while read -r section; do
  grep -F "](reasons.md#$section)" "$page" >/dev/null || fail "$page does not link to reasons.md#$section"
done <<<"$sections"

words=$(grep -oE '`[A-Z][a-z]+([A-Z][A-Za-z]+)+`' "$page" | tr -d '`' | sort -u)
[ "$(wc -l <<<"$words")" -ge 20 ] || fail "found only $words in $page"
while read -r word; do
  [[ " $others " == *" $word "* ]] || grep -F "| \`$word\` |" docs/reasons.md >/dev/null || fail "$page contains $word, which the code does not define"
done <<<"$words"
# Each symptom and each mistake must have a cell in every column of its table.
ragged=$(awk -F'|' '/^\| What you see \| Look/ {columns = 5} /^\| Mistake/ {columns = 6} /^$/ {columns = 0} columns && NF != columns {print}' "$page")
[ -z "$ragged" ] || fail "table rows with a different number of cells: $ragged"
echo "troubleshooting_test: $(wc -l <<<"$sections") sections, $(wc -l <<<"$words") words"
