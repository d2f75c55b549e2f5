#include "worker/trainer/data/data_order.h"

#include <array>
#include <numeric>
#include <utility>

#include "worker/trainer/numeric/philox.h"

namespace ringmaster::trainer {
namespace {

constexpr uint32_t kRounds = 4;
// Sets of at most this many samples are shuffled one by one (Fisher-Yates): with so few values, a
// Feistel network would not make all orders equally likely.
constexpr int64_t kShuffled = 128;

uint32_t HalfBits(int64_t samples) {
  uint32_t bits = 1;
  while ((int64_t{1} << (2 * bits)) < samples) ++bits;
  return bits;
}

// A bijection on [0, 2^(2*half_bits)): a Feistel network whose round function is Philox, keyed by
// (seed, epoch).
uint64_t Feistel(uint64_t seed, uint64_t epoch, uint32_t half_bits, uint64_t value) {
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;
  uint64_t left = value >> half_bits;
  uint64_t right = value & mask;
  for (uint32_t round = 0; round < kRounds; ++round) {
    const PhiloxBlock random =
        RandomBlock(seed, RandomPurpose::kDataOrder, epoch, static_cast<uint32_t>(right), round);
    const uint64_t next = left ^ (random.words[0] & mask);
    left = right;
    right = next;
  }
  return (left << half_bits) | right;
}

// Returns the sample that is at `place` after a Fisher-Yates shuffle of `samples` samples.
int64_t Shuffled(uint64_t seed, uint64_t epoch, int64_t samples, int64_t place) {
  std::array<int64_t, kShuffled> order{};
  std::iota(order.begin(), order.begin() + samples, int64_t{0});
  for (auto left = static_cast<std::size_t>(samples); left > 1; --left) {
    const PhiloxBlock random =
        RandomBlock(seed, RandomPurpose::kDataOrder, epoch, static_cast<uint32_t>(left), kRounds);
    std::swap(order[left - 1], order[uint64_t{random.words[0]} * left >> 32]);
  }
  return order[static_cast<std::size_t>(place)];
}

}  // namespace

DataOrder::DataOrder(uint64_t seed, int64_t samples, int64_t global_batch)
    : seed_(seed), samples_(samples), global_batch_(global_batch), half_bits_(HalfBits(samples)) {}

int64_t DataOrder::SampleAt(int64_t step, int64_t position) const {
  const int64_t place = step * global_batch_ + position;
  const auto epoch = static_cast<uint64_t>(place / samples_);
  if (samples_ <= kShuffled) return Shuffled(seed_, epoch, samples_, place % samples_);
  auto value = static_cast<uint64_t>(place % samples_);
  // Repeats the bijection until the value is the index of a sample (cycle walking). The result is
  // still a bijection. On average, this takes at most four tries.
  do {
    value = Feistel(seed_, epoch, half_bits_, value);
  } while (value >= static_cast<uint64_t>(samples_));
  return static_cast<int64_t>(value);
}

}  // namespace ringmaster::trainer
