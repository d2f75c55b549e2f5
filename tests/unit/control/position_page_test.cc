// Tests that a rank's position is read completely or not at all.

#include "common/control/position_page.h"

#include <random>

#include <gtest/gtest.h>

namespace ringmaster::control {
namespace {

constexpr PagePosition kStanding{.epoch = {2, 41},
                                 .step = 7,
                                 .bucket = 3,
                                 .phase = RankPhase::kReduce,
                                 .moved_nanos = 5'000'000'000,
                                 .applied_nanos = 4'000'000'000,
                                 .step_micros = 52'000,
                                 .own_micros = 31'000};

using Words = std::array<uint64_t, kPositionWords>;

TEST(PositionPage, RoundTrips) {
  EXPECT_EQ(DecodePosition(EncodePosition(kStanding)), kStanding);
  EXPECT_EQ(DecodePosition(EncodePosition({})), PagePosition{});
}

TEST(PositionPage, HasNoPositionIfNeverWritten) { EXPECT_FALSE(DecodePosition(Words{})); }

TEST(PositionPage, HasNoPositionAfterATornRead) {
  PagePosition next = kStanding;
  next.step = 8;
  next.phase = RankPhase::kData;
  const Words before = EncodePosition(kStanding);
  const Words after = EncodePosition(next);
  for (std::size_t cut = 4; cut <= 11; ++cut) {
    Words torn = after;
    std::copy(before.begin() + static_cast<std::ptrdiff_t>(cut), before.end(),
              torn.begin() + static_cast<std::ptrdiff_t>(cut));
    const auto read = DecodePosition(torn);
    EXPECT_TRUE(!read || *read == kStanding || *read == next) << "torn at word " << cut;
    const bool mixed = cut > 4 && cut < 11;
    EXPECT_TRUE(!mixed || !read) << "torn at word " << cut;
  }
}

TEST(PositionPage, RefusesInvalidValues) {
  PagePosition strange = kStanding;
  strange.step = -1;
  EXPECT_FALSE(DecodePosition(EncodePosition(strange)));
  strange = kStanding;
  strange.bucket = -1;
  EXPECT_FALSE(DecodePosition(EncodePosition(strange)));
  strange = kStanding;
  strange.phase = static_cast<RankPhase>(9);
  EXPECT_FALSE(DecodePosition(EncodePosition(strange)));
}

TEST(PositionPage, NoticesEveryFlippedBit) {
  const Words whole = EncodePosition(kStanding);
  for (std::size_t word = 0; word < 11; ++word) {
    for (int bit = 0; bit < 64; ++bit) {
      Words bad = whole;
      bad[word] ^= uint64_t{1} << bit;
      EXPECT_FALSE(DecodePosition(bad)) << "word " << word << " bit " << bit;
    }
  }
}

CollectiveCounts Read(const std::array<int64_t, 2>& words) {
  const std::array<uint64_t, 2> read{static_cast<uint64_t>(words[0]),
                                     static_cast<uint64_t>(words[1])};
  return DecodeCounts(read);
}

TEST(PositionPage, CountsRoundTrip) {
  const CollectiveCounts counts{1205, 1204, CollectiveKind::kConfirmation};
  EXPECT_EQ(Read(EncodeCounts(counts)), counts);
  EXPECT_EQ(Read(EncodeCounts({})), CollectiveCounts{});
  EXPECT_EQ(Read({0, 0}), CollectiveCounts{}) << "nobody wrote";
}

TEST(PositionPage, IgnoresInvalidCounts) {
  EXPECT_EQ(Read({-5, -5}), CollectiveCounts{});
  EXPECT_EQ(Read({8, (7 << 8) + 8}), (CollectiveCounts{.launched = 7})) << "of no kind";
}

}  // namespace
}  // namespace ringmaster::control
