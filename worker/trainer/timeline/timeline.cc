#include "worker/trainer/timeline/timeline.h"

#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>

#include <nlohmann/json.hpp>

namespace ringmaster::trainer {
namespace {

constexpr std::array<const char*, 3> kTrackNames = {"phases", "computing", "network"};

double Micros(Timeline::Time time, int64_t offset_nanos) {
  const auto nanos =
      std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
  return static_cast<double>(nanos + offset_nanos) / 1000;
}

std::string ToTraceEvent(const Timeline::Event& event, int rank, int64_t offset_nanos) {
  std::string arguments = "\"step\":" + std::to_string(event.step);
  if (event.bucket >= 0) arguments += ",\"bucket\":" + std::to_string(event.bucket);
  if (event.bytes > 0) arguments += ",\"bytes\":" + std::to_string(event.bytes);
  const double begin = Micros(event.begin, offset_nanos);
  std::array<char, 256> text{};
  std::snprintf(text.data(), text.size(),
                R"({"name":"%s","cat":"%s","ph":"X","ts":%.3f,"dur":%.3f,"pid":%d,"tid":%d,)",
                event.name, kTrackNames[static_cast<std::size_t>(event.track)], begin,
                Micros(event.end, offset_nanos) - begin, rank, static_cast<int>(event.track));
  return text.data() + ("\"args\":{" + arguments + "}}");
}

std::string ToNameEvent(const char* what, int rank, int track, const std::string& name) {
  return R"({"name":")" + std::string(what) + R"(","ph":"M","pid":)" + std::to_string(rank) +
         ",\"tid\":" + std::to_string(track) +
         ",\"args\":{\"name\":" + nlohmann::json(name).dump() + "}}";
}

}  // namespace

void Timeline::Enter(const char* phase) {
  if (phase_ && std::strcmp(phase_->name, phase) == 0) return;
  const Time now = clock_.Now();
  if (phase_) {
    phase_->end = now;
    Keep(*phase_);
  }
  phase_ = Event{.name = phase, .begin = now, .step = step_};
}

void Timeline::Add(Event event) {
  event.step = step_;
  Keep(event);
}

void Timeline::Keep(const Event& event) {
  if (events_.size() == kMostEvents) events_.pop_front();
  events_.push_back(event);
}

std::string Timeline::ToTraceEvents(int rank, const std::string& host) const {
  std::string text =
      ToNameEvent("process_name", rank, 0, "rank " + std::to_string(rank) + " " + host);
  for (std::size_t track = 0; track < kTrackNames.size(); ++track) {
    text += ",\n" + ToNameEvent("thread_name", rank, static_cast<int>(track), kTrackNames[track]);
  }
  for (const Event& event : events_) text += ",\n" + ToTraceEvent(event, rank, offset_nanos_);
  if (phase_) {
    Event last = *phase_;
    last.end = clock_.Now();
    text += ",\n" + ToTraceEvent(last, rank, offset_nanos_);
  }
  return text;
}

TimedPart::TimedPart(Timeline* timeline, const Clock& clock, const char* name)
    : timeline_(timeline), clock_(clock), name_(name), begin_(clock.Now()) {}

TimedPart::~TimedPart() {
  if (timeline_ == nullptr) return;
  timeline_->Add(
      {.name = name_, .track = Timeline::Track::kCompute, .begin = begin_, .end = clock_.Now()});
}

}  // namespace ringmaster::trainer
