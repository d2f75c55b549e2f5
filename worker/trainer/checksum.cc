#include "worker/trainer/checksum.h"

#include <array>
#include <cstddef>
#include <cstdio>
#include <cstring>

namespace ringmaster::trainer {
namespace {

constexpr std::size_t kLanes = 8;
constexpr std::size_t kWord = sizeof(uint64_t);
constexpr uint64_t kPrime = 0x9e3779b97f4a7c15ULL;

// The shift brings high bits down, where the next multiplication spreads them again.
uint64_t Mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * kPrime;
  return hash ^ (hash >> 32);
}

uint64_t Word(const std::byte* bytes) {
  uint64_t word = 0;
  std::memcpy(&word, bytes, kWord);
  return word;
}

}  // namespace

uint64_t Checksum(std::span<const float> values) {
  const std::span<const std::byte> bytes = std::as_bytes(values);
  std::array<uint64_t, kLanes> lanes{};
  for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] = lane + 1;
  std::size_t at = 0;
  for (; at + kLanes * kWord <= bytes.size(); at += kLanes * kWord) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = Mix(lanes[lane], Word(bytes.data() + at + lane * kWord));
    }
  }
  uint64_t hash = bytes.size();
  for (const uint64_t lane : lanes) hash = Mix(hash, lane);
  for (const float value : values.subspan(at / sizeof(float))) {
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    hash = Mix(hash, bits);
  }
  return hash;
}

uint64_t Checksum(const TrainableState& state) {
  uint64_t hash = state.size();
  for (const std::span<float> values : state) hash = Mix(hash, Checksum(values));
  return hash;
}

std::string HexOf(uint64_t checksum) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(checksum));
  return text.data();
}

}  // namespace ringmaster::trainer
