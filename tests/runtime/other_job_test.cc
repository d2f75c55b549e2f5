// Tests successive jobs of the same name on one volume, with the real trainer: each trains from its
// start, unless a flag makes it resume from another job's checkpoint.

#include <filesystem>
#include <sstream>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "common/control/pod_contract.h"
#include "common/control/reasons.h"
#include "tests/runtime/job.h"
#include "tests/runtime/logged_test.h"

namespace ringmaster::runtime_test {
namespace {

using testing::Contains;
using testing::HasSubstr;

constexpr std::int64_t kAllSteps = 60;

class OtherJob : public LoggedTest {
 protected:
  struct Outcome {
    std::string uid;
    control::Verdict verdict;
    std::vector<std::int64_t> steps;  // the steps that the job trained
    std::string log;
  };
  std::string Volume() const { return logs_ + "/volume"; }

  // Runs a job of one worker to its end.
  Outcome Run(const std::vector<std::string>& flags, const Variables& worker = {}) {
    const std::string step_log = logs_ + "/steps-" + std::to_string(++runs_) + ".jsonl";
    control::LaunchSpec spec = TrainerSpec(kAllSteps, step_log);
    spec.command.push_back("--checkpoint-dir=" + Volume());
    spec.command.push_back("--checkpoint-every=20");
    spec.command.insert(spec.command.end(), flags.begin(), flags.end());
    Job job(2, spec);
    job.worker_extra = worker;
    job.StartLauncher();
    job.StartAgent(0);
    job.SendOrder({0});
    Outcome outcome{.uid = job.uid(), .verdict = job.AwaitVerdict(), .steps = {}, .log = job.Log()};
    std::istringstream lines(ReadFile(step_log));
    for (std::string line; std::getline(lines, line);) {
      const auto json = nlohmann::json::parse(line, nullptr, false);
      if (json.is_object() && json.contains("world_epoch") && json.contains("step")) {
        outcome.steps.push_back(json["step"].get<std::int64_t>());
      }
    }
    return outcome;
  }
  bool Kept(const Outcome& job, std::int64_t step) const {
    return std::filesystem::exists(Volume() + "/team/digits/" + job.uid + "/1.1-" +
                                   std::to_string(step) + "/DONE");
  }

 private:
  int runs_ = 0;
};

TEST_F(OtherJob, DeletedCorrectedAndAppliedAgainItTrainsWithTheCorrectedFlags) {
  const Outcome first = Run({"--learning-rate=0.01"});
  ASSERT_TRUE(first.verdict.succeeded) << first.log;
  ASSERT_TRUE(Kept(first, kAllSteps));

  const Outcome again = Run({"--learning-rate=0.02"});

  ASSERT_TRUE(again.verdict.succeeded) << again.log;
  EXPECT_EQ(again.steps.size(), static_cast<std::size_t>(kAllSteps)) << "it succeeded without them";
  EXPECT_EQ(again.verdict.reason, "");
  ASSERT_TRUE(again.verdict.beginning.has_value());
  EXPECT_EQ(again.verdict.beginning->step, 0);
  EXPECT_THAT(again.verdict.beginning->message, HasSubstr("restoreFrom: {job: digits}"));
  EXPECT_TRUE(Kept(again, kAllSteps));
  EXPECT_TRUE(Kept(first, kAllSteps)) << "another job's checkpoints are not its to remove";
}

TEST_F(OtherJob, ResumesFromTheOneBeforeOnRequestAndReportsWhatDiffers) {
  const Outcome first = Run({"--learning-rate=0.01", "--steps=30"});
  ASSERT_TRUE(first.verdict.succeeded) << first.log;

  const Outcome second = Run({"--learning-rate=0.02"}, {{control::kEnvRestoreJob, "digits"}});

  ASSERT_TRUE(second.verdict.succeeded) << second.log;
  ASSERT_FALSE(second.steps.empty()) << second.log;
  EXPECT_EQ(second.steps.front(), 31);
  EXPECT_EQ(second.steps.back(), kAllSteps);
  EXPECT_EQ(second.verdict.reason, "");
  ASSERT_TRUE(second.verdict.beginning.has_value());
  EXPECT_EQ(second.verdict.beginning->step, 30);
  EXPECT_THAT(second.verdict.beginning->message,
              HasSubstr("--learning-rate=0.01 instead of 0.02, --steps=30 instead of 60"));
  EXPECT_TRUE(Kept(second, 30) || Kept(second, kAllSteps));
}

TEST_F(OtherJob, AStateThatHasAllStepsIsReportedAsAlreadyComplete) {
  const Outcome first = Run({});
  ASSERT_TRUE(first.verdict.succeeded) << first.log;

  const Outcome second = Run({}, {{control::kEnvRestorePath, "team/digits/" + first.uid}});

  ASSERT_TRUE(second.verdict.succeeded) << second.log;
  EXPECT_TRUE(second.steps.empty());
  EXPECT_EQ(second.verdict.reason, control::kReasonAlreadyComplete);
  EXPECT_TRUE(Kept(second, kAllSteps));
}

TEST_F(OtherJob, FailsIfTheCheckpointToResumeFromDoesNotExist) {
  const Outcome refused = Run({}, {{control::kEnvRestoreJob, "letters"}});

  EXPECT_FALSE(refused.verdict.succeeded);
  EXPECT_EQ(refused.verdict.reason, control::kReasonUserError);
  ASSERT_TRUE(refused.verdict.first_failure.has_value());
  EXPECT_THAT(refused.verdict.first_failure->last_lines,
              Contains(HasSubstr("no other job of this name in namespace team")));
}

}  // namespace
}  // namespace ringmaster::runtime_test
