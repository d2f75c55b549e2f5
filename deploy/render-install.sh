#!/usr/bin/env bash
# Copies the CRDs of crds/, and the rules and the dashboard of deploy/monitoring/, into the chart; renders deploy/install.yaml from
# charts/ringmaster with its default values and an example registry; and renders docs/api.md and docs/reasons.md (docs/render.py).
#   deploy/render-install.sh           writes all these files
#   deploy/render-install.sh --check   fails if one of these files is out of date
#   deploy/render-install.sh --print CHART   prints the install.yaml of a chart that names its images, such as a release's chart
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
# Helm cannot read files outside a chart, so these files are copied into the chart.
copied=(crds/ringmaster.dev_trainingjobs.yaml crds/ringmaster.dev_trainingprofiles.yaml crds/ringmaster.dev_localtrainingprofiles.yaml deploy/monitoring/ringmaster.rules.yaml deploy/monitoring/ringmaster.dashboard.json)
rendered=$(mktemp -d)
trap 'rm -rf "$rendered"' EXIT

# The chart does not contain the namespace, which must exist before a release is installed into it. Helm's labels are removed
# from the other objects, because users apply install.yaml with kubectl.
render() { # chart, helm's arguments...
  cat <<'Y'
# Rendered by deploy/render-install.sh from charts/ringmaster: edit that.
apiVersion: v1
kind: Namespace
metadata:
  name: ringmaster-system
  labels:
    app.kubernetes.io/name: ringmaster
    pod-security.kubernetes.io/enforce: restricted
    pod-security.kubernetes.io/warn: restricted
Y
  "$helm" template ringmaster "$@" --namespace ringmaster-system --no-hooks |
    sed -E '/^ *(helm.sh\/chart|app.kubernetes.io\/managed-by):/d; /^$/{N; /\n---$/D}'
}

up_to_date() { # file wanted
  cmp -s "$1" "$2" || { echo "$1 is out of date: run deploy/render-install.sh" >&2; return 1; }
}

case "$#$*" in
  0 | 1--check | 2--print*) ;;
  *) echo "usage: $0 [--check | --print CHART]" >&2; exit 2 ;;
esac
"$root/deploy/local/build.sh" helm
helm=$("$root/deploy/local/build.sh" --print)/bin/helm
if [ $# = 2 ]; then
  render "$2"
  exit
fi
"$root/docs/render.py" "$@"
if [ $# = 0 ]; then cp "${copied[@]/#/$root/}" "$root/charts/ringmaster/files/"; fi
render "$root/charts/ringmaster" --set image.registry=registry.example.com >"$rendered/install.yaml"
if [ $# = 0 ]; then
  cp "$rendered/install.yaml" "$root/deploy/install.yaml"
else
  for file in "${copied[@]}"; do up_to_date "$root/charts/ringmaster/files/${file##*/}" "$root/$file"; done
  up_to_date "$root/deploy/install.yaml" "$rendered/install.yaml"
fi
