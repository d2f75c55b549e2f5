#include "worker/trainer/compression/codec.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "worker/trainer/compression/codes.h"

// Compiles each loop with and without AVX2, and selects a version before main(), which sanitizers
// do not support. Does not use -mfma, so that all ranks compute the same bits.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define RINGMASTER_VECTOR_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define RINGMASTER_VECTOR_CLONES
#endif
#define RINGMASTER_INLINE [[gnu::always_inline]] inline

namespace ringmaster::trainer {
namespace {

using Chunk = std::array<float, kScaleChunk>;

std::size_t ChunksOf(std::size_t count) { return (count + kScaleChunk - 1) / kScaleChunk; }

RINGMASTER_INLINE void Add(const float* values, const float* carried, float* sums,
                           std::size_t count) {
  if (carried == nullptr) {
    for (std::size_t i = 0; i < count; ++i) sums[i] = values[i];
  } else {
    for (std::size_t i = 0; i < count; ++i) sums[i] = values[i] + carried[i];
  }
}

// Returns the bits of the largest finite absolute value.
RINGMASTER_INLINE uint32_t LargestSize(const float* values, std::size_t count) {
  int32_t largest = 0;  // signed: without AVX2, vectors compare only signed integers
  for (std::size_t i = 0; i < count; ++i) {
    const auto size = static_cast<int32_t>(BitsOf(values[i]) & kFloatSize);
    const int32_t finite = size < static_cast<int32_t>(kFloatInfinity) ? size : 0;
    largest = finite > largest ? finite : largest;
  }
  return static_cast<uint32_t>(largest);
}

template <typename Format>
RINGMASTER_INLINE void EncodeChunk(const float* __restrict values, float* __restrict left,
                                   typename Format::Code* __restrict codes, ScaleCode* scale,
                                   std::size_t count) {
  float down = 1;
  float up = 1;
  if constexpr (Format::kScaled) {
    *scale = ScaleFor<Format>(LargestSize(values, count));
    down = InverseOf(*scale);
    up = ScaleOf(*scale);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const typename Format::Code code = Format::Of(values[i] * down);
    codes[i] = code;
    left[i] = Remainder(values[i], Format::ToFloat(code) * up);
  }
}

template <typename Format>
RINGMASTER_INLINE void EncodeRow(const float* values, const float* carried, float* left,
                                 std::byte* encoded, std::size_t count) {
  auto* codes = reinterpret_cast<typename Format::Code*>(encoded);
  auto* scale = reinterpret_cast<ScaleCode*>(codes + count);
  Chunk sums;
  for (std::size_t begin = 0; begin < count; begin += kScaleChunk) {
    const std::size_t size = std::min(kScaleChunk, count - begin);
    Add(values + begin, carried == nullptr ? nullptr : carried + begin, sums.data(), size);
    EncodeChunk<Format>(sums.data(), left + begin, codes + begin, scale, size);
    ++scale;
  }
  if (Format::kScaled && ChunksOf(count) % sizeof(typename Format::Code) != 0) *scale = 0;
}

template <typename Format, bool add>
RINGMASTER_INLINE void DecodeRow(const std::byte* __restrict encoded, float* __restrict values,
                                 std::size_t count) {
  const auto* codes = reinterpret_cast<const typename Format::Code*>(encoded);
  const auto* scale = reinterpret_cast<const ScaleCode*>(codes + count);
  for (std::size_t begin = 0; begin < count; begin += kScaleChunk) {
    const std::size_t size = std::min(kScaleChunk, count - begin);
    float up = 1;
    if constexpr (Format::kScaled) up = ScaleOf(*scale++);
    for (std::size_t i = begin; i < begin + size; ++i) {
      const float value = Format::ToFloat(codes[i]) * up;
      values[i] = add ? values[i] + value : value;
    }
  }
}

// One function per format, because function multiversioning does not support templates.
#define RINGMASTER_CODEC(Name, Format)                                                             \
  RINGMASTER_VECTOR_CLONES void Encode##Name(const float* values, const float* carried,            \
                                             float* left, std::byte* encoded, std::size_t count) { \
    EncodeRow<Format>(values, carried, left, encoded, count);                                      \
  }                                                                                                \
  RINGMASTER_VECTOR_CLONES void Decode##Name(const std::byte* encoded, float* values,              \
                                             std::size_t count) {                                  \
    DecodeRow<Format, false>(encoded, values, count);                                              \
  }                                                                                                \
  RINGMASTER_VECTOR_CLONES void DecodeAdd##Name(const std::byte* encoded, float* values,           \
                                                std::size_t count) {                               \
    DecodeRow<Format, true>(encoded, values, count);                                               \
  }

RINGMASTER_CODEC(Float16, Float16Code)
RINGMASTER_CODEC(BFloat16, BFloat16Code)
RINGMASTER_CODEC(Float8E4M3, Float8E4M3Code)
RINGMASTER_CODEC(Float8E5M2, Float8E5M2Code)
#undef RINGMASTER_CODEC

struct Codec {
  std::string_view name;
  std::size_t code_bytes;
  bool scaled;
  void (*encode)(const float*, const float*, float*, std::byte*, std::size_t);
  void (*decode)(const std::byte*, float*, std::size_t);
  void (*decode_add)(const std::byte*, float*, std::size_t);
};

// The codecs, in the order of Compression.
constexpr std::array<Codec, 5> kCodecs{{
    {"none", sizeof(float), false, nullptr, nullptr, nullptr},
    {"fp16", 2, true, &EncodeFloat16, &DecodeFloat16, &DecodeAddFloat16},
    {"bf16", 2, false, &EncodeBFloat16, &DecodeBFloat16, &DecodeAddBFloat16},
    {"fp8-e4m3", 1, true, &EncodeFloat8E4M3, &DecodeFloat8E4M3, &DecodeAddFloat8E4M3},
    {"fp8-e5m2", 1, true, &EncodeFloat8E5M2, &DecodeFloat8E5M2, &DecodeAddFloat8E5M2},
}};

const Codec& CodecOf(Compression compression) {
  return kCodecs[static_cast<std::size_t>(compression)];
}

}  // namespace

const char* NameOf(Compression compression) { return CodecOf(compression).name.data(); }

std::optional<Compression> CompressionNamed(std::string_view name) {
  for (std::size_t i = 0; i < kCodecs.size(); ++i) {
    if (kCodecs[i].name == name) return static_cast<Compression>(i);
  }
  return std::nullopt;
}

std::size_t EncodedBytes(Compression compression, std::size_t count) {
  const Codec& codec = CodecOf(compression);
  const std::size_t scales = codec.scaled ? ChunksOf(count) * sizeof(ScaleCode) : 0;
  return count * codec.code_bytes +
         (scales + codec.code_bytes - 1) / codec.code_bytes * codec.code_bytes;
}

void Encode(Compression compression, std::span<const float> values, std::span<const float> carried,
            std::span<float> left, std::span<std::byte> encoded) {
  CodecOf(compression)
      .encode(values.data(), carried.empty() ? nullptr : carried.data(), left.data(),
              encoded.data(), values.size());
}

void Decode(Compression compression, std::span<const std::byte> encoded, std::span<float> values) {
  CodecOf(compression).decode(encoded.data(), values.data(), values.size());
}

void DecodeAdd(Compression compression, std::span<const std::byte> encoded,
               std::span<float> values) {
  CodecOf(compression).decode_add(encoded.data(), values.data(), values.size());
}

}  // namespace ringmaster::trainer
