#pragma once

// Assigns to each rank the rank that keeps a copy of its rows, as a function of a world's members.
//
// The ranks form a circle, ordered by Pod. Each rank sends its copy to the rank that is as many
// places ahead as the largest Pod has ranks. That rank is in another Pod, unless a Pod has more
// than half of the ranks. Each rank keeps the copy of one rank.

#include <span>
#include <string>
#include <vector>

namespace ringmaster::trainer::partial_fc {

// Returns for each rank the rank that keeps its copy; in a world of one rank, that rank. `members`
// are "pod/slot/start" by rank; if empty, each rank counts as a Pod.
std::vector<int> ReplicaPeersOf(std::span<const std::string> members, int world_size);

// Returns for each rank the rank whose copy it keeps.
std::vector<int> ReplicaSourcesOf(std::span<const int> replica_peers);

}  // namespace ringmaster::trainer::partial_fc
