#pragma once

// Assigns to each rank the rank that keeps a copy of its rows. Pure functions of a world's members.
//
// The ranks form a circle, ordered by Pod. Each rank sends its copy ahead by as many places as the
// largest Pod has ranks: to another Pod, unless a Pod has more than half of the ranks. Each rank
// keeps one copy.

#include <span>
#include <string>
#include <vector>

namespace ringmaster::trainer::partial_fc {

// For each rank, the rank that keeps its copy: itself in a world of one. `members` are
// "pod/slot/start" by rank; empty if ranks belong to no Pod: each then counts as one.
std::vector<int> ReplicaPeersOf(std::span<const std::string> members, int world_size);

// For each rank, the rank whose copy it keeps.
std::vector<int> ReplicaSourcesOf(std::span<const int> replica_peers);

}  // namespace ringmaster::trainer::partial_fc
