#pragma once

// Writes a job's status in one request, and adds the job's finalizer. It is a part of the actor and
// called on the job's worker thread, or, when it raises a term, on a thread of the request pool
// while the worker waits. Calls for a job do not overlap, so it has no lock.

#include <optional>
#include <string>

#include "common/base/clock.h"
#include "operator/api/types.h"
#include "operator/job/controller/job_requests.h"
#include "operator/job/model/plan.h"

namespace ringmaster::job {

class StatusWriter {
 public:
  // `phase_since`: when this process wrote the job's current state.
  StatusWriter(JobRequests& requests, std::optional<Clock::WallTime> phase_since);

  // Adds the finalizer to the job, or removes it.
  void WriteHold(bool held);
  // Writes the status with compare-and-set, so it does not overwrite changes of other clients.
  void WriteStatus(const Plan& plan);

 private:
  // Returns false if another installation has the launcher's Service, or if its owner is unknown.
  bool IsStillOurs();
  void NoteWritten(const api::TrainingJobStatus& written);

  JobRequests& requests_;
  const std::optional<Clock::WallTime> phase_since_;
  std::string job_version_;  // the job's resourceVersion on which the status is based
};

}  // namespace ringmaster::job
