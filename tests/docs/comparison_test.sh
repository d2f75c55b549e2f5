#!/usr/bin/env bash
# Every test, script, figure and page that docs/comparison.md names exists, and no "yes" of ours stands without one.
# shellcheck disable=SC2016  # the backticks are those of Markdown
set -euo pipefail
cd "$(dirname "$0")/../.."
page=docs/comparison.md
fail() { echo "FAILED: $*" >&2; exit 1; }

named=$(grep -oE '`[A-Z][A-Za-z]+\.[A-Z][A-Za-z0-9]+`' "$page" | tr -d '`' | sort -u)
[ "$(wc -l <<<"$named")" -ge 60 ] || fail "found only: $named"
written=$(grep -rhoE '^TEST(_F|_P)?\([A-Za-z]+, [A-Za-z0-9]+' tests --include='*_test.cc' | sed -E 's/^TEST(_F|_P)?\(//; s/, /./' | sort -u)
missing=$(comm -23 <(echo "$named") <(echo "$written"))
[ -z "$missing" ] || fail "no such tests: $missing"

while read -r path; do
  [ -e "$path" ] || fail "no $path"
done < <(grep -oE '`tests/[a-z0-9_/]+(\.sh)?`' "$page" | tr -d '`' | sort -u)
while read -r link; do
  [ -e "docs/$link" ] || fail "no docs/$link"
done < <(grep -oE '\]\([^)]+\)' "$page" | sed 's/^](//; s/)$//; s/ ".*"$//' | grep -v '^https://' | sort -u)
while read -r figure; do
  grep -E "^\| $figure \|" bench/README.md >/dev/null || fail "no figure $figure"
done < <(grep -oE '\bB[0-9]+\b' "$page" | sort -u)
while read -r figure; do
  grep -E "\| $figure \|" bench/RESULTS.md >/dev/null || fail "$figure has no result"
done < <(awk -F'|' '/^## /{shown = 0} /^\|.*shown by/{shown = 1} shown && NF > 3 {print $(NF - 1)}' "$page" | grep -oE '\bB[0-9]+\b' | sort -u)
bare=$(awk -F'|' '/^## /{shown = 0} /^\|.*shown by/{shown = 1} shown && NF > 4 && $(NF - 2) ~ /^ (\*\*)?yes/ && $(NF - 1) !~ /`|B[0-9]|\]\(/ {print $2}' "$page")
[ -z "$bare" ] || fail "a yes that nothing shows: $bare"
