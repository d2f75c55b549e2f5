#include "worker/trainer/comm/communicator_wrapper.h"

#include <utility>

namespace ringmaster::trainer {

int CommunicatorWrapper::rank() const { return inner_.rank(); }
int CommunicatorWrapper::size() const { return inner_.size(); }

WorkHandle CommunicatorWrapper::AllReduce(Elements values, ReduceOp op, Deadline deadline) {
  return inner_.AllReduce(values, op, deadline);
}

WorkHandle CommunicatorWrapper::ReduceScatter(Elements all, Elements mine, ReduceOp op,
                                              Deadline deadline) {
  return inner_.ReduceScatter(all, mine, op, deadline);
}

WorkHandle CommunicatorWrapper::AllGather(std::span<const std::byte> mine, std::span<std::byte> all,
                                          Deadline deadline) {
  return inner_.AllGather(mine, all, deadline);
}

WorkHandle CommunicatorWrapper::AllToAll(std::span<const std::byte> send,
                                         std::vector<std::size_t> send_bytes,
                                         std::span<std::byte> receive,
                                         std::vector<std::size_t> receive_bytes,
                                         Deadline deadline) {
  return inner_.AllToAll(send, std::move(send_bytes), receive, std::move(receive_bytes), deadline);
}

WorkHandle CommunicatorWrapper::Broadcast(std::span<std::byte> bytes, int root, Deadline deadline) {
  return inner_.Broadcast(bytes, root, deadline);
}

WorkHandle CommunicatorWrapper::Barrier(Deadline deadline) { return inner_.Barrier(deadline); }

WorkHandle CommunicatorWrapper::Confirm(Deadline deadline) { return inner_.Confirm(deadline); }

void CommunicatorWrapper::Abort(const std::string& reason) { inner_.Abort(reason); }

int CommunicatorWrapper::LostPeer() const { return inner_.LostPeer(); }

}  // namespace ringmaster::trainer
