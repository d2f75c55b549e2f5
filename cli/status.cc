#include "cli/status.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/job_pods.h"
#include "cli/verdict_sentence.h"
#include "common/base/byte_text.h"
#include "common/base/count_text.h"
#include "operator/api/codec.h"
#include "operator/api/names.h"
#include "operator/kube/json_access.h"

namespace ringmaster::cli {
namespace {

using kube::GetString;
using nlohmann::json;

constexpr std::size_t kMostFailures = 5;
constexpr std::size_t kMostEvents = 5;

// Formats one line; the texts of all lines begin in the same column.
std::string Labelled(std::string label, const std::string& text) {
  constexpr std::size_t kWidth = 15;
  if (text.empty()) return {};
  label.resize(kWidth, ' ');
  return label + Printable(text) + "\n";
}

std::string Joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) {
    if (!part.empty()) text += (text.empty() ? "" : ", ") + part;
  }
  return text;
}

std::string ProgressText(const api::JobProgress& progress, bool training, Time now) {
  std::string step = "step " + std::to_string(progress.step);
  if (progress.total_steps > 0) step += " of " + std::to_string(progress.total_steps);
  if (progress.percent) step += " (" + std::to_string(*progress.percent) + " %)";
  const auto with = [](const char* name, const std::string& value, const char* unit = "") {
    return value.empty() ? "" : name + value + unit;
  };
  std::string end;
  const std::optional<Time> eta = ReadTime(progress.estimated_completion_time);
  if (training && eta) {
    end = "done in about " +
          DurationText(std::chrono::duration_cast<std::chrono::seconds>(*eta - now)) + ", at " +
          progress.estimated_completion_time;
  }
  return Joined({step, training ? with("", progress.samples_per_second, " samples/s") : "",
                 with("loss ", progress.loss), with("accuracy ", progress.accuracy), end});
}

std::string WorldText(const api::TrainingJobStatus& status) {
  const auto mode = status.elasticity_mode;
  const std::string ranks =
      status.world_size > 0 ? CountText(status.world_size, "rank") : std::string("no ranks");
  return Joined({ranks + (status.state == api::kStateFailed ? " at failure" : ""),
                 status.epoch > 0 ? "epoch " + std::to_string(status.epoch) : "",
                 !mode                                    ? ""
                 : *mode == api::ElasticityMode::kInPlace ? "mode InPlace"
                                                          : "mode Restart",
                 status.started_by.empty() ? "" : "started by " + status.started_by,
                 status.launch_agent.empty() ? "" : "over " + status.launch_agent});
}

// `verb`: what they do now, "train" or "run".
std::string WorkersText(const api::WorkerCounts& workers, int active, const char* verb) {
  return std::to_string(active) + " of " + std::to_string(workers.desired) + " " + verb + ", " +
         std::to_string(workers.ready) + " ready, " +
         CountText(workers.replicas, "Pod", "exists", "exist");
}

std::string CheckpointText(const api::CheckpointStatus& checkpoint, Time now) {
  return Joined({"step " + std::to_string(checkpoint.step), AgoText(checkpoint.time, now),
                 checkpoint.bytes > 0 ? BytesText(checkpoint.bytes) + " kept" : ""});
}

std::string RecoveryText(const api::Recovery& recovery) {
  std::string text = recovery.cause;
  if (!recovery.worker.empty()) text += " of " + recovery.worker;
  if (!recovery.node.empty()) text += " on " + recovery.node;
  text += ": detected after " + MillisText(recovery.detected_millis) + ", training resumed " +
          MillisText(recovery.resumed_millis) + " later";
  if (recovery.from_start) {
    text += ", from the start of the program";
    if (recovery.ran_millis > 0) text += " after it had run for " + MillisText(recovery.ran_millis);
  } else {
    text += recovery.steps_lost == 0
                ? ", no step was lost"
                : ", " + CountText(recovery.steps_lost, "step", "was", "were") + " repeated";
  }
  return text;
}

std::string FailureText(const api::Failure& failure, Time now) {
  std::vector<std::string> parts{AgoText(failure.time, now), failure.reason};
  std::string where = failure.worker;
  if (!failure.node.empty()) where += " on " + failure.node;
  parts.push_back(where);
  if (failure.rank >= 0) parts.push_back("rank " + std::to_string(failure.rank));
  if (failure.exit_code >= 0) parts.push_back("exit code " + std::to_string(failure.exit_code));
  if (failure.signal > 0) parts.push_back("signal " + std::to_string(failure.signal));
  std::string text = "  " + Printable(Joined(parts)) + "\n";
  for (const std::string& line : failure.last_lines) text += "      " + Printable(line) + "\n";
  return text;
}

std::string PodsTable(const std::vector<PodView>& pods, const api::TrainingJobStatus& status,
                      Time now) {
  if (pods.empty()) return {};
  const int members = status.workers.members;
  const bool all_train = members > 0 && members == status.workers.replicas;
  const std::string ranks = all_train && status.world_size % members == 0
                                ? std::to_string(status.world_size / members)
                                : "-";
  std::vector<std::vector<std::string>> rows{{"POD", "NODE", "STATE", "RANKS", "RESTARTS", "AGE"}};
  for (const PodView& pod : pods) {
    const std::optional<Time> created = ReadTime(pod.created);
    rows.push_back(
        {pod.name, pod.node.empty() ? "-" : pod.node, pod.state,
         pod.launcher || pod.state != "Running" ? "-" : ranks, std::to_string(pod.restarts),
         created ? DurationText(std::chrono::duration_cast<std::chrono::seconds>(now - *created))
                 : "?"});
  }
  return "\n" + Columns(rows);
}

std::string EventTime(const json& event) {
  for (const std::string& time :
       {GetString(event, {"series", "lastObservedTime"}), GetString(event, {"lastTimestamp"}),
        GetString(event, {"eventTime"}), GetString(event, {"firstTimestamp"})}) {
    if (!time.empty()) return time;
  }
  return GetString(event, {"metadata", "creationTimestamp"});
}

// Returns the events of the object, newest first.
std::vector<json> NewestEvents(const json& events, const std::string& uid) {
  std::vector<json> newest;
  for (const json& event : kube::GetArray(events, {"items"})) {
    if (GetString(event, {"involvedObject", "uid"}) == uid) newest.push_back(event);
  }
  std::stable_sort(newest.begin(), newest.end(),
                   [](const json& a, const json& b) { return EventTime(a) > EventTime(b); });
  if (newest.size() > kMostEvents) newest.resize(kMostEvents);
  return newest;
}

std::string EventsText(const std::vector<json>& events, Time now) {
  if (events.empty()) return {};
  std::vector<std::vector<std::string>> rows;
  for (const json& event : events) {
    rows.push_back({AgoText(EventTime(event), now), GetString(event, {"type"}),
                    GetString(event, {"reason"}), GetString(event, {"message"})});
  }
  return "\nEvents (newest first)\n" + Columns(rows, "  ");
}

std::string FailuresText(const std::vector<api::Failure>& failures, Time now) {
  if (failures.empty()) return {};
  std::string text = "\nFailures (newest first)\n";
  for (std::size_t i = 0; i < std::min(failures.size(), kMostFailures); ++i) {
    text += FailureText(failures[i], now);
  }
  if (failures.size() > kMostFailures) {
    text += "  and " + std::to_string(failures.size() - kMostFailures) + " more: -o json\n";
  }
  return text;
}

Result<api::TrainingJob> ReadJob(const json& written) {
  auto job = api::DecodeWithoutSpec(written);
  if (!job.ok()) return job.error().WithContext("reading the TrainingJob");
  return job;
}

}  // namespace

Result<std::string> StatusText(const JobObjects& objects, Time now) {
  const Result<api::TrainingJob> job = ReadJob(objects.job);
  if (!job.ok()) return job.error();
  const api::TrainingJobStatus& status = job->status;
  const Explanation explanation = ExplainJob(*job, objects.job);
  std::string text =
      Printable(job->name + " in namespace " + job->ns + " " + explanation.sentence) + "\n";
  if (!explanation.meaning.empty()) text += Printable(explanation.meaning) + "\n";
  for (const std::string& also : explanation.also) text += Printable("Also: " + also) + "\n";
  text += "\n";
  if (status.progress)
    text += Labelled("Progress", ProgressText(*status.progress, explanation.training, now));
  const bool over = status.state == "Succeeded" || status.state == "Failed";
  const bool restarts = status.elasticity_mode == api::ElasticityMode::kRestart;
  if (!status.state.empty()) {
    text += Labelled("World", WorldText(status));
    const int active = explanation.training ? status.workers.members : 0;
    const char* verb = restarts ? "run" : "train";
    if (!over) text += Labelled("Workers", WorkersText(status.workers, active, verb));
  }
  const auto stall_after =
      kube::GetInt32(objects.job, {"spec", "faultTolerance", "stallAfterSeconds"});
  if (explanation.training && restarts && stall_after.value_or(0) == 0) {
    text += Labelled("Hang detection",
                     "off, because spec.faultTolerance.stallAfterSeconds is 0: a job that hangs "
                     "is Running, too. \"kubectl trainingjob logs " +
                         kube::GetString(objects.job, {"metadata", "name"}) +
                         " --follow\" shows whether its ranks still print. To have a hung program "
                         "restarted, set the field to the longest time in which no rank prints, "
                         "then suspend and resume the job");
  }
  if (!status.profile.empty()) text += Labelled("Profile", status.profile);
  if (status.checkpoint) text += Labelled("Checkpoint", CheckpointText(*status.checkpoint, now));
  if (status.crashes && !over) {  // a failed job's message says how often it crashed
    text += Labelled("Crashes", TimesText(status.crashes->count) +
                                    " without a completed step, at step " +
                                    std::to_string(status.crashes->step));
  }
  if (status.last_recovery) text += Labelled("Last recovery", RecoveryText(*status.last_recovery));
  text += PodsTable(PodsOf(objects.pods, job->uid), status, now);
  text += FailuresText(status.failures, now);
  text += EventsText(NewestEvents(objects.events, job->uid), now);
  if (!objects.unread.empty()) text += "\nNot shown: " + Printable(objects.unread) + "\n";
  return text;
}

Result<json> StatusJson(const JobObjects& objects) {
  const Result<api::TrainingJob> job = ReadJob(objects.job);
  if (!job.ok()) return job.error();
  const Explanation explanation = ExplainJob(*job, objects.job);
  json pods = json::array();
  for (const PodView& pod : PodsOf(objects.pods, job->uid)) {
    pods.push_back({{"name", pod.name},
                    {"role", pod.launcher ? api::kRoleLauncher : api::kRoleWorker},
                    {"node", pod.node},
                    {"state", pod.state},
                    {"restarts", pod.restarts}});
  }
  json events = json::array();
  for (const json& event : NewestEvents(objects.events, job->uid)) {
    events.push_back({{"time", EventTime(event)},
                      {"type", GetString(event, {"type"})},
                      {"reason", GetString(event, {"reason"})},
                      {"message", GetString(event, {"message"})}});
  }
  json status = api::EncodeStatus(job->status);
  status.erase("internal");
  return json{{"name", job->name},
              {"namespace", job->ns},
              {"training", explanation.training},
              {"sentence", explanation.sentence},
              {"reason", explanation.reason},
              {"meaning", explanation.meaning},
              {"also", explanation.also},
              {"pods", std::move(pods)},
              {"events", std::move(events)},
              {"status", std::move(status)}};
}

Result<JobObjects> ReadJobObjects(const Kubectl& kubectl, const std::string& job) {
  JobObjects objects;
  Result<json> read = kubectl.GetJob(job);
  if (!read.ok()) return read.error();
  objects.job = *std::move(read);
  const std::string ns = "--namespace=" + GetString(objects.job, {"metadata", "namespace"});
  std::vector<Result<json>> more = kubectl.GetAll(
      {{ns, "pods", "--selector=" + std::string(api::kLabelJobName) + "=" + job},
       {ns, "events",
        "--field-selector=involvedObject.kind=TrainingJob,involvedObject.name=" + job}});
  json* const into[] = {&objects.pods, &objects.events};
  for (std::size_t i = 0; i < more.size(); ++i) {
    if (more[i].ok()) {
      *into[i] = *std::move(more[i]);
    } else {
      objects.unread += (objects.unread.empty() ? "" : "; ") + more[i].error().message;
    }
  }
  return objects;
}

}  // namespace ringmaster::cli
