#include "worker/trainer/numeric/checksum.h"

#include "worker/trainer/numeric/checksum_words.h"

namespace ringmaster::trainer {

uint64_t Checksum(std::span<const float> values) {
  return ChecksumOf(values.data(), values.size());
}

uint64_t Checksum(const TrainableState& state) {
  uint64_t hash = state.size();
  for (const std::span<float> values : state) hash = MixChecksum(hash, Checksum(values));
  return hash;
}

}  // namespace ringmaster::trainer
