#include "worker/trainer/partial_fc/rows.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "worker/trainer/checksum.h"
#include "worker/trainer/philox.h"

namespace ringmaster::trainer::partial_fc {
namespace {

constexpr float kDeviation = 0.01F;

}  // namespace

void InitialCentre(uint64_t seed, int64_t label, std::span<float> centre) {
  // Box and Muller: two uniform numbers become two normal ones.
  for (std::size_t at = 0; at < centre.size(); at += 4) {
    const PhiloxBlock block =
        RandomBlock(seed, RandomPurpose::kCentres, static_cast<uint64_t>(label),
                    static_cast<uint32_t>(at / 4), 0);
    for (std::size_t pair = 0; pair < 4 && at + pair < centre.size(); pair += 2) {
      const float radius =
          kDeviation * std::sqrt(-2.0F * std::log(1.0F - UnitFloat(block.words[pair])));
      const float angle = 2.0F * std::numbers::pi_v<float> * UnitFloat(block.words[pair + 1]);
      centre[at + pair] = radius * std::cos(angle);
      if (at + pair + 1 < centre.size()) centre[at + pair + 1] = radius * std::sin(angle);
    }
  }
}

Rows::Rows(ClassRange range, int64_t dimension)
    : range_(range),
      dimension_(dimension),
      values_(static_cast<std::size_t>(range.size() * 2 * dimension)) {}

Rows::Rows(ClassRange range, int64_t dimension, uint64_t seed) : Rows(range, dimension) {
  for (int64_t label = range.begin; label < range.end; ++label) {
    InitialCentre(seed, label, {centre(label), static_cast<std::size_t>(dimension)});
    std::fill_n(momentum(label), dimension, 0.0F);
  }
}

std::span<float> Rows::Of(ClassRange part) {
  return std::span(values_).subspan(Offset(part.begin),
                                    static_cast<std::size_t>(part.size() * row_floats()));
}

std::span<const float> Rows::Of(ClassRange part) const {
  return std::span(values_).subspan(Offset(part.begin),
                                    static_cast<std::size_t>(part.size() * row_floats()));
}

uint64_t RowChecksum(int64_t label, std::span<const float> row) {
  const uint64_t hash = (Checksum(row) ^ static_cast<uint64_t>(label)) * 0x9e3779b97f4a7c15ULL;
  return hash ^ (hash >> 32);
}

uint64_t RowsChecksum(int64_t first, int64_t row_floats, std::span<const float> values) {
  const auto length = static_cast<std::size_t>(row_floats);
  uint64_t sum = 0;
  for (std::size_t at = 0; at < values.size(); at += length) {
    sum += RowChecksum(first++, values.subspan(at, length));
  }
  return sum;
}

}  // namespace ringmaster::trainer::partial_fc
