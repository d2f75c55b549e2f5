#include "worker/agent/data_cache/fill.h"

#include <chrono>
#include <optional>

#include "common/base/log.h"
#include "worker/agent/data_cache/cache_folder.h"
#include "worker/agent/data_cache/copier.h"
#include "worker/agent/data_cache/source_folder.h"

namespace ringmaster::agent {
namespace {

using std::chrono::steady_clock;

Result<void> CheckRoom(const SourceSize& data, const std::filesystem::path& folder,
                       const MemorySources& memory) {
  const Result<MemoryRoom> room = ReadMemoryRoom(folder, memory);
  if (!room.ok()) return room.error();
  const std::optional<std::string> why = WhyItDoesNotFit(data, *room);
  if (why.has_value()) return Error{ErrorKind::kForbidden, *why};
  return {};
}

void LogFilled(const std::filesystem::path& folder, const SourceSize& data,
               steady_clock::duration took) {
  const auto millis = std::chrono::duration_cast<std::chrono::milliseconds>(took).count();
  LogInfo("Filled the data cache", {{"folder", folder.string()},
                                    {"bytes", data.bytes},
                                    {"files", data.files},
                                    {"millis", millis}});
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
  if (Result<void> fits = CheckRoom(*data, settings.folder, memory); !fits.ok()) return fits;
  counters.bytes_total = data->bytes;
  Result<void> copied = CopyFolder(*source, settings.folder, *data, counters.bytes_done, stop);
  if (!copied.ok()) return copied;
  if (Result<void> completed = cache.Complete(); !completed.ok()) return completed;
  LogFilled(settings.folder, *data, steady_clock::now() - began);
  return {};
}

}  // namespace ringmaster::agent
