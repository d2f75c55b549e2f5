// The bench's operations as MPI's own, for comparison with jobs of direct programs.

#include <algorithm>
#include <array>
#include <mpi.h>
#include <optional>
#include <string>

#include "worker/bench/collectives/backend.h"

namespace ringmaster::bench {
namespace {

using trainer::ElementType;
using trainer::ReduceOp;

// MPI 3 knows no 16-bit floats.
std::optional<MPI_Datatype> TypeOf(ElementType type) {
  switch (type) {
    case ElementType::kInt8:
      return MPI_INT8_T;
    case ElementType::kUint8:
      return MPI_UINT8_T;
    case ElementType::kInt32:
      return MPI_INT32_T;
    case ElementType::kUint32:
      return MPI_UINT32_T;
    case ElementType::kInt64:
      return MPI_INT64_T;
    case ElementType::kUint64:
      return MPI_UINT64_T;
    case ElementType::kFloat32:
      return MPI_FLOAT;
    case ElementType::kFloat64:
      return MPI_DOUBLE;
    case ElementType::kFloat16:
    case ElementType::kBFloat16:
      break;
  }
  return std::nullopt;
}

MPI_Op OpOf(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return MPI_SUM;
    case ReduceOp::kProduct:
      return MPI_PROD;
    case ReduceOp::kMin:
      return MPI_MIN;
    case ReduceOp::kMax:
      return MPI_MAX;
  }
  return MPI_OP_NULL;
}

Result<void> Checked(int code, const char* what) {
  if (code == MPI_SUCCESS) return {};
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return Error{ErrorKind::kUnavailable,
               std::string("while in ") + what + ": " +
                   std::string(text.data(), static_cast<std::size_t>(length))};
}

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
  bool Supports(ElementType type, ReduceOp) const override { return TypeOf(type).has_value(); }

  Result<void> Run(const Call& call) override {
    const MPI_Datatype type = TypeOf(call.send.type).value_or(MPI_DATATYPE_NULL);
    const bool in_place = Within(call.send, call.receive) || Within(call.receive, call.send);
    const void* send = in_place ? MPI_IN_PLACE : call.send.data;
    void* receive = call.receive.data;
    const auto count = static_cast<int>(call.receive.count);
    switch (call.collective) {
      case Collective::kAllReduce:
        return Checked(MPI_Allreduce(send, receive, count, type, OpOf(call.op), MPI_COMM_WORLD),
                       "MPI_Allreduce");
      case Collective::kReduceScatter:
        return ReduceScatter(call, type, in_place);
      case Collective::kAllGather:
        return Checked(
            MPI_Allgather(send, count / size_, type, receive, count / size_, type, MPI_COMM_WORLD),
            "MPI_Allgather");
      case Collective::kAllToAll:
        return Checked(
            MPI_Alltoall(send, count / size_, type, receive, count / size_, type, MPI_COMM_WORLD),
            "MPI_Alltoall");
      case Collective::kBroadcast:
        if (rank_ == call.root && !in_place) {
          std::copy_n(call.send.data, call.send.bytes(), call.receive.data);
        }
        return Checked(MPI_Bcast(receive, count, type, call.root, MPI_COMM_WORLD), "MPI_Bcast");
    }
    return {};
  }

  Result<void> Barrier() override { return Checked(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier"); }

 private:
  static bool Within(const trainer::Elements& part, const trainer::Elements& whole) {
    return part.data >= whole.data && part.data < whole.data + whole.bytes();
  }

  // MPI's in-place form leaves the piece at the front of the whole; nccl's where it belongs.
  Result<void> ReduceScatter(const Call& call, MPI_Datatype type, bool in_place) {
    const auto count = static_cast<int>(call.receive.count);
    if (!in_place) {
      return Checked(MPI_Reduce_scatter_block(call.send.data, call.receive.data, count, type,
                                              OpOf(call.op), MPI_COMM_WORLD),
                     "MPI_Reduce_scatter_block");
    }
    const Result<void> done = Checked(MPI_Reduce_scatter_block(MPI_IN_PLACE, call.send.data, count,
                                                               type, OpOf(call.op), MPI_COMM_WORLD),
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
