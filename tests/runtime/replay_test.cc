// Tests that a job with killed, replaced and joining ranks computes the same bits as a replay of
// its memberships without the faults, and that a replay of other memberships or of another batch
// is not accepted.

#include <filesystem>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "bench/chaos/stage.h"
#include "tests/runtime/logged_test.h"

namespace ringmaster::runtime_test {
namespace {

using chaos::Fault;
using chaos::FaultKind;
using testing::HasSubstr;
using testing::Not;

class Replay : public LoggedTest {
 protected:
  void SetUp() override {
    LoggedTest::SetUp();
    if (!IsSkipped()) std::filesystem::create_directory(Logs());
  }

  std::string Logs() const { return logs_ + "/audit"; }
  std::string Schedule() const { return logs_ + "/schedule"; }

  // Runs the job and the audit of its logs, and reads the schedule that the audit writes.
  void Train() {
    chaos::Stage stage(stage_, Logs());
    const auto must = [&](const auto& result) {
      ASSERT_TRUE(result.ok()) << result.error().message << stage.Log();
    };
    ASSERT_NO_FATAL_FAILURE(must(stage.Begin()));
    ASSERT_NO_FATAL_FAILURE(must(stage.Strike({FaultKind::kKillRank, 1})));
    ASSERT_NO_FATAL_FAILURE(must(stage.Strike({FaultKind::kKillAgent, 0})));
    ASSERT_NO_FATAL_FAILURE(must(stage.Scale(4)));
    ASSERT_NO_FATAL_FAILURE(must(stage.End()));
    const Ran audit = RunCommand({AuditProgram(), Logs(), "--schedule=" + Schedule()});
    ASSERT_EQ(audit.exit_code, 0) << audit.output;
    std::istringstream lines(ReadFile(Schedule()));
    for (std::string line; std::getline(lines, line);) {
      runs_.push_back(nlohmann::ordered_json::parse(line));
    }
  }

  // `arguments` follow the arguments of the job.
  Ran RunReplay(const std::string& schedule, const std::vector<std::string>& arguments) {
    // Unset OPENBLAS_CORETYPE, which selects OpenBLAS's kernels: the job's ranks ran without it.
    std::vector<std::string> command = {
        "/usr/bin/env", "-u", "OPENBLAS_CORETYPE", ReplayProgram(), "--schedule=" + schedule,
        Logs(),         "--"};
    for (const auto& more : {chaos::TrainerArguments(stage_), arguments}) {
      command.insert(command.end(), more.begin(), more.end());
    }
    Process replay(command, logs_ + "/replay.log");
    const auto outcome = replay.Wait(Seconds(240));
    EXPECT_TRUE(outcome.has_value()) << "the replay still runs: " << replay.Log();
    return {outcome ? outcome->exit_code : -1, replay.Log()};
  }

  // Writes the schedule with one change: a world's last step is computed by the next world instead,
  // which has another size. Returns that step.
  int64_t AlterOneStep(const std::string& file) {
    int64_t altered = 0;
    for (std::size_t i = 0; i + 1 < runs_.size() && altered == 0; ++i) {
      auto& steps = runs_[i]["steps"];
      const bool resized = runs_[i]["members"].size() != runs_[i + 1]["members"].size();
      if (!resized || steps[0] == steps[1]) continue;
      altered = steps[1].get<int64_t>();
      steps[1] = altered - 1;
      runs_[i + 1]["steps"][0] = altered;
    }
    std::string text;
    for (const auto& run : runs_) text += run.dump() + "\n";
    WriteFile(file, text);
    return altered;
  }

  chaos::StageOptions stage_{.workers = 4, .at_first = 3, .global_batch = 24};
  std::vector<nlohmann::ordered_json> runs_;
};

TEST_F(Replay, ComputesTheSameBitsAsAJobWithFaultsAndNothingElseDoes) {
  ASSERT_NO_FATAL_FAILURE(Train());
  ASSERT_GE(runs_.size(), 6U) << "a world for each change";

  const Ran same = RunReplay(Schedule(), {});
  std::printf("%s", same.output.c_str());
  EXPECT_EQ(same.exit_code, 0) << same.output;
  EXPECT_THAT(same.output, HasSubstr("\"compared\":"));

  const std::string other = logs_ + "/other-schedule";
  const int64_t altered = AlterOneStep(other);
  ASSERT_GT(altered, 0) << "no world could be changed by one step";
  const Ran changed = RunReplay(other, {});
  EXPECT_EQ(changed.exit_code, 1) << changed.output;
  EXPECT_THAT(changed.output, HasSubstr("after step " + std::to_string(altered) + ":"));
  EXPECT_THAT(changed.output, Not(HasSubstr("after step " + std::to_string(altered - 1) + ":")));

  const Ran batch = RunReplay(Schedule(), {"--global-batch=20"});
  EXPECT_EQ(batch.exit_code, 1) << batch.output;
  EXPECT_THAT(batch.output, HasSubstr("after step 1:"));
}

// With compression, the residuals are part of each member's state.
TEST_F(Replay, ComputesTheSameBitsWithCompressedGradientsInLowPrecision) {
  stage_.trainer_flags = {"--compression=fp8-e5m2", "--precision=bf16"};
  ASSERT_NO_FATAL_FAILURE(Train());

  const Ran same = RunReplay(Schedule(), {});
  EXPECT_EQ(same.exit_code, 0) << same.output;
  EXPECT_THAT(same.output, HasSubstr("\"compared\":"));

  const Ran plain = RunReplay(Schedule(), {"--compression=none"});
  EXPECT_EQ(plain.exit_code, 1) << plain.output;
}

}  // namespace
}  // namespace ringmaster::runtime_test
