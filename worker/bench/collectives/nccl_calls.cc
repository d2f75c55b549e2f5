#include "worker/bench/collectives/nccl_calls.h"

#include <vector>

namespace ringmaster::bench {
namespace {

using control::CollectiveKind;
using trainer::NcclApi;
using trainer::NcclComm;
using trainer::NcclResult;
using trainer::NcclStream;

// Returns the trainer's operation that is closest to `collective`, for reports to the launcher.
CollectiveKind KindOf(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
      return CollectiveKind::kAllReduce;
    case Collective::kReduceScatter:
      return CollectiveKind::kReduceScatter;
    case Collective::kAllGather:
      return CollectiveKind::kAllGather;
    case Collective::kBroadcast:
      return CollectiveKind::kBroadcast;
    case Collective::kAllToAll:
    case Collective::kGather:
    case Collective::kScatter:
    case Collective::kSendRecv:
      return CollectiveKind::kAllToAll;
  }
  return CollectiveKind::kNone;
}

// Makes the NCCL calls of one rank of a communicator.
struct Launcher {
  int rank;
  int ranks;

  NcclResult LaunchAll(std::span<const Call> calls, const NcclApi& nccl, NcclComm comm,
                       NcclStream stream) const {
    if (calls.size() == 1) return Launch(calls.front(), nccl, comm, stream);
    NcclResult result = nccl.group_start();
    if (result != NcclResult::kSuccess) return result;
    for (const Call& call : calls) {
      const NcclResult of = Launch(call, nccl, comm, stream);
      if (of != NcclResult::kSuccess && of != NcclResult::kInProgress) result = of;
    }
    const NcclResult ended = nccl.group_end();
    return result == NcclResult::kSuccess ? ended : result;
  }

  NcclResult Launch(const Call& call, const NcclApi& nccl, NcclComm comm, NcclStream stream) const {
    const std::byte* const send = call.send.data;
    std::byte* const receive = call.receive.data;
    const std::size_t count = call.count(ranks);
    const trainer::NcclType type = trainer::NcclTypeOf(call.send.type);
    const trainer::NcclOp op = trainer::NcclOpOf(call.op);
    switch (call.collective) {
      case Collective::kAllReduce:
        return nccl.all_reduce(send, receive, count, type, op, comm, stream);
      case Collective::kReduceScatter:
        return nccl.reduce_scatter(send, receive, count, type, op, comm, stream);
      case Collective::kAllGather:
        return nccl.all_gather(send, receive, count, type, comm, stream);
      case Collective::kBroadcast:
        return nccl.broadcast(send, receive, count, type, call.root, comm, stream);
      case Collective::kReduce:
        return nccl.reduce(send, receive, count, type, op, call.root, comm, stream);
      case Collective::kAllToAll:
      case Collective::kGather:
      case Collective::kScatter:
      case Collective::kSendRecv:
        break;
    }
    const Messages messages = MessagesOf(call, rank, ranks);
    return trainer::ExchangeOverNccl(nccl, comm, stream, send, messages.to, receive, messages.from);
  }
};

}  // namespace

trainer::WorkHandle StartOnNccl(trainer::NcclCommunicator& communicator,
                                std::span<const Call> together, trainer::Deadline deadline) {
  const Launcher launcher{.rank = communicator.rank(), .ranks = communicator.size()};
  return communicator.Run(
      KindOf(together.front().collective),
      [launcher, calls = std::vector<Call>(together.begin(), together.end())](
          const NcclApi& nccl, NcclComm comm, NcclStream stream) {
        return launcher.LaunchAll(calls, nccl, comm, stream);
      },
      deadline);
}

}  // namespace ringmaster::bench
