#pragma once

// Records the activity of this rank for --timeline: phases of steps, parts of the computation and
// network operations, as events of the Chrome trace format
// (https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU, "Trace Event
// Format"). Keeps the newest kMostEvents events in memory and writes them to a file when the rank
// ends. The file's times are those of the host's wall clock. merge_timelines.py merges the files of
// all ranks.

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/result.h"
#include "worker/trainer/elastic/step_observers.h"

namespace ringmaster::trainer {

// Thread-safe.
class Timeline final : public CollectiveTrace {
 public:
  using Time = Clock::Time;
  static constexpr std::size_t kMostEvents = 1 << 16;

  enum class Track { kPhase, kCompute, kNetwork };

  struct Event {
    const char* name = "";  // a string with static storage
    Track track = Track::kPhase;
    Time begin{};
    Time end{};
    int64_t step = 0;  // the step of the event, counted from 1
    int bucket = -1;   // index of the bucket of gradients; -1: none
    std::size_t bytes = 0;
  };

  // `clock` must outlive the object.
  Timeline(std::string folder, const Clock& clock) : folder_(std::move(folder)), clock_(clock) {}

  // Creates the folder. Call it before training. kInvalid: the folder is not writable.
  Result<void> MakeFolder() const;

  // Sets the rank and its member name ("pod/slot/start"), from which the file name is made.
  void EnterWorld(int rank, std::string member);
  // Sets the step of the following events.
  void SetStep(int64_t step);
  // Ends the current phase and begins `phase`; does nothing if `phase` is the current phase.
  void Enter(const char* phase);
  // Adds an event of the current step; `event.step` is overwritten.
  void Add(Event event);
  void AddCollective(const char* name, Time begin, Time end, int bucket,
                     std::size_t bytes) override;

  // Writes all events so far; the current phase is written as if it ended now. Logs a warning if
  // the file cannot be written. Writes nothing if the rank never entered a world.
  void Write();

 private:
  std::string Text() const RINGMASTER_REQUIRES(mutex_);
  void Keep(const Event& event) RINGMASTER_REQUIRES(mutex_);

  const std::string folder_;
  const Clock& clock_;

  Mutex mutex_;
  int rank_ RINGMASTER_GUARDED_BY(mutex_) = 0;
  std::string member_ RINGMASTER_GUARDED_BY(mutex_);
  int64_t step_ RINGMASTER_GUARDED_BY(mutex_) = 0;
  std::optional<Event> phase_ RINGMASTER_GUARDED_BY(mutex_);  // the current phase
  std::deque<Event> events_ RINGMASTER_GUARDED_BY(mutex_);
};

// Adds an event that lasts as long as this object. Does nothing if `timeline` is null.
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
