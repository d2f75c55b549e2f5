#!/usr/bin/env bash
# Tests that each wrong value is rejected with a message that names the field and what is wrong with it.
. "$(dirname "$0")/lib.sh"

refused=0
while IFS=$'\t' read -r value expected; do
  if said=$(render --set "$value" 2>&1 >/dev/null); then fail "$value was accepted"; fi
  case $said in
    *"$expected"*) refused=$((refused + 1)) ;;
    *) fail "$value: expected \"$expected\" in: $said" ;;
  esac
done <"$here/refused.tsv"
echo "$refused wrong values refused"
