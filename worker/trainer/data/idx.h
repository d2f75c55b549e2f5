#pragma once

// Parses the IDX format of the MNIST files. Pure functions on bytes, safe on any input. Errors
// name the file, the offset and what was expected there. file_bytes.h reads the files (plain or
// gzip).

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace ringmaster::trainer {

struct IdxImages {
  int64_t count = 0;
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<uint8_t> pixels;  // count × rows × columns
};

// Parses an IDX file of unsigned bytes in three dimensions. `name` is the file's name in errors
// (kInvalid). Rejects files without images, and images whose sides are not in 1 … 4096.
Result<IdxImages> ParseIdxImages(std::string_view bytes, const std::string& name);

// Parses an IDX file of unsigned bytes in one dimension. Every label must be below `classes`.
Result<std::vector<uint8_t>> ParseIdxLabels(std::string_view bytes, const std::string& name,
                                            int classes);

}  // namespace ringmaster::trainer
