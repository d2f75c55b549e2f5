#include "worker/trainer/comm/mpi/mpi_communicator.h"

#include <algorithm>
#include <atomic>
#include <climits>
#include <sched.h>
#include <stdexcept>
#include <thread>
#include <utility>

#include <mpi.h>

#include "worker/trainer/comm/mpi/mpi_types.h"
#include "worker/trainer/comm/reduce_pieces.h"

namespace ringmaster::trainer {
namespace {

// MPI counts in ints.
constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;

int Count(std::size_t number) {
  if (number > INT_MAX) {
    throw std::runtime_error("MPI counts to 2147483647, and this operation has " +
                             std::to_string(number) + " in one piece: use more ranks, or Gloo");
  }
  return static_cast<int>(number);
}

// Where pieces of so many bytes begin, one after the other.
struct Pieces {
  explicit Pieces(const std::vector<std::size_t>& bytes) {
    std::size_t at = 0;
    for (const std::size_t each : bytes) {
      counts.push_back(Count(each));
      starts.push_back(Count(at));
      at += each;
    }
  }
  std::vector<int> counts;
  std::vector<int> starts;
};

}  // namespace

class MpiCommunicator::Connection final : public Transport {
 public:
  Result<void> Connect(const World&, Deadline) override { return {}; }
  void ShutDown() override { down_ = true; }

  // Starts a non-blocking call, which takes the request that it is to fill last, and looks after it
  // until it is done. Whoever waits lets others compute: first its turn passes, then it sleeps.
  template <typename Start>
  void Run(const char* name, Deadline deadline, Start start) {
    MPI_Request request = MPI_REQUEST_NULL;
    Check(start(&request), name);
    const auto patience = std::chrono::steady_clock::now() + std::chrono::microseconds(200);
    for (;;) {
      int done = 0;
      Check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), name);
      if (done != 0) return;
      if (down_) throw std::runtime_error(std::string(name) + " was given up");
      const auto now = std::chrono::steady_clock::now();
      if (now >= deadline) throw std::runtime_error(std::string(name) + " took too long");
      if (now < patience) {
        sched_yield();
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    }
  }

 private:
  static void Check(int code, const char* name) {
    if (auto checked = MpiChecked(code, name); !checked.ok()) {
      throw std::runtime_error(checked.error().message);
    }
  }

  std::atomic<bool> down_ = false;
};

MpiCommunicator::MpiCommunicator(const World& world, Deadline deadline, LeftBehind& left_behind)
    : MpiCommunicator(world, deadline, left_behind, std::make_shared<Connection>()) {}

MpiCommunicator::MpiCommunicator(const World& world, Deadline deadline, LeftBehind& left_behind,
                                 std::shared_ptr<Connection> connection)
    : QueuedCommunicator(world, deadline, connection, left_behind),
      connection_(std::move(connection)) {}

WorkHandle MpiCommunicator::AllReduce(Elements values, ReduceOp op, Deadline deadline) {
  return Enqueue("allreduce", values.bytes(), deadline,
                 [values, op, connection = connection_.get()](Deadline until) {
                   const MpiReduction by = MpiReductionOf(values.type, op);
                   for (std::size_t at = 0; at < values.count; at += kMostAtOnce) {
                     const int count = Count(std::min(kMostAtOnce, values.count - at));
                     std::byte* const data = values.data + at * SizeOf(values.type);
                     connection->Run("MPI_Iallreduce", until, [=](MPI_Request* request) {
                       return MPI_Iallreduce(MPI_IN_PLACE, data, count, by.type, by.op,
                                             MPI_COMM_WORLD, request);
                     });
                   }
                 });
}

WorkHandle MpiCommunicator::ReduceScatter(Elements all, Elements mine, ReduceOp op,
                                          Deadline deadline) {
  // Every piece travels once, straight to its rank, which reduces them in the order of the ranks:
  // MPI's own reduce-scatter promises no order.
  auto pieces = std::make_shared<std::vector<std::byte>>(all.bytes());
  return Enqueue("reduce-scatter", all.bytes(), deadline,
                 [all, mine, op, pieces, connection = connection_.get()](Deadline until) {
                   if (mine.count == 0) return;
                   const int count = Count(mine.bytes());
                   connection->Run("MPI_Ialltoall", until, [&](MPI_Request* request) {
                     return MPI_Ialltoall(all.data, count, MPI_BYTE, pieces->data(), count,
                                          MPI_BYTE, MPI_COMM_WORLD, request);
                   });
                   ReducePieces(*pieces, mine, op);
                 });
}

WorkHandle MpiCommunicator::AllGather(std::span<const std::byte> mine, std::span<std::byte> all,
                                      Deadline deadline) {
  return Enqueue("allgather", all.size(), deadline,
                 [mine, all, connection = connection_.get()](Deadline until) {
                   const int count = Count(mine.size());
                   connection->Run("MPI_Iallgather", until, [&](MPI_Request* request) {
                     return MPI_Iallgather(mine.data(), count, MPI_BYTE, all.data(), count,
                                           MPI_BYTE, MPI_COMM_WORLD, request);
                   });
                 });
}

WorkHandle MpiCommunicator::AllToAll(std::span<const std::byte> send,
                                     std::vector<std::size_t> send_bytes,
                                     std::span<std::byte> receive,
                                     std::vector<std::size_t> receive_bytes, Deadline deadline) {
  return Enqueue(
      "all-to-all", send.size(), deadline,
      [send, receive, send_bytes = std::move(send_bytes), receive_bytes = std::move(receive_bytes),
       connection = connection_.get()](Deadline until) {
        const Pieces to(send_bytes);
        const Pieces from(receive_bytes);
        connection->Run("MPI_Ialltoallv", until, [&](MPI_Request* request) {
          return MPI_Ialltoallv(send.data(), to.counts.data(), to.starts.data(), MPI_BYTE,
                                receive.data(), from.counts.data(), from.starts.data(), MPI_BYTE,
                                MPI_COMM_WORLD, request);
        });
      });
}

WorkHandle MpiCommunicator::Broadcast(std::span<std::byte> bytes, int root, Deadline deadline) {
  return Enqueue("broadcast", bytes.size(), deadline,
                 [bytes, root, connection = connection_.get()](Deadline until) {
                   for (std::size_t at = 0; at < bytes.size(); at += kMostAtOnce) {
                     const int count = Count(std::min(kMostAtOnce, bytes.size() - at));
                     connection->Run("MPI_Ibcast", until, [&](MPI_Request* request) {
                       return MPI_Ibcast(bytes.data() + at, count, MPI_BYTE, root, MPI_COMM_WORLD,
                                         request);
                     });
                   }
                 });
}

WorkHandle MpiCommunicator::Barrier(Deadline deadline) {
  return Enqueue("barrier", 0, deadline, [connection = connection_.get()](Deadline until) {
    connection->Run("MPI_Ibarrier", until,
                    [](MPI_Request* request) { return MPI_Ibarrier(MPI_COMM_WORLD, request); });
  });
}

}  // namespace ringmaster::trainer
