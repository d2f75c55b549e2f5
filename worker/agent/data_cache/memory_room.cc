#include "worker/agent/data_cache/memory_room.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <linux/magic.h>
#include <sstream>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include "common/base/byte_text.h"
#include "common/base/count_text.h"

namespace ringmaster::agent {
namespace {

// The kernel's memory for a file on a tmpfs in addition to its pages: an inode of 0.7 KiB and a
// directory entry of 0.2 KiB on 64-bit machines.
constexpr std::int64_t kBytesPerEntry = 1024;

std::string MemoryText(const std::string& data, std::int64_t limit, std::int64_t used) {
  return data + " and the container's memory limit is " + BytesText(limit) + ", of which " +
         BytesText(used, Rounding::kUp) +
         " are used; the data cache counts towards the limit: raise the worker's "
         "resources.limits.memory to the size of the data plus the memory that its ranks need";
}

}  // namespace

std::optional<std::int64_t> ReadNodeMemory(const MemorySources& sources) {
  std::ifstream text(sources.meminfo);
  for (std::string line; std::getline(text, line);) {
    std::istringstream words(line);
    std::string word;
    std::int64_t kibibytes = 0;
    if (words >> word >> kibibytes && word == "MemAvailable:") return kibibytes * 1024;
  }
  return std::nullopt;
}

Result<MemoryRoom> ReadMemoryRoom(const std::filesystem::path& folder,
                                  const MemorySources& sources) {
  struct statvfs volume {};
  struct statfs kind {};
  if (statvfs(folder.c_str(), &volume) != 0 || statfs(folder.c_str(), &kind) != 0) {
    return Error{ErrorKind::kUnavailable, "the volume at " + folder.string() +
                                              " does not report its size: " + std::strerror(errno)};
  }
  MemoryRoom room;
  room.volume_bytes = static_cast<std::int64_t>(volume.f_bavail * volume.f_frsize);
  if (volume.f_files > 0) room.volume_files = static_cast<std::int64_t>(volume.f_favail);
  if (kind.f_type != TMPFS_MAGIC) return room;
  const std::optional<MemoryGroup> group = MemoryGroup::Find(sources.cgroups);
  if (group.has_value()) room.container = group->Tightest();
  room.node_bytes = ReadNodeMemory(sources);
  return room;
}

std::optional<std::string> WhyItDoesNotFit(const SourceSize& data, const MemoryRoom& room) {
  const std::int64_t in_memory = data.bytes_in_pages + data.entries * kBytesPerEntry;
  const std::string text = "the data is " + BytesText(data.bytes_in_pages, Rounding::kUp) + " in " +
                           CountText(data.files, "file");
  if (data.bytes_in_pages > room.volume_bytes) {
    return text + " but the memory volume holds " + BytesText(room.volume_bytes) +
           " (the lower of spec.dataCache.sizeLimit and the container's memory limit); raise them, "
           "or select less data with spec.dataCache.subPath";
  }
  if (room.volume_files.has_value() && data.entries > *room.volume_files) {
    return "the data has " + std::to_string(data.entries) +
           " files, folders and links, but the memory volume holds " +
           std::to_string(*room.volume_files) + "; pack the data into fewer files";
  }
  if (room.container.has_value() &&
      in_memory > room.container->limit_bytes - room.container->used_bytes) {
    return MemoryText(text, room.container->limit_bytes, room.container->used_bytes);
  }
  if (room.node_bytes.has_value() && in_memory > *room.node_bytes) {
    return text + " but the node has " + BytesText(*room.node_bytes) +
           " of memory available; set the worker's memory request to the size of the data plus the "
           "memory that its ranks need, so that it is scheduled to a node with enough memory";
  }
  return std::nullopt;
}

}  // namespace ringmaster::agent
