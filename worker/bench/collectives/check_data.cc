#include "worker/bench/collectives/check_data.h"

#include <algorithm>
#include <cstring>

#include "worker/trainer/comm/narrow_floats.h"

namespace ringmaster::bench {
namespace {

using trainer::Elements;
using trainer::ElementType;
using trainer::ReduceOp;

template <typename T>
void Put(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof(value));
}

void Store(const Elements& elements, std::size_t index, int64_t value) {
  std::byte* const at = elements.data + index * SizeOf(elements.type);
  switch (elements.type) {
    case ElementType::kInt8:
    case ElementType::kUint8:
      return Put(at, static_cast<uint8_t>(value));
    case ElementType::kInt32:
    case ElementType::kUint32:
      return Put(at, static_cast<uint32_t>(value));
    case ElementType::kInt64:
    case ElementType::kUint64:
      return Put(at, static_cast<uint64_t>(value));
    case ElementType::kFloat16:
      return Put(at, trainer::Float16Of(static_cast<float>(value)));
    case ElementType::kBFloat16:
      return Put(at, trainer::BFloat16Of(static_cast<float>(value)));
    case ElementType::kFloat32:
      return Put(at, static_cast<float>(value));
    case ElementType::kFloat64:
      return Put(at, static_cast<double>(value));
  }
}

// Returns whether the element has this value. Compares bits: a value has only one representation.
bool Holds(const Elements& elements, std::size_t index, int64_t value) {
  int64_t expected = 0;
  const std::size_t bytes = SizeOf(elements.type);
  Store({reinterpret_cast<std::byte*>(&expected), 1, elements.type}, 0, value);
  return std::memcmp(&expected, elements.data + index * bytes, bytes) == 0;
}

// Returns a pseudo-random number in [0, most) for the rank and index (SplitMix64's finaliser;
// Steele, Lea and Flood, 2014).
int64_t Hashed(int rank, std::size_t index, uint64_t most) {
  uint64_t hash = (uint64_t{index} << 20) + static_cast<uint64_t>(rank) + 0x9e3779b97f4a7c15ULL;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9ULL;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebULL;
  return static_cast<int64_t>(((hash ^ (hash >> 31)) >> 32) * most >> 32);
}

// Returns a rank's input at `index`. For products, one rank has factor 2 and rank 0 a factor 1-3.
int64_t ValueOf(ElementType type, ReduceOp op, int rank, int ranks, std::size_t index) {
  constexpr uint64_t kSmall = 128;  // representable in every type
  constexpr int kNobody = (1 << 20) - 1;
  switch (op) {
    case ReduceOp::kSum: {
      // The sums must fit their type. Where Open MPI adds with AVX, it saturates larger 8-bit
      // integers instead of wrapping them (seen with 4.1.4).
      const int largest = type == ElementType::kInt8 ? 127 : 255;
      return Hashed(rank, index, static_cast<uint64_t>(std::clamp(largest / ranks + 1, 2, 128)));
    }
    case ReduceOp::kProduct: {
      const bool doubles = Hashed(kNobody, index, static_cast<uint64_t>(ranks)) == rank;
      return (doubles ? 2 : 1) * (rank == 0 ? 1 + Hashed(rank, index, 3) : 1);
    }
    case ReduceOp::kMin:
    case ReduceOp::kMax:
      return Hashed(rank, index, kSmall);
  }
  return 0;
}

int64_t Combined(ReduceOp op, int64_t a, int64_t b) {
  switch (op) {
    case ReduceOp::kSum:
      return a + b;
    case ReduceOp::kProduct:
      return a * b;
    case ReduceOp::kMin:
      return std::min(a, b);
    case ReduceOp::kMax:
      return std::max(a, b);
  }
  return 0;
}

// Returns the reduced value of all ranks at `index`.
int64_t Reduced(ElementType type, ReduceOp op, int ranks, std::size_t index) {
  int64_t result = ValueOf(type, op, 0, ranks, index);
  for (int rank = 1; rank < ranks; ++rank) {
    result = Combined(op, result, ValueOf(type, op, rank, ranks, index));
  }
  return result;
}

// Returns the value that `receive` must have at `index` after the call.
int64_t Expected(const CheckedCall& checked, std::size_t index) {
  const Call& call = checked.call;
  const std::size_t pieces = call.receive.count / static_cast<std::size_t>(checked.ranks);
  const std::size_t piece = std::max<std::size_t>(1, pieces);
  const auto mine = static_cast<std::size_t>(checked.rank);
  const int from = static_cast<int>(index / piece);
  const ElementType type = call.receive.type;
  switch (call.collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
      return Reduced(type, call.op, checked.ranks, index);
    case Collective::kReduceScatter:
      return Reduced(type, call.op, checked.ranks, mine * call.receive.count + index);
    case Collective::kAllGather:
    case Collective::kGather:
      return ValueOf(type, call.op, from, checked.ranks, index % piece);
    case Collective::kAllToAll:
      return ValueOf(type, call.op, from, checked.ranks, mine * piece + index % piece);
    case Collective::kBroadcast:
      return ValueOf(type, call.op, call.root, checked.ranks, index);
    case Collective::kScatter:
      return ValueOf(type, call.op, call.root, checked.ranks, mine * call.receive.count + index);
    case Collective::kSendRecv:
      return ValueOf(type, call.op, (checked.rank + checked.ranks - 1) % checked.ranks,
                     checked.ranks, index);
  }
  return 0;
}

}  // namespace

void Fill(const CheckedCall& checked) {
  const Call& call = checked.call;
  for (std::size_t i = 0; i < call.receive.count; ++i) Store(call.receive, i, -1);
  for (std::size_t i = 0; i < call.send.count; ++i) {
    Store(call.send, i, ValueOf(call.send.type, call.op, checked.rank, checked.ranks, i));
  }
}

int64_t CountWrong(const CheckedCall& checked) {
  const Collective collective = checked.call.collective;
  const bool of_root = collective == Collective::kReduce || collective == Collective::kGather;
  if (of_root && checked.rank != checked.call.root) return 0;
  int64_t wrong = 0;
  for (std::size_t i = 0; i < checked.call.receive.count; ++i) {
    if (!Holds(checked.call.receive, i, Expected(checked, i))) ++wrong;
  }
  return wrong;
}

}  // namespace ringmaster::bench
