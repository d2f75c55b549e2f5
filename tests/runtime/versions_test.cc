// Tests a running job of four ranks with peers of other versions: an operator that is upgraded and
// rolled back, and agents, a launcher and ranks that communicate through proxies, which add unknown
// fields and messages or remove optional fields. The training must not be disturbed.

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <utility>

#include <gtest/gtest.h>

#include "common/control/pod_contract.h"
#include "tests/fakes/other_version.h"
#include "tests/paths.h"
#include "tests/runtime/job.h"
#include "tests/runtime/logged_test.h"

namespace ringmaster::runtime_test {
namespace {

using control::Epoch;
using control::LauncherPhase;
using control::LauncherStatus;

// More than twice the number of steps that complete in a test: without losses, with four losses.
constexpr std::int64_t kSteps = 500;
constexpr std::int64_t kStepsWithLosses = 1500;
constexpr int kProxyPort = 8490;
constexpr Seconds kLimit{120};
const std::vector<int> kAll = {0, 1, 2, 3};

class Versions : public LoggedTest {
 protected:
  // Makes all peers appear to each other as this version: "newer", "older" or "same".
  void Become(Job& job, const std::string& mode) {
    WriteFile(ModeFile(), mode);
    if (mode == "newer") {
      job.as_operator_says = job.as_launcher_says = AsNewer;
    } else if (mode == "older") {
      job.as_operator_says = [](const std::string& text) {
        return AsOlder(text, [](const std::string& t) { return control::DecodeOrder(t).ok(); });
      };
      job.as_launcher_says = [](const std::string& text) {
        return AsOlder(text,
                       [](const std::string& t) { return control::DecodeLauncherStatus(t).ok(); });
      };
    } else {
      job.as_operator_says = job.as_launcher_says = nullptr;
    }
  }

  // Returns a trainer that connects through a proxy, which runs in the slot's process group.
  control::LaunchSpec TrainerBehindAProxy() {
    control::LaunchSpec spec = TrainerSpec(kStepsWithLosses, logs_ + "/steps.jsonl");
    const std::string wrapper = logs_ + "/ringmaster-train";
    WriteFile(wrapper, "#!/bin/bash\nsocket=$RINGMASTER_AGENT_SOCKET.$$\ncoproc " +
                           FromBuild(RINGMASTER_VERSIONS_PROXY) + " " + ModeFile() +
                           " unix $socket $RINGMASTER_AGENT_SOCKET\nread -r _ <&${COPROC[0]}\n" +
                           "RINGMASTER_AGENT_SOCKET=$socket exec " + spec.command.front() +
                           " \"$@\"\n");
    std::filesystem::permissions(wrapper, std::filesystem::perms::owner_all);
    spec.command.front() = wrapper;
    return spec;
  }

  void StartProxy(Job& job) {
    job.worker_extra[control::kEnvLauncherPort] = std::to_string(kProxyPort);
    proxy_ = job.hosts().Start(
        0, "proxy", {{"ASAN_OPTIONS", "detect_leaks=0"}},
        {FromBuild(RINGMASTER_VERSIONS_PROXY), ModeFile(), "tls", std::to_string(kProxyPort),
         job.Path("credentials/tls.key"), job.Path("credentials/tls.crt"),
         job.hosts().Address(0) + ":" + std::to_string(control::kControlPort)},
        logs_ + "/proxy.log");
  }

  std::string ModeFile() const { return logs_ + "/mode"; }

  void ExpectEndsWell(Job& job, std::int64_t steps) {
    std::printf("all of it had happened by step %lld of %lld\n",
                static_cast<long long>(StepOf(job)), static_cast<long long>(steps));
    EXPECT_TRUE(job.AwaitVerdict(Seconds(240)).succeeded);
    EXPECT_EQ(Audit(steps).exit_code, 0);
  }

  static std::vector<pid_t> Ranks(Job& job) {
    std::vector<pid_t> ranks;
    for (const int worker : kAll) {
      const std::vector<pid_t> found = Hosts::Find(job.agent(worker), "ringmaster-train");
      ranks.push_back(found.empty() ? -1 : found.front());
    }
    return ranks;
  }

  // Waits for a world of four ranks that is newer than `before`, and for `steps` steps of it.
  static void ExpectFour(Job& job, const Epoch& before, std::int64_t steps = 20) {
    LauncherStatus status;
    ASSERT_TRUE(WaitUntil(kLimit, [&] {
      status = job.Status();
      return status.phase == LauncherPhase::kRunning && status.world_size == 4 &&
             status.epoch > before;
    })) << status.message;
    ASSERT_TRUE(WaitUntil(kLimit, [&] { return StepOf(job) > 0; }));
    const std::int64_t from = StepOf(job);
    ASSERT_TRUE(WaitUntil(kLimit, [&] { return StepOf(job) >= from + steps; }));
  }
  // Reads the status in this version's format, because an older launcher does not report progress.
  static std::int64_t StepOf(Job& job) {
    const auto says = std::exchange(job.as_launcher_says, nullptr);
    const LauncherStatus status = job.Status();
    job.as_launcher_says = says;
    return status.progress ? status.progress->step : 0;
  }

  std::unique_ptr<Process> proxy_;
};

TEST_F(Versions, AnOperatorThatIsUpgradedAndRolledBackDisturbsNoJob) {
  Job job(5, TrainerSpec(kSteps, logs_ + "/steps.jsonl"));
  job.StartLauncher();
  for (const int worker : kAll) job.StartAgent(worker);
  job.SendOrder(kAll, 2);
  ASSERT_NO_FATAL_FAILURE(ExpectFour(job, {}));
  const Epoch before = job.Status().epoch;
  const std::vector<pid_t> ranks = Ranks(job);

  for (const char* mode : {"newer", "older", "newer", "same"}) {
    Become(job, mode);
    job.SendOrder(kAll, 2);
    const LauncherStatus status = job.Status();
    EXPECT_EQ(status.phase, LauncherPhase::kRunning) << mode;
    EXPECT_EQ(status.world_size, 4) << mode;
    EXPECT_EQ(status.workers.size(), 4U) << mode;
    ASSERT_NO_FATAL_FAILURE(ExpectFour(job, {})) << mode;
  }

  EXPECT_EQ(job.Status().epoch, before);
  EXPECT_EQ(Ranks(job), ranks);
  ExpectEndsWell(job, kSteps);
}

TEST_F(Versions, AgentsLauncherAndRanksOfOtherVersionsContinueAndSurviveALoss) {
  Job job(5, TrainerBehindAProxy());
  Become(job, "newer");
  StartProxy(job);
  job.StartLauncher();
  for (const int worker : kAll) job.StartAgent(worker);
  job.SendOrder(kAll, 2);
  ASSERT_NO_FATAL_FAILURE(ExpectFour(job, {}));

  for (const char* mode : {"newer", "older", "same"}) {
    Become(job, mode);
    const Epoch before = job.Status().epoch;
    const std::vector<pid_t> ranks = Ranks(job);
    ASSERT_NO_FATAL_FAILURE(ExpectFour(job, {})) << mode;
    EXPECT_EQ(job.Status().epoch, before) << mode << " disturbed the world";
    EXPECT_EQ(Ranks(job), ranks) << mode << " disturbed a rank";

    ASSERT_TRUE(SendSignal(ranks.at(1), SIGKILL));
    ASSERT_NO_FATAL_FAILURE(ExpectFour(job, before)) << mode;
  }
  // The replaced worker's agent sends its hello as an older version does.
  Become(job, "older");
  const Epoch before = job.Status().epoch;
  Hosts::Signal(job.agent(3), SIGKILL);
  ASSERT_TRUE(job.agent(3).Wait(Seconds(10)).has_value());
  job.StartAgent(3, "uid-3-2");
  job.SendOrder(kAll, 2, {"uid-3-1"});

  ASSERT_NO_FATAL_FAILURE(ExpectFour(job, before));
  ExpectEndsWell(job, kStepsWithLosses);
}

}  // namespace
}  // namespace ringmaster::runtime_test
