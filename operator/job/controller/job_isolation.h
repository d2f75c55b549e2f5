#pragma once

// Creates a job's two NetworkPolicies and restores them after foreign changes. A part of the actor,
// called on the job's worker thread, or on a thread of the request pool while the worker waits. It
// never runs twice at once for a job, so it has no lock of its own.

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
  // Both outlive it.
  JobIsolation(JobRequests& requests, const JobMemory& memory);

  // The policies of a job that should have them, as the plan says.
  void Keep(const Plan& plan);
  // Before Pods are made: most jobs have none yet.
  void Post();

 private:
  void Check();
  // Returns false if the API server rejected them, and notes why.
  bool AdmitNodes();
  // As made, even if it was changed or deleted. Returns false if it is not, and notes why.
  bool Mend(const nlohmann::json& manifest);
  // Returns true if that is new.
  bool NoteIsolation(bool isolated);
  std::array<nlohmann::json, 2> Policies() const;

  JobRequests& requests_;
  const JobMemory& memory_;
  std::vector<std::string> admitted_;  // addresses of nodes
};

}  // namespace ringmaster::job
