// The bench's operations as MPI's own, for comparison with jobs of direct programs.

#include <algorithm>
#include <climits>
#include <string>

#include <mpi.h>

#include "worker/bench/collectives/backend.h"
#include "worker/trainer/comm/mpi/mpi_types.h"

namespace ringmaster::bench {
namespace {

using trainer::MpiChecked;

class MpiBackend final : public Backend {
 public:
  MpiBackend() {
    MPI_Init(nullptr, nullptr);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  ~MpiBackend() override { MPI_Finalize(); }
  MpiBackend(const MpiBackend&) = delete;
  MpiBackend& operator=(const MpiBackend&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  bool Supports(trainer::ElementType, trainer::ReduceOp) const override { return true; }

  Result<void> Run(const Call& call) override {
    const std::size_t each = call.count(size_);
    if (each > INT_MAX) {
      return Error{ErrorKind::kInvalid,
                   "MPI counts to 2147483647 elements, and this operation has " +
                       std::to_string(each) + ": lower -e, or use a wider -d"};
    }
    const auto count = static_cast<int>(each);
    const trainer::MpiReduction by = trainer::MpiReductionOf(call.send.type, call.op);
    const bool in_place = Within(call.send, call.receive) || Within(call.receive, call.send);
    const void* send = in_place ? MPI_IN_PLACE : call.send.data;
    void* receive = call.receive.data;
    switch (call.collective) {
      case Collective::kAllReduce:
        return MpiChecked(MPI_Allreduce(send, receive, count, by.type, by.op, MPI_COMM_WORLD),
                          "MPI_Allreduce");
      case Collective::kReduceScatter:
        return ReduceScatter(call, count, by, in_place);
      case Collective::kAllGather:
        return MpiChecked(
            MPI_Allgather(send, count, by.type, receive, count, by.type, MPI_COMM_WORLD),
            "MPI_Allgather");
      case Collective::kAllToAll:
        return MpiChecked(
            MPI_Alltoall(send, count, by.type, receive, count, by.type, MPI_COMM_WORLD),
            "MPI_Alltoall");
      case Collective::kBroadcast:
        if (rank_ == call.root && !in_place) {
          std::copy_n(call.send.data, call.send.bytes(), call.receive.data);
        }
        return MpiChecked(MPI_Bcast(receive, count, by.type, call.root, MPI_COMM_WORLD),
                          "MPI_Bcast");
    }
    return {};
  }

  Result<void> Barrier() override { return MpiChecked(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier"); }

 private:
  static bool Within(const trainer::Elements& part, const trainer::Elements& whole) {
    return part.data >= whole.data && part.data < whole.data + whole.bytes();
  }

  // MPI's in-place form leaves the piece at the front of the whole; nccl's where it belongs.
  Result<void> ReduceScatter(const Call& call, int count, trainer::MpiReduction by, bool in_place) {
    if (!in_place) {
      return MpiChecked(MPI_Reduce_scatter_block(call.send.data, call.receive.data, count, by.type,
                                                 by.op, MPI_COMM_WORLD),
                        "MPI_Reduce_scatter_block");
    }
    const Result<void> done =
        MpiChecked(MPI_Reduce_scatter_block(MPI_IN_PLACE, call.send.data, count, by.type, by.op,
                                            MPI_COMM_WORLD),
                   "MPI_Reduce_scatter_block");
    if (done.ok()) std::copy_n(call.send.data, call.receive.bytes(), call.receive.data);
    return done;
  }

  int rank_ = 0;
  int size_ = 1;
};

}  // namespace

Result<std::unique_ptr<Backend>> MakeMpiBackend() {
  int initialised = 0;
  MPI_Initialized(&initialised);
  if (initialised != 0) return Error{ErrorKind::kInternal, "MPI is initialised already"};
  return std::unique_ptr<Backend>(std::make_unique<MpiBackend>());
}

}  // namespace ringmaster::bench
