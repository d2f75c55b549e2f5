# shellcheck shell=bash disable=SC2034  # the scripts that source this file use these variables

# Functions and variables for every test of the chart. Sourced first: `. "$(dirname "$0")/lib.sh"`.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repository=$(cd "$here/../.." && pwd)
chart=$repository/charts/ringmaster
programs=$("$repository/deploy/local/build.sh" --print)/bin
export PATH=$programs:$PATH
limit=$((60 * ${RINGMASTER_PATIENCE:-1}))s  # timeout
variations=("$here"/values/*.yaml)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HELM_CACHE_HOME=$work/cache HELM_CONFIG_HOME=$work/config HELM_DATA_HOME=$work/data

# The chart's default values and a registry, which has no default.
defaults=$work/defaults.yaml
echo 'image: {registry: registry.example.com}' >"$defaults"

fail() { echo "FAILED: $*" >&2; exit 1; }
[ -x "$programs/helm" ] || fail "helm is not built: run deploy/local/build.sh helm"

name_of() { basename "$1" .yaml; }
render() { # helm's arguments...: prints the whole release and its test as YAML
  helm template "${release_name:-ringmaster}" "$chart" --namespace ringmaster-system --values "$defaults" "$@"
}

# Prints the operator's arguments in a rendered release, one per line.
arguments_in() { # file
  awk -v quotes='^["'\'']|["'\'']$' '/^kind: / {here = $2 == "Deployment"} here && /^ +args:/ {args = 1; next} args && !/^ +- / {exit} args {sub(/^ +- /, ""); gsub(quotes, ""); print}' "$1"
}
