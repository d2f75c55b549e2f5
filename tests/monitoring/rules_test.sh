#!/usr/bin/env bash
# Tests that promtool accepts deploy/monitoring's rules, that each alert fires only when it should (alerts_test.yaml), and that the
# chart renders the same files.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
rules=$root/deploy/monitoring/ringmaster.rules.yaml
dashboard=$root/deploy/monitoring/ringmaster.dashboard.json
programs=$("$root/deploy/local/build.sh" --print)/bin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }
for program in promtool helm; do
  [ -x "$programs/$program" ] || fail "no $program: run deploy/local/build.sh helm prometheus"
done

"$programs/promtool" check rules --lint=all --lint-fatal "$rules"
"$programs/promtool" test rules "$here/alerts_test.yaml"
alerts=$(sed -n 's/^ *- alert: //p' "$rules")
[ "$(wc -l <<<"$alerts")" -ge 20 ] || fail "found only: $alerts"
for alert in $alerts; do
  grep -F "alertname=\"$alert\"" "$here/alerts_test.yaml" >/dev/null || fail "alerts_test.yaml has no case in which $alert fires"
done

# The lines of the operator's log for which the runbooks tell readers to look.
for line in "Failed to reconcile, retrying" "unhandled exception: "; do
  grep -F "\"$line\"" "$rules" >/dev/null || fail "no runbook names the log's line '$line'"
  grep -F "\"$line\"" "$root/operator/runtime/controller.cc" >/dev/null || fail "the operator's log has no line '$line'"
done

jq -e '[.panels[].id] | length == (unique | length)' "$dashboard" >/dev/null || fail "two panels of the dashboard have the same id"
jq -e '[.panels[] | select(.type != "row") | .title != "" and (.targets | length > 0)] | all' "$dashboard" >/dev/null ||
  fail "a panel of the dashboard has no title or no query"
jq -e '[.panels[].gridPos as {$x, $y, $w, $h} | range($x; $x + $w) as $c | range($y; $y + $h) as $r | [$c, $r]] | length == (unique | length)' \
  "$dashboard" >/dev/null || fail "two panels of the dashboard overlap"

render() { # template: prints the rendered template without the empty lines at its end
  local rendered
  rendered=$("$programs/helm" template ringmaster "$root/charts/ringmaster" --namespace ringmaster-system --set image.registry=registry.example.com --show-only "templates/$1" \
    --set metrics.prometheusRule.enabled=true,metrics.dashboard.enabled=true) || fail "helm does not render $1"
  printf '%s\n' "$rendered"
}
render prometheusrule.yaml | sed -n '/^spec:$/,$p' | sed '1d; s/^  //' >"$work/rules.yaml"
diff "$work/rules.yaml" "$rules" || fail "the rules of the chart and of deploy/monitoring differ"
render dashboard.yaml | sed -n '/^  ringmaster.json: |$/,$p' | sed '1d; s/^    //' >"$work/dashboard.json"
diff "$work/dashboard.json" "$dashboard" || fail "the dashboards of the chart and of deploy/monitoring differ"
