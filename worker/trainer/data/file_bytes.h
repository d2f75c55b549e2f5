#pragma once

// Reads a whole file into memory and unpacks gzip. Used by the data readers, not for checkpoints.

#include <cstddef>
#include <string>

#include "common/base/result.h"

namespace ringmaster::trainer {

// Returns the unpacked contents. kNotFound: the file does not exist. kUnavailable: its volume
// failed; another try may succeed. kInvalid: it cannot be read, its gzip stream is damaged or
// incomplete, or its contents are larger than `limit_bytes`.
Result<std::string> ReadMaybeGzip(const std::string& path,
                                  std::size_t limit_bytes = std::size_t{4} << 30);

}  // namespace ringmaster::trainer
