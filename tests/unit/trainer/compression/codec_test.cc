#include "worker/trainer/compression/codec.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "worker/trainer/comm/narrow_floats.h"
#include "worker/trainer/compression/codes.h"

namespace ringmaster::trainer {
namespace {

constexpr float kInfinite = std::numeric_limits<float>::infinity();
constexpr std::array kNarrow{Compression::kFloat16, Compression::kBFloat16,
                             Compression::kFloat8E4M3, Compression::kFloat8E5M2};

// Returns the value of a code of an 8-bit format, by the definition of such formats.
double Defined(uint32_t code, int mantissa_bits, int bias) {
  const auto mantissa = static_cast<double>(code & ((1U << mantissa_bits) - 1));
  const auto exponent = static_cast<int>((code & 0x7fU) >> mantissa_bits);
  const double unit = std::ldexp(1.0, -mantissa_bits);
  const double size = exponent == 0 ? std::ldexp(mantissa * unit, 1 - bias)
                                    : std::ldexp(1 + mantissa * unit, exponent - bias);
  return (code & 0x80U) != 0 ? -size : size;
}

// Returns the code of the finite number nearest to `value`; if two are equally near, the even one.
template <typename Format>
uint8_t Nearest(double value, uint32_t largest) {
  uint32_t best = 0;
  for (uint32_t code = 0; code <= largest; ++code) {
    const double distance = std::abs(Format::ToFloat(static_cast<uint8_t>(code)) - std::abs(value));
    const double least = std::abs(Format::ToFloat(static_cast<uint8_t>(best)) - std::abs(value));
    if (distance < least || (distance == least && code % 2 == 0)) best = code;
  }
  return static_cast<uint8_t>(best | (std::signbit(value) ? 0x80U : 0U));
}

template <typename Format>
void ExpectEveryCode(uint32_t largest, int mantissa_bits, int bias) {
  for (uint32_t code = 0; code < 256; ++code) {
    const float value = Format::ToFloat(static_cast<uint8_t>(code));
    if ((code & 0x7fU) > largest) {
      EXPECT_FALSE(std::isfinite(value)) << code;
      EXPECT_EQ(Format::Of(value) & 0x7fU, 0x7fU) << code;
    } else {
      EXPECT_EQ(value, Defined(code, mantissa_bits, bias)) << code;
      EXPECT_EQ(Format::Of(value), code);
    }
  }
}

template <typename Format>
void ExpectRoundedToNearestEven(uint32_t largest) {
  for (uint32_t code = 0; code < largest; ++code) {
    const float low = Format::ToFloat(static_cast<uint8_t>(code));
    const float high = Format::ToFloat(static_cast<uint8_t>(code + 1));
    const float middle = (low + high) / 2;
    for (const float value : {middle, std::nextafter(middle, 0.0F), std::nextafter(middle, 1e9F)}) {
      EXPECT_EQ(Format::Of(value), Nearest<Format>(value, largest)) << value;
      EXPECT_EQ(Format::Of(-value), Nearest<Format>(-value, largest)) << -value;
    }
  }
}

TEST(Codes, EveryCodeOfE4M3IsAsSpecified) {
  ExpectEveryCode<Float8E4M3Code>(0x7e, 3, 7);
  ExpectRoundedToNearestEven<Float8E4M3Code>(0x7e);
  EXPECT_EQ(Float8E4M3Code::ToFloat(0x7e), 448);
  EXPECT_EQ(Float8E4M3Code::ToFloat(0x01), 0x1p-9F);
  EXPECT_TRUE(std::isnan(Float8E4M3Code::ToFloat(0x7f)));
}

TEST(Codes, EveryCodeOfE5M2IsAsSpecified) {
  ExpectEveryCode<Float8E5M2Code>(0x7b, 2, 15);
  ExpectRoundedToNearestEven<Float8E5M2Code>(0x7b);
  EXPECT_EQ(Float8E5M2Code::ToFloat(0x7b), 57344);
  EXPECT_EQ(Float8E5M2Code::ToFloat(0x01), 0x1p-16F);
  EXPECT_EQ(Float8E5M2Code::ToFloat(0x7c), kInfinite);
}

TEST(Codes, EveryCodeOf16BitsIsThatOfTheScalarReference) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto code = static_cast<uint16_t>(bits);
    const float half = Float16Code::ToFloat(code);
    const float brain = BFloat16Code::ToFloat(code);
    if (std::isnan(half)) {
      EXPECT_TRUE(std::isnan(FloatOfFloat16(code)));
    } else {
      ASSERT_EQ(std::bit_cast<uint32_t>(half), std::bit_cast<uint32_t>(FloatOfFloat16(code)));
    }
    if (std::isfinite(half)) {
      ASSERT_EQ(Float16Code::Of(half), code);
    }
    if (std::isfinite(brain)) {
      ASSERT_EQ(BFloat16Code::Of(brain), code);
    }
    ASSERT_EQ(std::bit_cast<uint32_t>(brain), bits << 16);
  }
}

TEST(Codes, FloatsAreRoundedTo16BitsAsTheScalarReferenceRounds) {
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 4093) {  // prime, so all low bits occur
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (!std::isfinite(value)) continue;
    if (std::abs(value) < 65520) {
      ASSERT_EQ(Float16Code::Of(value), Float16Of(value)) << value;
    }
    if (std::abs(value) < 3.38e38F) {
      ASSERT_EQ(BFloat16Code::Of(value), BFloat16Of(value)) << value;
    }
  }
}

TEST(Codes, WhatIsTooLargeSaturatesAndWhatIsNoNumberStaysNone) {
  EXPECT_EQ(Float8E4M3Code::Of(449), 0x7e);
  EXPECT_EQ(Float8E4M3Code::Of(-1e30F), 0xfe);
  EXPECT_EQ(Float8E5M2Code::Of(1e30F), 0x7b);
  EXPECT_EQ(Float16Code::ToFloat(Float16Code::Of(70000)), 65504);
  EXPECT_EQ(BFloat16Code::Of(-std::numeric_limits<float>::max()), 0xff7f);
  for (const float value : {kInfinite, -kInfinite, std::nanf("")}) {
    EXPECT_TRUE(std::isnan(Float8E4M3Code::ToFloat(Float8E4M3Code::Of(value))));
    EXPECT_TRUE(std::isnan(Float8E5M2Code::ToFloat(Float8E5M2Code::Of(value))));
    EXPECT_TRUE(std::isnan(Float16Code::ToFloat(Float16Code::Of(value))));
    EXPECT_TRUE(std::isnan(BFloat16Code::ToFloat(BFloat16Code::Of(value))));
  }
}

// Returns values of many magnitudes.
std::vector<float> Spread(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = std::ldexp(std::sin(static_cast<float>(i)), static_cast<int>(i % 19) - 12);
  }
  return values;
}

struct Coded {
  std::vector<std::byte> encoded;
  std::vector<float> decoded;
  std::vector<float> left;
};

// Encodes `values` without residuals, and decodes them again.
Coded Through(Compression compression, const std::vector<float>& values) {
  Coded coded{.encoded = std::vector<std::byte>(EncodedBytes(compression, values.size())),
              .decoded = std::vector<float>(values.size()),
              .left = std::vector<float>(values.size())};
  Encode(compression, values, {}, coded.left, coded.encoded);
  Decode(compression, coded.encoded, coded.decoded);
  return coded;
}

TEST(Codec, WhatACodeLeavesOutIsHandedBack) {
  const std::vector<float> values = Spread(3 * kScaleChunk + 7);
  for (const Compression compression : kNarrow) {
    const Coded coded = Through(compression, values);
    std::vector<float> twice = coded.decoded;

    DecodeAdd(compression, coded.encoded, twice);

    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(coded.decoded[i] + coded.left[i], values[i]) << NameOf(compression) << " at " << i;
      ASSERT_EQ(twice[i], 2 * coded.decoded[i]);
    }
  }
}

TEST(Codec, AChunkIsScaledByItsOwnLargestNumber) {
  for (const Compression compression :
       {Compression::kFloat16, Compression::kFloat8E4M3, Compression::kFloat8E5M2}) {
    for (const float large : {1.0F, 1.75F, 1.8F, 3e-30F, 1e6F, 2e38F, 1e-40F}) {
      std::vector<float> values(2 * kScaleChunk, 1e-3F);
      values[3] = large;

      const std::vector<float> decoded = Through(compression, values).decoded;

      const float step = compression == Compression::kFloat16      ? 0x1p-11F
                         : compression == Compression::kFloat8E4M3 ? 0x1p-4F
                                                                   : 0x1p-3F;
      EXPECT_NEAR(decoded[3], large, std::max(1e-3F, large) * step) << NameOf(compression);
      EXPECT_NEAR(decoded.back(), 1e-3F, 1e-3F * step) << "another chunk";
    }
  }
}

TEST(Codec, OneNumberThatIsNoneSpoilsNoOther) {
  std::vector<float> values(kScaleChunk, 0.5F);
  values[0] = kInfinite;
  values[9] = std::nanf("");
  for (const Compression compression : kNarrow) {
    const Coded coded = Through(compression, values);

    EXPECT_TRUE(std::isnan(coded.decoded[0]) && std::isnan(coded.decoded[9]));
    EXPECT_EQ(std::ranges::count(coded.decoded, 0.5F), kScaleChunk - 2) << NameOf(compression);
    EXPECT_EQ(std::ranges::count(coded.left, 0.0F), kScaleChunk) << "nothing is owed of them";
  }
}

// Without error feedback, the sum would be off by another half step of the format each round.
TEST(Codec, CarriedRemaindersKeepTheSumOverStepsWithinOneStepOfTheFormat) {
  constexpr int kRounds = 100;
  const std::vector<float> values = Spread(kScaleChunk);
  const float largest = std::abs(*std::ranges::max_element(
      values, [](float a, float b) { return std::abs(a) < std::abs(b); }));
  for (const Compression compression : kNarrow) {
    std::vector<std::byte> encoded(EncodedBytes(compression, values.size()));
    std::vector<float> left(values.size());
    std::vector<double> sums(values.size());
    std::vector<float> decoded(values.size());

    for (int round = 0; round < kRounds; ++round) {
      Encode(compression, values, left, left, encoded);
      Decode(compression, encoded, decoded);
      for (std::size_t i = 0; i < values.size(); ++i) sums[i] += decoded[i];
    }

    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_NEAR(sums[i], double{kRounds} * values[i], largest / 4) << NameOf(compression);
      EXPECT_NEAR(sums[i] + left[i], double{kRounds} * values[i], 1e-4 * largest);
    }
  }
}

TEST(Codec, IsKnownByName) {
  for (const Compression compression : kNarrow) {
    EXPECT_EQ(CompressionNamed(NameOf(compression)), compression);
  }
  EXPECT_EQ(CompressionNamed("none"), Compression::kNone);
  EXPECT_EQ(CompressionNamed("fp4"), std::nullopt);
}

}  // namespace
}  // namespace ringmaster::trainer
