#pragma once

// What this rank did and when, for --timeline: phases of the step, the parts of computing, and the
// operations on the network, as events of the Chrome trace format
// (https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU, "Trace Event
// Format"). Kept in memory, the newest kMostEvents; clock_alignment.h puts all ranks on one clock
// and the session collects them.

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "common/base/clock.h"

namespace ringmaster::trainer {

// Thread-safety: one thread.
class Timeline {
 public:
  using Time = Clock::Time;
  static constexpr std::size_t kMostEvents = 1 << 16;

  enum class Track { kPhase, kCompute, kNetwork };

  struct Event {
    const char* name = "";  // of static storage
    Track track = Track::kPhase;
    Time begin{};
    Time end{};
    int64_t step = 0;  // that it belongs to, from 1
    int bucket = -1;   // of the gradients; -1: none
    std::size_t bytes = 0;
  };

  explicit Timeline(const Clock& clock) : clock_(clock) {}

  // The step that events belong to from here on.
  void SetStep(int64_t step) { step_ = step; }
  // A phase begins, and with it the one before ends. The same one again goes on.
  void Enter(const char* phase);
  // Its step is filled in.
  void Add(Event event);

  // What to add to this process's clock, in nanoseconds, to have the clock of all ranks.
  void SetOffset(int64_t nanos) { offset_nanos_ = nanos; }
  int64_t offset() const { return offset_nanos_; }

  // All events so far, and the names of the tracks, as trace events of process `rank`, separated by
  // commas; no newline at the end. `host` names the process. The phase that goes on ends now.
  std::string ToTraceEvents(int rank, const std::string& host) const;

 private:
  void Keep(const Event& event);

  const Clock& clock_;
  int64_t step_ = 0;
  int64_t offset_nanos_ = 0;
  std::optional<Event> phase_;  // that goes on
  std::deque<Event> events_;
};

// Measures a part of computing, for as long as it lives; nothing where `timeline` is null.
class TimedPart {
 public:
  TimedPart(Timeline* timeline, const Clock& clock, const char* name);
  ~TimedPart();
  TimedPart(const TimedPart&) = delete;
  TimedPart& operator=(const TimedPart&) = delete;

 private:
  Timeline* const timeline_;
  const Clock& clock_;
  const char* const name_;
  const Clock::Time begin_;
};

}  // namespace ringmaster::trainer
