#pragma once

// Copies a source folder into a data cache with several threads: the calling one walks, makes
// folders and links, and hands files over; the others copy them, segment by segment (file_copy.h).
// Memory does not grow with the data: a bounded queue and one buffer a thread. Used by fill.h.

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <stop_token>

#include "common/base/result.h"
#include "worker/agent/data_cache/source_folder.h"

namespace ringmaster::agent {

// Blocks until all is copied, `stop` is requested (kCancelled, within the time of one read) or
// something fails, whose error it is; no thread is left then. `done` grows by the bytes written.
// kConflict where the source is not `expected` any more.
Result<void> CopyFolder(const SourceFolder& from, const std::filesystem::path& to,
                        const SourceSize& expected, std::atomic<std::int64_t>& done,
                        const std::stop_token& stop);

}  // namespace ringmaster::agent
