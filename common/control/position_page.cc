#include "common/control/position_page.h"

#include <algorithm>
#include <ctime>
#include <limits>

namespace ringmaster::control {
namespace {

constexpr uint64_t kMagic = 0x52'4d'50'4f'53'00'00'01;  // "RMPOS", version 1
constexpr std::size_t kUsed = 10;                       // number of words before the checksum
constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
constexpr int kKindBits = 8;  // size of the collective's kind in the second word of the counts

uint64_t ChecksumOf(std::span<const uint64_t> words) {
  uint64_t sum = 0x9e3779b97f4a7c15;
  for (const uint64_t word : words) {
    sum = (sum ^ word) * 0xff51afd7ed558ccd;
    sum ^= sum >> 32;
  }
  return sum;
}

}  // namespace

std::array<uint64_t, kPositionWords> EncodePosition(const PagePosition& position) {
  std::array<uint64_t, kPositionWords> words{kMagic,
                                             static_cast<uint64_t>(position.epoch.term),
                                             static_cast<uint64_t>(position.epoch.number),
                                             static_cast<uint64_t>(position.step),
                                             static_cast<uint64_t>(position.bucket),
                                             static_cast<uint64_t>(position.phase),
                                             static_cast<uint64_t>(position.moved_nanos),
                                             static_cast<uint64_t>(position.applied_nanos),
                                             static_cast<uint64_t>(position.step_micros),
                                             static_cast<uint64_t>(position.own_micros)};
  words[kUsed] = ChecksumOf(std::span(words).first(kUsed));
  return words;
}

std::optional<PagePosition> DecodePosition(std::span<const uint64_t, kPositionWords> words) {
  if (words[0] != kMagic || words[kUsed] != ChecksumOf(words.first(kUsed))) return std::nullopt;
  const auto numbers = words.subspan(1, kUsed - 1);
  if (std::any_of(numbers.begin(), numbers.end(), [](uint64_t word) { return word > kMost; })) {
    return std::nullopt;
  }
  if (words[4] > static_cast<uint64_t>(std::numeric_limits<int>::max()) ||
      words[5] >= kRankPhaseNames.size()) {
    return std::nullopt;
  }
  const auto number = [&](std::size_t i) { return static_cast<int64_t>(words[i]); };
  return PagePosition{.epoch = {number(1), number(2)},
                      .step = number(3),
                      .bucket = static_cast<int>(words[4]),
                      .phase = static_cast<RankPhase>(words[5]),
                      .moved_nanos = number(6),
                      .applied_nanos = number(7),
                      .step_micros = number(8),
                      .own_micros = number(9)};
}

std::array<int64_t, 2> EncodeCounts(const CollectiveCounts& counts) {
  return {counts.launched + 1, (counts.begun + 1) << kKindBits | static_cast<int64_t>(counts.kind)};
}

CollectiveCounts DecodeCounts(std::span<const uint64_t, 2> words) {
  constexpr uint64_t kKind = (uint64_t{1} << kKindBits) - 1;
  CollectiveCounts counts;
  if (words[0] <= kMost) counts.launched = static_cast<int64_t>(words[0]) - 1;
  if (words[1] > kMost || (words[1] & kKind) >= kCollectiveNames.size()) return counts;
  counts.begun = static_cast<int64_t>(words[1] >> kKindBits) - 1;
  counts.kind = static_cast<CollectiveKind>(words[1] & kKind);
  return counts;
}

int64_t MonotonicNanos() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

}  // namespace ringmaster::control
