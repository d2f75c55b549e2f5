#pragma once

// Encodes rows of floats in narrow formats on a host, for compressed_reducer.cc. All formats except
// bf16, which has the range of float, use one scale per kScaleChunk numbers (codes.h), so values do
// not saturate, and small gradients keep their precision next to large gradients in the same
// bucket.

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "worker/trainer/compression/format.h"

namespace ringmaster::trainer {

// Returns the name, as in --compression: none, fp16, bf16, fp8-e4m3 or fp8-e5m2.
const char* NameOf(Compression compression);
std::optional<Compression> CompressionNamed(std::string_view name);

// Returns the size in bytes of `count` encoded numbers: their codes, then their chunks' scales,
// padded to a whole code so that rows of codes can follow each other. REQUIRES, here and below:
// `compression` is not kNone.
std::size_t EncodedBytes(Compression compression, std::size_t count);

// Encodes values[i] + carried[i], and stores the rounding error in left[i].
// `carried` may be empty (nothing is carried), or the same memory as `left`. `encoded` has
// EncodedBytes(values.size()). REQUIRES: left.size() == values.size().
void Encode(Compression compression, std::span<const float> values, std::span<const float> carried,
            std::span<float> left, std::span<std::byte> encoded);

// Decode() sets values[i]; DecodeAdd() adds to it. `encoded` has EncodedBytes(values.size()).
void Decode(Compression compression, std::span<const std::byte> encoded, std::span<float> values);
void DecodeAdd(Compression compression, std::span<const std::byte> encoded,
               std::span<float> values);

}  // namespace ringmaster::trainer
