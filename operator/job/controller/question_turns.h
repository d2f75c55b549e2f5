#pragma once

// Schedules reads of Pods' events (pod_events.h). For each list of events, the API server reads all
// events of the namespace, so only one list runs at a time, and at most five start per second. Each
// namespace has one place in the queue, so that a thousand Pods that fail to start do not block
// other namespaces. Used by the reconciler. Not thread-safe.

#include <chrono>
#include <map>
#include <string>

#include "common/base/clock.h"

namespace ringmaster::job {

class QuestionTurns {
 public:
  // Returns the time to wait; zero: events may be read now. Call Done() after reading them.
  std::chrono::milliseconds Take(const std::string& ns, const std::string& job_uid,
                                 Clock::Time now);
  void Done() { busy_ = false; }

 private:
  struct Place {
    std::string job_uid;
    Clock::Time at;    // earliest time of the read
    Clock::Time seen;  // when the job last called Take()
  };

  std::map<std::string, Place> places_;  // by namespace
  Clock::Time next_{};                   // earliest time of the next read
  bool busy_ = false;
};

}  // namespace ringmaster::job
