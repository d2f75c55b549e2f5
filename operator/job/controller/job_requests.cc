#include "operator/job/controller/job_requests.h"

#include <exception>
#include <utility>

#include <nlohmann/json.hpp>

#include "operator/api/names.h"
#include "operator/job/controller/pod_refusal.h"
#include "operator/job/controller/refusal.h"
#include "operator/kube/json_access.h"
#include "operator/kube/object_meta.h"

namespace ringmaster::job {

using nlohmann::json;

namespace {

// A reconcile does not start requests after this time, even if the API server is slow: /healthz
// fails if a reconcile takes too long, and the job's needs may change meanwhile.
constexpr std::chrono::seconds kPass{60};

}  // namespace

runtime::Event EventOn(const api::TrainingJob& job, const PlannedEvent& event) {
  return {.regarding = {.api_version = api::kApiVersion,
                        .kind = api::kKind,
                        .ns = job.ns,
                        .name = job.name,
                        .uid = job.uid},
          .related = std::nullopt,
          .type = event.warning ? runtime::EventType::kWarning : runtime::EventType::kNormal,
          .reason = event.reason,
          .action = event.action,
          .note = event.note};
}

JobRequests::JobRequests(const ActorTools& tools, const api::TrainingJob& job,
                         const JobRules& rules, int failures_before)
    : tools_(tools),
      job_(job),
      rules_(rules),
      key_(job.Key()),
      failures_before_(failures_before),
      began_(tools.clock.Now()) {}

void JobRequests::RunAll(std::vector<std::function<void()>> requests) {
  for (std::function<void()>& request : requests) {
    request = [this, run = std::move(request)] {
      if (tools_.clock.Now() - began_ > kPass) return NoteAgain();
      try {
        run();
      } catch (const std::exception& thrown) {
        NoteError({ErrorKind::kInternal, std::string("an exception ended a request of job ") +
                                             key_ + ": " + thrown.what()});
      }
    };
  }
  tools_.pool.RunAll(key_, std::move(requests));
}

std::optional<json> JobRequests::Create(const kube::Resource& resource, const json& manifest) {
  Result<json> created = tools_.client.Create(resource, job_.ns, manifest);
  if (created.ok()) {
    Wrote(resource, *created);
    Note([](ActResult& result) { result.created = true; });
    return *std::move(created);
  }
  if (created.error().kind == ErrorKind::kAlreadyExists) {
    return JudgeExisting(resource, kube::GetString(manifest, {"metadata", "name"}));
  }
  NoteNotCreated(resource, created.error(), manifest);
  return std::nullopt;
}

std::optional<json> JobRequests::JudgeExisting(const kube::Resource& resource,
                                               const std::string& name) {
  Result<json> stored = tools_.client.Get(resource, job_.ns, name);
  if (!stored.ok()) {
    if (stored.error().kind == ErrorKind::kNotFound) {
      NoteAgain();
    } else {
      NoteError(stored.error());
    }
    return std::nullopt;
  }
  if (!IsOwn(resource, name, *stored)) return std::nullopt;
  Wrote(resource, *stored);
  return *std::move(stored);
}

bool JobRequests::IsOwn(const kube::Resource& resource, const std::string& name,
                        const json& stored) {
  const auto meta = kube::ReadObjectMeta(stored);
  const bool deleting = kube::Find(stored, {"metadata", "deletionTimestamp"}) != nullptr;
  const bool own = meta.ok() && meta->owner_uid == job_.uid;
  if (own && !deleting) return true;
  // Some names contain the job's UID, so no earlier job can have created them.
  const bool of_one_job =
      resource == kube::kControllerRevisions || resource == kube::kNetworkPolicies;
  const bool leftover = own || (!of_one_job && meta.ok() && meta->owner_kind == api::kKind &&
                                meta->owner_name == job_.name);
  const std::string what = std::string(resource.kind) + " " + name;
  if (leftover && resource == kube::kPods) {
    Note([&](ActResult& result) {
      result.taken_names.insert(name);
      result.again = true;
    });
  } else if (leftover) {
    Refusal refusal = MakeRefusal(RefusalCause::kNameInUse,
                                  "waiting until the " + what +
                                      (own ? ", which is being deleted, is gone"
                                           : " of an earlier job of this name is removed"),
                                  0, tools_.clock.Now());
    refusal.retry_at = tools_.clock.Now() + std::chrono::milliseconds(200);
    NoteRefusal(std::move(refusal));
  } else {
    NoteConflict("the " + what +
                 " exists but does not belong to this job; delete or rename it, or re-create the "
                 "job under another name");
  }
  return false;
}

void JobRequests::Wrote(const kube::Resource& resource, const json& stored) {
  tools_.freshness.Wrote(key_, resource, kube::GetString(stored, {"metadata", "resourceVersion"}));
}

void JobRequests::Record(const PlannedEvent& event) { tools_.events.Record(EventOn(job_, event)); }

void JobRequests::NoteError(const Error& error, bool of_pod) {
  if (!IsTransient(error) || IsOfBrokenWebhook(error)) {
    return NoteRefusal(RefusalOf(error, of_pod, failures_before_, tools_.clock.Now()));
  }
  NoteBackOff(error);
}

void JobRequests::NoteNotCreated(const kube::Resource& resource, Error error,
                                 const json& manifest) {
  const bool of_pod = resource == kube::kPods;
  if (of_pod && error.kind == ErrorKind::kInvalid) {
    error.message = InTermsOfSpec(error.message, manifest, job_.spec);
    if (rules_.sets_fields) {
      error.message += "; the TrainingProfile \"" + rules_.profile +
                       "\" of this job also sets fields of its Pods";
    }
  }
  NoteError(error, of_pod);
  if (!IsTransient(error) || !MayLast(error)) return;
  Note([&](ActResult& result) {
    if (!result.create_error) result.create_error = std::move(error);
  });
}

void JobRequests::NoteRefusal(Refusal refusal) {
  Note([&](ActResult& result) {
    // Prefer a refusal that the user must correct, because it does not resolve itself.
    const bool must_correct = refusal.cause == RefusalCause::kInvalidPod;
    if (!result.refusal || (must_correct && result.refusal->cause != RefusalCause::kInvalidPod)) {
      result.refusal = std::move(refusal);
    }
  });
}

void JobRequests::NoteConflict(std::string message) {
  NoteRefusal(MakeRefusal(RefusalCause::kNameConflict, std::move(message), failures_before_,
                          tools_.clock.Now()));
}

void JobRequests::NoteBackOff(const Error& error) {
  Note([&](ActResult& result) {
    if (!result.error) result.error = error;
  });
}

void JobRequests::NoteAgain() {
  Note([](ActResult& result) { result.again = true; });
}

ActResult JobRequests::SoFar() {
  const MutexLock lock(mutex_);
  return result_;
}

bool JobRequests::CleanSoFar() {
  const MutexLock lock(mutex_);
  return !result_.refusal && !result_.error && !result_.again && !result_.job_gone;
}

}  // namespace ringmaster::job
