#pragma once

// Fills a data cache, from the first look to the mark that it is complete; what a data cache is for
// is in the README of this folder. Blocking; data_cache.h runs it on a thread.

#include <atomic>
#include <cstdint>
#include <stop_token>

#include "common/base/result.h"
#include "worker/agent/data_cache/memory_room.h"
#include "worker/agent/data_cache/settings.h"

namespace ringmaster::agent {

// How far a fill is; written by its thread, read by any.
struct FillCounters {
  std::atomic<std::int64_t> bytes_done{0};
  std::atomic<std::int64_t> bytes_total{-1};  // -1: not measured yet
};

// Returns at once where the folder holds a finished copy of this source. The error's message is for
// users: what is wrong with the data or the room for it, and what to do. kCancelled once `stop` was
// requested.
Result<void> FillDataCache(const DataCacheSettings& settings, const MemorySources& memory,
                           FillCounters& counters, const std::stop_token& stop);

}  // namespace ringmaster::agent
