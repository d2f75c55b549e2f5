#!/usr/bin/env bash
# Tests that README.md is short, that README.md and getting started say for each command that tests/e2e/pages_test.sh runs it or why
# not, and that commands.py refuses wrong pages.
# shellcheck disable=SC2016  # the backticks are those of Markdown
set -euo pipefail
cd "$(dirname "$0")/../.."
fail() { echo "FAILED: $*" >&2; exit 1; }
tests/docs/commands.py check README.md docs/getting-started.md || fail "pages contain commands that cannot be run"
[ "$(tests/docs/commands.py script docs/getting-started.md | grep -c '^kubectl')" -ge 12 ] || fail "getting-started.md runs fewer than 12 kubectl commands"

# README.md must fit on two screens and have short paragraphs.
[ "$(wc -l <README.md)" -le 110 ] || fail "README.md has $(wc -l <README.md) lines"
long=$(awk '/^```/ {code = !code} code || /^($|[|#]|```|- )/ {lines = 0; next} ++lines == 5 {print FNR ": " $0}' README.md)
[ -z "$long" ] || fail "paragraphs of more than four lines: $long"
tests/lint/markdown.py 120 README.md docs/getting-started.md || fail "lines are too long"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
page() { printf '```console\necho runs\n```\n```%s\n%s\n```\n' "$1" "$2" >"$work/page.md"; }
page 'console no-run: needs a GPU' 'echo stays'
tests/docs/commands.py check "$work/page.md" || fail "'no-run' with a reason was rejected"
[ "$(bash -c "$(tests/docs/commands.py script "$work/page.md")")" = "--- $work/page.md:1"$'\nruns' ] ||
  fail "the script is $(tests/docs/commands.py script "$work/page.md")"
refused() { # mark text problem
  page "$1" "$2"
  ! said=$(tests/docs/commands.py check "$work/page.md" 2>&1) || fail "'$1' was not rejected"
  grep -F "page.md:4: " <<<"$said" | grep -F "$3" >/dev/null || fail "expected '$3' for '$1', got: $said"
}
refused '' 'echo a' 'names no language'
refused bash 'echo a' 'write console'
refused 'console no-run:' 'echo a' "not 'no-run: REASON'"
refused 'console later' 'echo a' "not 'no-run: REASON'"
refused console 'echo "a' 'matching'
printf '```yaml\na: b\n```\n' >"$work/page.md"
! tests/docs/commands.py check "$work/page.md" 2>/dev/null || fail "a page without runnable commands was accepted"
echo "commands_test: ok"
