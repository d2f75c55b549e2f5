#!/bin/sh
# Puts deploy/install.yaml together from crds/ and deploy/install/, in the order in which kubectl must apply them.
#   deploy/render-install.sh           writes deploy/install.yaml
#   deploy/render-install.sh --check   fails when deploy/install.yaml is not what would be written
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)

render() {
  echo "# Rendered by deploy/render-install.sh from crds/ and deploy/install/: edit those."
  for file in "$root"/deploy/install/00-*.yaml "$root"/crds/*.yaml "$root"/deploy/install/[1-9]*.yaml; do
    echo "---"
    cat "$file"
  done
}

case "${1:-}" in
  "") render > "$root/deploy/install.yaml" ;;
  --check)
    if ! render | cmp -s - "$root/deploy/install.yaml"; then
      echo "deploy/install.yaml is out of date: run deploy/render-install.sh" >&2
      exit 1
    fi ;;
  *) echo "usage: $0 [--check]" >&2; exit 2 ;;
esac
