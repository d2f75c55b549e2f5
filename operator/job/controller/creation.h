#pragma once

// Creates what a plan finds missing: first the pin, the Secret and the Services, then the
// Pods, which contain the term and the launcher Service's address. A part of the actor,
// called on the job's worker thread. Its requests run in parallel on the request pool's
// threads. Each writes to a separate member, which is read after all have ended, so no lock
// is needed.

#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "operator/job/admission/judgement.h"
#include "operator/job/controller/job_isolation.h"
#include "operator/job/controller/job_requests.h"
#include "operator/job/controller/status_writer.h"
#include "operator/job/manifests/pods.h"
#include "operator/job/model/plan.h"

namespace ringmaster::job {

class Creation {
 public:
  // All outlive it.
  Creation(JobRequests& requests, StatusWriter& status, JobIsolation& isolation,
           const ActorInput& input);

  // Term, pin, Secret, Services, and the launcher Pod of a job's first term, at once, where the
  // plan's Pods may be made from what they are about to be made from. That launcher is deleted
  // again where its credentials, its Service or its text cannot be had: the next try begins again.
  void Prepare(const Plan& plan);
  // Creates the NetworkPolicies, and then the other Pods.
  void CreatePods(const Plan& plan);

 private:
  // Returns false if no Pod may be created, and notes why.
  bool JudgeText();
  PodContext Context() const;
  void PostSecret();
  void PostPin();
  void PostLauncherService(int64_t term);
  void PatchLauncherService(const nlohmann::json& patch);
  void PostLauncher(int64_t term);
  void PostWorker(const nlohmann::json& common, int index);
  // Notes the reason if the finished manifest has forbidden rights.
  bool MayPost(const nlohmann::json& pod);

  JobRequests& requests_;
  StatusWriter& status_;
  JobIsolation& isolation_;
  const ActorInput& input_;

  std::optional<JudgedJob> judged_;  // before any request
  // Each is of one request.
  std::string launcher_address_;
  std::string launcher_uid_;  // of the launcher Pod that was made
  bool pinned_;
  const std::string tools_image_;
  bool other_text_ = false;   // the run is pinned to another text
  bool other_owner_ = false;  // the job has another seed, or belongs to another installation
};

}  // namespace ringmaster::job
