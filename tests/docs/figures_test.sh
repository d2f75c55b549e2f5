#!/usr/bin/env bash
# Tests that pages show the numbers of bench/results.jsonl, in this tree and in a small tree where the test changes the results.
set -euo pipefail
cd "$(dirname "$0")/../.."
fail() { echo "FAILED: $*" >&2; exit 1; }
unset RINGMASTER_RESULTS RUNS COUNT

bench/results.py check || fail "run bench/results.py render, or measure the figures that the pages name"

# bench/results.py must render each number with a unit in a line that names a figure, and in our column of a comparison table.
unit='(ms|s|seconds|samples/s|Pods/s|[KMG]iB|[kMG]B|%|×)'
for page in README.md docs/comparison.md docs/comparison-details.md docs/elasticity.md; do
  bare=$(sed -E 's/\[[^]]*\]\([^)]*RESULTS\.md "[^"]*"\)//g' "$page" | awk -F'|' '
    NF < 5 {print; next}  # in a table, check only our column
    {print $(NF - 2) " |" $(NF - 1)}' | grep -E '\bB[0-9]+\b' | grep -E "[0-9] ?$unit( |[,.;)|]|$)" || true)
  [ -z "$bare" ] || fail "$page contains numbers without a link to their figure: $bare"
done

# Make the small tree. In this tree, figure B5 prints the content of the file `says` and exits with the code in the
# file `ends`.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bench"
cp bench/figure.sh bench/results.py bench/lib.sh "$work/bench"
cat >"$work/bench/first_step.sh" <<'S'
#!/usr/bin/env bash
echo "for people"
cat "$(dirname "$0")/says"
exit "$(cat "$(dirname "$0")/ends")"
S
chmod +x "$work/bench/first_step.sh"
cat >"$work/bench/RESULTS.md" <<'M'
# Results
<!-- rendered from results.jsonl: begin -->
<!-- rendered from results.jsonl: end -->
<!-- earlier results -->
| Recorded | Machine | Figure | Value | Goal | Holds |
|---|---|---|---|---|---|
| a day | a machine | B5 | 1.71 s (5 runs) | ≤ 3 s | yes |
| a day | a machine | B7 | 2.08 s | ≤ 3 s | yes |
M
echo '[1.71 s](bench/RESULTS.md "B5.value"), [2.08 s](bench/RESULTS.md "B7.value")' >"$work/README.md"
results() { "$work/bench/results.py" "$@"; }
refused() { # text command...: checks that the command fails and prints the text
  local said
  ! said=$("${@:2}" 2>&1) || fail "${*:2} succeeded"
  grep -F -- "$1" <<<"$said" >/dev/null || fail "expected '$1' from ${*:2}, got: $said"
}
figure() { # seconds [exit code [options...]]: runs figure B5, which prints this value and exits with this code
  echo "{\"figure\": \"B5\", \"value\": $1, \"unit\": \"s\", \"reference\": null, \"goal\": \"<= 3\", \"holds\": true, \"parts\": [{\"n\": 2}]}" >"$work/bench/says"
  echo "${2:-0}" >"$work/bench/ends"
  "$work/bench/figure.sh" B5 "${@:3}" >"$work/said" 2>&1
}

results render
results check || fail "numbers from earlier results were rejected"
sed -i 's/2.08 s/2.09 s/' "$work/README.md"
refused 'its earlier result no 2.09' results check
sed -i 's/2.09 s/2.08 s/' "$work/README.md"

echo '[+1,710 ms](bench/RESULTS.md "B5.value*1000")' >>"$work/README.md"
figure 1.234 || fail "the figure was not measured: $(cat "$work/said")"
diff "$work/README.md" - <<'M' || fail "not rendered"
[1.23 s](bench/RESULTS.md "B5.value"), [2.08 s](bench/RESULTS.md "B7.value")
[+1,234 ms](bench/RESULTS.md "B5.value*1000")
M
grep -E '^\| B5 \| 1.23 s \| – \| <= 3 \| yes \| parts n 2 \|' "$work/bench/RESULTS.md" >/dev/null || fail "no row: $(cat "$work/bench/RESULTS.md")"
! grep '5 runs' "$work/bench/RESULTS.md" >/dev/null || fail "an earlier result is shown beside a newer one"
grep '| B7 |' "$work/bench/RESULTS.md" >/dev/null || fail "the earlier result of another figure was dropped"
jq -e '.result.value == 1.234 and .options == [] and (.machine | test("GiB")) and (.date | test("^20.*Z$")) and has("commit") and has("load_before")' \
  "$work/bench/results.jsonl" >/dev/null || fail "the line is wrong: $(cat "$work/bench/results.jsonl")"
results check || fail "the rendered pages were rejected"

sed -i 's/1.23 s/1.24 s/' "$work/README.md"
refused 'README.md' results check
results render
grep '1.23 s' "$work/README.md" >/dev/null || fail "the number in the page was not corrected"

# If a figure is measured with options, the pages do not change. If a figure fails, its exit code is kept, and its line, if any, is recorded.
RUNS=1 figure 9 0 --fast || fail "options were rejected"
[ "$(tail -n 1 "$work/bench/results.jsonl" | jq -c .options)" = '["--fast","RUNS=1"]' ] || fail "the result does not contain the options"
grep '1.23 s' "$work/README.md" >/dev/null || fail "a run with options changed a page"
refused "" figure 2.5 3
grep '2.50 s' "$work/README.md" >/dev/null || fail "a figure that misses its goal is not shown"
before=$(cat "$work/bench/results.jsonl")
echo 'died' >"$work/bench/says"
refused "" "$work/bench/figure.sh" B5
[ "$before" = "$(cat "$work/bench/results.jsonl")" ] || fail "output that is not a figure was recorded"

# If a peer is not available, the figure prints a message and records no line.
refused 'set MPI_OPERATOR to a checkout' env -u MPI_OPERATOR RINGMASTER_RESULTS="$work/peers.jsonl" bench/figure.sh mpi-operator
refused 'is not a checkout of mpi-operator' env MPI_OPERATOR="$work" RINGMASTER_RESULTS="$work/peers.jsonl" bench/figure.sh mpi-operator
[ ! -e "$work/peers.jsonl" ] || fail "a peer that was not measured was recorded"

sed -i 's/B5.value"/B5.speed"/' "$work/README.md"
refused 'has no such number' results check
echo '{"date": "today"}' >>"$work/bench/results.jsonl"
refused "line 4 of $work/bench/results.jsonl" results check
