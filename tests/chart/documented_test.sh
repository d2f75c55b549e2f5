#!/usr/bin/env bash
# Tests that every key of values.yaml has a comment above it or above its group, and that the schema has the same keys.
. "$(dirname "$0")/lib.sh"

# Prints the path of each key, with "<TAB>bare" if neither the key's line nor the line above has a comment.
keys() {
  awk '
    /^ *#/ {comment = 1; next}
    /^ *[-a-zA-Z]+:/ {
      match($0, /^ */); depth = RLENGTH / 2
      split($0, part, ":"); key = part[1]; gsub(/ /, "", key)
      path[depth] = depth ? path[depth - 1] "." key : key
      group = $0 ~ /:$/
      explained[depth] = comment
      print path[depth] (comment || group || explained[depth - 1] && depth ? "" : "\tbare")
    }
    {comment = 0}' "$chart/values.yaml"
}
bare=$(keys | awk -F'\t' '$2 {print $1}')
[ -z "$bare" ] || fail "values.yaml has no comment for: $bare"

schema_keys() { # prints the paths of all properties, but not of properties of list items
  jq -r 'def walk($p): (.properties // {}) | to_entries[] | ($p + [.key]) as $q | ($q | join(".")), (.value | walk($q)); walk([])' "$chart/values.schema.json"
}
# Kubernetes defines the fields of these keys; Helm defines `global`, and `enabled` of a dependency with a condition.
elsewhere='^(global|enabled|(resources|affinity|podSecurityContext|securityContext)\..*)$'
diff <(keys | cut -f1 | grep -vE "$elsewhere" | sort) <(schema_keys | grep -vE "$elsewhere" | sort) ||
  fail "values.yaml and values.schema.json name different keys"
