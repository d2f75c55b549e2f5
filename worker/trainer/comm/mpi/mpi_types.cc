#include "worker/trainer/comm/mpi/mpi_types.h"

#include <array>
#include <cstddef>

namespace ringmaster::trainer {
namespace {

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
  ReduceFunctionFor(kType, kOp)(in_out, in, in_out, static_cast<std::size_t>(*count));
}

using UserFunctions = std::array<MPI_User_function*, kReduceOps.size()>;

template <ElementType kType>
constexpr UserFunctions kFunctions = {Reduce<kType, ReduceOp::kSum>,
                                      Reduce<kType, ReduceOp::kProduct>,
                                      Reduce<kType, ReduceOp::kMin>, Reduce<kType, ReduceOp::kMax>};

// Two bytes that MPI knows nothing of, and the operations on them.
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

}  // namespace

MpiReduction MpiReductionOf(ElementType type, ReduceOp op) {
  if (const MPI_Datatype own = OwnTypeOf(type); own != MPI_DATATYPE_NULL) return {own, OwnOpOf(op)};
  static const NarrowFloat half(kFunctions<ElementType::kFloat16>);
  static const NarrowFloat bfloat(kFunctions<ElementType::kBFloat16>);
  const NarrowFloat& narrow = type == ElementType::kFloat16 ? half : bfloat;
  return {narrow.type, narrow.ops[static_cast<std::size_t>(op)]};
}

Result<void> MpiChecked(int code, const char* call) {
  if (code == MPI_SUCCESS) return {};
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return Error{ErrorKind::kUnavailable,
               std::string("while in ") + call + ": " +
                   std::string(text.data(), static_cast<std::size_t>(length))};
}

}  // namespace ringmaster::trainer
