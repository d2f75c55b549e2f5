#!/usr/bin/env bash
# Tests that every test, script, figure and page named in docs/comparison.md and its appendix exists, and that every "yes" for
# Ringmaster in the appendix names one.
# shellcheck disable=SC2016  # the backticks are those of Markdown
set -euo pipefail
cd "$(dirname "$0")/../.."
pages=(docs/comparison.md docs/comparison-details.md)
page=docs/comparison-details.md
fail() { echo "FAILED: $*" >&2; exit 1; }

named=$(grep -ohE '`[A-Z][A-Za-z]+\.[A-Z][A-Za-z0-9]+`' "${pages[@]}" | tr -d '`' | sort -u)
[ "$(wc -l <<<"$named")" -ge 60 ] || fail "found only: $named"
written=$(grep -rhoE '^TEST(_F|_P)?\([A-Za-z]+, [A-Za-z0-9]+' tests --include='*_test.cc' | sed -E 's/^TEST(_F|_P)?\(//; s/, /./' | sort -u)
missing=$(comm -23 <(echo "$named") <(echo "$written"))
[ -z "$missing" ] || fail "no such tests: $missing"

while read -r path; do
  [ -e "$path" ] || fail "no $path"
done < <(grep -ohE '`tests/[a-z0-9_/]+(\.sh)?`' "${pages[@]}" | tr -d '`' | sort -u)
while read -r link; do
  [ -e "docs/$link" ] || fail "no docs/$link"
done < <(grep -ohE '\]\([^)]+\)' "${pages[@]}" | sed 's/^](//; s/)$//; s/ ".*"$//' | sed 's/#.*//' | grep -v '^https://' | sort -u)
while read -r figure; do
  grep -E "^\| $figure \|" bench/README.md >/dev/null || fail "no figure $figure"
done < <(grep -ohE '\bB[0-9]+\b' "${pages[@]}" | sort -u)
while read -r figure; do
  grep -E "\| $figure \|" bench/RESULTS.md >/dev/null || fail "$figure has no result"
done < <(awk -F'|' '/^## /{shown = 0} /^\|.*shown by/{shown = 1} shown && NF > 3 {print $(NF - 1)}' "$page" | grep -oE '\bB[0-9]+\b' | sort -u)
bare=$(awk -F'|' '/^## /{shown = 0} /^\|.*shown by/{shown = 1} shown && NF > 4 && $(NF - 2) ~ /^ (\*\*)?yes/ && $(NF - 1) !~ /`|B[0-9]|\]\(/ {print $2}' "$page")
[ -z "$bare" ] || fail "rows with a yes but without a test or figure: $bare"
