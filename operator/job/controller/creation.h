#pragma once

// Creates the objects of a plan: first the pin, the Secret and the Services, then the Pods,
// which contain the term and the launcher Service's address. It is a part of the actor and
// called on the job's worker thread. Its requests run in parallel on the request pool's threads.
// Each request writes to a separate member, which is read after all have ended, so no lock is
// needed.

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
  // All arguments must outlive the Creation.
  Creation(JobRequests& requests, StatusWriter& status, JobIsolation& isolation,
           const ActorInput& input);

  // Writes the term and creates the pin, Secret, Services and first launcher Pod in parallel, if
  // the job's spec is allowed. Deletes that launcher again if its credentials, its Service or the
  // run's spec are not available; the next reconcile then retries.
  void Prepare(const Plan& plan);
  // Creates the NetworkPolicies, and then the other Pods.
  void CreatePods(const Plan& plan);

 private:
  // Checks the job's spec. Returns false and notes the reason if no Pod may be created.
  bool JudgeText();
  PodContext Context() const;
  void PostSecret();
  void PostPin();
  void PostLauncherService(int64_t term);
  void PatchLauncherService(const nlohmann::json& patch);
  void PostLauncher(int64_t term);
  void PostWorker(const nlohmann::json& common, int index);
  // Returns false and notes the reason if the complete manifest has forbidden rights.
  bool MayPost(const nlohmann::json& pod);

  JobRequests& requests_;
  StatusWriter& status_;
  JobIsolation& isolation_;
  const ActorInput& input_;

  std::optional<JudgedJob> judged_;  // set before any request
  // Each member is written by only one request.
  std::string launcher_address_;
  std::string launcher_uid_;  // UID of the launcher Pod that was created
  bool pinned_;
  const std::string tools_image_;
  bool other_text_ = false;   // whether the run is pinned to another spec
  bool other_owner_ = false;  // whether the job has another seed or installation
};

}  // namespace ringmaster::job
