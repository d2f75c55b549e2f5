#include "worker/agent/data_cache/source_folder.h"

#include <algorithm>
#include <system_error>
#include <utility>

namespace ringmaster::agent {
namespace {

constexpr std::int64_t kPageBytes = 4096;

Error CannotRead(const std::filesystem::path& path, const std::error_code& why) {
  return {ErrorKind::kUnavailable,
          path.string() + " of the data source cannot be read: " + why.message()};
}

// Returns whether `inner` is `outer` or below it. REQUIRES: neither path has links, "." or "..".
bool IsWithin(const std::filesystem::path& inner, const std::filesystem::path& outer) {
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

const char* NameOfType(std::filesystem::file_type type) {
  switch (type) {
    case std::filesystem::file_type::socket:
      return "a socket";
    case std::filesystem::file_type::fifo:
      return "a pipe";
    case std::filesystem::file_type::block:
    case std::filesystem::file_type::character:
      return "a device";
    default:
      return "of an unknown kind";
  }
}

}  // namespace

void SourceSize::Add(const SourceEntry& entry) {
  ++entries;
  if (entry.kind != SourceEntry::Kind::kFile) return;
  ++files;
  bytes += entry.bytes;
  bytes_in_pages += (entry.bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

Result<SourceFolder> SourceFolder::Open(const std::filesystem::path& mount,
                                        const std::string& sub_path) {
  std::error_code failed;
  const std::filesystem::path volume = std::filesystem::canonical(mount, failed);
  if (failed) return CannotRead(mount, failed);
  const std::filesystem::path wanted =
      std::filesystem::canonical(sub_path.empty() ? volume : volume / sub_path, failed);
  if (failed == std::errc::no_such_file_or_directory || failed == std::errc::not_a_directory) {
    return Error{ErrorKind::kNotFound, "the data source has no folder " + sub_path +
                                           "; correct spec.dataCache.subPath or add the data"};
  }
  if (failed) return CannotRead(sub_path, failed);
  if (!IsWithin(wanted, volume)) {
    return Error{ErrorKind::kInvalid, "spec.dataCache.subPath " + sub_path +
                                          " leads out of the data source, to " + wanted.string() +
                                          "; name a folder within it"};
  }
  if (!std::filesystem::is_directory(wanted, failed)) {
    return Error{ErrorKind::kNotFound,
                 sub_path + " of the data source is a file; name the folder that it is in"};
  }
  return SourceFolder(wanted);
}

Result<void> SourceFolder::Walk(
    std::stop_token stop, const std::function<Result<void>(const SourceEntry&)>& visit) const {
  std::error_code failed;
  std::filesystem::recursive_directory_iterator next(path_, failed);
  if (failed) return CannotRead(path_, failed);
  std::filesystem::path last;
  for (const std::filesystem::recursive_directory_iterator end; next != end;
       next.increment(failed)) {
    if (stop.stop_requested()) return Error{ErrorKind::kCancelled, "the agent is stopping"};
    const std::filesystem::path name = next->path().filename();
    if (next.depth() == 0 && (name == "lost+found" || name == kCacheMark)) {
      next.disable_recursion_pending();
      continue;
    }
    const Result<SourceEntry> entry = Describe(*next);
    if (!entry.ok()) return entry.error();
    if (Result<void> visited = visit(*entry); !visited.ok()) return visited;
    last = entry->path;
  }
  // The walk ends at the first folder that cannot be opened; `last` is that folder.
  if (failed) return CannotRead(last, failed);
  return {};
}

Result<SourceSize> SourceFolder::Measure(std::stop_token stop) const {
  SourceSize size;
  const Result<void> walked = Walk(std::move(stop), [&](const SourceEntry& entry) -> Result<void> {
    size.Add(entry);
    return {};
  });
  if (!walked.ok()) return walked.error();
  if (size.files > 0) return size;
  return Error{ErrorKind::kNotFound, "there is no file in the data source (" + path_.string() +
                                         "); add the data or correct spec.dataCache"};
}

Result<SourceEntry> SourceFolder::Describe(const std::filesystem::directory_entry& found) const {
  SourceEntry entry;
  entry.path = found.path().lexically_relative(path_);
  std::error_code failed;
  const std::filesystem::file_status status = found.symlink_status(failed);
  if (failed) return CannotRead(entry.path, failed);
  switch (status.type()) {
    case std::filesystem::file_type::directory:
      entry.kind = SourceEntry::Kind::kFolder;
      return entry;
    case std::filesystem::file_type::symlink:
      return DescribeLink(std::move(entry));
    case std::filesystem::file_type::regular:
      entry.bytes = static_cast<std::int64_t>(std::filesystem::file_size(found.path(), failed));
      if (failed) return CannotRead(entry.path, failed);
      return entry;
    default:
      return Error{ErrorKind::kInvalid,
                   entry.path.string() + " of the data source is " + NameOfType(status.type()) +
                       ", but only files, folders and links can be copied; remove it"};
  }
}

// A link within the source is copied as a relative link, because a copy of an absolute link would
// point to the source.
Result<SourceEntry> SourceFolder::DescribeLink(SourceEntry entry) const {
  entry.kind = SourceEntry::Kind::kLink;
  std::error_code failed;
  const std::filesystem::path target = std::filesystem::canonical(path_ / entry.path, failed);
  if (failed) {
    return Error{ErrorKind::kInvalid, entry.path.string() +
                                          " of the data source is a broken link (" +
                                          failed.message() + "); remove or correct it"};
  }
  if (!IsWithin(target, path_)) {
    return Error{ErrorKind::kInvalid,
                 entry.path.string() + " of the data source is a link to a target outside of it, " +
                     target.string() + "; replace the link with the file or remove it"};
  }
  entry.link = target.lexically_relative((path_ / entry.path).parent_path());
  return entry;
}

}  // namespace ringmaster::agent
