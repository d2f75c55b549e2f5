#pragma once

// Philox4x32-10, the counter-based random generator of Salmon et al. ("Parallel random numbers: as
// easy as 1, 2, 3"): a pure function of (counter, key). All random numbers in training are
// identified by (seed, purpose, step, sample), so they do not depend on how samples are divided
// among ranks. Plain C++ without library types, so that device code can include it.

#include <cstdint>

#include "worker/trainer/numeric/host_device.h"

namespace ringmaster::trainer {

struct PhiloxBlock {
  uint32_t words[4];
};

struct PhiloxKey {
  uint32_t words[2];
};

// The purpose of a random number. Streams of different purposes never share a counter.
enum class RandomPurpose : uint32_t {
  kDataOrder = 1,
  kDropout = 2,
  kInitialParameters = 3,
  kDigits = 4,
  kShift = 5,
  kCentres = 6,
  kClassSampling = 7,
  kIdentities = 8
};

// Applies ten rounds of Philox to `counter`.
RINGMASTER_HOST_DEVICE constexpr PhiloxBlock Philox4x32(PhiloxBlock counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter.words[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * counter.words[2];
    counter = {{static_cast<uint32_t>(b >> 32) ^ counter.words[1] ^ key.words[0],
                static_cast<uint32_t>(b),
                static_cast<uint32_t>(a >> 32) ^ counter.words[3] ^ key.words[1],
                static_cast<uint32_t>(a)}};
    key.words[0] += 0x9E3779B9;
    key.words[1] += 0xBB67AE85;
  }
  return counter;
}

// Returns the random words of (seed, purpose, step, index, lane). `lane` < 2^24 counts blocks and
// layers within an index.
RINGMASTER_HOST_DEVICE constexpr PhiloxBlock RandomBlock(uint64_t seed, RandomPurpose purpose,
                                                         uint64_t step, uint32_t index,
                                                         uint32_t lane) {
  return Philox4x32({{index, static_cast<uint32_t>(step), static_cast<uint32_t>(step >> 32),
                      (static_cast<uint32_t>(purpose) << 24) | (lane & 0xFFFFFF)}},
                    {{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}});
}

// Converts the upper 24 bits of `word` to a float in [0, 1), without rounding.
RINGMASTER_HOST_DEVICE constexpr float UnitFloat(uint32_t word) {
  return static_cast<float>(word >> 8) * (1.0F / 16777216.0F);
}

}  // namespace ringmaster::trainer
