#!/usr/bin/env bash
# Trains on handwritten digits with three workers on three nodes, and checks the accuracy on writers whom the network has not seen.
# Argument: debian13 (Open MPI 5) or debian12 (Open MPI 4).
. "$(dirname "$0")/lib.sh"
distribution=${1:?debian13 or debian12}
image=localhost/ringmaster-worker:$version-$distribution
new_namespace "digits-$distribution"
digits_config_map "$user" "$namespace"
labels=$(od -An -v -tu1 -j8 -N30 "$RINGMASTER_CACHE/digits/idx/t10k-labels-idx1-ubyte" | tr -d ' \n')
assert_equal "the first labels held out, with which each writer's form begins" 012345678901234567890123456789 "$labels"

sed "s|^spec:|spec:\n  image: $image|" "$repository/deploy/samples/digits.yaml" | as_user apply -f -
wait_condition digits Succeeded True 240

assert_equal "world size" 3 "$(status_field digits worldSize)"
awk -v a="$(status_field digits progress.accuracy)" 'BEGIN {exit !(a >= 0.92)}' ||
  fail "accuracy on writers not seen, $(status_field digits progress.accuracy), is below 0.92"
# The launcher reports its verdict before the kubelets report the workers' end.
as_user wait --for=jsonpath='{.status.phase}'=Succeeded pods -l ringmaster.dev/role=worker --timeout=$((60 * patience))s
nodes=$(as_user get pods -l ringmaster.dev/role=worker --field-selector=status.phase=Succeeded -o jsonpath='{range .items[*]}{.spec.nodeName}{"\n"}{end}' | sort)
assert_equal "nodes of the completed workers" "node1 node2 node3" "$(xargs <<<"$nodes")"
log=$(as_user logs "$(launcher_pod digits)")
assert_contains "the mpirun line" 'mpirun .*--hostfile' "$log"
assert_contains "the step log's summary" '"summary"' "$log"
assert_contains "tagged output" '\[1,0\]' "$log"
table=$(as_user get tj digits)
for column in STATE REASON READY DESIRED WORLD STEP PERCENT AGE; do assert_contains "printer columns" "$column" "$table"; done
table=$(as_user get tj digits -o wide)
for column in EPOCH SAMPLES/S ETA; do assert_contains "wide printer columns" "$column" "$table"; done
assert_contains "category all" 'trainingjob.ringmaster.dev/digits' "$(as_user get all)"
