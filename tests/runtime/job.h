#pragma once

// One job on a few hosts, without Kubernetes: makes its credentials, runs the real launcher and
// agents with the environment an operator would give them, and sends the orders an operator would
// send. Host 0 is the launcher's, host 1 + i that of worker i.

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
  // Files go to a new directory, removed at the end unless the test failed.
  Job(int hosts, control::LaunchSpec spec);
  ~Job();

  // Variables that the launcher's container has beyond the operator's, for example a PATH with
  // another mpirun.
  Variables launcher_extra;
  Variables worker_extra;
  std::string working_dir;  // of the workers' containers; empty: the test's own
  // The uid of the workers' containers; other than root it has no name, and HOME is not set.
  int worker_user = 0;
  // Workers that run on another host than theirs, with its network and its name: Pods with
  // hostNetwork. Of each the host.
  std::map<int, int> host_network;
  bool wants_checkpoint = false;  // orders ask for one out of turn
  // What operator and launcher say to each other, as another version says it; empty: as it is.
  std::function<std::string(const std::string&)> as_operator_says;
  std::function<std::string(const std::string&)> as_launcher_says;

  void StartLauncher(int term = 1);
  // `pod_uid` defaults to "uid-<index>-1". `changes` replace variables of the agent.
  void StartAgent(int worker, const std::string& pod_uid = "", const Variables& changes = {});

  // PUT /v1/order for these workers, once the launcher answers: the job wants all of them, and
  // cannot do with fewer than `min_replicas` (0: than all). The Pods of these UIDs have ended.
  control::LauncherStatus SendOrder(const std::vector<int>& workers, int min_replicas = 0,
                                    const std::vector<std::string>& dead = {});
  // The HTTP status code of a PUT with another token.
  int OrderWithToken(const std::string& token);
  control::LauncherStatus Status();
  bool WaitForPhase(control::LauncherPhase phase, Seconds limit = Seconds(60));

  // Waits for the launcher's end. Fails the test when it takes longer, or leaves no verdict.
  control::Verdict AwaitVerdict(Seconds limit = Seconds(90));

  Process& launcher() { return *launcher_; }
  Process& agent(int worker) { return *agents_.at(worker); }
  // It runs on, whatever is started in its place. REQUIRES: the next call for it is StartAgent().
  std::unique_ptr<Process> TakeAgent(int worker) { return std::move(agents_.at(worker)); }
  // What an operator would write into a worker's Pod for the items in `directory`.
  std::string WorkerItemHashes(const std::string& directory) const;
  std::string Log() const;  // everybody's, for messages of failed assertions
  const Hosts& hosts() const { return hosts_; }
  // A job of its own: no other one has this UID.
  const std::string& uid() const { return job_uid_; }
  // For the container of a worker that starts from here on.
  void LimitMemory(int worker, int64_t bytes) { hosts_.LimitMemory(1 + worker, bytes); }
  // No host has one.
  void HideSshd() { hosts_.Hide("/usr/sbin/sshd"); }
  void LimitCpu(int worker, double cpus) { hosts_.LimitCpu(1 + worker, cpus); }
  std::string Path(const std::string& name) const { return directory_ + "/" + name; }

 private:
  void MakeCredentials();
  std::string SharedMemory() const;  // for the agents' snapshots; all hosts see it
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
