#pragma once

// The checksum of one row, for hosts and GPUs. The checksum of several rows is the sum of their
// checksums, so the sum over all ranks does not depend on how rows are distributed.

#include <cstddef>
#include <cstdint>

#include "worker/trainer/numeric/checksum_words.h"

namespace ringmaster::trainer::partial_fc {

RINGMASTER_HOST_DEVICE inline uint64_t RowChecksum(int64_t label, const float* row,
                                                   int64_t row_floats) {
  const uint64_t of_values = ChecksumOf(row, static_cast<std::size_t>(row_floats));
  return MixChecksum(of_values, static_cast<uint64_t>(label));
}

}  // namespace ringmaster::trainer::partial_fc
