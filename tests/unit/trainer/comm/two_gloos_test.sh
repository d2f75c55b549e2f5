#!/usr/bin/env bash
# Tests that our Gloo and the one inside LibTorch do not share symbols: two_gloos_test.sh PROGRAM
#
# libtorch_cpu.so exports a Gloo of another version. If both Gloos had a symbol in common, the loader would bind both
# to the first definition, and one version's code would use the other's objects. Therefore, the program must not
# export Gloo's symbols, and the loader must bind each of Gloo's functions within one library, or between LibTorch's
# libraries.
set -euo pipefail
program=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "two_gloos_test.sh: $1" >&2; exit 1; }

libtorch=$(ldd "$program" | sed -n 's|.*libtorch_cpu\.so => \(/[^ ]*\).*|\1|p')
[ -n "$libtorch" ] || fail "$program is not linked with libtorch_cpu.so"

# Matches names in namespace gloo, also as a part of other names: std::shared_ptr<gloo::Context>.
theirs='(^|[^_[:alnum:]])gloo::'
named() { grep -cE "$1" || true; }
exported() { nm --dynamic --defined-only "$1" | cut -d' ' -f3- | c++filt; }
inside=$(exported "$libtorch" | named "$theirs")
[ "$inside" -ge 100 ] || fail "libtorch_cpu.so exports only $inside Gloo symbols: the test's pattern is wrong"
exported "$program" | grep -E "$theirs" >"$work/exported" && { head -n 5 "$work/exported"; fail "$program exports symbols of LibTorch's Gloo"; }
ours=$(nm --defined-only "$program" | c++filt | named 'ringmaster_gloo::')
[ "$ours" -ge 100 ] || fail "$program contains only $ours symbols of its own Gloo"

# The loader prints every binding before the program starts. Names are mangled: 4gloo is the namespace.
LD_DEBUG=bindings LD_DEBUG_OUTPUT=$work/loader LD_BIND_NOW=1 "$program" --version >/dev/null
cat "$work"/loader.* >"$work/bindings"
grep -q "binding file $libtorch .* to $libtorch .*N4gloo" "$work/bindings" || fail "the loader bound no symbols of LibTorch's Gloo: the test fails to parse its output"
# sed turns a line into: FROM TO SYMBOL
sed -n 's|.*binding file \([^ ]*\) .* to \([^ ]*\) .* symbol `\([^'"'"']*\).*|\1 \2 \3|p' "$work/bindings" |
  grep -E '[^0-9](4gloo|15ringmaster_gloo)[0-9A-Z]' |
  awk -v theirs="${libtorch%/*}/" '$1 != $2 && !(index($1, theirs) == 1 && index($2, theirs) == 1)' >"$work/crossing" || true
[ ! -s "$work/crossing" ] || { c++filt <"$work/crossing" | head -n 5; fail "Gloo symbols are bound across libraries"; }
echo "$inside Gloo symbols in LibTorch, $ours in the program, none bound across them"
