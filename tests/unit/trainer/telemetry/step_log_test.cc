#include "worker/trainer/telemetry/step_log.h"

#include <fstream>
#include <limits>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/unit/trainer/temporary_folder.h"

namespace ringmaster::trainer {
namespace {

using Json = nlohmann::json;

TEST(StepLog, StepLinesHaveTheDocumentedFields) {
  const Json line = Json::parse(ToJsonLine(StepRecord{.step = 7,
                                                      .epoch = 2,
                                                      .loss = 0.123456789,
                                                      .samples_per_second = 1000,
                                                      .data_ms = 1.5,
                                                      .compute_ms = 20.25,
                                                      .communication_ms = 0.125,
                                                      .world_size = 3,
                                                      .world_epoch = {.term = 2, .number = 5}}));

  EXPECT_EQ(line.at("step").get<int>(), 7);
  EXPECT_EQ(line.at("epoch").get<int>(), 2);
  EXPECT_NEAR(line.at("loss").get<double>(), 0.123456789, 1e-9);
  EXPECT_EQ(line.at("samples_per_second").get<double>(), 1000);
  EXPECT_EQ(line.at("data_ms").get<double>(), 1.5);
  EXPECT_EQ(line.at("compute_ms").get<double>(), 20.25);
  EXPECT_EQ(line.at("communication_ms").get<double>(), 0.125);
  EXPECT_EQ(line.at("world_size").get<int>(), 3);
  EXPECT_EQ(line.at("world_epoch"), Json::array({2, 5}));
}

TEST(StepLog, SummaryIsOneObjectUnderItsName) {
  const Json summary =
      Json::parse(ToJsonLine(RunSummary{.steps = 3, .accuracy = 0.975})).at("summary");

  for (const char* field :
       {"steps", "samples", "global_batch", "world_size", "seconds", "samples_per_second",
        "time_to_first_step_ms", "step_ms_median", "final_loss", "accuracy", "held_out_samples"}) {
    EXPECT_TRUE(summary.at(field).is_number()) << field;
  }
  EXPECT_NEAR(summary.at("accuracy").get<double>(), 0.975, 1e-9);
}

TEST(StepLog, StaysJsonWhenTheLossIsNoNumber) {
  const Json line =
      Json::parse(ToJsonLine(StepRecord{.loss = std::numeric_limits<double>::quiet_NaN()}));

  EXPECT_TRUE(line.at("loss").is_null());
}

std::vector<int64_t> StepsWritten(const LogEvery& every, control::Epoch (*world_of)(int64_t)) {
  StepPace pace(every);
  std::vector<int64_t> written;
  for (int64_t step = 1; step <= 300; ++step) {  // steps of 10 ms
    const Clock::Time now{std::chrono::hours(1) + std::chrono::milliseconds(10 * step)};
    if (pace.Due(step, world_of(step), now)) written.push_back(step);
  }
  return written;
}

TEST(StepPace, WritesByTheSecondOrByTheStepAndTheFirstOfAWorld) {
  const auto one = [](int64_t) { return control::Epoch{1, 1}; };
  const auto two = [](int64_t step) { return control::Epoch{1, step < 150 ? 1 : 2}; };
  using Steps = std::vector<int64_t>;

  EXPECT_EQ(StepsWritten({0, std::chrono::seconds(1)}, one), (Steps{1, 101, 201}));
  EXPECT_EQ(StepsWritten({0, std::chrono::seconds(1)}, two), (Steps{1, 101, 150, 250}));
  EXPECT_EQ(StepsWritten({100, {}}, one), (Steps{1, 100, 200, 300}));
  EXPECT_EQ(StepsWritten({100, {}}, two), (Steps{1, 100, 150, 200, 300}));
}

TEST(StepLog, WritesWholeLinesAtOnce) {
  const TemporaryFolder folder;
  auto log = StepLog::Open(folder.path() + "/log");
  ASSERT_TRUE(log.ok());

  log->Write("{\"step\":1}");

  std::ifstream file(folder.path() + "/log");
  std::string line;
  ASSERT_TRUE(std::getline(file, line));  // lines can be read while the log is open
  EXPECT_EQ(line, "{\"step\":1}");
}

TEST(StepLog, OnlyARestartEmptiesTheFile) {
  const TemporaryFolder folder;
  const std::string path = folder.Write("log", "{\"step\":7}\n");

  auto joiner = StepLog::Open(path);
  ASSERT_TRUE(joiner.ok());
  joiner->Write("{\"step\":8}");
  std::ifstream file(path);
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  EXPECT_EQ(line, "{\"step\":7}");

  joiner->Restart();
  joiner->Write("{\"step\":1}");
  std::ifstream again(path);
  ASSERT_TRUE(std::getline(again, line));
  EXPECT_EQ(line, "{\"step\":1}");
  EXPECT_FALSE(std::getline(again, line));
}

TEST(StepLog, RefusesAPathItCannotWrite) {
  const auto log = StepLog::Open("/nonexistent/folder/log");

  ASSERT_FALSE(log.ok());
  EXPECT_EQ(log.error().kind, ErrorKind::kInvalid);
}

}  // namespace
}  // namespace ringmaster::trainer
