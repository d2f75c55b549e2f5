#include "worker/agent/data_cache/data_cache.h"

#include <algorithm>
#include <exception>
#include <utility>

#include <boost/asio/post.hpp>

namespace ringmaster::agent {
namespace {

// How often the counters are looked at until the data was measured: what is told first is that.
constexpr std::chrono::milliseconds kFirstLook{50};

Result<void> FillOrSay(const DataCacheSettings& settings, const MemorySources& memory,
                       FillCounters& counters, const std::stop_token& stop) {
  try {
    return FillDataCache(settings, memory, counters, stop);
  } catch (const std::exception& error) {
    return Error{ErrorKind::kInternal, std::string("the copying itself failed: ") + error.what()};
  }
}

}  // namespace

DataCache::DataCache(boost::asio::io_context& io, DataCacheSettings settings, Handlers handlers,
                     MemorySources memory, std::chrono::milliseconds period)
    : io_(io), handlers_(std::move(handlers)), period_(period), timer_(io) {
  Watch();
  thread_ = std::jthread([this, settings = std::move(settings),
                          memory = std::move(memory)](const std::stop_token& stop) {
    Result<void> filled = FillOrSay(settings, memory, counters_, stop);
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
