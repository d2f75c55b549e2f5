#include "worker/trainer/comm/elements.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "worker/trainer/comm/narrow_floats.h"

namespace ringmaster::trainer {
namespace {

// Numbers are stored in 16 bits and computed as float.
struct Float16 {
  uint16_t bits;
  explicit Float16(float value) : bits(Float16Of(value)) {}
  explicit operator float() const { return FloatOfFloat16(bits); }
};
struct BFloat16 {
  uint16_t bits;
  explicit BFloat16(float value) : bits(BFloat16Of(value)) {}
  explicit operator float() const { return FloatOfBFloat16(bits); }
};

template <ReduceOp op, typename T>
T Reduced(T a, T b) {
  if constexpr (std::is_integral_v<T> && op != ReduceOp::kMin && op != ReduceOp::kMax) {
    // Compute with unsigned 64-bit integers, because signed overflow is undefined.
    const auto x = static_cast<uint64_t>(a);
    const auto y = static_cast<uint64_t>(b);
    return static_cast<T>(op == ReduceOp::kSum ? x + y : x * y);
  } else if constexpr (!std::is_arithmetic_v<T>) {
    return T(Reduced<op>(static_cast<float>(a), static_cast<float>(b)));
  } else if constexpr (op == ReduceOp::kSum) {
    return a + b;
  } else if constexpr (op == ReduceOp::kProduct) {
    return a * b;
  } else if constexpr (op == ReduceOp::kMin) {
    return b < a ? b : a;
  } else {
    return a < b ? b : a;
  }
}

template <typename T, ReduceOp op>
void Reduce(void* out, const void* a, const void* b, std::size_t count) {
  auto* to = static_cast<T*>(out);
  const auto* x = static_cast<const T*>(a);
  const auto* y = static_cast<const T*>(b);
  for (std::size_t i = 0; i < count; ++i) to[i] = Reduced<op>(x[i], y[i]);
}

template <typename T>
ReduceFunction For(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return &Reduce<T, ReduceOp::kSum>;
    case ReduceOp::kProduct:
      return &Reduce<T, ReduceOp::kProduct>;
    case ReduceOp::kMin:
      return &Reduce<T, ReduceOp::kMin>;
    case ReduceOp::kMax:
      return &Reduce<T, ReduceOp::kMax>;
  }
  return nullptr;
}

}  // namespace

const char* NameOf(ElementType type) {
  switch (type) {
    case ElementType::kInt8:
      return "int8";
    case ElementType::kUint8:
      return "uint8";
    case ElementType::kInt32:
      return "int32";
    case ElementType::kUint32:
      return "uint32";
    case ElementType::kInt64:
      return "int64";
    case ElementType::kUint64:
      return "uint64";
    case ElementType::kFloat16:
      return "half";
    case ElementType::kBFloat16:
      return "bfloat16";
    case ElementType::kFloat32:
      return "float";
    case ElementType::kFloat64:
      return "double";
  }
  return "";
}

std::size_t SizeOf(ElementType type) {
  switch (type) {
    case ElementType::kInt8:
    case ElementType::kUint8:
      return 1;
    case ElementType::kFloat16:
    case ElementType::kBFloat16:
      return 2;
    case ElementType::kInt32:
    case ElementType::kUint32:
    case ElementType::kFloat32:
      return 4;
    case ElementType::kInt64:
    case ElementType::kUint64:
    case ElementType::kFloat64:
      return 8;
  }
  return 0;
}

const char* NameOf(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kProduct:
      return "prod";
    case ReduceOp::kMin:
      return "min";
    case ReduceOp::kMax:
      return "max";
  }
  return "";
}

ReduceFunction ReduceFunctionFor(ElementType type, ReduceOp op) {
  switch (type) {
    case ElementType::kInt8:
      return For<int8_t>(op);
    case ElementType::kUint8:
      return For<uint8_t>(op);
    case ElementType::kInt32:
      return For<int32_t>(op);
    case ElementType::kUint32:
      return For<uint32_t>(op);
    case ElementType::kInt64:
      return For<int64_t>(op);
    case ElementType::kUint64:
      return For<uint64_t>(op);
    case ElementType::kFloat16:
      return For<Float16>(op);
    case ElementType::kBFloat16:
      return For<BFloat16>(op);
    case ElementType::kFloat32:
      return For<float>(op);
    case ElementType::kFloat64:
      return For<double>(op);
  }
  return nullptr;
}

}  // namespace ringmaster::trainer
