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

  // Called when a world has formed and its ranks have adopted one state. The communicator lives
  // until Stop() has returned; LeaveWorld() is called after its end. Returns what happened to
  // residuals of earlier steps' gradients, in the words of the audit log. May throw if memory is
  // exhausted.
  virtual std::string EnterWorld(Communicator& communicator, const World& world,
                                 const Adopted& adopted) = 0;
  // Ends all work within milliseconds. The caller's memory is not used afterwards.
  virtual void Stop() = 0;
  virtual void LeaveWorld() = 0;

  // REQUIRES, for all below: between EnterWorld() and Stop().
  // Called when a step begins. Once applied, the step will be `version`.
  virtual void Begin(const StateVersion& version) = 0;
  // Sums a bucket over the ranks, in place, after the calling thread's computation so far; the
  // last `exact` values without loss of precision. Called for the buckets 0, 1, … of each step. The
  // caller must keep the memory valid and must not touch it until the work ended or Stop().
  virtual WorkHandle Reduce(int bucket, Elements values, std::size_t exact, Deadline deadline) = 0;
  // Called when the step that began last was applied.
  virtual void Applied() = 0;
};

}  // namespace ringmaster::trainer
