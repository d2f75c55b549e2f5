#include "worker/agent/data_cache/cache_folder.h"

#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "worker/agent/data_cache/source_folder.h"

namespace ringmaster::agent {
namespace {

constexpr char kFilling[] = "filling\n";
constexpr char kAside[] = ".new";  // after the mark's name, while it is written

bool IsMark(const std::filesystem::path& entry) {
  const std::filesystem::path name = entry.filename();
  return name == kCacheMark || name == std::string(kCacheMark) + kAside;
}

Error CannotWrite(const std::filesystem::path& folder, const std::string& why) {
  return {ErrorKind::kUnavailable,
          "the data cache at " + folder.string() + " cannot be written: " + why};
}

}  // namespace

CacheFolder::CacheFolder(std::filesystem::path folder, const std::filesystem::path& source)
    : folder_(std::move(folder)), complete_("complete " + source.string() + "\n") {}

bool CacheFolder::IsComplete() const {
  std::ifstream mark(folder_ / kCacheMark, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(mark), std::istreambuf_iterator<char>()};
  return text == complete_;
}

Result<void> CacheFolder::Begin() const {
  std::error_code failed;
  const bool ours = std::filesystem::exists(folder_ / kCacheMark, failed);
  const std::filesystem::directory_iterator end;
  std::filesystem::directory_iterator entry(folder_, failed);
  for (; !failed && !ours && entry != end; entry.increment(failed)) {
    if (IsMark(entry->path())) continue;
    return Error{ErrorKind::kForbidden,
                 "the data cache at " + folder_.string() + " holds " +
                     entry->path().filename().string() +
                     ", which no agent put there; give it a folder of its own"};
  }
  if (failed) return CannotWrite(folder_, failed.message());
  if (Result<void> marked = Mark(kFilling); !marked.ok()) return marked;
  for (entry = std::filesystem::directory_iterator(folder_, failed); !failed && entry != end;
       entry.increment(failed)) {
    if (IsMark(entry->path())) continue;
    std::filesystem::remove_all(entry->path(), failed);
    if (failed) break;
  }
  if (failed) return CannotWrite(folder_, failed.message());
  return {};
}

Result<void> CacheFolder::Complete() const { return Mark(complete_); }

// Renamed into place: the mark says one thing or the other, never half of one.
Result<void> CacheFolder::Mark(const std::string& text) const {
  const std::filesystem::path mark = folder_ / kCacheMark;
  const std::filesystem::path aside = mark.string() + kAside;
  std::ofstream file(aside, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) return CannotWrite(folder_, "its mark could not be written");
  std::error_code failed;
  std::filesystem::rename(aside, mark, failed);
  if (failed) return CannotWrite(folder_, failed.message());
  return {};
}

}  // namespace ringmaster::agent
