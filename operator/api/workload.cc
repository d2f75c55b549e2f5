#include "operator/api/workload.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/control/pod_contract.h"
#include "common/json/json.h"
#include "operator/api/codec.h"
#include "operator/api/typed_fields.h"
#include "operator/kube/json_access.h"

namespace ringmaster::api {

using nlohmann::json;

namespace {

constexpr std::string_view kMergedByItem[] = {"containers", "initContainers"};
constexpr std::string_view kInOrder[] = {"env", "initContainers"};
constexpr std::string_view kKeptByName[] = {"env", "volumes", "imagePullSecrets", "resourceClaims",
                                            "claims"};
constexpr std::string_view kJoined[] = {"tolerations", "envFrom", "passEnv"};

template <typename List>
bool Lists(const List& list, std::string_view text) {
  return std::find(std::begin(list), std::end(list), text) != std::end(list);
}

// Returns a map's key as a part of a path.
std::string Step(const std::string& key) {
  const bool plain = key.find_first_of("./") == std::string::npos;
  return plain ? "." + key : "[" + key + "]";
}

// Splits a path into its parts: a.b[c.d] and a[b][c.d] have the same parts.
std::vector<std::string> Parts(std::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    const bool bracket = path.front() == '[';
    if (bracket || path.front() == '.') path.remove_prefix(1);
    const std::size_t end = std::min(path.find_first_of(bracket ? "]" : ".["), path.size());
    parts.emplace_back(path.substr(0, end));
    path.remove_prefix(std::min(bracket ? end + 1 : end, path.size()));
  }
  return parts;
}

class Merge {
 public:
  explicit Merge(const std::vector<std::string>& overridable) {
    for (const std::string& path : overridable) {
      std::string plain;  // the normalized path
      for (const std::string& part : Parts(path)) plain += Step(part);
      if (plain.starts_with('.')) plain.erase(0, 1);
      for (const std::string& lowered : PathsInTemplates(plain)) {
        if (!lowered.empty()) kept_.push_back(Parts(lowered));
      }
    }
  }

  // Merges `under` into `own`, which takes precedence. `path`: the path of both values.
  void Under(json& own, const json& under, const std::string& path) const {
    if (own == under) return;
    if (own.is_null()) {
      own = under;
    } else if (own.is_object() && under.is_object()) {
      for (const auto& [key, value] : under.items()) {
        if (key.empty()) continue;
        json& place = own[key];
        if (place.is_array() && value.is_array()) {
          ListUnder(key, place, value, path + Step(key));
        } else {
          Under(place, value, path + Step(key));
        }
      }
    } else if (!Keeps(path)) {
      own = under;
    }
  }

 private:
  void ListUnder(std::string_view field, json& own, const json& under,
                 const std::string& path) const {
    if (Lists(kJoined, field)) {
      for (const json& item : under) {
        if (std::find(own.begin(), own.end(), item) == own.end()) own.push_back(item);
      }
      return;
    }
    const bool by_item = Lists(kMergedByItem, field);
    const char* key = field == "volumeMounts"                ? "mountPath"
                      : by_item || Lists(kKeptByName, field) ? "name"
                                                             : nullptr;
    if (key == nullptr) {
      if (!Keeps(path)) own = under;
      return;
    }
    json first = json::array();
    for (const json& item : under) {
      const std::string name = kube::GetString(item, {key});
      const auto is_same = [&](const json& one) { return kube::GetString(one, {key}) == name; };
      const auto same = std::find_if(own.begin(), own.end(), is_same);
      const std::string at = path + "[" + name + "]";
      json merged = item;
      if (same != own.end() && (by_item || Keeps(at))) {
        merged = *same;
        if (by_item) Under(merged, item, at);
      }
      if (Lists(kInOrder, field)) {
        first.push_back(std::move(merged));
        own.erase(std::remove_if(own.begin(), own.end(), is_same), own.end());
      } else if (same == own.end()) {
        own.push_back(std::move(merged));
      } else {
        *same = std::move(merged);
        if (!by_item) own.erase(std::remove_if(same + 1, own.end(), is_same), own.end());
      }
    }
    own.insert(own.begin(), first.begin(), first.end());
  }

  bool Keeps(const std::string& path) const {
    const std::vector<std::string> parts = Parts(path);
    return std::any_of(kept_.begin(), kept_.end(), [&](const std::vector<std::string>& kept) {
      return kept.size() <= parts.size() && std::equal(kept.begin(), kept.end(), parts.begin());
    });
  }

  std::vector<std::vector<std::string>> kept_;
};

// Parses a quantity in Kubernetes' notation. Returns nothing if it is invalid.
std::optional<double> Amount(const json& quantity) {
  if (quantity.is_number()) return quantity.get<double>();
  if (!quantity.is_string()) return std::nullopt;
  const std::string text = quantity.get<std::string>();
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"", 1},        {"n", 1e-9},    {"u", 1e-6},    {"m", 1e-3},   {"k", 1e3},     {"M", 1e6},
      {"G", 1e9},     {"T", 1e12},    {"P", 1e15},    {"E", 1e18},   {"Ki", 0x1p10}, {"Mi", 0x1p20},
      {"Gi", 0x1p30}, {"Ti", 0x1p40}, {"Pi", 0x1p50}, {"Ei", 0x1p60}};
  for (const auto& [name, factor] : kUnits) {
    if (unit == name) return number * factor;
  }
  return std::nullopt;
}

// Collects the requests of a template that exceed the limits in the same template.
std::vector<std::string> AboveTheirLimits(const std::string& text, const std::string& path) {
  std::vector<std::string> found;
  const Result<json> parsed = ParseJson(text);
  if (!parsed.ok()) return found;
  for (const char* list : {"initContainers", "containers"}) {
    const json& containers = kube::GetArray(*parsed, {"spec", list});
    for (std::size_t i = 0; i < containers.size(); ++i) {
      const json* requests = kube::Find(containers[i], {"resources", "requests"});
      if (requests == nullptr || !requests->is_object()) continue;
      for (const auto& [resource, amount] : requests->items()) {
        const json* limit = kube::Find(containers[i], {"resources", "limits", resource});
        if (limit == nullptr) continue;
        const std::optional<double> asked = Amount(amount);
        const std::optional<double> most = Amount(*limit);
        if (!asked || !most || *asked <= *most) continue;
        found.push_back(path + ".spec." + list + "[" + std::to_string(i) + "].resources.requests[" +
                        resource + "]");
      }
    }
  }
  return found;
}

void FindAboveTheirLimits(const std::string& own, const std::string& merged,
                          const std::string& path, std::vector<FieldProblem>& problems) {
  if (own == merged || !AboveTheirLimits(own, path).empty()) return;
  for (std::string& above : AboveTheirLimits(merged, path)) {
    problems.push_back({.path = std::move(above),
                        .message = "exceeds the limit of the same resource, and the job's profile "
                                   "sets one of the two; lower it or ask the platform team",
                        .by_profile = true});
  }
}

TrainingJobSpec WithProblem(TrainingJobSpec job, const Error& error) {
  job.problems.push_back(
      {.path = "spec.profile",
       .message = "names a profile whose spec.workload cannot be merged into this job's spec: " +
                  error.message + "; ask the platform team",
       .by_profile = true});
  return job;
}

}  // namespace

Result<Workload> DecodeWorkload(const json& written, const std::vector<std::string>& overridable) {
  Workload workload{.overridable = overridable};
  auto spec = DecodeRunSpec(written);
  if (!spec.ok()) return spec.error();
  json run_spec = EncodeRunSpec(*spec);
  for (const char* of_the_job : {"image", "command", "checkpoint", "dataCache", "runPolicy"}) {
    run_spec.erase(of_the_job);
  }
  const bool empty = std::all_of(run_spec.begin(), run_spec.end(),
                                 [](const json& value) { return value.empty(); });
  if (!empty) workload.text = DumpJson(run_spec);
  workload.spec = *std::move(spec);
  return workload;
}

TrainingJobSpec MergeWorkload(const TrainingJobSpec& job, const Workload& workload) {
  if (workload.text.empty()) return job;
  const Result<json> under = ParseJson(workload.text);
  if (!under.ok()) return WithProblem(job, under.error());
  json run_spec = EncodeRunSpec(job);
  Merge(workload.overridable).Under(run_spec, *under, "");
  const Result<TrainingJobSpec> run = DecodeRunSpec(run_spec);
  if (!run.ok()) return WithProblem(job, run.error());
  TrainingJobSpec merged = SpecOfRun(*run, job);
  merged.problems = job.problems;
  FindAboveTheirLimits(job.worker.template_json, merged.worker.template_json,
                       "spec.worker.template", merged.problems);
  FindAboveTheirLimits(job.launcher_template_json, merged.launcher_template_json,
                       "spec.launcher.template", merged.problems);
  return merged;
}

}  // namespace ringmaster::api
