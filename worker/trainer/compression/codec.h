#pragma once

// Rows of floats as narrow codes, on a host: what compressed_reducer.cc puts on the wire. All
// formats but bf16, which has float's range, carry a scale for every chunk of kScaleChunk numbers
// (codes.h), so that nothing saturates, and a layer with small gradients does not drown beside one
// with large ones in the same bucket.

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "worker/trainer/compression/format.h"

namespace ringmaster::trainer {

// none, fp16, bf16, fp8-e4m3, fp8-e5m2: what --compression takes.
const char* NameOf(Compression compression);
std::optional<Compression> CompressionNamed(std::string_view name);

// Bytes of `count` encoded numbers: their codes, then the scales of their chunks, filled up to a
// whole code so that rows of codes can follow each other.
// REQUIRES, here and below: not kNone.
std::size_t EncodedBytes(Compression compression, std::size_t count);

// Encodes values[i] + carried[i], and leaves in left[i] what the code does not say of it.
// `carried` may be empty (nothing is carried), or the same memory as `left`. `encoded` has
// EncodedBytes(values.size()). REQUIRES: left.size() == values.size().
void Encode(Compression compression, std::span<const float> values, std::span<const float> carried,
            std::span<float> left, std::span<std::byte> encoded);

// values[i] = or += the decoded number. `encoded` has EncodedBytes(values.size()).
void Decode(Compression compression, std::span<const std::byte> encoded, std::span<float> values);
void DecodeAdd(Compression compression, std::span<const std::byte> encoded,
               std::span<float> values);

}  // namespace ringmaster::trainer
