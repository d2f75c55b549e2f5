#include "worker/agent/data_cache/data_cache.h"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include <boost/asio/post.hpp>

#include "common/base/log.h"
#include "worker/agent/data_cache/copier.h"
#include "worker/agent/data_cache/source_folder.h"

namespace ringmaster::agent {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr char kFilling[] = "filling\n";
constexpr char kAside[] = ".new";  // suffix of the mark's name while it is written

bool IsMark(const std::filesystem::path& entry) {
  const std::filesystem::path name = entry.filename();
  return name == kCacheMark || name == std::string(kCacheMark) + kAside;
}

Error CannotWrite(const std::filesystem::path& folder, const std::string& why) {
  return {ErrorKind::kUnavailable,
          "the data cache at " + folder.string() + " cannot be written: " + why};
}

// The destination folder and its mark, a file that records the folder's state. A copy is used only
// if the mark says that it is complete, so processes may be killed at any time.
//
//   empty ── Begin ─► filling ── Complete ─► complete; Begin starts again from any of these states.
//   A folder that is not empty and has no mark belongs to another program; Begin fails.
class CacheFolder {
 public:
  // `source` identifies the content of the folder: a copy of another source counts as incomplete.
  CacheFolder(std::filesystem::path folder, const std::filesystem::path& source)
      : folder_(std::move(folder)), complete_("complete " + source.string() + "\n") {}

  bool IsComplete() const {
    std::ifstream mark(folder_ / kCacheMark, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(mark), std::istreambuf_iterator<char>()};
    return text == complete_;
  }

  // Empties the folder and marks it as being filled.
  Result<void> Begin() const {
    std::error_code failed;
    const bool ours = std::filesystem::exists(folder_ / kCacheMark, failed);
    const std::filesystem::directory_iterator end;
    std::filesystem::directory_iterator entry(folder_, failed);
    for (; !failed && !ours && entry != end; entry.increment(failed)) {
      if (IsMark(entry->path())) continue;
      return Error{ErrorKind::kForbidden, "the data cache at " + folder_.string() + " holds " +
                                              entry->path().filename().string() +
                                              ", which no agent created; use a separate folder"};
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

  Result<void> Complete() const { return Mark(complete_); }

 private:
  // Writes the mark with a rename, so that it never appears partly written.
  Result<void> Mark(const std::string& text) const {
    const std::filesystem::path mark = folder_ / kCacheMark;
    const std::filesystem::path aside = mark.string() + kAside;
    std::ofstream file(aside, std::ios::binary | std::ios::trunc);
    file << text;
    file.close();
    if (!file) return CannotWrite(folder_, "its marker file could not be written");
    std::error_code failed;
    std::filesystem::rename(aside, mark, failed);
    if (failed) return CannotWrite(folder_, failed.message());
    return {};
  }

  const std::filesystem::path folder_;
  const std::string complete_;  // the mark's text once the copy is complete
};

// The interval between checks of the counters until the size of the data is known and reported.
constexpr milliseconds kFirstLook{50};

Result<void> FillOrSay(const DataCacheSettings& settings, const MemorySources& memory,
                       FillCounters& counters, const std::stop_token& stop) {
  try {
    return FillDataCache(settings, memory, counters, stop);
  } catch (const std::exception& error) {
    return Error{ErrorKind::kInternal, std::string("the copy failed: ") + error.what()};
  }
}

}  // namespace

Result<void> FillDataCache(const DataCacheSettings& settings, const MemorySources& memory,
                           FillCounters& counters, const std::stop_token& stop) {
  const Result<SourceFolder> source = SourceFolder::Open(settings.source, settings.sub_path);
  if (!source.ok()) return source.error();
  const CacheFolder cache(settings.folder, source->path());
  if (cache.IsComplete()) {
    LogInfo("Found the data cache filled", {{"folder", settings.folder.string()}});
    return {};
  }
  const auto began = steady_clock::now();
  if (Result<void> begun = cache.Begin(); !begun.ok()) return begun;
  const Result<SourceSize> data = source->Measure(stop);
  if (!data.ok()) return data.error();
  const Result<MemoryRoom> room = ReadMemoryRoom(settings.folder, memory);
  if (!room.ok()) return room.error();
  const std::optional<std::string> why_not = WhyItDoesNotFit(*data, *room);
  if (why_not.has_value()) return Error{ErrorKind::kForbidden, *why_not};
  counters.bytes_total = data->bytes;
  Result<void> copied = CopyFolder(*source, settings.folder, *data, counters.bytes_done, stop);
  if (!copied.ok()) return copied;
  if (Result<void> completed = cache.Complete(); !completed.ok()) return completed;
  const auto took = duration_cast<milliseconds>(steady_clock::now() - began);
  LogInfo("Filled the data cache", {{"folder", settings.folder.string()},
                                    {"bytes", data->bytes},
                                    {"files", data->files},
                                    {"millis", took.count()}});
  return {};
}

DataCache::DataCache(boost::asio::io_context& io, DataCacheSettings settings, Handlers handlers,
                     MemorySources memory, std::chrono::milliseconds period)
    : io_(io), handlers_(std::move(handlers)), period_(period), timer_(io) {
  Watch();
  thread_ = std::jthread([this, settings = std::move(settings),
                          memory = std::move(memory)](const std::stop_token& stop) {
    Result<void> filled = FillOrSay(settings, memory, counters_, stop);
    running_ = false;
    if (stop.stop_requested()) return;
    boost::asio::post(io_, [this, stop, filled = std::move(filled)] {
      if (!stop.stop_requested()) End(filled);
    });
  });
}

DataCache::~DataCache() { Stop(); }

void DataCache::Stop() {
  thread_.request_stop();
  timer_.cancel();
  ended_ = true;
}

std::optional<control::DataCacheProgress> DataCache::Progress() const {
  const std::int64_t total = counters_.bytes_total;
  if (ended_ || total < 0) return std::nullopt;
  return control::DataCacheProgress{counters_.bytes_done, total};
}

void DataCache::Watch() {
  timer_.expires_after(reported_ < 0 ? std::min(kFirstLook, period_) : period_);
  timer_.async_wait([this](const boost::system::error_code& cancelled) {
    if (cancelled || ended_) return;
    Report();
    Watch();
  });
}

void DataCache::Report() {
  const std::optional<control::DataCacheProgress> progress = Progress();
  if (!progress.has_value() || progress->bytes_done == reported_) return;
  reported_ = progress->bytes_done;
  handlers_.on_progress(*progress);
}

void DataCache::End(const Result<void>& filled) {
  ended_ = true;
  timer_.cancel();
  handlers_.on_end(filled.ok() ? std::nullopt : std::optional(filled.error().message));
}

}  // namespace ringmaster::agent
