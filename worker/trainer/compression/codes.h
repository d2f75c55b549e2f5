#pragma once

// Converts single numbers between float and narrow formats, in code that hosts and GPUs share;
// codec.cc inlines it. Rounds to nearest, ties to even. Finite numbers that are too large become
// the format's largest number; NaN and infinities become NaN, so that checks for divergence still
// detect them. The code has no branches or tables, so that loops over it vectorise (g++ needs
// -fno-trapping-math for it).
//
// The 8-bit formats are those of the OCP 8-bit Floating Point Specification. The scale of a chunk
// is the E8M0 of the OCP Microscaling Formats Specification, a power of two, so that scaling is
// exact.

#include <cstddef>
#include <cstdint>

#include "worker/trainer/numeric/float_bits.h"

namespace ringmaster::trainer {

inline constexpr uint32_t kFloatSize = 0x7fffffffU;      // all bits but the sign
inline constexpr uint32_t kFloatInfinity = 0x7f800000U;  // larger values are NaN
inline constexpr uint32_t kFloatNan = 0x7fc00000U;

// Selects `yes` or `no` by a mask: g++ may make a branch of a conditional operator, and a loop with
// branches does not vectorise.
RINGMASTER_HOST_DEVICE inline uint32_t Choose(bool condition, uint32_t yes, uint32_t no) {
  const uint32_t mask = 0U - static_cast<uint32_t>(condition);
  return (yes & mask) | (no & ~mask);
}

// A format with a sign, an exponent that is shorter than float's, and `mantissa_bits` mantissa
// bits. `largest` is the code of its largest finite number, `infinity` that of infinity (0: there
// is none), and `nan` the code that is used for NaN.
template <typename CodeType, int mantissa_bits, int bias, uint32_t largest, uint32_t infinity,
          uint32_t nan>
struct NarrowFloat {
  using Code = CodeType;

  static constexpr bool kScaled = true;  // its range is narrower than that of gradients
  static constexpr int kDropped = 23 - mantissa_bits;  // mantissa bits to drop
  static constexpr int kSignShift = 32 - 8 * static_cast<int>(sizeof(Code));
  static constexpr uint32_t kSign = 1U << (8 * sizeof(Code) - 1);
  static constexpr uint32_t kRebias = static_cast<uint32_t>(127 - bias);
  static constexpr uint32_t kSmallestNormal = (kRebias + 1) << 23;  // as the bits of a float
  // A float whose last mantissa bit is the format's smallest step: adding it rounds to this step.
  static constexpr uint32_t kRounder = static_cast<uint32_t>(127 + 24 - bias - mantissa_bits) << 23;
  static constexpr uint32_t kStep = static_cast<uint32_t>(127 + 1 - bias - mantissa_bits) << 23;
  // The exponent of the largest number, and the largest float mantissa that fits with it.
  static constexpr int kLargestExponent = static_cast<int>(largest >> mantissa_bits) - bias;
  static constexpr uint32_t kLargestMantissa = (largest & ((1U << mantissa_bits) - 1)) << kDropped;

  RINGMASTER_HOST_DEVICE static Code Of(float value) {
    const uint32_t bits = BitsOf(value);
    const uint32_t size = bits & kFloatSize;
    const uint32_t even = (size >> kDropped) & 1U;
    const uint32_t normal =
        ((size + ((1U << (kDropped - 1)) - 1) + even) >> kDropped) - (kRebias << mantissa_bits);
    const uint32_t subnormal = BitsOf(FloatOfBits(size) + FloatOfBits(kRounder)) - kRounder;
    uint32_t code = Choose(size < kSmallestNormal, subnormal, normal);
    code = code < largest ? code : largest;
    code = size < kFloatInfinity ? code : nan;
    return static_cast<Code>(code | ((bits >> kSignShift) & kSign));
  }

  RINGMASTER_HOST_DEVICE static float ToFloat(Code code) {
    const uint32_t size = code & (kSign - 1);
    const uint32_t sign = (code & kSign) << kSignShift;
    const float subnormal = static_cast<float>(static_cast<int32_t>(size)) * FloatOfBits(kStep);
    const uint32_t normal = (size << kDropped) + (kRebias << 23);
    uint32_t bits = Choose(size < (1U << mantissa_bits), BitsOf(subnormal), normal);
    bits = size > largest ? kFloatNan : bits;
    bits = infinity != 0 && size == infinity ? kFloatInfinity : bits;
    return FloatOfBits(bits | sign);
  }
};

using Float16Code = NarrowFloat<uint16_t, 10, 15, 0x7bff, 0x7c00, 0x7e00>;
using Float8E4M3Code = NarrowFloat<uint8_t, 3, 7, 0x7e, 0, 0x7f>;
using Float8E5M2Code = NarrowFloat<uint8_t, 2, 15, 0x7b, 0x7c, 0x7f>;

// The upper half of a float.
struct BFloat16Code {
  using Code = uint16_t;

  static constexpr bool kScaled = false;  // its range is that of float

  RINGMASTER_HOST_DEVICE static Code Of(float value) {
    const uint32_t bits = BitsOf(value);
    const uint32_t size = bits & kFloatSize;
    uint32_t code = (size + 0x7fffU + ((size >> 16) & 1U)) >> 16;
    code = code < 0x7f7fU ? code : 0x7f7fU;
    code = size < kFloatInfinity ? code : 0x7fc0U;
    return static_cast<Code>(code | ((bits >> 16) & 0x8000U));
  }
  RINGMASTER_HOST_DEVICE static float ToFloat(Code code) {
    return FloatOfBits(static_cast<uint32_t>(code) << 16);
  }
};

// The power of two by which a chunk is divided before encoding, and multiplied after decoding, as
// the exponent of a float: 2^(scale - 127).
using ScaleCode = uint8_t;
inline constexpr std::size_t kScaleChunk = 256;  // numbers that share a scale

// `largest_size` has the bits of the chunk's largest finite absolute value. Returns the smallest
// scale with which no value saturates, because a smaller scale has finer steps.
template <typename Format>
RINGMASTER_HOST_DEVICE inline ScaleCode ScaleFor(uint32_t largest_size) {
  const auto exponent = static_cast<int32_t>(largest_size >> 23) - 127;
  const int32_t up = (largest_size & 0x7fffffU) > Format::kLargestMantissa ? 1 : 0;
  const int32_t scale = 127 + exponent + up - Format::kLargestExponent;
  return static_cast<ScaleCode>(scale < 1 ? 1 : scale);  // 2^-126 and 2^126 are normal floats
}

RINGMASTER_HOST_DEVICE inline float ScaleOf(ScaleCode scale) {
  return FloatOfBits(static_cast<uint32_t>(scale) << 23);
}

RINGMASTER_HOST_DEVICE inline float InverseOf(ScaleCode scale) {
  return FloatOfBits((254U - scale) << 23);
}

// Returns a number's rounding error, which is added in the next step; 0 if it is not finite.
RINGMASTER_HOST_DEVICE inline float Remainder(float value, float decoded) {
  const float rest = value - decoded;
  const uint32_t bits = BitsOf(rest);
  return FloatOfBits(Choose((bits & kFloatSize) < kFloatInfinity, bits, 0));
}

}  // namespace ringmaster::trainer
