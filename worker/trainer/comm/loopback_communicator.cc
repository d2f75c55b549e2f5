#include "worker/trainer/comm/loopback_communicator.h"

#include <algorithm>

namespace ringmaster::trainer {

WorkHandle LoopbackCommunicator::Done(Deadline deadline) {
  auto work = std::make_shared<Work>(deadline);
  const MutexLock lock(mutex_);
  work->Complete(aborted_ ? Result<void>(*aborted_) : Result<void>());
  return work;
}

WorkHandle LoopbackCommunicator::AllReduce(Elements, ReduceOp, Deadline deadline) {
  return Done(deadline);
}

WorkHandle LoopbackCommunicator::ReduceScatter(Elements all, Elements mine, ReduceOp,
                                               Deadline deadline) {
  std::ranges::copy(all.memory(), mine.data);
  return Done(deadline);
}

WorkHandle LoopbackCommunicator::AllToAll(std::span<const std::byte> send, std::vector<std::size_t>,
                                          std::span<std::byte> receive, std::vector<std::size_t>,
                                          Deadline deadline) {
  std::ranges::copy(send, receive.begin());
  return Done(deadline);
}

WorkHandle LoopbackCommunicator::AllGather(std::span<const std::byte> mine,
                                           std::span<std::byte> all, Deadline deadline) {
  std::copy(mine.begin(), mine.end(), all.begin());
  return Done(deadline);
}

WorkHandle LoopbackCommunicator::Broadcast(std::span<std::byte>, int, Deadline deadline) {
  return Done(deadline);
}

WorkHandle LoopbackCommunicator::Barrier(Deadline deadline) { return Done(deadline); }

void LoopbackCommunicator::Abort(const std::string& reason) {
  const MutexLock lock(mutex_);
  if (!aborted_) aborted_ = Error{ErrorKind::kCancelled, reason};
}

}  // namespace ringmaster::trainer
