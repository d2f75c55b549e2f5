#include "cli/explain.h"

#include <map>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/profiles.h"
#include "cli/spec_fields.h"
#include "cli/terminal.h"
#include "common/json/json.h"
#include "operator/api/codec.h"
#include "operator/api/names.h"
#include "operator/api/workload.h"
#include "operator/kube/json_access.h"

namespace ringmaster::cli {
namespace {

using kube::GetString;
using nlohmann::json;
using Fields = std::map<std::string, json>;

constexpr char kUnknown[] = "not known yet";

const json* ValueAt(const Fields& fields, const std::string& path) {
  const auto found = fields.find(path);
  return found == fields.end() ? nullptr : &found->second;
}

Result<api::Workload> WorkloadOf(const json& profile) {
  static const json kNothing = json::object();
  std::vector<std::string> overridable;
  for (const json& path : kube::GetArray(profile, {"spec", "overridable"})) {
    if (path.is_string()) overridable.push_back(path.get<std::string>());
  }
  const json* written = kube::Find(profile, {"spec", "workload"});
  return api::DecodeWorkload(written == nullptr ? kNothing : *written, overridable);
}

Fields FieldsOfRun(const api::TrainingJobSpec& spec) { return FieldsOf(api::EncodeRunSpec(spec)); }

// Returns the source of a value in the run's spec, as text: the job, a profile or a default.
std::string Origin(const std::string& path, const json& value, const Fields& own,
                   const Fields& under, const Fields& written, const std::string& profile,
                   bool default_image) {
  const json* mine = ValueAt(own, path);
  const json* theirs = ValueAt(under, path);
  if (path == "image" && value == "") return "the operator's default";
  const bool is_mine = mine != nullptr && *mine == value;
  const bool is_theirs = theirs != nullptr && *theirs == value;
  if (is_mine && is_theirs) return "job, and profile " + profile;
  if (is_mine && theirs != nullptr) {
    return "job; overrides " + ValueText(*theirs) + " of profile " + profile;
  }
  if (is_mine) {
    // Only these fields of a run's spec have defaults.
    const bool may_be_default = path.starts_with("checkpoint.") || path.starts_with("runPolicy.");
    return may_be_default && ValueAt(written, path) == nullptr ? "the default" : "job";
  }
  if (is_theirs) {
    return "profile " + profile +
           (mine == nullptr ? "" : "; the job's " + ValueText(*mine) + " is overridden");
  }
  if (value.is_array() && (mine != nullptr || theirs != nullptr))
    return "job and profile " + profile + ", joined";
  if (path == "image" && default_image && ValueAt(written, path) == nullptr) {
    return "the operator's default";
  }
  return "as of the start of the run; changed since";
}

json Resolved(const api::TrainingJob& job, const json& written, const json& run, const json& pin) {
  const api::TrainingJobStatus& status = job.status;
  json resolved = json::object();
  const auto say = [&](const char* what, std::string value, std::string why) {
    resolved[what] = {{"value", std::move(value)}, {"why", std::move(why)}};
  };
  const std::string wanted = GetString(written, {"spec", "profile"});
  say("profile", status.profile.empty() ? kUnknown : status.profile,
      wanted.empty() ? "the namespace's default, as spec.profile is not set"
                     : "spec.profile is " + wanted);
  const std::string mode = GetString(written, {"spec", "elasticity", "mode"});
  const std::string in_status = GetString(api::EncodeStatus(status), {"elasticity", "mode"});
  const json& command = kube::GetArray(written, {"spec", "command"});
  const std::string program = command.empty() ? "this program" : ValueText(command[0]);
  say("elasticity.mode", in_status.empty() ? (mode.empty() ? kUnknown : mode) : in_status,
      mode.empty() ? "the default for " + program : "as set in spec");
  const auto word = [&](const char* field, const char* otherwise) {
    const bool set = kube::Find(run, {field}) != nullptr;
    say(field, GetString(run, {field}, otherwise),
        set ? "as set in the run's spec" : "the default");
  };
  word("launchMode", "PerSlot");
  word("inject", "Auto");
  if (!pin.is_null()) {
    const std::string tools = GetString(pin, {"data", "toolsImage"});
    say("tools image", tools.empty() ? "none" : tools,
        tools.empty() ? "the image contains Ringmaster's programs"
                      : "adds Ringmaster's programs to the Pods");
  }
  say("started by", status.started_by.empty() ? kUnknown : status.started_by,
      status.started_by.empty() ? "the launcher determines it" : "determined by the launcher");
  say("launch agent", status.launch_agent.empty() ? "none or not known yet" : status.launch_agent,
      "spec.mpi.launchAgent is " + GetString(run, {"mpi", "launchAgent"}, "Auto"));
  const std::string resource = GetString(run, {"worker", "gpuResource"}, api::kGpuResource);
  const Fields fields = FieldsOf(run);
  const json* gpus = ValueAt(fields, "worker.resources.limits[" + resource + "]");
  say("device", gpus == nullptr ? "no GPUs" : ValueText(*gpus) + " of " + resource,
      "of each worker");
  return resolved;
}

}  // namespace

Result<ExplainObjects> ReadExplainObjects(const Kubectl& kubectl, const std::string& name) {
  ExplainObjects objects;
  Result<json> job = kubectl.GetJob(name);
  if (!job.ok()) return job.error();
  objects.job = *std::move(job);
  const std::string ns = "--namespace=" + GetString(objects.job, {"metadata", "namespace"});
  const std::string uid = GetString(objects.job, {"metadata", "uid"});
  const std::string profile =
      GetString(objects.job, {"status", "profile"}, GetString(objects.job, {"spec", "profile"}));
  std::vector<Arguments> calls{{ns, "controllerrevisions.apps", api::RunPinName(name, uid)}};
  if (!profile.empty()) calls.push_back({ns, std::string(kLocalProfiles) + "/" + profile});
  std::vector<Result<json>> read = kubectl.GetAll(std::move(calls));
  const auto note = [&](const std::string& text) {
    objects.unread += (objects.unread.empty() ? "" : "; ") + text;
  };
  if (read[0].ok()) {
    objects.pin = *std::move(read[0]);
  } else if (read[0].error().kind != ErrorKind::kNotFound) {
    note("the pinned spec of the run: " + read[0].error().message);
  }
  if (read.size() < 2) return objects;
  if (read[1].ok()) {
    objects.profile = *std::move(read[1]);
  } else if (read[1].error().kind != ErrorKind::kNotFound) {
    note("the profile: " + read[1].error().message);
  } else if (profile != "restricted") {
    note("the profile: this namespace has no LocalTrainingProfile named " + profile +
         "; ask the platform team");
  }
  return objects;
}

Result<json> ExplainJson(const ExplainObjects& objects) {
  const Result<api::TrainingJob> job = api::DecodeWithoutSpec(objects.job);
  if (!job.ok()) return job.error().WithContext("reading the TrainingJob");
  static const json kNothing = json::object();
  const json* written = kube::Find(objects.job, {"spec"});
  if (written == nullptr) written = &kNothing;
  const Result<api::TrainingJobSpec> own = api::DecodeRunSpec(*written);
  if (!own.ok()) return own.error().WithContext("reading the TrainingJob's spec");
  const Result<api::Workload> workload = WorkloadOf(objects.profile);
  if (!workload.ok()) return workload.error().WithContext("reading the profile's spec.workload");
  const json* pinned = kube::Find(objects.pin, {"data", "spec"});
  const json run =
      pinned != nullptr ? *pinned : api::EncodeRunSpec(api::MergeWorkload(*own, *workload));
  const Result<json> under = ParseJson(workload->text.empty() ? "{}" : workload->text);
  const std::string profile = GetString(objects.profile, {"metadata", "name"}, job->status.profile);

  const Fields of_job = FieldsOfRun(*own);
  const Fields of_profile = FieldsOf(under.ok() ? *under : kNothing);
  const Fields as_written = FieldsOf(*written);
  const bool default_image = kube::GetBool(objects.pin, {"data", "defaultImage"});
  json fields = json::array();
  for (const auto& [path, value] : FieldsOf(run)) {
    fields.push_back(
        {{"field", path},
         {"value", value},
         {"from", Origin(path, value, of_job, of_profile, as_written, profile, default_image)}});
  }
  return json{{"name", job->name},
              {"namespace", job->ns},
              {"profile", job->status.profile},
              {"fromTheRun", pinned != nullptr},
              {"resolved", Resolved(*job, objects.job, run, objects.pin)},
              {"fields", std::move(fields)},
              {"unread", objects.unread}};
}

std::string ExplainText(const json& explained) {
  std::string text =
      Printable(GetString(explained, {"name"}) + " in namespace " +
                GetString(explained, {"namespace"}) +
                (kube::GetBool(explained, {"fromTheRun"})
                     ? ": the spec of its Pods until it is suspended or ends"
                     : ": the spec of its Pods if it started now, from its spec and profile")) +
      "\n\n";
  std::vector<std::vector<std::string>> rows{{"RESOLVED", "VALUE", "WHY"}};
  for (const auto& [name, resolved] : explained["resolved"].items()) {
    rows.push_back({name, GetString(resolved, {"value"}), GetString(resolved, {"why"})});
  }
  text += Columns(rows) + "\n";
  rows = {{"FIELD OF SPEC", "FROM", "VALUE"}};
  for (const json& field : explained["fields"]) {
    const std::string path = GetString(field, {"field"});
    // A job without an image gets the operator's default image when it starts.
    const char* empty = path == "image" ? kUnknown : "not set";
    rows.push_back({path, GetString(field, {"from"}),
                    field["value"] == "" ? empty : ValueText(field["value"])});
  }
  text += Columns(rows);
  const std::string unread = GetString(explained, {"unread"});
  if (!unread.empty()) text += "\nNot read: " + Printable(unread) + "\n";
  return text;
}

}  // namespace ringmaster::cli
