#pragma once

// The arithmetic of checksum.h, for hosts and devices.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "worker/trainer/numeric/float_bits.h"

namespace ringmaster::trainer {

// Mixes a word into the hash. The shift moves high bits down, so that the next call spreads them.
RINGMASTER_HOST_DEVICE inline uint64_t MixChecksum(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
  return hash ^ (hash >> 32);
}

// Returns the bytes of two adjacent values as one word.
RINGMASTER_HOST_DEVICE inline uint64_t ChecksumWord(const float* two) {
  uint64_t word = 0;
  memcpy(&word, two, sizeof(word));
  return word;
}

// Returns the checksum of `count` adjacent values.
RINGMASTER_HOST_DEVICE inline uint64_t ChecksumOf(const float* values, std::size_t count) {
  constexpr std::size_t kLanes = 8;  // computed in parallel by a processor core
  uint64_t lanes[kLanes];
  for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] = lane + 1;
  std::size_t at = 0;
  for (; at + 2 * kLanes <= count; at += 2 * kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = MixChecksum(lanes[lane], ChecksumWord(values + at + 2 * lane));
    }
  }
  uint64_t hash = count * sizeof(float);
  for (const uint64_t lane : lanes) hash = MixChecksum(hash, lane);
  for (; at < count; ++at) hash = MixChecksum(hash, BitsOf(values[at]));
  return hash;
}

}  // namespace ringmaster::trainer
