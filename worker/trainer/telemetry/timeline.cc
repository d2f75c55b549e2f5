#include "worker/trainer/telemetry/timeline.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "common/base/log.h"

namespace ringmaster::trainer {
namespace {

using std::chrono::nanoseconds;

constexpr std::array<const char*, 3> kTrackNames = {"phases", "computing", "network"};

double Micros(nanoseconds time) { return static_cast<double>(time.count()) / 1000; }

// Returns the event as JSON. `wall_clock` is added to the event's times to get wall-clock times.
std::string ToTraceEvent(const Timeline::Event& event, int rank, nanoseconds wall_clock) {
  std::string arguments = "\"step\":" + std::to_string(event.step);
  if (event.bucket >= 0) arguments += ",\"bucket\":" + std::to_string(event.bucket);
  if (event.bytes > 0) arguments += ",\"bytes\":" + std::to_string(event.bytes);
  std::array<char, 256> text{};
  std::snprintf(text.data(), text.size(),
                R"({"name":"%s","cat":"%s","ph":"X","ts":%.3f,"dur":%.3f,"pid":%d,"tid":%d,)",
                event.name, kTrackNames[static_cast<std::size_t>(event.track)],
                Micros(event.begin.time_since_epoch() + wall_clock),
                Micros(event.end - event.begin), rank, static_cast<int>(event.track));
  return text.data() + ("\"args\":{" + arguments + "}}");
}

std::string ToNameEvent(const char* what, int rank, int track, const std::string& name) {
  return R"({"name":")" + std::string(what) + R"(","ph":"M","pid":)" + std::to_string(rank) +
         ",\"tid\":" + std::to_string(track) +
         ",\"args\":{\"name\":" + nlohmann::json(name).dump() + "}}";
}

}  // namespace

Result<void> Timeline::MakeFolder() const {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (!error && ::access(folder_.c_str(), W_OK) == 0) return {};
  return Error{ErrorKind::kInvalid, "--timeline=" + folder_ + " is not a writable folder: " +
                                        (error ? error.message() : std::strerror(errno))};
}

void Timeline::EnterWorld(int rank, std::string member) {
  const MutexLock lock(mutex_);
  rank_ = rank;
  member_ = std::move(member);
}

void Timeline::SetStep(int64_t step) {
  const MutexLock lock(mutex_);
  step_ = step;
}

void Timeline::Enter(const char* phase) {
  const MutexLock lock(mutex_);
  if (phase_ && std::strcmp(phase_->name, phase) == 0) return;
  const Time now = clock_.Now();
  if (phase_) {
    phase_->end = now;
    Keep(*phase_);
  }
  phase_ = Event{.name = phase, .begin = now, .step = step_};
}

void Timeline::Add(Event event) {
  const MutexLock lock(mutex_);
  event.step = step_;
  Keep(event);
}

void Timeline::AddCollective(const char* name, Time begin, Time end, int bucket,
                             std::size_t bytes) {
  Add({.name = name,
       .track = Track::kNetwork,
       .begin = begin,
       .end = end,
       .bucket = bucket,
       .bytes = bytes});
}

void Timeline::Keep(const Event& event) {
  if (events_.size() == kMostEvents) events_.pop_front();
  events_.push_back(event);
}

void Timeline::Write() {
  const MutexLock lock(mutex_);
  if (member_.empty()) return;
  std::string path = member_;
  std::replace(path.begin(), path.end(), '/', '-');
  path = folder_ + "/" + path + ".json";
  std::ofstream file(path + ".part", std::ios::binary | std::ios::trunc);
  file << Text();
  file.close();
  if (file && std::rename((path + ".part").c_str(), path.c_str()) == 0) return;
  LogWarn("Failed to write the timeline", {{"path", path}, {"reason", std::strerror(errno)}});
}

std::string Timeline::Text() const {
  const Time now = clock_.Now();
  const nanoseconds wall_clock = clock_.WallNow().time_since_epoch() - now.time_since_epoch();
  std::string text =
      "{\"traceEvents\":[\n" +
      ToNameEvent("process_name", rank_, 0, "rank " + std::to_string(rank_) + " " + member_);
  for (std::size_t track = 0; track < kTrackNames.size(); ++track) {
    text += ",\n" + ToNameEvent("thread_name", rank_, static_cast<int>(track), kTrackNames[track]);
  }
  for (const Event& event : events_) text += ",\n" + ToTraceEvent(event, rank_, wall_clock);
  if (phase_) {
    Event last = *phase_;
    last.end = now;
    text += ",\n" + ToTraceEvent(last, rank_, wall_clock);
  }
  return text + "\n]}\n";
}

TimedPart::TimedPart(Timeline* timeline, const Clock& clock, const char* name)
    : timeline_(timeline), clock_(clock), name_(name), begin_(clock.Now()) {}

TimedPart::~TimedPart() {
  if (timeline_ == nullptr) return;
  timeline_->Add(
      {.name = name_, .track = Timeline::Track::kCompute, .begin = begin_, .end = clock_.Now()});
}

}  // namespace ringmaster::trainer
