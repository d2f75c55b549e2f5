#!/usr/bin/env bash
# Tests that each check refuses a violation in a small tree, and says where it is.
# shellcheck disable=SC2016  # what is written is text for other programs
set -euo pipefail
cd "$(dirname "$0")/../.."
fail() { echo "FAILED: $*" >&2; exit 1; }
unset LINT_BASE
export CCACHE_DISABLE=1 LINT_JOBS=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree
mkdir -p "$tree"/{tests,common/base,worker/agent,deploy}
cp -r tests/lint "$tree/tests"
cp .clang-format .clang-tidy .shellcheckrc "$tree"
cd "$tree"

cat >CMakeLists.txt <<'C'
cmake_minimum_required(VERSION 3.25)
project(small CXX)
set(CMAKE_CXX_STANDARD 20)
include_directories(${PROJECT_SOURCE_DIR})
add_library(small common/base/sum.cc worker/agent/agent.cc)
C
cat >CMakePresets.json <<'J'
{"version": 4, "configurePresets": [{
  "name": "lint", "generator": "Ninja", "binaryDir": "${sourceDir}/build/lint",
  "cacheVariables": {"CMAKE_CXX_COMPILER": "clang++", "CMAKE_EXPORT_COMPILE_COMMANDS": "ON"}}]}
J
printf '#pragma once\n\nint Sum(int a, int b);\n' >common/base/sum.h
printf '#include "common/base/sum.h"\n\nint Sum(int a, int b) { return a + b; }\n' >common/base/sum.cc
printf '#pragma once\n\nint Run();\n' >worker/agent/agent.h
printf '#include "worker/agent/agent.h"\n\n#include "common/base/sum.h"\n\nint Run() { return Sum(1, 2); }\n' >worker/agent/agent.cc
printf '# A page\n\nShort.\n' >README.md
printf '#!/bin/sh\necho "$1"\n' >deploy/say
printf 'package small\n\nfunc one() int { return 1 }\n' >deploy/small.go
printf 'module small\n' >deploy/go.mod
printf 'common/base:\nworker/agent: common/base\n' >tests/lint/layers.txt
printf '/build/\n' >.gitignore
git init -q -b main
commit() { git add -A && git -c user.name=test -c user.email=test@localhost commit -q -m "$1"; }
commit clean

check() { tests/lint/run.sh "$@" >"$work/said" 2>&1; }
accepted() { # run.sh's arguments...
  check "$@" || fail "run.sh $*: $(cat "$work/said")"
}
refused() { # text check: the check must print the text, for all files and for the changed files; the tree is clean afterwards
  local scope
  for scope in all changed; do
    ! check "$scope" "$2" || fail "$2 ($scope) passed, expected: $1"
    grep -F -- "$1" "$work/said" >/dev/null || fail "expected '$1' from $2 ($scope), got: $(cat "$work/said")"
  done
  git clean -qfd && git checkout -q .
}
quick=(format shell python gofmt markdown words length arrows headers tidy)
! command -v go >/dev/null || quick+=(vet)
accepted all "${quick[@]}"
accepted changed

echo "int   Sum(int a);" >>common/base/sum.h
refused common/base/sum.h format

seq -f '// Line %g.' 400 >>common/base/sum.cc
refused 'common/base/sum.cc: 40' length

echo 'echo $1' >>deploy/say
refused SC2086 shell
printf '#!/usr/bin/env bash\ncd $1\n' >deploy/new.sh
refused deploy/new.sh shell

printf 'import os\n' >deploy/new.py
refused "deploy/new.py:1:1: 'os' imported but unused" python

echo 'func  two() int { return 2 }' >>deploy/small.go
refused deploy/small.go gofmt
printf '\nimport "fmt"\n\nfunc two() { fmt.Printf("%%d\\n", "two") }\n' | sed -i '1r /dev/stdin' deploy/small.go
[ "${quick[-1]}" != vet ] || refused 'fmt.Printf' vet
git checkout -q .

long=$(printf 'word %.0s' {1..40})
printf '%s\n' "$long" >>README.md
refused README.md:4 markdown
printf '| %s |\n\n```\n%s\n```\n[short](https://example.com/%s)\n' "$long" "$long" "${long// /_}" >>README.md
printf '<!-- rendered by a script: begin -->\n%s\n<!-- rendered by a script: end -->\n' "$long" >>README.md
accepted changed markdown
git checkout -q .

# Wordings are refused in a comment, in Markdown and in a message, but not in code, and not if the words mean something else.
sed -i '1i // Tells whoever asks.' worker/agent/agent.cc
refused 'worker/agent/agent.cc:1: "whoever"' words
echo 'A link is no folder.' >>README.md
refused 'README.md:4: "is no"' words
echo 'const char* kText = "Could not run";' >>worker/agent/agent.cc
refused 'worker/agent/agent.cc:6: "Could not"' words
echo '// Of the agent: started anew.' >>worker/agent/agent.h
refused 'worker/agent/agent.h:4: "anew"' words
refused_not=$(printf '// It is no longer there, and there is no other.\nint anew_count = 0;\n')
echo "$refused_not" >>worker/agent/agent.cc
accepted changed words
git checkout -q .

# Check violations of the layers: an include of a higher folder, an unknown folder, an unknown name.
sed -i '2a #include "worker/agent/agent.h"' common/base/sum.h
refused 'common/base/sum.h:3: common/base must not include worker/agent/agent.h' arrows
mkdir worker/new && touch worker/new/new.h
refused 'worker/new is not in' arrows
sed -i 's|"common/base/sum.h"|"sum.h"|' common/base/sum.cc
refused 'write sum.h as a path' arrows
printf 'worker/agent:\ncommon/base: worker/agent\nworker/agent: common/base\n' >tests/lint/layers.txt
refused 'worker/agent is listed twice' arrows
printf 'common/base: worker/agent\nworker/agent: common/base\n' >tests/lint/layers.txt
refused 'only folders of lines above, not worker/agent' arrows
printf 'common/base:\ncommon/net:\nworker/agent: common/base common/net\n' >tests/lint/layers.txt
mkdir common/net && echo '#pragma once' >common/net/net.h
refused 'layers.txt:3: worker/agent includes nothing from common/net' arrows

echo 'std::string Text();' >>common/base/sum.h
refused 'common/base/sum.h does not compile by itself' headers

printf '\nint* Nothing() { return 0; }\n' >>worker/agent/agent.cc
refused modernize-use-nullptr tidy
printf '\ninline int* Nothing() { return 0; }\n' >>worker/agent/agent.h
refused modernize-use-nullptr tidy
