// Tests examples/pytorch-in-place, a PyTorch script that joins its job through the Python package.
// The job's containers have only Python, PyTorch and the files that the agents bring.

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/control/pod_contract.h"
#include "common/control/reasons.h"
#include "tests/fakes/patience.h"
#include "tests/paths.h"
#include "tests/runtime/job.h"
#include "tests/runtime/logged_test.h"

namespace ringmaster::runtime_test {
namespace {

using control::Epoch;
using control::LauncherPhase;
using control::LauncherStatus;
using testing::HasSubstr;

constexpr std::int64_t kSteps = 6000;  // more steps than complete while workers load PyTorch
constexpr Seconds kFetchLimit{1000};   // long enough to create the folder if it is missing
constexpr Seconds kLimit{120};
constexpr Seconds kTrainingLimit{300};

class PythonInPlace : public LoggedTest {
 protected:
  void SetUp() override {
    LoggedTest::SetUp();
    if (logs_.empty()) return;
    std::filesystem::create_directory(logs_ + "/bin");
    std::filesystem::create_symlink("/usr/bin/python3", logs_ + "/bin/python");
  }

  static control::LaunchSpec Python(std::vector<std::string> arguments) {
    control::LaunchSpec spec;
    spec.command = {"python"};
    spec.command.insert(spec.command.end(), arguments.begin(), arguments.end());
    spec.in_place = true;
    return spec;
  }

  // Starts the job. The hosts have no mpirun unless `path` contains it.
  void Begin(Job& job, const std::vector<int>& workers, int min_replicas = 0,
             const Variables& worker_extra = {}, const std::string& path = "") const {
    job.worker_extra = worker_extra;
    for (Variables* extra : {&job.launcher_extra, &job.worker_extra}) {
      (*extra)["PATH"] = logs_ + "/bin" + path;
    }
    job.StartLauncher();
    for (const int worker : workers) job.StartAgent(worker);
    job.SendOrder(workers, min_replicas);
  }

  // Returns the folder that contains PyTorch.
  std::string PyTorch() const {
    Process fetch({FromBuild(RINGMASTER_PYTORCH)}, logs_ + "/pytorch.log");
    const std::optional<Outcome> outcome = fetch.Wait(kFetchLimit);
    EXPECT_TRUE(outcome.has_value() && outcome->exit_code == 0) << fetch.Log();
    const std::string text = fetch.Log();  // the last line names the folder
    const std::size_t end = text.find_last_not_of('\n');
    return text.substr(text.rfind('\n', end) + 1, end - text.rfind('\n', end));
  }

  // Copies the script to a folder that all hosts see, and returns its path.
  std::string Script() const {
    const std::string copy = logs_ + "/train.py";
    std::filesystem::copy_file(FromBuild(RINGMASTER_EXAMPLE "/train.py"), copy);
    return copy;
  }

  // Waits until a world of `ranks` ranks that is newer than `before` trains. Returns its epoch.
  static Epoch TrainsWith(Job& job, int ranks, const Epoch& before = {}) {
    LauncherStatus status;
    std::int64_t began_at = -1;
    const bool trains = WaitUntil(kLimit, [&] {
      status = job.Status();
      const bool there = status.phase == LauncherPhase::kRunning && status.world_size == ranks &&
                         status.epoch > before && status.progress;
      if (!there) return false;
      if (began_at < 0) began_at = status.progress->step;
      return status.progress->step > began_at;
    });
    EXPECT_TRUE(trains) << "never trained with " << ranks << " ranks: " << status.message;
    return status.epoch;
  }
};

TEST_F(PythonInPlace, TrainsThroughEveryFaultAndLosesNoStep) {
  Job job(5, Python({Script(), "--steps=" + std::to_string(kSteps)}));
  job.launcher_extra = {{control::kEnvLostAfterMillis, std::to_string(1000 * Patience())}};
  Begin(job, {0, 1, 2}, 2, {{"PYTHONPATH", PyTorch()}, {"RINGMASTER_AUDIT_LOG", logs_ + "/audit"}});
  const Epoch first = TrainsWith(job, 3);
  EXPECT_EQ(job.Status().started_by, control::kByAgents);

  const std::vector<pid_t> ranks = Hosts::Find(job.agent(1), "python");
  ASSERT_EQ(ranks.size(), 1U);
  ASSERT_EQ(kill(ranks.front(), SIGKILL), 0);
  const Epoch with_a_new_rank = TrainsWith(job, 3, first);

  EXPECT_GT(Hosts::BreakConnections(Hosts::Find(job.agent(0), "python").front()), 0);
  const Epoch whole_again = TrainsWith(job, 3, with_a_new_rank);
  EXPECT_EQ(whole_again.number, with_a_new_rank.number + 1) << "a worker was lost";

  job.hosts().SetCut(3, true);  // the host of worker 2
  const Epoch two = TrainsWith(job, 2, whole_again);
  job.StartAgent(3);
  job.SendOrder({0, 1, 3}, 2);
  const Epoch joined = TrainsWith(job, 3, two);
  job.hosts().SetCut(3, false);

  Hosts::Signal(job.launcher(), SIGKILL);
  ASSERT_TRUE(job.launcher().Wait(Seconds(10)).has_value());
  job.StartLauncher(2);
  job.SendOrder({0, 1, 3}, 2);
  EXPECT_EQ(TrainsWith(job, 3), joined) << "the world was formed again";

  const LauncherStatus status = job.Status();
  const std::int64_t step = status.progress ? status.progress->step : 0;
  std::printf("all of it had happened by step %lld of %lld\n", static_cast<long long>(step),
              static_cast<long long>(kSteps));
  const control::Verdict verdict = job.AwaitVerdict(kTrainingLimit);
  EXPECT_TRUE(verdict.succeeded) << verdict.message;
  ASSERT_TRUE(verdict.progress.has_value());
  EXPECT_EQ(verdict.progress->step, kSteps);
  EXPECT_LT(verdict.progress->loss, 0.5) << "it learned nothing";
  const Ran audit = Audit(kSteps);
  EXPECT_EQ(audit.exit_code, 0) << audit.output;
  EXPECT_THAT(job.Log(), HasSubstr("done after step " + std::to_string(kSteps)));
}

TEST_F(PythonInPlace, NamesARankThatIsSlowerThanTheOthers) {
  Job job(4, Python({Script(), "--steps=1000000"}));
  job.LimitCpu(1, 1);  // creates the control group; the limit is lowered below
  Begin(job, {0, 1, 2}, 0, {{"PYTHONPATH", PyTorch()}});
  TrainsWith(job, 3);
  const auto named = [&] {
    const std::vector<control::Straggler> slow = job.Status().stragglers;
    return std::ranges::find(slow, "digits-worker-1", &control::Straggler::pod) != slow.end();
  };
  EXPECT_FALSE(named());

  job.LimitCpu(1, 0.1);

  EXPECT_TRUE(WaitUntil(kLimit, named)) << job.Log();
}

// The agents start the ranks here, too; mpirun shows their output.
TEST_F(PythonInPlace, TrainsInAnImageWithMpirun) {
  Job job(3, Python({Script(), "--steps=50"}));
  Begin(job, {0, 1}, 0, {{"PYTHONPATH", PyTorch()}, {"RINGMASTER_AUDIT_LOG", logs_ + "/audit"}},
        ":/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin");

  const control::Verdict verdict = job.AwaitVerdict(kLimit);

  EXPECT_TRUE(verdict.succeeded) << verdict.message;
  EXPECT_EQ(verdict.clean_exits, 2);
  EXPECT_THAT(job.launcher().Log(), HasSubstr("mpirun"));
  EXPECT_THAT(job.launcher().Log(), HasSubstr("done after step 50"));
  EXPECT_THAT(job.agent(0).Log(), HasSubstr(", which mode InPlace supports")) << "of preflight";
  const Ran audit = Audit(50);
  EXPECT_EQ(audit.exit_code, 0) << audit.output;
}

TEST_F(PythonInPlace, AScriptThatNeverJoinsGetsAHintHow) {
  Job job(2, Python({"-c", "import time; time.sleep(600)"}));
  Begin(job, {0}, 0, {{control::kEnvLoadLimitMillis, "1000"}});

  ASSERT_TRUE(WaitUntil(kLimit, [&] { return !job.Status().failures.empty(); })) << job.Log();
  const control::RankExit failure = job.Status().failures.front();
  ASSERT_FALSE(failure.last_lines.empty());
  EXPECT_THAT(failure.last_lines.back(), HasSubstr("it did not join the job within 1 s"));
  EXPECT_THAT(failure.last_lines.back(), HasSubstr("ringmaster.join()"));
}

TEST_F(PythonInPlace, AScriptThatEndsWithoutJoiningFailsTheJob) {
  Job job(2, Python({"-c", "print('trained alone')"}));
  Begin(job, {0});

  const control::Verdict verdict = job.AwaitVerdict(kLimit);

  EXPECT_FALSE(verdict.succeeded);
  EXPECT_THAT(verdict.message, HasSubstr("it exited without joining the job"));
}

TEST_F(PythonInPlace, AScriptThatEndsBeforeTrainingDoesFailsTheJob) {
  Job job(2, Python({"-c",
                     "import torch, ringmaster\n"
                     "model = torch.nn.Linear(2, 2)\n"
                     "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
                     "ringmaster.join(model, optimizer, global_batch=4)"}));
  Begin(job, {0}, 0, {{"PYTHONPATH", PyTorch()}});

  const control::Verdict verdict = job.AwaitVerdict(kLimit);

  EXPECT_FALSE(verdict.succeeded);
  EXPECT_THAT(verdict.message, HasSubstr("it exited with code 0 before training had ended"));
}

}  // namespace
}  // namespace ringmaster::runtime_test
