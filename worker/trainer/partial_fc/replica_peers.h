#pragma once

// Who keeps a copy of whose rows: pure functions of a world's members, the same on every rank.
//
// The ranks stand in a circle, Pod after Pod, and each gives its copy to the one that stands as
// many places ahead as the largest Pod has ranks: to another Pod, wherever no Pod has more than
// half of the ranks. Each rank keeps exactly one copy.

#include <span>
#include <string>
#include <vector>

namespace ringmaster::trainer::partial_fc {

// By rank: the rank that keeps its copy; itself in a world of one. `members` are "pod/slot/start"
// by rank; empty where ranks belong to no Pod: each then counts as one.
std::vector<int> ReplicaPeersOf(std::span<const std::string> members, int world_size);

// By rank: whose copy it keeps.
std::vector<int> ReplicaSourcesOf(std::span<const int> replica_peers);

}  // namespace ringmaster::trainer::partial_fc
