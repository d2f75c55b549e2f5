#!/usr/bin/env bash
# Prints the version of this tree, which is in CMakeLists.txt; fails if the chart has another version.
set -euo pipefail
tree=$(cd "$(dirname "$0")/.." && pwd)
version=$(sed -n 's/^project(ringmaster VERSION \([0-9.]*\).*/\1/p' "$tree/CMakeLists.txt")
for key in version appVersion; do
  of_chart=$(sed -n "s/^$key: //p" "$tree/charts/ringmaster/Chart.yaml")
  [ "$of_chart" = "$version" ] || { echo "version.sh: CMakeLists.txt says $version, charts/ringmaster/Chart.yaml $key: $of_chart; make them equal" >&2 && exit 1; }
done
echo "$version"
