#pragma once

// Simulates the scheduler and the kubelet for the Pods of one namespace, only through the API: it
// binds each Pod to a node, sets its address and phase, and removes it after its deletion. For a
// launcher Pod it starts a FakeLauncher at that address, with the items of the job's Secret that
// the Pod mounts. Tests end containers with Terminate().

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include <nlohmann/json.hpp>

#include "tests/integration/harness/api_client.h"
#include "tests/integration/harness/fake_launcher.h"

namespace ringmaster::testing {

class FakeKubelet {
 public:
  FakeKubelet(ApiClient& admin, std::string ns);
  ~FakeKubelet();

  // Waits until a Pod's launcher serves, and returns it; null after `limit`. The launcher stops
  // when its Pod ends, but tests can still read what it received.
  std::shared_ptr<FakeLauncher> Launcher(
      const std::string& pod, std::chrono::milliseconds limit = std::chrono::seconds(60));

  // Ends the Pod's container; the phase becomes Succeeded or Failed. `message` is the termination
  // message; `reason` is the kubelet's reason if the exit code does not imply it.
  Response Terminate(const std::string& pod, int exit_code, const std::string& message,
                     const std::string& reason = "");

  // While set, deleted Pods stay Terminating, as on a node that is unreachable.
  void SetCutOff(bool cut_off);

  // Sets a function that is called with every new launcher before the operator can reach it.
  void SetOnLauncher(std::function<void(const std::string& pod, FakeLauncher&)> on_launcher);

 private:
  void Work(std::stop_token stop);
  void Handle(const std::string& type, const nlohmann::json& pod);
  void StartPod(const nlohmann::json& pod);
  void StartLauncher(const nlohmann::json& pod, const std::string& address);
  void StopLauncher(const std::string& pod);
  void RemovePod(const std::string& name, const std::string& uid);
  std::string PodPath(const std::string& name) const;

  ApiClient& admin_;
  const std::string ns_;

  std::mutex mutex_;  // guards the members below
  bool cut_off_ = false;
  std::map<std::string, std::shared_ptr<FakeLauncher>> launchers_;  // by Pod name
  std::map<std::string, std::string> terminating_;                  // UIDs by Pod name
  std::set<std::string> started_;                                   // UIDs
  std::function<void(const std::string&, FakeLauncher&)> on_launcher_;

  std::jthread thread_;
};

// Returns the value of an environment variable of the Pod's container, or "".
std::string PodEnvironment(const nlohmann::json& pod, const std::string& name);

// Returns the name of the Secret that a Pod mounts, or "".
std::string PodSecret(const nlohmann::json& pod);

}  // namespace ringmaster::testing
