#pragma once

// Ends the process if a call that must not hang does not return. Aborting a communicator whose
// device or driver is broken may hang forever, and a rank that cannot release its GPU cannot join
// the next world. Its agent restarts it.

#include <chrono>
#include <functional>
#include <map>
#include <stop_token>
#include <string>
#include <thread>

#include "common/base/mutex.h"

namespace ringmaster::trainer {

// Far beyond what a healthy device takes: an abort frees memory, which waits for all that the
// device has been given, and ends the threads of every connection.
inline constexpr std::chrono::milliseconds kAbortLimit{15'000};

// Thread-safe.
class AbortLimit {
 public:
  // `end` is called, on a thread of this object, with what hung; it does not return, but in tests.
  AbortLimit(std::chrono::milliseconds limit, std::function<void(const std::string& what)> end);
  ~AbortLimit();

  // From its making to its end, the call under way is watched.
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
  std::map<int, Call> calls_ RINGMASTER_GUARDED_BY(mutex_);  // by number: the first began first

  std::jthread thread_;  // last member: it ends first
};

// Says on standard error what hung, and kills the process: a device that hangs is a crash, which
// does not count against the job's restart limit, and in a row does against its crash limit.
[[noreturn]] void EndProcessThatHangs(const std::string& what);

}  // namespace ringmaster::trainer
