#pragma once

// Whose turn it is to have a Pod's events read (pod_events.h). A list of events costs the API
// server the whole namespace's, so there is one at a time and five a second; and anyone who has a
// thousand Pods that do not start must not keep others waiting, so each namespace has one place in
// the row at a time. Used by the reconciler; not thread-safe.

#include <chrono>
#include <map>
#include <string>

#include "common/base/clock.h"

namespace ringmaster::job {

class QuestionTurns {
 public:
  // Zero: the events may be read now, and Done() is called afterwards. Else when to come again.
  std::chrono::milliseconds Take(const std::string& ns, const std::string& job_uid,
                                 Clock::Time now);
  void Done() { busy_ = false; }

 private:
  struct Place {
    std::string job_uid;
    Clock::Time at;    // not before
    Clock::Time seen;  // when its job last came
  };

  std::map<std::string, Place> places_;  // by namespace
  Clock::Time next_{};                   // the first moment that nobody has yet
  bool busy_ = false;
};

}  // namespace ringmaster::job
