#include "operator/job/admission/gpu_resources.h"

#include <optional>
#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "common/json/json.h"
#include "operator/api/codec.h"
#include "tests/builders/job_builder.h"

namespace ringmaster::job {
namespace {

using ringmaster::testing::JobBuilder;

api::TrainingJobSpec WithLimits(const std::string& limits) {
  return JobBuilder()
      .WorkerTemplate(R"({"spec": {"containers": [{"name": "worker", "resources": {"limits": )" +
                      limits + "}}]}}")
      .Build()
      .spec;
}

TEST(GpuResources, SlotsComeFromWhatTheJobCallsGpus) {
  const auto slots = [](const char* worker) {
    nlohmann::json object{{"metadata", {{"name", "d"}, {"uid", "u"}}}};
    object["spec"]["worker"] = *ParseJson(worker);
    return SlotsPerWorker(api::DecodeTrainingJob(object)->spec);
  };
  EXPECT_EQ(slots(R"({"gpus": 8})"), 8);
  EXPECT_EQ(slots(R"({"gpus": 8, "gpuResource": "nvidia.com/gpu"})"), 8);
  EXPECT_EQ(slots(R"({"gpus": 8, "gpuResource": "example.com/gpu"})"), 8);
  EXPECT_EQ(slots(R"({"gpus": 8, "gpuResource": "nvidia.com/mig-1g.10gb"})"), 1);
  EXPECT_EQ(slots(R"({"gpus": 0})"), 1);
  EXPECT_EQ(slots(R"({"gpuResource": "example.com/gpu", "template": {"spec": {"containers":
    [{"name": "worker", "resources": {"limits": {"example.com/gpu": "2"}}}]}}})"),
            2);
  EXPECT_EQ(slots(R"({"resources": {"limits": {"example.com/gpu": 2}}})"), 1);
}

TEST(GpuResources, SlotsComeFromTheSpecElseFromTheGpus) {
  struct Row {
    std::optional<int> slots;
    const char* limits;
    int expected;
  };
  const Row table[] = {{std::nullopt, R"({})", 1},
                       {std::nullopt, R"({"nvidia.com/gpu": 8})", 8},
                       {std::nullopt, R"({"nvidia.com/gpu": "4"})", 4},
                       {2, R"({"nvidia.com/gpu": 8})", 2}};
  for (const Row& row : table) {
    api::TrainingJobSpec spec = WithLimits(row.limits);
    spec.slots_per_worker = row.slots;

    EXPECT_EQ(SlotsPerWorker(spec), row.expected);
  }
}

TEST(GpuResources, GpusOfAWorkerAreWholeOnesOrOneIfItHasParts) {
  struct Row {
    const char* limits;
    int expected;
  };
  const Row table[] = {{R"({})", 0},
                       {"null", 0},
                       {"[1]", 0},
                       {R"({"cpu": 4})", 0},
                       {R"({"nvidia.com/gpu": 1})", 1},
                       {R"({"nvidia.com/gpu": 2})", 2},
                       {R"({"nvidia.com/gpu": "many"})", 0},
                       {R"({"nvidia.com/gpu": 1025})", 1024},
                       {R"({"nvidia.com/mig-1g.5gb": 3})", 1},
                       {R"({"nvidia.com/gpu.shared": 1})", 1},
                       {R"({"nvidia.com/gpu": 2, "nvidia.com/mig-1g.5gb": 3})", 2}};
  for (const Row& row : table) {
    EXPECT_EQ(GpusPerWorker(WithLimits(row.limits)), row.expected) << row.limits;
  }
  EXPECT_EQ(GpusPerWorker(JobBuilder().WorkerTemplate("no JSON").Build().spec), 0);
}

TEST(GpuResources, AContainerTakesGpusHoweverTheirNumberIsWritten) {
  const std::pair<const char*, bool> table[] = {
      {"null", false},
      {"[1]", false},
      {R"({"cpu": 4})", false},
      {R"({"nvidia.com/gpu": 0})", false},
      {R"({"nvidia.com/gpu": 1})", true},
      {R"({"nvidia.com/gpu": true})", false},
      {R"({"nvidia.com/gpu": "0"})", false},
      {R"({"nvidia.com/gpu": "0k"})", false},
      {R"({"nvidia.com/gpu": "0e9"})", false},
      {R"({"nvidia.com/gpu": "1"})", true},
      {R"({"nvidia.com/gpu": "+0.5k"})", true},
      {R"({"nvidia.com/mig-1g.5gb": 2})", true},
  };
  for (const auto& [limits, takes] : table) {
    const nlohmann::json container{{"resources", {{"limits", *ParseJson(limits)}}}};
    EXPECT_EQ(TakesGpus(container), takes) << limits;
  }
}

}  // namespace
}  // namespace ringmaster::job
