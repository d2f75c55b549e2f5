// Compares the codec's kernels with the host's code, bit for bit.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "worker/trainer/compression/codec.h"
#include "worker/trainer/compression/codes.h"
#include "worker/trainer/kernels/launch.h"
#include "worker/trainer/kernels/row_codec.h"

namespace ringmaster::trainer {
namespace {

using Limits = std::numeric_limits<float>;

constexpr std::array kNarrow{Compression::kFloat16, Compression::kBFloat16,
                             Compression::kFloat8E4M3, Compression::kFloat8E5M2};
constexpr std::array<std::size_t, 8> kCounts{0, 1, 3, 255, 256, 257, 1000, 5 * kScaleChunk + 7};

// Returns chunks of numbers of very different magnitudes, zeros, subnormals and huge numbers. The
// first chunks also have NaN, infinities and the largest numbers.
std::vector<float> Awkward(std::size_t count, float phase) {
  constexpr std::array kScales{0, -30, 12, -126, 100, -140, 127, -149};
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const int exponent = kScales[i / kScaleChunk % kScales.size()];
    values[i] = std::ldexp(1.99F * std::sin(static_cast<float>(i) * 0.37F + phase), exponent);
  }
  const std::array kSpecial{Limits::quiet_NaN(),
                            -Limits::quiet_NaN(),
                            Limits::infinity(),
                            -Limits::infinity(),
                            Limits::denorm_min(),
                            -Limits::min(),
                            0.0F,
                            -0.0F,
                            Limits::max(),
                            Limits::lowest()};
  for (std::size_t i = 0; i < kSpecial.size() && i * 101 + 2 < count; ++i) {
    values[i * 101 + 2] = kSpecial[i];
  }
  return values;
}

// Sums that are NaN may differ in their bits, so all NaN count as equal.
uint32_t BitsToCompare(float value) {
  return std::isnan(value) ? kFloatNan : std::bit_cast<uint32_t>(value);
}

void ExpectSame(const std::vector<float>& seen, const std::vector<float>& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(BitsToCompare(seen[i]), BitsToCompare(expected[i]))
        << "at " << i << ": " << seen[i] << " for " << expected[i];
  }
}

enum class Carried { kNothing, kOther, kLeft };

void CompareEncode(Compression format, std::size_t count, Carried kind) {
  SCOPED_TRACE(testing::Message() << NameOf(format) << ", " << count << " numbers, carried "
                                  << static_cast<int>(kind));
  const std::vector<float> values = Awkward(count, 0);
  const std::vector<float> other =
      kind == Carried::kNothing ? std::vector<float>{} : Awkward(count, 1);
  std::vector<float> left = other;
  left.resize(count);
  std::vector<float> expected_left = left;
  std::vector<std::byte> encoded(EncodedBytes(format, count), std::byte{0x55});
  std::vector<std::byte> expected(encoded.size(), std::byte{0xaa});
  const bool in_place = kind == Carried::kLeft;
  const float* const carried = in_place ? left.data() : other.empty() ? nullptr : other.data();

  Encode(format, values, in_place ? expected_left : other, expected_left, expected);
  const int error = LaunchEncode(format, values.data(), carried, left.data(), encoded.data(),
                                 static_cast<int64_t>(count), nullptr);

  EXPECT_EQ(error, 0);
  EXPECT_TRUE(encoded == expected) << "other codes";
  ExpectSame(left, expected_left);
}

void CompareDecode(Compression format, std::size_t count) {
  SCOPED_TRACE(testing::Message() << NameOf(format) << ", " << count << " numbers");
  const std::vector<float> values = Awkward(count, 0);
  std::vector<float> decoded = Awkward(count, 2);
  std::vector<float> expected = decoded;
  std::vector<float> left(count);
  std::vector<std::byte> encoded(EncodedBytes(format, count));
  Encode(format, values, {}, left, encoded);

  DecodeAdd(format, encoded, expected);
  const int error =
      LaunchDecodeAdd(format, encoded.data(), decoded.data(), static_cast<int64_t>(count), nullptr);

  EXPECT_EQ(error, 0);
  ExpectSame(decoded, expected);

  Decode(format, encoded, expected);
  EXPECT_EQ(
      LaunchDecode(format, encoded.data(), decoded.data(), static_cast<int64_t>(count), nullptr),
      0);

  ExpectSame(decoded, expected);
}

TEST(RowCodecKernels, EncodeAsTheHostDoes) {
  for (const Compression format : kNarrow) {
    for (const std::size_t count : kCounts) CompareEncode(format, count, Carried::kOther);
    CompareEncode(format, 9 * kScaleChunk + 1, Carried::kNothing);
    CompareEncode(format, 9 * kScaleChunk + 1, Carried::kLeft);
  }
}

TEST(RowCodecKernels, EncodeChunksThatABlockComesBackFor) {
  const FewBlocks few(3);
  for (const Compression format : kNarrow) {
    CompareEncode(format, 17 * kScaleChunk + 100, Carried::kLeft);
  }
}

TEST(RowCodecKernels, DecodeAsTheHostDoes) {
  for (const Compression format : kNarrow) {
    for (const std::size_t count : kCounts) CompareDecode(format, count);
  }
}

TEST(RowCodecKernels, DecodeBeyondAStrideOfTheGrid) {
  const FewBlocks few(2);
  for (const Compression format : kNarrow) CompareDecode(format, 5 * kScaleChunk + 1);
}

TEST(RowCodecKernels, EveryCodeIsDecodedAsTheHostDoes) {
  const FewBlocks few(4);
  for (const Compression format : kNarrow) {
    std::vector<std::byte> encoded(EncodedBytes(format, 65536));
    for (std::size_t i = 0; i < encoded.size(); ++i) {
      encoded[i] = static_cast<std::byte>(i % 2 == 0 ? i / 2 : i / 512);
    }
    std::vector<float> expected(65536);
    std::vector<float> decoded(65536);

    Decode(format, encoded, expected);
    LaunchDecode(format, encoded.data(), decoded.data(), 65536, nullptr);

    ExpectSame(decoded, expected);
  }
}

TEST(RowCodecKernels, AddBeyondAStrideOfTheGrid) {
  const FewBlocks few(2);
  for (const std::size_t count : {0U, 1U, 1300U}) {
    std::vector<float> values(count, 1);
    std::vector<float> carried(count);
    for (std::size_t i = 0; i < count; ++i) carried[i] = static_cast<float>(i);

    EXPECT_EQ(LaunchAdd(carried.data(), values.data(), static_cast<int64_t>(count), nullptr), 0);

    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(values[i], 1 + carried[i]) << "at " << i;
  }
}

TEST(RowCodecKernels, WhatIsNoNarrowFormatIsRefused) {
  float value = 0;
  std::byte code{};
  EXPECT_EQ(LaunchDecode(Compression::kNone, &code, &value, 1, nullptr),
            static_cast<int>(cudaErrorInvalidValue));
}

}  // namespace
}  // namespace ringmaster::trainer
