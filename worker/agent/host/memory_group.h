#pragma once

// Reads the container's memory control group (version 1 or 2): its limit, its current and peak
// usage, and how many processes were killed because the group ran out of memory. Reads the files on
// each call and keeps none open. The agent uses it to report how ranks ended, and the data cache
// uses it to find the free memory.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

namespace ringmaster::agent {

// Paths of the kernel's files. Tests set other paths.
struct CgroupSources {
  std::filesystem::path own_cgroups = "/proc/self/cgroup";
  std::filesystem::path cgroups = "/sys/fs/cgroup";  // versions 1 and 2
};

class MemoryGroup {
 public:
  // Returns nothing if no control group counts this process's memory.
  static std::optional<MemoryGroup> Find(const CgroupSources& sources = {});

  struct Usage {
    std::int64_t limit_bytes = 0;
    std::int64_t used_bytes = 0;  // without memory that the kernel can reclaim
  };
  // Returns the usage of the group with the least free memory; nothing if no group has a limit.
  std::optional<Usage> Tightest() const;
  // Returns the lowest limit of all groups; nothing if no group has a limit.
  std::optional<std::int64_t> Limit() const;

  // Returns the peak usage of the innermost group, which contains this process; nothing if the
  // kernel does not record the peak.
  std::optional<std::int64_t> Peak() const;
  // Returns how many processes the kernel has killed because memory ran out.
  std::int64_t Kills() const;

 private:
  // The file names of one version of control groups.
  struct Files {
    const char* limit;
    const char* used;
    const char* inactive_files;  // in memory.stat: cached pages that are reclaimed first
    const char* peak;
    const char* kills;  // lines "name number"
  };

  MemoryGroup(std::vector<std::filesystem::path> groups, const Files& files)
      : groups_(std::move(groups)), files_(files) {}

  std::optional<std::int64_t> LimitOf(const std::filesystem::path& group) const;

  std::vector<std::filesystem::path> groups_;  // existing groups, innermost first; never empty
  Files files_;
};

}  // namespace ringmaster::agent
