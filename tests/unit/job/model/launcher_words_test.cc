// Tests that the CRD accepts the status for any launcher answer. The test sends random answers and
// verdicts with extreme values in each field, and checks the limits of crds/.
// tests/integration/tenants_test.cc tests the same with a real API server.

#include "operator/job/model/launcher_words.h"

#include <limits>
#include <random>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "common/control/reasons.h"
#include "operator/api/codec.h"
#include "operator/job/model/foreign_times.h"
#include "operator/job/policy/verdict_policy.h"
#include "tests/builders/hostile_launcher.h"
#include "tests/builders/plan_scene.h"

namespace ringmaster::job {
namespace {

using nlohmann::json;
using ringmaster::testing::HostileLauncher;
using ringmaster::testing::PodBuilder;
using ringmaster::testing::RunningJob;
using ringmaster::testing::Scene;
using ringmaster::testing::SceneBuilder;

std::size_t Characters(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

void ExpectTime(const json& object, const char* field) {
  if (!object.contains(field)) return;
  const std::string text = object.at(field).get<std::string>();
  EXPECT_EQ(text.size(), 20U) << field << ": " << text;
  EXPECT_TRUE(ParseTime(text).has_value()) << field << ": " << text;
}

void ExpectTakenByTheCrd(const json& status) {
  EXPECT_LE(status.dump().size(), 200U << 10);  // throws if it is not valid UTF-8
  EXPECT_GE(status.at("internal").at("launcherTerm").get<int64_t>(), 0);
  ASSERT_LE(status.at("conditions").size(), 16U);
  for (const json& condition : status.at("conditions")) {
    EXPECT_GE(condition.at("reason").get<std::string>().size(), 1U);
    EXPECT_LE(Characters(condition.at("reason").get<std::string>()), 1024U);
    EXPECT_LE(Characters(condition.at("message").get<std::string>()), 32768U);
    ExpectTime(condition, "lastTransitionTime");
  }
  const json failures = status.value("failures", json::array());
  EXPECT_LE(failures.size(), 16U);
  for (const json& failure : failures) {
    EXPECT_LE(failure.value("lastLines", json::array()).size(), 16U);
    EXPECT_LE(Characters(failure.value("stack", "")), 4096U);
    ExpectTime(failure, "time");
  }
  const json stragglers = status.value("stragglers", json::array());
  EXPECT_LE(stragglers.size(), 16U);
  for (const json& straggler : stragglers) ExpectTime(straggler, "since");
  if (status.contains("checkpoint")) ExpectTime(status.at("checkpoint"), "time");
  if (status.contains("progress")) ExpectTime(status.at("progress"), "estimatedCompletionTime");
}

TEST(LauncherWords, AnyAnswerGivesAStatusThatTheCrdTakes) {
  HostileLauncher hostile(1);
  for (int i = 0; i < 60; ++i) {
    const api::TrainingJob job = RunningJob();
    Scene scene{.job = job, .observed = SceneBuilder(job).Launcher().Workers(3).Build()};
    Result<control::LauncherStatus> answer =
        control::DecodeLauncherStatus(control::EncodeLauncherStatus(hostile.Answer()));
    ASSERT_TRUE(answer.ok()) << answer.error().message;
    Bound(*answer);
    scene.Answers(*answer);
    scene.launcher->steps_per_second = 1e-300;

    ExpectTakenByTheCrd(api::EncodeStatus(scene.Make().status));
  }
}

TEST(LauncherWords, AnyVerdictGivesAStatusThatTheCrdTakes) {
  HostileLauncher hostile(2);
  for (int i = 0; i < 60; ++i) {
    const api::TrainingJob job = RunningJob();
    const std::string words = hostile.Verdict();
    const Observed observed =
        SceneBuilder(job).With(PodBuilder::Launcher(1).Ended(1, "Error", words)).Workers(3).Build();

    const Plan plan = Scene{.job = job, .observed = observed}.Make();

    ExpectTakenByTheCrd(api::EncodeStatus(plan.status));
  }
}

TEST(LauncherWords, AReasonIsAWord) {
  for (const std::string& reason :
       {std::string(), std::string("two words"), std::string("9Lives"), std::string("0Lives"),
        std::string("9"), std::string("naïve"), std::string("a\nb"), std::string("Failed\"}"),
        std::string(65, 'A')}) {
    control::Verdict verdict{.reason = reason};
    Bound(verdict);
    EXPECT_EQ(verdict.reason, "") << reason;
  }
  for (const std::string& reason :
       {std::string(control::kReasonRankFailed), std::string(64, 'A')}) {
    control::Verdict verdict{.reason = reason};
    Bound(verdict);
    EXPECT_EQ(verdict.reason, reason);
  }
}

TEST(LauncherWords, AWordHasLettersAndDigitsAlone) {
  control::Verdict word{.reason = "AZaz09"};
  Bound(word);
  EXPECT_EQ(word.reason, "AZaz09");
  for (const char other : {'@', '[', '`', '{', '/', ':', '-'}) {
    control::Verdict verdict{.reason = std::string("A") + other};
    Bound(verdict);
    EXPECT_EQ(verdict.reason, "") << other;
  }
}

TEST(LauncherWords, NumbersTextsAndListsHaveALimit) {
  const std::string text(100'000, 'x');
  control::LauncherStatus status = ringmaster::testing::RunningWorld(1);
  status.world_size = std::numeric_limits<int>::max();
  status.progress = control::Progress{.step = std::numeric_limits<int64_t>::max()};
  status.message = text;
  status.workers[0].faults.assign(20, {.check = text, .message = text});
  status.unprotected.assign(20, {.what = text, .pod = text, .message = text});
  control::RankExit exit{.rank = std::numeric_limits<int>::max(),
                         .exit_code = 1000,
                         .signal = 1000,
                         .last_lines = std::vector<std::string>(12, text),
                         .stack = text};
  exit.last_lines.front() = "first";
  exit.last_lines.back() = "last";
  status.failures.assign(20, exit);
  status.failures.back().rank = status.failures.back().exit_code = -1000;
  status.failures.back().signal = -1000;
  status.stragglers.push_back({.for_seconds = std::numeric_limits<int64_t>::max()});

  Bound(status);

  EXPECT_EQ(status.world_size, 1 << 24);
  EXPECT_EQ(status.progress->step, int64_t{9'007'199'254'740'992}) << "2^53";
  EXPECT_EQ(status.message.size(), 2048U);
  ASSERT_EQ(status.workers[0].faults.size(), 16U);
  EXPECT_EQ(status.workers[0].faults[0].check.size(), 253U);
  EXPECT_EQ(status.workers[0].faults[0].message.size(), 2048U);
  ASSERT_EQ(status.unprotected.size(), 16U);
  EXPECT_EQ(status.unprotected[0].pod.size(), 253U);
  ASSERT_EQ(status.failures.size(), api::kMaxFailures);
  const control::RankExit& one = status.failures.front();
  EXPECT_EQ(one.rank, 1 << 24);
  EXPECT_EQ(one.exit_code, 255);
  EXPECT_EQ(one.signal, 127);
  EXPECT_EQ(one.stack.size(), control::kMaxStackBytes);
  ASSERT_EQ(one.last_lines.size(), 10U);
  EXPECT_EQ(one.last_lines.front().size(), 300U);
  EXPECT_EQ(one.last_lines.back(), "last");
  const control::RankExit& last = status.failures.back();
  EXPECT_EQ(last.rank, -1);
  EXPECT_EQ(last.exit_code, -1);
  EXPECT_EQ(last.signal, 0);
  EXPECT_EQ(status.stragglers.front().for_seconds, 1'000'000'000);
}

TEST(LauncherWords, CountsAreNotNegative) {
  control::LauncherStatus status;
  status.ordered = status.world_size = status.crashes = -1;
  status.stragglers.push_back({.rank = -1});
  control::Verdict verdict;
  verdict.world_size = verdict.clean_exits = -1;

  Bound(status);
  Bound(verdict);

  for (const int count :
       {status.ordered, status.world_size, status.crashes, status.stragglers.front().rank,
        verdict.world_size, verdict.clean_exits}) {
    EXPECT_EQ(count, 0);
  }
}

TEST(LauncherWords, AnHonestLaunchersReportIsUnchanged) {
  control::LauncherStatus honest = ringmaster::testing::RunningWorld(3);
  honest.message = "waiting for digits-worker-2";
  honest.progress = control::Progress{.step = 7, .total_steps = 9, .loss = 0.5};
  honest.failures.push_back(
      {.rank = 1, .pod = "digits-worker-1", .exit_code = 1, .last_lines = {"x"}});
  const std::string before = control::EncodeLauncherStatus(honest);

  Bound(honest);

  EXPECT_EQ(control::EncodeLauncherStatus(honest), before);
}

}  // namespace
}  // namespace ringmaster::job
