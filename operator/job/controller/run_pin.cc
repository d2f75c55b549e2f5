#include "operator/job/controller/run_pin.h"

#include <memory>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/control/secrets.h"
#include "common/json/json.h"
#include "operator/api/codec.h"
#include "operator/api/names.h"
#include "operator/job/manifests/manifests.h"
#include "operator/kube/json_access.h"

namespace ringmaster::job {

using nlohmann::json;

namespace {

constexpr std::size_t kRevisionDigits = 32;

}  // namespace

std::string RevisionOf(const json& run_spec) {
  return control::Sha256Hex(DumpJson(run_spec)).substr(0, kRevisionDigits);
}

json RunPinManifest(const api::TrainingJob& job, const json& run_spec) {
  json pin{{"apiVersion", "apps/v1"},
           {"kind", "ControllerRevision"},
           {"metadata",
            {{"name", api::RunPinName(job.name, job.uid)},
             {"labels", {{api::kLabelRevision, RevisionOf(run_spec)}}}}},
           {"data", {{"spec", run_spec}}},
           {"revision", 1}};
  Own(pin, job);
  return pin;
}

Result<RunPin> ReadRunPin(const json& object) {
  const json* run_spec = kube::Find(object, {"data", "spec"});
  if (run_spec == nullptr) return Error{ErrorKind::kInvalid, "it has no data.spec"};
  auto spec = api::DecodeRunSpec(*run_spec);
  if (!spec.ok()) return spec.error();
  return RunPin{.uid = kube::GetString(object, {"metadata", "uid"}),
                .revision = RevisionOf(*run_spec),
                .spec = std::make_shared<const api::TrainingJobSpec>(*std::move(spec))};
}

api::TrainingJobSpec SpecOfRun(const api::TrainingJobSpec& pinned,
                               const api::TrainingJobSpec& today) {
  api::TrainingJobSpec spec = pinned;
  spec.worker.replicas = today.worker.replicas;
  spec.worker.min_replicas = today.worker.min_replicas;
  spec.worker.max_replicas = today.worker.max_replicas;
  spec.typed_fields = today.typed_fields;  // what both have is called the same
  spec.run_policy = today.run_policy;
  spec.run_policy.restart = pinned.run_policy.restart;
  if (spec.checkpoint) spec.checkpoint->delete_with_job = today.DeletesCheckpoints();
  return spec;
}

}  // namespace ringmaster::job
