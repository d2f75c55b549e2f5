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
    case Collective::kReduce:
      return "reduce";
    case Collective::kGather:
      return "gather";
    case Collective::kScatter:
      return "scatter";
    case Collective::kSendRecv:
      return "sendrecv";
  }
  return "";
}

bool Reduces(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduceScatter ||
         collective == Collective::kReduce;
}

bool HasRoot(Collective collective) {
  return collective == Collective::kBroadcast || collective == Collective::kReduce ||
         collective == Collective::kGather || collective == Collective::kScatter;
}

bool WorksInPlace(Collective collective) {
  return collective != Collective::kAllToAll && collective != Collective::kSendRecv;
}

double BusFactor(Collective collective, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  switch (collective) {
    case Collective::kAllReduce:
      return 2 * others;
    case Collective::kReduceScatter:
    case Collective::kAllGather:
    case Collective::kAllToAll:
    case Collective::kGather:
    case Collective::kScatter:
      return others;
    case Collective::kBroadcast:
    case Collective::kReduce:
    case Collective::kSendRecv:
      return 1;
  }
  return 0;
}

Counts CountsOf(Collective collective, std::size_t bytes, std::size_t element_bytes, int ranks) {
  const std::size_t count = bytes / element_bytes;
  const std::size_t n = static_cast<std::size_t>(ranks);
  const std::size_t aligned = 16 / element_bytes;
  const std::size_t piece = count / n / aligned * aligned;
  switch (collective) {
    case Collective::kAllReduce:
    case Collective::kBroadcast:
    case Collective::kReduce:
    case Collective::kSendRecv:
      return {.send = count, .receive = count, .unit = count};
    case Collective::kReduceScatter:
    case Collective::kScatter:
      return {.send = piece * n, .receive = piece, .unit = piece};
    case Collective::kAllGather:
    case Collective::kGather:
      return {.send = piece, .receive = piece * n, .unit = piece};
    case Collective::kAllToAll:
      return {.send = piece * n, .receive = piece * n, .unit = piece};
  }
  return {};
}

std::size_t Call::count(int ranks) const {
  const bool pieces = collective == Collective::kAllGather || collective == Collective::kGather ||
                      collective == Collective::kAllToAll;
  return pieces ? receive.count / static_cast<std::size_t>(ranks) : receive.count;
}

Messages MessagesOf(const Call& call, int rank, int ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  const auto root = static_cast<std::size_t>(call.root);
  const bool is_root = rank == call.root;
  const std::size_t send = call.send.bytes();
  const std::size_t receive = call.receive.bytes();
  Messages messages{.to = std::vector<std::size_t>(n), .from = std::vector<std::size_t>(n)};
  switch (call.collective) {
    case Collective::kAllToAll:
      messages.to.assign(n, send / n);
      messages.from.assign(n, receive / n);
      break;
    case Collective::kGather:
      messages.to[root] = send;
      if (is_root) messages.from.assign(n, receive / n);
      break;
    case Collective::kScatter:
      if (is_root) messages.to.assign(n, send / n);
      messages.from[root] = receive;
      break;
    case Collective::kSendRecv:
      messages.to[static_cast<std::size_t>(rank + 1) % n] = send;
      messages.from[(static_cast<std::size_t>(rank) + n - 1) % n] = receive;
      break;
    default:
      break;
  }
  return messages;
}

}  // namespace ringmaster::bench
