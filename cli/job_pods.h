#pragma once

// The rows that the commands print about a job's Pods. Pure functions.

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace ringmaster::cli {

struct PodView {
  std::string name{};
  std::string uid{};
  std::string ns{};
  bool launcher = false;
  int64_t number = 0;  // a worker's index or a launcher's term
  std::string node{};
  std::string state{};  // the state in one word, as in kubectl's output
  std::string created{};
  int64_t restarts = 0;    // restarts of the container that Ringmaster manages
  bool started = false;    // whether that container has run, so that it may have a log
  bool has_ended = false;  // whether that container has ended
};

PodView ReadPod(const nlohmann::json& pod);

// Returns the launchers by term, then the workers by index. Leaves out Pods of other jobs and Pods
// with other roles.
std::vector<PodView> PodsOf(const nlohmann::json& list, const std::string& job_uid);

// Returns the name of the container whose log is read.
inline const char* ContainerOf(const PodView& pod) { return pod.launcher ? "launcher" : "worker"; }

// Returns true if a Pod is a launcher or a worker of this job.
bool IsOf(const nlohmann::json& pod, const std::string& job_uid);

}  // namespace ringmaster::cli
