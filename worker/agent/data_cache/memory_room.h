#pragma once

// Checks whether data fits into a data cache: into the volume, the container's memory limit and the
// node's available memory. The check runs once before the copy. Without it, the kernel would kill
// processes much later, when memory runs out. Used by data_cache.cc.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "common/base/result.h"
#include "worker/agent/data_cache/source_folder.h"
#include "worker/agent/host/memory_group.h"

namespace ringmaster::agent {

struct MemoryRoom {
  std::int64_t volume_bytes = 0;               // free bytes in the volume
  std::optional<std::int64_t> volume_files{};  // number of files that fit; nothing: no limit
  // The container's memory; nothing if the volume is not in memory or the container has no limit.
  std::optional<MemoryGroup::Usage> container{};
  // MemAvailable; nothing if the volume is not in memory.
  std::optional<std::int64_t> node_bytes{};
};

// Paths of the kernel's files. Tests set other paths.
struct MemorySources {
  std::filesystem::path meminfo = "/proc/meminfo";
  CgroupSources cgroups{};
};

// Returns the space that is available for files in `folder`. Fails if the free space of the file
// system cannot be determined. A limit that cannot be read counts as no limit.
Result<MemoryRoom> ReadMemoryRoom(const std::filesystem::path& folder,
                                  const MemorySources& sources = {});

// Returns the available memory in /proc/meminfo.
std::optional<std::int64_t> ReadNodeMemory(const MemorySources& sources);

// Returns why data of this size does not fit and what to do; nothing if it fits. Pure.
std::optional<std::string> WhyItDoesNotFit(const SourceSize& data, const MemoryRoom& room);

}  // namespace ringmaster::agent
