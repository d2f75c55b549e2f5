#pragma once

// Converts single numbers between float and the two 16-bit formats on a host, with the same bits as
// hardware: rounds to nearest, ties to even; values too large become infinity; NaN stays NaN.

#include <bit>
#include <cstdint>

namespace ringmaster::trainer {

inline float FloatOfBFloat16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

inline uint16_t BFloat16Of(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<uint16_t>((bits >> 16) | 0x40U);
  return static_cast<uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

inline float FloatOfFloat16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000U) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fU;
  const uint32_t mantissa = bits & 0x3ffU;
  if (exponent == 0) {  // zero, or a multiple of 2^-24
    const float size = static_cast<float>(mantissa) * 0x1p-24F;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(size) | sign);
  }
  const uint32_t wide = exponent == 31 ? 0xffU : exponent + 112;
  return std::bit_cast<float>(sign | (wide << 23) | (mantissa << 13));
}

inline uint16_t Float16Of(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000U);
  const uint32_t size = bits & 0x7fffffffU;
  const auto with = [sign](uint32_t rest) { return static_cast<uint16_t>(sign | rest); };
  if (size > 0x7f800000U) return with(0x7e00U | ((size >> 13) & 0x3ffU));
  if (size >= 0x477ff000U) return with(0x7c00U);             // 65520 or more: infinity
  if (size < 0x38800000U) {                                  // gives a multiple of 2^-24
    const float scaled = std::bit_cast<float>(size) + 0.5F;  // the last bit of 0.5F is 2^-24
    return with(std::bit_cast<uint32_t>(scaled) - std::bit_cast<uint32_t>(0.5F));
  }
  return with((size - 0x38000000U + 0xfffU + ((size >> 13) & 1U)) >> 13);
}

}  // namespace ringmaster::trainer
