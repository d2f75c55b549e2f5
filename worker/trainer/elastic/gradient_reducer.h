#pragma once

// An alternative to the communicator's AllReduce for gradients, for example with fewer bits per
// number. The session calls it for each world and step; implemented by compression/.

#include <cstddef>
#include <string>

#include "worker/trainer/comm/communicator.h"
#include "worker/trainer/comm/elements.h"
#include "worker/trainer/comm/world.h"
#include "worker/trainer/elastic/state_sync.h"
#include "worker/trainer/elastic/state_version.h"

namespace ringmaster::trainer {

// Only the session's thread may use it.
class GradientReducer {
 public:
  virtual ~GradientReducer() = default;

  // Called when a world has formed and its ranks have adopted one state. The communicator exists
  // until Stop() has returned; LeaveWorld() is called after the communicator is destroyed. Returns
  // what happened to residuals of earlier steps' gradients, as a word for the audit log. May throw
  // if memory is exhausted.
  virtual std::string EnterWorld(Communicator& communicator, const World& world,
                                 const Adopted& adopted) = 0;
  // Ends all work within milliseconds. The caller's memory is not used afterwards.
  virtual void Stop() = 0;
  virtual void LeaveWorld() = 0;

  // REQUIRES, for all functions below: EnterWorld() was called, and Stop() was not called since.
  // Called when a step begins. The state after the step has `version`.
  virtual void Begin(const StateVersion& version) = 0;
  // Sums a bucket over the ranks, in place, after all work that the calling thread has queued. The
  // last `exact` values are not compressed. Called for the buckets 0, 1, … of each step. The memory
  // must stay valid and untouched until the work has ended or Stop() has returned.
  virtual WorkHandle Reduce(int bucket, Elements values, std::size_t exact, Deadline deadline) = 0;
  // Called when the step that began last was applied.
  virtual void Applied() = 0;
};

}  // namespace ringmaster::trainer
