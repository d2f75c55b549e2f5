#pragma once

// The data of a collective: an array of numbers of one type, in host memory or on the
// communicator's device. Also reduces two arrays on a host.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ringmaster::trainer {

enum class ElementType {
  kInt8,
  kUint8,
  kInt32,
  kUint32,
  kInt64,
  kUint64,
  kFloat16,   // IEEE 754 binary16
  kBFloat16,  // the upper half of a float
  kFloat32,
  kFloat64,
};
inline constexpr std::array kElementTypes{
    ElementType::kInt8,    ElementType::kUint8,  ElementType::kInt32,   ElementType::kUint32,
    ElementType::kInt64,   ElementType::kUint64, ElementType::kFloat16, ElementType::kBFloat16,
    ElementType::kFloat32, ElementType::kFloat64};

// Returns the type's name in nccl-tests: int8, uint8, …, half, bfloat16, float or double.
const char* NameOf(ElementType type);
std::size_t SizeOf(ElementType type);

enum class ReduceOp { kSum, kProduct, kMin, kMax };
inline constexpr std::array kReduceOps{ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMin,
                                       ReduceOp::kMax};

// Returns the operation's name: sum, prod, min or max.
const char* NameOf(ReduceOp op);

// Refers to memory of the caller.
struct Elements {
  std::byte* data = nullptr;
  std::size_t count = 0;
  ElementType type = ElementType::kFloat32;

  Elements() = default;
  Elements(std::byte* memory, std::size_t number, ElementType of)
      : data(memory), count(number), type(of) {}
  Elements(std::span<float> values)  // implicit, because most collectives reduce floats
      : data(reinterpret_cast<std::byte*>(values.data())), count(values.size()) {}

  std::size_t bytes() const { return count * SizeOf(type); }
  std::span<std::byte> memory() const { return {data, bytes()}; }
};

// Computes out[i] = a[i] op b[i]. The arrays may be the same. 16-bit floats are computed as floats
// and rounded to nearest even; integers wrap. For sum and product, a NaN on either side gives NaN.
using ReduceFunction = void (*)(void* out, const void* a, const void* b, std::size_t count);
ReduceFunction ReduceFunctionFor(ElementType type, ReduceOp op);

}  // namespace ringmaster::trainer
