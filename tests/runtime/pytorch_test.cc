// Tests examples/pytorch/train.py with the real PyTorch, as a job in mode Restart: when a rank is
// killed or a worker is lost, all ranks restart from the program's last checkpoint.

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/control/pod_contract.h"
#include "common/control/reasons.h"
#include "tests/paths.h"
#include "tests/runtime/job.h"
#include "tests/runtime/logged_test.h"

namespace ringmaster::runtime_test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int kSteps = 1500;
constexpr int kEvery = 50;
constexpr Seconds kFetchLimit{1000};  // long enough to create the folder if it is missing
constexpr Seconds kLimit{120};

class PyTorch : public LoggedTest {
 protected:
  void SetUp() override {
    LoggedTest::SetUp();
    if (logs_.empty()) return;
    // Copy the program: this tree may be below /tmp or /root, which every host has separately.
    std::filesystem::copy_file(FromBuild(RINGMASTER_PYTORCH_EXAMPLE), Program());
    Process fetch({FromBuild(RINGMASTER_PYTORCH)}, logs_ + "/pytorch.log");
    const std::optional<Outcome> outcome = fetch.Wait(kFetchLimit);
    ASSERT_TRUE(outcome.has_value() && outcome->exit_code == 0) << fetch.Log();
    const std::string text = fetch.Log();  // the last line names the folder
    const std::size_t end = text.find_last_not_of('\n');
    folder_ = text.substr(text.rfind('\n', end) + 1, end - text.rfind('\n', end));
  }

  std::string Program() const { return logs_ + "/train.py"; }
  std::string Checkpoints() const { return logs_ + "/checkpoints"; }

  control::LaunchSpec Example() const {
    control::LaunchSpec spec;
    spec.command = {"python", Program(), "--checkpoints=" + Checkpoints(),
                    "--steps=" + std::to_string(kSteps), "--every=" + std::to_string(kEvery)};
    return spec;
  }

  // Returns the step of the newest checkpoint; 0: there is none.
  int NewestStep() const {
    int newest = 0;
    std::error_code none_yet;
    for (const auto& entry : std::filesystem::directory_iterator(Checkpoints(), none_yet)) {
      const std::string name = entry.path().filename();
      if (name.ends_with(".pt")) newest = std::max(newest, std::stoi(name.substr(5)));
    }
    return newest;
  }

  std::string folder_;
};

// Returns the last step before each start of the ranks, in the order of the starts.
std::vector<int> Beginnings(const std::string& log, int ranks = 3) {
  const std::string words = std::to_string(ranks) + " ranks on cpu begin after step ";
  std::vector<int> steps;
  for (std::size_t at = log.find(words); at != std::string::npos; at = log.find(words, at + 1)) {
    steps.push_back(std::stoi(log.substr(at + words.size())));
  }
  return steps;
}

TEST_F(PyTorch, TheExampleResumesFromItsCheckpointAfterAKilledRankAndAfterALostWorker) {
  Job job(4, Example());
  // Set PATH like an image whose ENV puts a virtual environment first.
  std::filesystem::create_directory(logs_ + "/bin");
  std::filesystem::create_symlink("/usr/bin/python3", logs_ + "/bin/python");
  job.worker_extra = {{"PYTHONPATH", folder_}, {"PATH", logs_ + "/bin:/usr/bin:/bin:/usr/sbin"}};
  job.StartLauncher();
  for (const int worker : {0, 1, 2}) job.StartAgent(worker);
  job.SendOrder({0, 1, 2});
  ASSERT_TRUE(WaitUntil(kLimit, [&] { return NewestStep() > 0; })) << job.Log();

  const std::vector<pid_t> ranks = Hosts::Find(job.agent(1), "python");
  ASSERT_EQ(ranks.size(), 1U);
  ASSERT_EQ(kill(ranks.front(), SIGKILL), 0);
  const auto begun = [&](std::size_t starts) {
    return WaitUntil(kLimit, [&] { return Beginnings(job.launcher().Log()).size() == starts; });
  };
  ASSERT_TRUE(begun(2)) << job.Log();
  control::LauncherStatus status;
  ASSERT_TRUE(WaitUntil(kLimit, [&] {
    status = job.Status();
    return status.last_recovery.has_value();
  })) << job.Log();
  EXPECT_EQ(status.last_recovery->cause, control::kCauseRankKilled);
  EXPECT_EQ(status.last_recovery->pod, "digits-worker-1");

  const int before = NewestStep();
  ASSERT_TRUE(WaitUntil(kLimit, [&] { return NewestStep() > before; })) << job.Log();
  Hosts::Signal(job.agent(2), SIGKILL);
  job.agent(2).Wait(Seconds(10));
  job.StartAgent(2, "uid-2-2");
  job.SendOrder({0, 1, 2}, 0, {"uid-2-1"});

  const control::Verdict verdict = job.AwaitVerdict(kLimit);
  EXPECT_TRUE(verdict.succeeded) << verdict.message;
  EXPECT_EQ(verdict.clean_exits, 3);
  EXPECT_EQ(NewestStep(), kSteps);
  const std::string log = job.launcher().Log();
  const std::vector<int> beginnings = Beginnings(log);
  ASSERT_EQ(beginnings.size(), 3U) << log;
  EXPECT_EQ(beginnings[0], 0);
  EXPECT_GE(beginnings[1], kEvery);
  EXPECT_GT(beginnings[2], beginnings[1]);
  EXPECT_LT(beginnings[2], kSteps) << "the worker was lost too late";
  EXPECT_THAT(log, HasSubstr("step " + std::to_string(kSteps) + ": loss"));
  EXPECT_THAT(job.Log(), Not(HasSubstr("EADDRINUSE"))) << "of MASTER_PORT";
}

// Runs torchrun, once per worker, in an image without mpirun and sshd.
TEST_F(PyTorch, TorchrunResumesFromItsCheckpointAfterAKilledRank) {
  control::LaunchSpec spec = Example();
  spec.command.insert(spec.command.begin() + 1, {"-m", "torch.distributed.run"});
  spec.ranks_per_process = 2;
  Job job(3, spec);
  std::filesystem::create_directory(logs_ + "/bin");
  std::filesystem::create_symlink("/usr/bin/python3", logs_ + "/bin/python");
  job.worker_extra = {{"PYTHONPATH", folder_}, {"PATH", logs_ + "/bin"}};
  job.launcher_extra = {{"PATH", logs_ + "/bin"}};
  job.StartLauncher();
  for (const int worker : {0, 1}) job.StartAgent(worker);
  job.SendOrder({0, 1});
  ASSERT_TRUE(WaitUntil(kLimit, [&] { return NewestStep() > 0; })) << job.Log();

  const std::vector<pid_t> processes = Hosts::Find(job.agent(1), "python");
  ASSERT_EQ(processes.size(), 3U) << "torchrun and its two ranks";
  ASSERT_EQ(kill(processes.back(), SIGKILL), 0);

  const control::Verdict verdict = job.AwaitVerdict(kLimit);
  EXPECT_TRUE(verdict.succeeded) << verdict.message << job.Log();
  EXPECT_EQ(verdict.clean_exits, 2);
  EXPECT_EQ(verdict.epoch.number, 2);
  EXPECT_EQ(NewestStep(), kSteps);
  const std::vector<int> beginnings = Beginnings(job.launcher().Log(), 4);
  ASSERT_EQ(beginnings.size(), 2U) << job.Log();
  EXPECT_EQ(beginnings[0], 0);
  EXPECT_GE(beginnings[1], kEvery);
}

}  // namespace
}  // namespace ringmaster::runtime_test
