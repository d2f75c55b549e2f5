#pragma once

// A job and its Pods, as stored in the API server.

#include <string>

#include <nlohmann/json.hpp>

namespace ringmaster::cli {

// A pattern of FakeKubectl that matches the arguments with which the program reads the job.
inline constexpr char kGetJob[] = "*'get trainingjobs.ringmaster.dev digits -o json'";

inline constexpr char kUid[] = "9d1f0a3c-1111-2222-3333-444455556666";

inline nlohmann::json JobObject(const nlohmann::json& status, const nlohmann::json& spec = {}) {
  nlohmann::json job = {{"apiVersion", "ringmaster.dev/v1alpha1"},
                        {"kind", "TrainingJob"},
                        {"metadata", {{"name", "digits"}, {"namespace", "team-a"}, {"uid", kUid}}},
                        {"spec",
                         {{"image", "registry.example.com/worker:1"},
                          {"command", {"ringmaster-train", "--workload=mnist"}},
                          {"worker", {{"replicas", 2}}}}}};
  if (!spec.is_null()) job["spec"].merge_patch(spec);
  if (!status.is_null()) job["status"] = status;
  return job;
}

inline nlohmann::json Condition(const char* type, const char* status, const char* reason,
                                const char* message) {
  return {{"type", type},
          {"status", status},
          {"reason", reason},
          {"message", message},
          {"lastTransitionTime", "2026-11-20T10:00:00Z"}};
}

inline nlohmann::json RunningStatus() {
  return nlohmann::json::parse(R"({
    "observedGeneration": 1, "state": "Running", "reason": "Training", "epoch": 4, "worldSize": 4,
    "workers": {"desired": 2, "replicas": 2, "ready": 2, "members": 2},
    "elasticity": {"mode": "InPlace"}, "startedBy": "Mpirun", "launchAgent": "SSH", "profile": "gpu",
    "progress": {"step": 1200, "totalSteps": 2000, "percent": 60, "samplesPerSecond": "812.5", "loss": "0.31"},
    "checkpoint": {"step": 1000, "time": "2026-11-20T10:00:00Z", "bytes": 1073741824},
    "lastRecovery": {"epoch": 4, "cause": "RankKilled", "worker": "digits-worker-1", "node": "node2",
                     "detectedMilliseconds": 37, "resumedMilliseconds": 1412, "stepsLost": 0},
    "failures": [{"worker": "digits-worker-1", "podUID": "u1", "node": "node2", "rank": 3, "signal": 9,
                  "reason": "RankFailed", "time": "2026-11-20T10:00:00Z",
                  "lastLines": ["Traceback (most recent call last):", "RuntimeError: boom"]}],
    "conditions": [{"type": "Running", "status": "True", "reason": "Training", "message": "ranks train",
                    "lastTransitionTime": "2026-11-20T10:00:00Z"}],
    "internal": {"launcherTerm": 1}})");
}

inline nlohmann::json PodObject(const std::string& name, const std::string& role, int number,
                                const std::string& uid = "") {
  const bool launcher = role == "launcher";
  return {
      {"kind", "Pod"},
      {"metadata",
       {{"name", name},
        {"namespace", "team-a"},
        {"uid", uid.empty() ? name : uid},
        {"creationTimestamp", "2026-11-20T10:00:00Z"},
        {"labels",
         {{"ringmaster.dev/job-name", "digits"},
          {"ringmaster.dev/job-uid", kUid},
          {"ringmaster.dev/role", role},
          {launcher ? "ringmaster.dev/term" : "ringmaster.dev/index", std::to_string(number)}}}}},
      {"spec", {{"nodeName", "node" + std::to_string(number + 1)}}},
      {"status",
       {{"phase", "Running"},
        {"containerStatuses",
         {{{"name", role},
           {"restartCount", 0},
           {"state", {{"running", {{"startedAt", "x"}}}}}}}}}}};
}

inline nlohmann::json ListOf(const std::vector<nlohmann::json>& items) {
  return {{"kind", "List"}, {"items", items}};
}

}  // namespace ringmaster::cli
