#include "worker/trainer/comm/collective_transport.h"

#include <utility>

namespace ringmaster::trainer {

TransportCommunicator::TransportCommunicator(const World& world, Deadline deadline,
                                             std::shared_ptr<CollectiveTransport> transport,
                                             AbandonedConnects& abandoned_connects)
    : QueuedCommunicator(world, deadline, transport, abandoned_connects), transport_(*transport) {}

WorkHandle TransportCommunicator::AllReduce(Elements values, ReduceOp op, Deadline deadline) {
  return Enqueue("allreduce", values.bytes(), deadline, [=, &by = transport_](Deadline until) {
    by.collectives().AllReduce(values, op, until);
  });
}

WorkHandle TransportCommunicator::ReduceScatter(Elements all, Elements mine, ReduceOp op,
                                                Deadline deadline) {
  return Enqueue("reduce-scatter", all.bytes(), deadline, [=, &by = transport_](Deadline until) {
    if (mine.count > 0) by.collectives().ReduceScatter(all, mine, op, until);
  });
}

WorkHandle TransportCommunicator::AllGather(std::span<const std::byte> mine,
                                            std::span<std::byte> all, Deadline deadline) {
  return Enqueue("allgather", all.size(), deadline, [=, &by = transport_](Deadline until) {
    by.collectives().AllGather(mine, all, until);
  });
}

WorkHandle TransportCommunicator::AllToAll(std::span<const std::byte> send,
                                           std::vector<std::size_t> send_bytes,
                                           std::span<std::byte> receive,
                                           std::vector<std::size_t> receive_bytes,
                                           Deadline deadline) {
  return Enqueue("all-to-all", send.size() + receive.size(), deadline,
                 [send, receive, to = std::move(send_bytes), from = std::move(receive_bytes),
                  &by = transport_](Deadline until) {
                   by.collectives().AllToAll(send, to, receive, from, until);
                 });
}

WorkHandle TransportCommunicator::Broadcast(std::span<std::byte> bytes, int root,
                                            Deadline deadline) {
  return Enqueue("broadcast", bytes.size(), deadline, [=, &by = transport_](Deadline until) {
    by.collectives().Broadcast(bytes, root, until);
  });
}

WorkHandle TransportCommunicator::Barrier(Deadline deadline) {
  return Enqueue("barrier", 0, deadline,
                 [&by = transport_](Deadline until) { by.collectives().Barrier(until); });
}

}  // namespace ringmaster::trainer
