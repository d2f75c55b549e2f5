#include "operator/api/typed_fields.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/control/pod_contract.h"
#include "common/json/json.h"
#include "operator/kube/json_access.h"

namespace ringmaster::api {

using nlohmann::json;

namespace {

constexpr int64_t kMostGpus = 64;  // per worker; the same limit as for slotsPerWorker

constexpr const char* kContainerFields[] = {"env", "envFrom", "volumeMounts", "workingDir"};
constexpr const char* kPodFields[] = {"volumes", "nodeSelector", "tolerations"};
constexpr const char* kFieldsOfAllPods[] = {"imagePullSecrets", "priorityClassName"};

// A Pod template to which typed fields are written. It is copied when the first field is set.
class Template {
 public:
  // `written`: the template; null if there is none. `container`: the managed container's name.
  // `written` and `spec` must outlive this object.
  Template(const json* written, std::string path, const char* container, TrainingJobSpec& spec)
      : written_(written), path_(std::move(path)), container_(container), spec_(spec) {}

  void SetInPod(const std::string& typed, const char* field, const json& value) {
    Set(typed, Pod(), "." + std::string(field), field, value);
  }
  void SetInContainer(const std::string& typed, const char* field, const json& value) {
    Set(typed, Container(), "." + std::string(field), field, value);
  }
  void SetClaims(const std::string& typed, const json& names) {
    Set(typed, Inside(Container(), "resources"), ".claims", "claims", names);
  }
  void SetLimit(const std::string& typed, const std::string& resource, int64_t amount) {
    const Place resources = Inside(Container(), "resources");
    const std::string key = "[" + resource + "]";
    if (resources.object != nullptr &&
        kube::Find(*resources.object, {"requests", resource}) != nullptr) {
      return Conflict(typed, resources.path + ".requests" + key);
    }
    Set(typed, Inside(resources, "limits"), key, resource, amount);
  }

  // Returns the template's text, or `before` if no field was set.
  std::string Text(std::string before) && {
    return changed_ ? DumpJson(*template_) : std::move(before);
  }

 private:
  // An object in the template, and its path. The object is null if the value has another type, and,
  // with an empty path, if the managed container is missing (template_policy.h rejects that).
  struct Place {
    json* object = nullptr;
    std::string path{};
  };

  static Place Inside(const Place& outer, const char* field) {
    if (outer.object == nullptr) return outer;
    const std::string path = outer.path + "." + field;
    json& value = (*outer.object)[field];
    if (value.is_null()) value = json::object();
    return {.object = value.is_object() ? &value : nullptr, .path = path};
  }

  Place Pod() {
    if (!template_) template_ = written_ == nullptr ? json::object() : *written_;
    return Inside({.object = &*template_, .path = path_}, "spec");
  }

  Place Container() {
    const Place pod = Pod();
    if (pod.object == nullptr) return pod;
    const std::string path = pod.path + ".containers";
    json& containers = (*pod.object)["containers"];
    if (containers.is_null()) containers = json::array();
    if (!containers.is_array()) return {.object = nullptr, .path = path};
    if (containers.empty()) containers.push_back({{"name", container_}});
    for (std::size_t i = 0; i < containers.size(); ++i) {
      if (kube::GetString(containers[i], {"name"}) != container_) continue;
      return {.object = &containers[i], .path = path + "[" + std::to_string(i) + "]"};
    }
    return {};
  }

  void Set(const std::string& typed, const Place& place, const std::string& suffix,
           const std::string& key, const json& value) {
    if (place.object == nullptr) {
      if (!place.path.empty()) Conflict(typed, place.path);
      return;
    }
    const std::string path = place.path + suffix;
    if (kube::Find(*place.object, {key}) != nullptr) return Conflict(typed, path);
    (*place.object)[key] = value;
    changed_ = true;
    spec_.typed_fields.push_back({.path = typed, .in_template = path});
  }

  void Conflict(const std::string& typed, const std::string& path) {
    spec_.problems.push_back(
        {.path = typed,
         .message =
             "is also set as " + PathAsWritten(spec_.typed_fields, path) + "; keep one of them"});
  }

  const json* const written_;
  std::optional<json> template_;
  const std::string path_;
  const std::string container_;
  TrainingJobSpec& spec_;
  bool changed_ = false;
};

void SetGpus(const json& gpus, TrainingJobSpec& spec, Template& pod_template) {
  const std::string typed = "spec.worker.gpus";
  const auto count = IntegerIn(gpus, 0, kMostGpus);
  if (!count) {
    const std::string most = std::to_string(kMostGpus);
    spec.problems.push_back(
        {.path = typed, .message = "is not a whole number from 0 to " + most + "; correct it"});
  } else if (*count > 0) {
    const std::string& resource = spec.worker.gpu_resource;
    pod_template.SetLimit(typed, resource.empty() ? kGpuResource : resource, *count);
  }
}

// Adds the claims to the Pod, and makes its managed container use all of them.
void SetResourceClaims(const json& claims, Template& pod_template) {
  const std::string typed = "spec.worker.resourceClaims";
  json names = json::array();
  if (claims.is_array()) {
    for (const json& claim : claims) names.push_back({{"name", kube::GetString(claim, {"name"})}});
  }
  pod_template.SetInPod(typed, "resourceClaims", claims);
  pod_template.SetClaims(typed, names);
}

}  // namespace

void LowerTypedFields(const json& written, TrainingJobSpec& spec) {
  if (spec.worker.gpu_resource == kGpuResource) spec.worker.gpu_resource.clear();
  Template worker(kube::Find(written, {"worker", "template"}), "spec.worker.template",
                  control::kWorkerContainer, spec);
  Template launcher(kube::Find(written, {"launcher", "template"}), "spec.launcher.template",
                    control::kLauncherContainer, spec);
  const std::string of_worker = "spec.worker.";
  // Set all resources first, because GPUs and claims are then added to them.
  if (const json* value = kube::Find(written, {"worker", "resources"})) {
    worker.SetInContainer(of_worker + "resources", "resources", *value);
  }
  if (const json* value = kube::Find(written, {"worker", "gpus"})) SetGpus(*value, spec, worker);
  if (const json* value = kube::Find(written, {"worker", "resourceClaims"})) {
    SetResourceClaims(*value, worker);
  }
  for (const char* field : kContainerFields) {
    const json* value = kube::Find(written, {"worker", field});
    if (value != nullptr) worker.SetInContainer(of_worker + field, field, *value);
  }
  for (const char* field : kPodFields) {
    const json* value = kube::Find(written, {"worker", field});
    if (value != nullptr) worker.SetInPod(of_worker + field, field, *value);
  }
  for (const char* field : kFieldsOfAllPods) {
    const json* value = kube::Find(written, {field});
    if (value == nullptr) continue;
    worker.SetInPod(std::string("spec.") + field, field, *value);
    launcher.SetInPod(std::string("spec.") + field, field, *value);
  }
  spec.worker.template_json = std::move(worker).Text(std::move(spec.worker.template_json));
  spec.launcher_template_json = std::move(launcher).Text(std::move(spec.launcher_template_json));
}

std::vector<std::string> PathsInTemplates(const std::string& path) {
  const auto begins_with = [&](const std::string& field) {
    return path == field || IsBelow(path, field);
  };
  const std::string of_worker = "worker.";
  for (const char* field : kFieldsOfAllPods) {
    if (begins_with(field))
      return {"worker.template.spec." + path, "launcher.template.spec." + path};
  }
  for (const char* field : kPodFields) {
    if (begins_with(of_worker + field)) {
      return {"worker.template.spec." + path.substr(of_worker.size())};
    }
  }
  const auto in_container = [&](const std::string& field) {
    return begins_with(of_worker + field);
  };
  if (in_container("resources") ||
      std::any_of(std::begin(kContainerFields), std::end(kContainerFields), in_container)) {
    return {std::string("worker.template.spec.containers[") + control::kWorkerContainer + "]." +
            path.substr(of_worker.size())};
  }
  return {path};
}

std::vector<TypedField> TypedFieldsOf(const TrainingJobSpec& first, const TrainingJobSpec& other) {
  std::vector<TypedField> fields = first.typed_fields;
  for (const TypedField& field : other.typed_fields) {
    const bool known = std::any_of(fields.begin(), fields.end(), [&](const TypedField& one) {
      return one.in_template == field.in_template;
    });
    if (!known) fields.push_back(field);
  }
  return fields;
}

bool IsBelow(std::string_view path, std::string_view outer) {
  return path.size() > outer.size() && path.starts_with(outer) &&
         (path[outer.size()] == '.' || path[outer.size()] == '[');
}

std::string PathAsWritten(const std::vector<TypedField>& fields, const std::string& path) {
  const TypedField* closest = nullptr;
  for (const TypedField& field : fields) {
    if (path != field.in_template && !IsBelow(path, field.in_template)) continue;
    if (closest == nullptr || field.in_template.size() > closest->in_template.size()) {
      closest = &field;
    }
  }
  return closest == nullptr ? path : closest->path + path.substr(closest->in_template.size());
}

}  // namespace ringmaster::api
