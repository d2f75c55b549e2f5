#include "worker/agent/host/memory_group.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <utility>

namespace ringmaster::agent {
namespace {

// Version 1 of control groups represents "no limit" as a number near the largest int64.
constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;

std::optional<std::int64_t> ReadNumber(const std::filesystem::path& file) {
  std::ifstream text(file);
  std::int64_t number = 0;
  if (!(text >> number) || number < 0) return std::nullopt;
  return number;
}

// Returns the number after `name` in a file with lines of the form "name number".
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

// Returns the visible groups among `group`, a path below `root`, and its parents. In a container
// `group` may be the host's path, which is not visible; then only `root` is visible.
std::vector<std::filesystem::path> GroupsFrom(const std::filesystem::path& root,
                                              std::filesystem::path group, const char* file) {
  std::vector<std::filesystem::path> groups;
  for (group = group.relative_path();; group = group.parent_path()) {
    std::error_code error;
    if (std::filesystem::exists(root / group / file, error)) groups.push_back(root / group);
    if (group.empty()) return groups;
  }
}

}  // namespace

std::optional<MemoryGroup> MemoryGroup::Find(const CgroupSources& sources) {
  static constexpr Files kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes",
                                   "total_inactive_file", "memory.max_usage_in_bytes",
                                   "memory.oom_control"};
  static constexpr Files kVersion2{"memory.max", "memory.current", "inactive_file", "memory.peak",
                                   "memory.events"};
  std::ifstream lines(sources.own_cgroups);
  // Version 1 has lines like "4:cpu,memory:/path", version 2 has "0::/path".
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool is_version2 = controllers == ",,";
    if (!is_version2 && controllers.find(",memory,") == std::string::npos) continue;
    const Files& files = is_version2 ? kVersion2 : kVersion1;
    const std::filesystem::path root = is_version2 ? sources.cgroups : sources.cgroups / "memory";
    std::vector<std::filesystem::path> groups =
        GroupsFrom(root, line.substr(second + 1), files.limit);
    if (!groups.empty()) return MemoryGroup(std::move(groups), files);
  }
  return std::nullopt;
}

std::optional<std::int64_t> MemoryGroup::LimitOf(const std::filesystem::path& group) const {
  const std::optional<std::int64_t> limit = ReadNumber(group / files_.limit);
  if (!limit.has_value() || *limit >= kNoLimit) return std::nullopt;
  return limit;
}

std::optional<MemoryGroup::Usage> MemoryGroup::Tightest() const {
  std::optional<Usage> tightest;
  for (const std::filesystem::path& group : groups_) {
    const std::optional<std::int64_t> limit = LimitOf(group);
    if (!limit.has_value()) continue;
    const std::int64_t used = ReadNumber(group / files_.used).value_or(0);
    const std::int64_t cached = ReadField(group / "memory.stat", files_.inactive_files).value_or(0);
    const Usage usage{*limit, std::max<std::int64_t>(0, used - cached)};
    if (!tightest.has_value() ||
        usage.limit_bytes - usage.used_bytes < tightest->limit_bytes - tightest->used_bytes) {
      tightest = usage;
    }
  }
  return tightest;
}

std::optional<std::int64_t> MemoryGroup::Limit() const {
  std::optional<std::int64_t> lowest;
  for (const std::filesystem::path& group : groups_) {
    const std::optional<std::int64_t> limit = LimitOf(group);
    if (limit.has_value()) lowest = std::min(*limit, lowest.value_or(*limit));
  }
  return lowest;
}

std::optional<std::int64_t> MemoryGroup::Peak() const {
  return ReadNumber(groups_.front() / files_.peak);
}

std::int64_t MemoryGroup::Kills() const {
  return ReadField(groups_.front() / files_.kills, "oom_kill").value_or(0);
}

}  // namespace ringmaster::agent
