#include "operator/job/admission/gpu_resources.h"

#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "tests/builders/job_builder.h"

namespace ringmaster::job {
namespace {

using ringmaster::testing::JobBuilder;

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
    api::TrainingJob job =
        JobBuilder()
            .WorkerTemplate(
                std::string(
                    R"({"spec": {"containers": [{"name": "worker", "resources": {"limits": )") +
                row.limits + "}}]}}")
            .Build();
    job.spec.slots_per_worker = row.slots;

    EXPECT_EQ(SlotsPerWorker(job.spec), row.expected);
  }
}

}  // namespace
}  // namespace ringmaster::job
