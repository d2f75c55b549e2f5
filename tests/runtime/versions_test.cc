// A running job of four ranks under an operator that is upgraded and rolled back: the other version
// is this one, of which fields are added that nobody knows, or those dropped that can be done
// without, in what it says and in what it hears. Nobody may be disturbed.

#include <gtest/gtest.h>
#include <utility>

#include "tests/fakes/other_version.h"
#include "tests/runtime/job.h"
#include "tests/runtime/logged_test.h"

namespace ringmaster::runtime_test {
namespace {

using control::Epoch;
using control::LauncherPhase;
using control::LauncherStatus;

constexpr std::int64_t kSteps = 2000;  // more than pass until all of it has happened
constexpr Seconds kLimit{120};
const std::vector<int> kAll = {0, 1, 2, 3};

class Versions : public LoggedTest {
 protected:
  // From here on the operator is this other version: "newer", "older" or "same".
  static void Become(Job& job, const std::string& mode) {
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

  static std::vector<pid_t> Ranks(Job& job) {
    std::vector<pid_t> ranks;
    for (const int worker : kAll) {
      const std::vector<pid_t> found = Hosts::Find(job.agent(worker), "ringmaster-train");
      ranks.push_back(found.empty() ? -1 : found.front());
    }
    return ranks;
  }

  // Trains in a world of four that is newer than `before`, and goes on for so many steps.
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
  // As this version says it: an older launcher says nothing of progress.
  static std::int64_t StepOf(Job& job) {
    const auto says = std::exchange(job.as_launcher_says, nullptr);
    const LauncherStatus status = job.Status();
    job.as_launcher_says = says;
    return status.progress ? status.progress->step : 0;
  }
};

TEST_F(Versions, AnOperatorThatIsUpgradedAndRolledBackDisturbsNobody) {
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
  EXPECT_TRUE(job.AwaitVerdict(Seconds(240)).succeeded);
  EXPECT_EQ(Audit(kSteps).exit_code, 0);
}

}  // namespace
}  // namespace ringmaster::runtime_test
