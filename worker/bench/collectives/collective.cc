#include "worker/bench/collectives/collective.h"

namespace ringmaster::bench {

const char* NameOf(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
      return "all-reduce";
    case Collective::kReduceScatter:
      return "reduce-scatter";
    case Collective::kAllGather:
      return "all-gather";
    case Collective::kAllToAll:
      return "all-to-all";
    case Collective::kBroadcast:
      return "broadcast";
  }
  return "";
}

bool Reduces(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduceScatter;
}

double BusFactor(Collective collective, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  switch (collective) {
    case Collective::kAllReduce:
      return 2 * others;
    case Collective::kReduceScatter:
    case Collective::kAllGather:
    case Collective::kAllToAll:
      return others;
    case Collective::kBroadcast:
      return 1;
  }
  return 0;
}

Counts CountsOf(Collective collective, std::size_t bytes, std::size_t element_bytes, int ranks) {
  const std::size_t count = bytes / element_bytes;
  const std::size_t n = static_cast<std::size_t>(ranks);
  const std::size_t piece = count / n;
  switch (collective) {
    case Collective::kAllReduce:
    case Collective::kBroadcast:
      return {.send = count, .receive = count, .unit = count};
    case Collective::kReduceScatter:
      return {.send = piece * n, .receive = piece, .unit = piece};
    case Collective::kAllGather:
      return {.send = piece, .receive = piece * n, .unit = piece};
    case Collective::kAllToAll:
      return {.send = piece * n, .receive = piece * n, .unit = piece};
  }
  return {};
}

std::size_t Call::count(int ranks) const {
  const bool pieces = collective == Collective::kAllGather || collective == Collective::kAllToAll;
  return pieces ? receive.count / static_cast<std::size_t>(ranks) : receive.count;
}

}  // namespace ringmaster::bench
