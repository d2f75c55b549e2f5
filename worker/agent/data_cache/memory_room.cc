#include "worker/agent/data_cache/memory_room.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <linux/magic.h>
#include <sstream>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include "common/base/byte_text.h"

namespace ringmaster::agent {
namespace {

// What the kernel keeps of a file in memory beside its pages: a tmpfs inode and a directory entry,
// of 0.7 and 0.2 KiB on 64 bits.
constexpr std::int64_t kBytesPerEntry = 1024;
// Version 1 says "no limit" with a number near the largest.
constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;

std::optional<std::int64_t> ReadNumber(const std::filesystem::path& file) {
  std::ifstream text(file);
  std::int64_t number = 0;
  if (!(text >> number) || number < 0) return std::nullopt;
  return number;
}

// The number after `name` in a file of lines "name number".
std::optional<std::int64_t> ReadField(const std::filesystem::path& file, const std::string& name) {
  std::ifstream text(file);
  for (std::string line; std::getline(text, line);) {
    std::istringstream words(line);
    std::string word;
    std::int64_t number = 0;
    if (words >> word >> number && word == name) return number;
  }
  return std::nullopt;
}

// The files of one version of control groups.
struct CgroupFiles {
  std::filesystem::path root;
  const char* limit;
  const char* used;
  const char* inactive_files;  // in memory.stat: cached pages of files, given back first
};

std::optional<MemoryRoom::Container> LimitOf(const std::filesystem::path& group,
                                             const CgroupFiles& files) {
  const std::optional<std::int64_t> limit = ReadNumber(group / files.limit);
  if (!limit.has_value() || *limit >= kNoLimit) return std::nullopt;
  const std::int64_t used = ReadNumber(group / files.used).value_or(0);
  const std::int64_t cached = ReadField(group / "memory.stat", files.inactive_files).value_or(0);
  return MemoryRoom::Container{*limit, std::max<std::int64_t>(0, used - cached)};
}

// Of `group` and those around it. In a container the path may be the host's, which it does not see:
// what it sees is then at the root.
std::optional<MemoryRoom::Container> TightestOf(std::filesystem::path group,
                                                const CgroupFiles& files) {
  std::optional<MemoryRoom::Container> tightest;
  for (group = group.relative_path();; group = group.parent_path()) {
    const auto limit = LimitOf(files.root / group, files);
    if (limit.has_value() &&
        (!tightest.has_value() ||
         limit->limit_bytes - limit->used_bytes < tightest->limit_bytes - tightest->used_bytes)) {
      tightest = limit;
    }
    if (group.empty()) return tightest;
  }
}

std::string MemoryText(const std::string& data, std::int64_t limit, std::int64_t used) {
  return data + " and the container's memory limit is " + BytesText(limit) + ", of which " +
         BytesText(used, Rounding::kUp) +
         " are used; what the cache holds counts against it: raise the worker's "
         "resources.limits.memory to the data's size and what its ranks need beside it";
}

}  // namespace

std::optional<MemoryRoom::Container> ReadContainerMemory(const MemorySources& sources) {
  const CgroupFiles version1{sources.cgroups / "memory", "memory.limit_in_bytes",
                             "memory.usage_in_bytes", "total_inactive_file"};
  const CgroupFiles version2{sources.cgroups, "memory.max", "memory.current", "inactive_file"};
  std::ifstream groups(sources.own_cgroups);
  // Lines "4:cpu,memory:/path" of version 1, "0::/path" of version 2; memory is in one of them.
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool is_version2 = controllers == ",,";
    if (!is_version2 && controllers.find(",memory,") == std::string::npos) continue;
    const auto limit = TightestOf(line.substr(second + 1), is_version2 ? version2 : version1);
    if (limit.has_value()) return limit;
  }
  return std::nullopt;
}

std::optional<std::int64_t> ReadNodeMemory(const MemorySources& sources) {
  const auto kibibytes = ReadField(sources.meminfo, "MemAvailable:");
  if (!kibibytes.has_value()) return std::nullopt;
  return *kibibytes * 1024;
}

Result<MemoryRoom> ReadMemoryRoom(const std::filesystem::path& folder,
                                  const MemorySources& sources) {
  struct statvfs volume {};
  struct statfs kind {};
  if (statvfs(folder.c_str(), &volume) != 0 || statfs(folder.c_str(), &kind) != 0) {
    return Error{ErrorKind::kUnavailable, "the volume at " + folder.string() +
                                              " does not tell its size: " + std::strerror(errno)};
  }
  MemoryRoom room;
  room.volume_bytes = static_cast<std::int64_t>(volume.f_bavail * volume.f_frsize);
  if (volume.f_files > 0) room.volume_files = static_cast<std::int64_t>(volume.f_favail);
  if (kind.f_type != TMPFS_MAGIC) return room;
  room.container = ReadContainerMemory(sources);
  room.node_bytes = ReadNodeMemory(sources);
  return room;
}

std::optional<std::string> WhyItDoesNotFit(const SourceSize& data, const MemoryRoom& room) {
  const std::int64_t in_memory = data.bytes_in_pages + data.entries * kBytesPerEntry;
  const std::string text = "the data is " + BytesText(data.bytes_in_pages, Rounding::kUp) + " in " +
                           std::to_string(data.files) + (data.files == 1 ? " file" : " files");
  if (data.bytes_in_pages > room.volume_bytes) {
    return text + " and the memory volume holds " + BytesText(room.volume_bytes) +
           " (the lower of spec.dataCache.sizeLimit and the container's memory limit); raise "
           "them, or name less with spec.dataCache.subPath";
  }
  if (room.volume_files.has_value() && data.entries > *room.volume_files) {
    return "the data has " + std::to_string(data.entries) +
           " files, folders and links and the memory volume holds " +
           std::to_string(*room.volume_files) + "; pack the data into fewer files";
  }
  if (room.container.has_value() &&
      in_memory > room.container->limit_bytes - room.container->used_bytes) {
    return MemoryText(text, room.container->limit_bytes, room.container->used_bytes);
  }
  if (room.node_bytes.has_value() && in_memory > *room.node_bytes) {
    return text + " and the node has " + BytesText(*room.node_bytes) +
           " of memory available; give the worker a memory request of the data's size and what "
           "its ranks need beside it, so that it comes to a node with room for both";
  }
  return std::nullopt;
}

}  // namespace ringmaster::agent
