#pragma once

// Creates a job's two NetworkPolicies and restores them if other clients change them. It is a part
// of the actor and called on the job's worker thread, or on a thread of the request pool while the
// worker waits. Calls for a job do not overlap, so it has no lock.

#include <array>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "operator/job/controller/job_requests.h"
#include "operator/job/model/job_memory.h"
#include "operator/job/model/plan.h"

namespace ringmaster::job {

class JobIsolation {
 public:
  // Both arguments must outlive the JobIsolation.
  JobIsolation(JobRequests& requests, const JobMemory& memory);

  // Checks or updates the job's policies as the plan requires.
  void Keep(const Plan& plan);
  // Creates the policies before the Pods. Does not read them first: most jobs have none yet.
  void Post();

 private:
  void Check();
  // Updates the admitted node addresses. Returns false and notes the reason if that fails.
  bool AdmitNodes();
  // Restores a policy that was changed or deleted. Returns false and notes the reason on failure.
  bool Mend(const nlohmann::json& manifest);
  // Records the result. Returns true if it differs from the previous result.
  bool NoteIsolation(bool isolated);
  std::array<nlohmann::json, 2> Policies() const;

  JobRequests& requests_;
  const JobMemory& memory_;
  std::vector<std::string> admitted_;  // addresses of nodes
};

}  // namespace ringmaster::job
