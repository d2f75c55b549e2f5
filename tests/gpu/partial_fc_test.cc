// Compares a step of the partial-fc head on a GPU with a step on the host, up to rounding. Also
// tests that a row has the same bits in every shard.

#include <cstdio>

#include <gtest/gtest.h>

#include "tests/gpu/gpu_ranks.h"
#include "tests/unit/trainer/partial_fc/step_of_rows.h"
#include "worker/trainer/gpu/kernel_head_device.h"
#include "worker/trainer/partial_fc/host_head_device.h"

namespace ringmaster::trainer {
namespace {

using namespace partial_fc;

int Differs(bool same, const char* what) {
  if (!same) std::fprintf(stderr, "%s: not the host's\n", what);
  return same ? 0 : 1;
}

int CompareSteps(double rate) {
  const auto host = MakeHostHeadDevice();
  const auto device = MakeHeadDevice("cuda:0");
  const HeadOptions options = StepOptions(rate);
  const MadeByAStep expected = RunStep(options, *host, *host->MakeStep(), {10, 290});
  const MadeByAStep made = RunStep(options, *device, *device->MakeStep(), {10, 290});
  return Differs(made.sampled == expected.sampled, "sampled classes") +
         Differs(IsNear(made.maximum, expected.maximum), "maximum") +
         Differs(IsNear(made.sum, expected.sum), "sum") +
         Differs(IsNear(made.target, expected.target), "target") +
         Differs(IsNear(made.gradients, expected.gradients), "gradients") +
         Differs(IsNear(made.rows, expected.rows), "rows");
}

TEST(GpuPartialFc, AStepMakesWhatTheHostsDoes) {
  EXPECT_EQ(AwaitExit(StartGpuProcess(0, [] { return CompareSteps(1) + CompareSteps(0.3); }),
                      std::chrono::seconds(120)),
            0);
}

int ReplayParts() {
  const auto device = MakeHeadDevice("cuda:0");
  const auto step = device->MakeStep();
  const auto replayed = [&](ClassRange range) {
    Rows rows = Rows::Initial(range, kStepWidth, 1, *device);
    Replay(StepOptions(0.4), InputsOfTheStep(), *device, *step, rows);
    return rows;
  };
  const Rows whole = replayed({0, kStepClasses});
  int wrong = 0;
  for (const ClassRange range : {ClassRange{0, 1}, ClassRange{1, 202}, ClassRange{202, 300}}) {
    const Rows part = replayed(range);
    const Rows host = part.On(HostRows());
    wrong += Differs(part.Checksum() == whole.Checksum(range), "the bits of a part");
    wrong += Differs(part.Checksum() == host.Checksum(), "the checksum");
  }
  return wrong;
}

TEST(GpuPartialFc, AReplayOfAPartGivesTheBitsOfTheWhole) {
  EXPECT_EQ(AwaitExit(StartGpuProcess(0, ReplayParts), std::chrono::seconds(120)), 0);
}

}  // namespace
}  // namespace ringmaster::trainer
