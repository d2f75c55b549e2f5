#pragma once

// The source folder of a data cache. It is opened once and then walked twice: to measure it and to
// copy it. A walk keeps no list of files, so its memory does not grow with their number. Sockets,
// devices, and links to outside the folder cannot be copied: the walk fails, and its error names
// the file. Used by data_cache.cc and copier.h.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <stop_token>
#include <string>

#include "common/base/result.h"

namespace ringmaster::agent {

// The name of a data cache's mark (data_cache.cc), a file that is never copied from a source.
inline constexpr char kCacheMark[] = ".ringmaster-data-cache";

struct SourceEntry {
  enum class Kind { kFolder, kFile, kLink };
  Kind kind = Kind::kFile;
  std::filesystem::path path{};  // relative to the source
  std::int64_t bytes = 0;        // size of a file
  std::filesystem::path link{};  // target of a link, relative to the link's folder
};

// The result of a walk.
struct SourceSize {
  std::int64_t bytes = 0;           // sum of the files' sizes
  std::int64_t bytes_in_pages = 0;  // the same sum with each size rounded up to whole pages
  std::int64_t files = 0;
  std::int64_t entries = 0;  // files, folders and links

  void Add(const SourceEntry& entry);
  friend bool operator==(const SourceSize&, const SourceSize&) = default;
};

class SourceFolder {
 public:
  // Opens folder `sub_path` (empty: all) of the volume mounted at `mount`. kNotFound: there is no
  // such folder. kInvalid: it is outside of the volume.
  static Result<SourceFolder> Open(const std::filesystem::path& mount, const std::string& sub_path);

  // Calls `visit` for each entry, and for a folder before its entries. Returns the first error of
  // the walk or of `visit`, or kCancelled if `stop` was requested. Skips lost+found at the top,
  // because it belongs to the file system. Blocks while the volume does not respond.
  Result<void> Walk(std::stop_token stop,
                    const std::function<Result<void>(const SourceEntry&)>& visit) const;

  Result<SourceSize> Measure(std::stop_token stop) const;

  const std::filesystem::path& path() const { return path_; }  // without links

 private:
  explicit SourceFolder(std::filesystem::path path) : path_(std::move(path)) {}

  Result<SourceEntry> Describe(const std::filesystem::directory_entry& found) const;
  Result<SourceEntry> DescribeLink(SourceEntry entry) const;

  std::filesystem::path path_;
};

}  // namespace ringmaster::agent
