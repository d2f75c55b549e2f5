#include "worker/trainer/partial_fc/replica_peers.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>

namespace ringmaster::trainer::partial_fc {

std::vector<int> ReplicaPeersOf(std::span<const std::string> members, int world_size) {
  const auto size = static_cast<std::size_t>(world_size);
  const auto pod_of = [&](int rank) {
    const auto at = static_cast<std::size_t>(rank);
    if (at >= members.size()) return std::to_string(rank);
    return members[at].substr(0, members[at].find('/'));
  };
  std::vector<int> circle(size);
  std::iota(circle.begin(), circle.end(), 0);
  // Order Pods by their first ranks, so that the circle follows the ranks where possible.
  std::map<std::string, int> first_of;
  std::map<std::string, int> ranks_of;
  for (const int rank : circle) {
    first_of.try_emplace(pod_of(rank), rank);
    ++ranks_of[pod_of(rank)];
  }
  std::ranges::stable_sort(circle, {}, [&](int rank) { return first_of[pod_of(rank)]; });
  int largest = 0;
  for (const auto& [pod, ranks] : ranks_of) largest = std::max(largest, ranks);
  if (largest == world_size) largest = 1;  // all ranks are in one Pod: use another process
  std::vector<int> replica_peers(size);
  for (std::size_t i = 0; i < size; ++i) {
    replica_peers[static_cast<std::size_t>(circle[i])] =
        circle[(i + static_cast<std::size_t>(largest)) % size];
  }
  return replica_peers;
}

std::vector<int> ReplicaSourcesOf(std::span<const int> replica_peers) {
  std::vector<int> sources(replica_peers.size());
  for (std::size_t rank = 0; rank < replica_peers.size(); ++rank) {
    sources[static_cast<std::size_t>(replica_peers[rank])] = static_cast<int>(rank);
  }
  return sources;
}

}  // namespace ringmaster::trainer::partial_fc
