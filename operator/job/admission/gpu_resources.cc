#include "operator/job/admission/gpu_resources.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "common/base/result.h"
#include "common/control/pod_contract.h"
#include "common/json/json.h"
#include "operator/kube/json_access.h"

namespace ringmaster::job {

using nlohmann::json;

namespace {

// Resources of this domain are devices of a DeviceClass (KEP-5004, extended resources backed by
// dynamic allocation). Other resources of kubernetes.io, or without a domain, are built in.
constexpr std::string_view kDeviceClassDomain = "deviceclass.resource.kubernetes.io";

// Returns true if the quantity, in any notation, is not zero. For example, "0k" is zero.
bool IsSome(const json& quantity) {
  if (!quantity.is_string()) return quantity.is_number() && quantity != json(0);
  const std::string text = quantity.get<std::string>();
  const std::string number = text.substr(0, text.find_first_not_of("+-.0123456789"));
  return number.find_first_of("123456789") != std::string::npos;
}

constexpr int64_t kMostGpus = 1024;  // per worker

int64_t GpusIn(const json& amount) {
  return std::clamp<int64_t>(kube::ReadWholeQuantity(amount).value_or(0), 0, kMostGpus);
}

}  // namespace

bool IsDevice(std::string_view resource) {
  const std::size_t slash = resource.find('/');
  if (slash == std::string_view::npos) return false;
  const std::string_view domain = resource.substr(0, slash);
  return domain == kDeviceClassDomain || !domain.ends_with("kubernetes.io");
}

bool TakesGpus(const json& container) {
  if (!kube::GetArray(container, {"resources", "claims"}).empty()) return true;
  const json* limits = kube::Find(container, {"resources", "limits"});
  if (limits == nullptr || !limits->is_object()) return false;
  const auto items = limits->items();
  return std::any_of(items.begin(), items.end(),
                     [](const auto& item) { return IsGpu(item.key()) && IsSome(item.value()); });
}

bool HidesGpus(const json& variable) {
  const std::string value = kube::GetString(variable, {"value"});
  return (value == kNoVisibleGpus || value == "none") &&
         kube::Find(variable, {"valueFrom"}) == nullptr;
}

bool MayNameGpus(const json& source) {
  return std::string_view(kVisibleGpus).starts_with(kube::GetString(source, {"prefix"}));
}

int GpusPerWorker(const api::TrainingJobSpec& spec) {
  int64_t whole = 0;
  int64_t parts = 0;
  const Result<json> pod_template = ParseJson(spec.worker.template_json);
  if (!pod_template.ok()) return 0;
  for (const json& container : kube::GetArray(*pod_template, {"spec", "containers"})) {
    if (kube::GetString(container, {"name"}) != control::kWorkerContainer) continue;
    const json* limits = kube::Find(container, {"resources", "limits"});
    if (limits == nullptr || !limits->is_object()) continue;
    for (const auto& [resource, amount] : limits->items()) {
      if (!IsGpuOf(spec, resource)) continue;
      (IsPartOfGpu(resource) ? parts : whole) += GpusIn(amount);
    }
  }
  if (whole > 0) return static_cast<int>(std::min<int64_t>(whole, kMostGpus));
  return parts > 0 ? 1 : 0;
}

int SlotsPerWorker(const api::TrainingJobSpec& spec) {
  if (spec.slots_per_worker) return *spec.slots_per_worker;
  return std::max(1, GpusPerWorker(spec));
}

}  // namespace ringmaster::job
