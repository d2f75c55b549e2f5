#include "operator/job/controller/run_pin.h"

#include <memory>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/base/cut_text.h"
#include "common/control/secrets.h"
#include "common/json/json.h"
#include "operator/api/codec.h"
#include "operator/api/names.h"
#include "operator/api/typed_fields.h"
#include "operator/job/manifests/manifests.h"
#include "operator/kube/json_access.h"

namespace ringmaster::job {

using nlohmann::json;

namespace {

constexpr std::size_t kRevisionDigits = 32;
constexpr std::size_t kMostNameBytes = 253;  // limit of Kubernetes for object names
constexpr std::size_t kMostImageBytes = 1 << 10;
constexpr std::size_t kMostTypedBytes = 16 << 10;  // limit of typed fields, which only messages use

std::vector<api::TypedField> ReadTypedFields(const json& object) {
  std::vector<api::TypedField> fields;
  const json* written = kube::Find(object, {"data", "typedFields"});
  if (written == nullptr || !written->is_object()) return fields;
  std::size_t bytes = 0;
  for (const auto& [in_template, path] : written->items()) {
    if (!path.is_string()) continue;
    fields.push_back({.path = path.get<std::string>(), .in_template = in_template});
    bytes += sizeof fields.back() + fields.back().path.size() + in_template.size();
    if (bytes > kMostTypedBytes) return {};
  }
  return fields;
}

}  // namespace

std::string RevisionOf(const json& run_spec) {
  return control::Sha256Hex(DumpJson(run_spec)).substr(0, kRevisionDigits);
}

json RunPinManifest(const api::TrainingJob& job, const std::string& profile,
                    const std::string& tools_image, const json& run_spec) {
  json typed = json::object();
  for (const api::TypedField& field : job.spec.typed_fields) {
    typed[field.in_template] = field.path;
  }
  json pin{{"apiVersion", "apps/v1"},
           {"kind", "ControllerRevision"},
           {"metadata",
            {{"name", api::RunPinName(job.name, job.uid)},
             {"labels", {{api::kLabelRevision, RevisionOf(run_spec)}}}}},
           {"data",
            {{"spec", run_spec},
             {"profile", profile},
             {"toolsImage", tools_image},
             {"defaultImage", job.has_default_image},
             {"typedFields", std::move(typed)}}},
           {"revision", 1}};
  Own(pin, job);
  return pin;
}

Result<RunPin> ReadRunPin(const json& object) {
  const json* run_spec = kube::Find(object, {"data", "spec"});
  if (run_spec == nullptr) return Error{ErrorKind::kInvalid, "data.spec is missing"};
  auto spec = api::DecodeRunSpec(*run_spec);
  if (!spec.ok()) return spec.error();
  spec->typed_fields = ReadTypedFields(object);
  return RunPin{
      .uid = kube::GetString(object, {"metadata", "uid"}),
      .revision = RevisionOf(*run_spec),
      .profile = CutText(kube::GetString(object, {"data", "profile"}), kMostNameBytes),
      .tools_image = CutText(kube::GetString(object, {"data", "toolsImage"}), kMostImageBytes),
      .has_default_image = kube::GetBool(object, {"data", "defaultImage"}, false),
      .spec = std::make_shared<const api::TrainingJobSpec>(*std::move(spec))};
}

}  // namespace ringmaster::job
