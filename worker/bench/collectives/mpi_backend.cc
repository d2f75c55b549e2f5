// Performs the bench's operations with MPI, for comparison with direct programs that use MPI.

#include <algorithm>
#include <array>
#include <climits>
#include <cstddef>
#include <span>
#include <string>

#include <mpi.h>

#include "worker/bench/collectives/backend.h"
#include "worker/trainer/comm/elements.h"

namespace ringmaster::bench {
namespace {

using trainer::ElementType;
using trainer::kReduceOps;
using trainer::ReduceOp;

MPI_Datatype OwnTypeOf(ElementType type) {
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
  return MPI_DATATYPE_NULL;
}

MPI_Op OwnOpOf(ReduceOp op) {
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

template <ElementType kType, ReduceOp kOp>
void Reduce(void* in, void* in_out, int* count, MPI_Datatype*) {
  trainer::ReduceFunctionFor(kType, kOp)(in_out, in, in_out, static_cast<std::size_t>(*count));
}

using UserFunctions = std::array<MPI_User_function*, kReduceOps.size()>;

template <ElementType kType>
constexpr UserFunctions kFunctions = {Reduce<kType, ReduceOp::kSum>,
                                      Reduce<kType, ReduceOp::kProduct>,
                                      Reduce<kType, ReduceOp::kMin>, Reduce<kType, ReduceOp::kMax>};

// A two-byte type that MPI does not have, and the reductions of that type.
struct NarrowFloat {
  explicit NarrowFloat(const UserFunctions& functions) {
    MPI_Type_contiguous(2, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    for (std::size_t i = 0; i < functions.size(); ++i) {
      MPI_Op_create(functions[i], /*commute=*/1, &ops[i]);
    }
  }
  MPI_Datatype type = MPI_DATATYPE_NULL;
  std::array<MPI_Op, kReduceOps.size()> ops{};
};

// A type and its reduction. These are MPI's own if MPI has the type. MPI 3 has no 16-bit floats, so
// elements.h reduces those. Both handles are valid until MPI is finalised.
struct MpiReduction {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Op op = MPI_OP_NULL;
};

MpiReduction MpiReductionOf(ElementType type, ReduceOp op) {
  if (const MPI_Datatype own = OwnTypeOf(type); own != MPI_DATATYPE_NULL) return {own, OwnOpOf(op)};
  static const NarrowFloat half(kFunctions<ElementType::kFloat16>);
  static const NarrowFloat bfloat(kFunctions<ElementType::kBFloat16>);
  const NarrowFloat& narrow = type == ElementType::kFloat16 ? half : bfloat;
  return {narrow.type, narrow.ops[static_cast<std::size_t>(op)]};
}

// Returns MPI's message for the error code of a call. REQUIRES: the handler is MPI_ERRORS_RETURN.
Result<void> MpiChecked(int code, const char* call) {
  if (code == MPI_SUCCESS) return {};
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return Error{ErrorKind::kUnavailable,
               std::string("while in ") + call + ": " +
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

  Result<void> Start(std::span<const Call> together) override {
    for (const Call& call : together) {
      if (Result<void> done = Run(call); !done.ok()) return done;
    }
    return {};
  }
  Result<void> Finish() override { return {}; }
  Result<void> Barrier() override { return MpiChecked(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier"); }
  Result<void> Agree(trainer::Elements value, ReduceOp op) override {
    return Run({.collective = Collective::kAllReduce, .op = op, .send = value, .receive = value});
  }

 private:
  // Runs the operation and blocks until it is complete.
  Result<void> Run(const Call& call) {
    const std::size_t each = call.count(size_);
    if (each > INT_MAX) {
      return Error{ErrorKind::kInvalid,
                   "MPI supports at most 2147483647 elements, but this operation has " +
                       std::to_string(each) + "; lower -e or use a wider -d"};
    }
    const auto count = static_cast<int>(each);
    const MpiReduction by = MpiReductionOf(call.send.type, call.op);
    const bool in_place = Within(call.send, call.receive) || Within(call.receive, call.send);
    const bool is_root = rank_ == call.root;
    const void* send = in_place ? MPI_IN_PLACE : call.send.data;
    const void* to_root = is_root ? send : call.send.data;
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
        if (is_root && !in_place) {
          std::copy_n(call.send.data, call.send.bytes(), call.receive.data);
        }
        return MpiChecked(MPI_Bcast(receive, count, by.type, call.root, MPI_COMM_WORLD),
                          "MPI_Bcast");
      case Collective::kReduce:
        return MpiChecked(
            MPI_Reduce(to_root, receive, count, by.type, by.op, call.root, MPI_COMM_WORLD),
            "MPI_Reduce");
      case Collective::kGather:
        return MpiChecked(
            MPI_Gather(to_root, count, by.type, receive, count, by.type, call.root, MPI_COMM_WORLD),
            "MPI_Gather");
      case Collective::kScatter:
        return MpiChecked(MPI_Scatter(call.send.data, count, by.type,
                                      in_place && is_root ? MPI_IN_PLACE : receive, count, by.type,
                                      call.root, MPI_COMM_WORLD),
                          "MPI_Scatter");
      case Collective::kSendRecv:
        return SendRecv(call, count, by.type, in_place);
    }
    return {};
  }

  static bool Within(const trainer::Elements& part, const trainer::Elements& whole) {
    return part.data >= whole.data && part.data < whole.data + whole.bytes();
  }

  // In place, MPI writes the result to the front of the buffer, but NCCL to the part of this rank.
  Result<void> ReduceScatter(const Call& call, int count, MpiReduction by, bool in_place) {
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

  Result<void> SendRecv(const Call& call, int count, MPI_Datatype type, bool in_place) {
    const int next = (rank_ + 1) % size_;
    const int before = (rank_ + size_ - 1) % size_;
    if (in_place) {
      return MpiChecked(MPI_Sendrecv_replace(call.receive.data, count, type, next, 0, before, 0,
                                             MPI_COMM_WORLD, MPI_STATUS_IGNORE),
                        "MPI_Sendrecv_replace");
    }
    return MpiChecked(MPI_Sendrecv(call.send.data, count, type, next, 0, call.receive.data, count,
                                   type, before, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
                      "MPI_Sendrecv");
  }

  int rank_ = 0;
  int size_ = 1;
};

}  // namespace

Result<std::unique_ptr<Backend>> MakeMpiBackend() {
  int initialised = 0;
  MPI_Initialized(&initialised);
  if (initialised != 0) return Error{ErrorKind::kInternal, "MPI is already initialized"};
  return std::unique_ptr<Backend>(std::make_unique<MpiBackend>());
}

}  // namespace ringmaster::bench
