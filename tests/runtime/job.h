#pragma once

// Runs one job on a few hosts, without Kubernetes. Creates its credentials, runs the real launcher
// and agents with the environment that an operator would set, and sends the orders that an operator
// would send. Host 0 runs the launcher, and host 1 + i runs worker i.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/control/launch_spec.h"
#include "common/control/launcher_api.h"
#include "common/control/verdict.h"
#include "tests/runtime/hosts.h"

namespace ringmaster::runtime_test {

class Job {
 public:
  // Writes files to a new directory, and removes it at the end unless the test failed.
  Job(int hosts, control::LaunchSpec spec);
  ~Job();

  // Variables of the launcher's container in addition to the operator's, for example a PATH with
  // another mpirun.
  Variables launcher_extra;
  Variables worker_extra;
  std::string working_dir;  // working directory of the workers; empty: the test's
  // The uid of the workers' containers. A uid other than root has no user name and no HOME.
  int worker_user = 0;
  // The host of each worker that does not run on host 1 + worker. Such workers have the network and
  // name of the host, like Pods with hostNetwork.
  std::map<int, int> host_network;
  bool wants_checkpoint = false;  // true: orders request an unscheduled checkpoint
  // Convert messages between operator and launcher to another version; empty: no conversion.
  std::function<std::string(const std::string&)> as_operator_says;
  std::function<std::string(const std::string&)> as_launcher_says;

  void StartLauncher(int term = 1);
  // `pod_uid` defaults to "uid-<index>-1". `changes` override variables of the agent.
  void StartAgent(int worker, const std::string& pod_uid = "", const Variables& changes = {});

  // Sends PUT /v1/order for these workers once the launcher answers. The job wants all of them and
  // needs at least `min_replicas` (0: all). The Pods with the UIDs in `dead` have ended.
  control::LauncherStatus SendOrder(const std::vector<int>& workers, int min_replicas = 0,
                                    const std::vector<std::string>& dead = {});
  // Sends an order with another token and returns the HTTP status code.
  int OrderWithToken(const std::string& token);
  control::LauncherStatus Status();
  bool WaitForPhase(control::LauncherPhase phase, Seconds limit = Seconds(60));

  // Waits until the launcher ends. Fails the test after `limit`, or if there is no verdict.
  control::Verdict AwaitVerdict(Seconds limit = Seconds(90));

  Process& launcher() { return *launcher_; }
  Process& agent(int worker) { return *agents_.at(worker); }
  // Returns the agent, which keeps running. REQUIRES: the next call for the worker is StartAgent().
  std::unique_ptr<Process> TakeAgent(int worker) { return std::move(agents_.at(worker)); }
  // Returns the hashes that an operator would set in a worker's Pod for the items in `directory`.
  std::string WorkerItemHashes(const std::string& directory) const;
  std::string Log() const;  // logs of all processes, for messages of failed assertions
  const Hosts& hosts() const { return hosts_; }
  // The job's UID, which no other job has.
  const std::string& uid() const { return job_uid_; }
  // Limits the memory of the worker's container. Call before the worker starts.
  void LimitMemory(int worker, int64_t bytes) { hosts_.LimitMemory(1 + worker, bytes); }
  // Hides sshd on all hosts.
  void HideSshd() { hosts_.Hide("/usr/sbin/sshd"); }
  void LimitCpu(int worker, double cpus) { hosts_.LimitCpu(1 + worker, cpus); }
  std::string Path(const std::string& name) const { return directory_ + "/" + name; }

 private:
  void MakeCredentials();
  std::string SharedMemory() const;  // folder for the agents' snapshots; all hosts share it
  Variables CommonVariables(const std::string& host_name, const std::string& item_hashes);
  std::string PodUid(int worker) const;
  control::LauncherStatus StatusIn(const Ran& ran) const;
  Ran Call(const std::string& token, const std::vector<std::string>& arguments);

  Hosts hosts_;
  control::LaunchSpec spec_;
  std::string directory_;
  std::string job_uid_;
  std::map<int, std::string> pod_uids_;
  int orders_ = 0;
  std::unique_ptr<Process> launcher_;
  std::map<int, std::unique_ptr<Process>> agents_;
};

// Paths of the programs under test, from the build.
std::string AgentProgram();
std::string LauncherProgram();
std::string FakeTrainProgram();
std::string TrainProgram();
std::string AuditProgram();
std::string ReplayProgram();
std::string MpiSumProgram();

}  // namespace ringmaster::runtime_test
