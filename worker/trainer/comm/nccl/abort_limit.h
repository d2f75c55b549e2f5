#pragma once

// Ends the process if a call that must not hang does not return within a limit; the agent then
// restarts it. Aborting a communicator whose device or driver is broken may hang forever, and a
// rank that cannot release its GPU cannot join the next world.

#include <chrono>
#include <functional>
#include <map>
#include <stop_token>
#include <string>
#include <thread>

#include "common/base/mutex.h"

namespace ringmaster::trainer {

// The default limit, far longer than an abort takes on a healthy device. An abort waits for all
// work of the device, because it frees memory, and ends the threads of all connections.
inline constexpr std::chrono::milliseconds kAbortLimit{15'000};

// Thread-safe.
class AbortLimit {
 public:
  // If a call hangs, a thread of this object calls `end` with the call's name. `end` never returns.
  AbortLimit(std::chrono::milliseconds limit, std::function<void(const std::string& what)> end);
  ~AbortLimit();

  // Watches one call for as long as the Watch exists.
  class Watch {
   public:
    Watch(AbortLimit& limit, std::string what);
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

   private:
    AbortLimit& limit_;
    int number_;
  };

 private:
  struct Call {
    std::string what;
    std::chrono::steady_clock::time_point deadline;
  };

  void Run(const std::stop_token& stop);

  const std::chrono::milliseconds limit_;
  const std::function<void(const std::string&)> end_;
  Mutex mutex_;
  StoppableCondVar changed_;
  int next_ RINGMASTER_GUARDED_BY(mutex_) = 0;
  std::map<int, Call> calls_ RINGMASTER_GUARDED_BY(mutex_);  // by number, oldest call first

  std::jthread thread_;  // the last member, so it is destroyed first
};

// Prints the name of the call that hung to standard error and kills the process. The exit counts as
// a crash: toward the job's crash limit, not toward its restart limit. After NoteTrainingEnded() it
// ends the process with code 0, so that a completed job does not fail.
[[noreturn]] void EndProcessThatHangs(const std::string& what);
void NoteTrainingEnded();

}  // namespace ringmaster::trainer
