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
constexpr std::size_t kMostFieldsNamed = 5;
constexpr int kDepthNamed = 4;

const json& MemberOf(const json& object, const std::string& key) {
  static const json kAbsent;
  const auto found = object.find(key);
  return found == object.end() ? kAbsent : *found;
}

void Compare(const json& before, const json& after, const std::string& path, int depth,
             std::vector<std::string>& fields) {
  if (before == after || fields.size() >= kMostFieldsNamed) return;
  if (depth == 0 || !before.is_object() || !after.is_object()) return fields.push_back(path);
  for (const auto& [key, value] : before.items()) {
    Compare(value, MemberOf(after, key), path + "." + key, depth - 1, fields);
  }
  for (const auto& [key, value] : after.items()) {
    if (!before.contains(key)) Compare(json(), value, path + "." + key, depth - 1, fields);
  }
}

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
  spec.run_policy = today.run_policy;
  spec.run_policy.restart = pinned.run_policy.restart;
  if (spec.checkpoint) spec.checkpoint->delete_with_job = today.DeletesCheckpoints();
  return spec;
}

std::vector<std::string> ChangedFields(const api::TrainingJobSpec& pinned,
                                       const api::TrainingJobSpec& today) {
  if (today.texts == api::TrainingJobSpec::Texts::kTooLong) return {today.longest_text};
  std::vector<std::string> fields;
  Compare(api::EncodeRunSpec(pinned), api::EncodeRunSpec(today), "spec", kDepthNamed, fields);
  return fields;
}

}  // namespace ringmaster::job
