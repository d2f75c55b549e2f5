#include "worker/trainer/environment/rank_failure.h"

#include <optional>

#include <gtest/gtest.h>

#include "common/control/exit_codes.h"

namespace ringmaster::trainer {
namespace {

// The numbers and names of errors are those of driver_types.h.
const GpuFault kNoDevice{100, "cudaErrorNoDevice", "no CUDA-capable device is detected"};
const GpuFault kEcc{214, "cudaErrorECCUncorrectable", "uncorrectable ECC error encountered"};
const GpuFault kLaunch{719, "cudaErrorLaunchFailure", "unspecified launch failure"};

TEST(RankFailure, AnUnhealthyDeviceIsTheCauseOfAllElse) {
  const Error peers{ErrorKind::kUnavailable, "reducing with the other ranks: NCCL reported no"};
  const Error invalid{ErrorKind::kInvalid, "the job requests 4 GPUs: its GPU is gone"};

  for (const GpuFault& fault : {kNoDevice, kEcc}) {
    EXPECT_EQ(FailureOf(peers, SessionEnd::kPeerLost, fault, "GPU-7").exit_code,
              control::kExitDeviceUnhealthy);
    EXPECT_EQ(FailureOf(invalid, SessionEnd::kNone, fault, "GPU-7").exit_code,
              control::kExitDeviceUnhealthy);
  }
  EXPECT_EQ(FailureOf(peers, SessionEnd::kNone, kEcc, "GPU-7").message,
            "the GPU GPU-7 of this rank is no longer usable: CUDA reported \"uncorrectable ECC "
            "error encountered\" (cudaErrorECCUncorrectable); reducing with the other ranks: NCCL "
            "reported no");
}

TEST(RankFailure, AnErrorThatAKernelCausedIsNamedAndCounts) {
  const Error said{ErrorKind::kUnavailable, GpuFaultText(kLaunch, "")};

  const RankFailure failure = FailureOf(said, SessionEnd::kNone, kLaunch, "");

  EXPECT_EQ(failure.exit_code, control::kExitFailed);
  EXPECT_EQ(failure.message,
            "the GPU of this rank is no longer usable: CUDA reported \"unspecified launch "
            "failure\" (cudaErrorLaunchFailure)");
}

TEST(RankFailure, WithoutAFaultTheErrorDecides) {
  const auto code = [](ErrorKind kind, SessionEnd end) {
    return FailureOf({kind, "why"}, end, std::nullopt, "GPU-7").exit_code;
  };
  EXPECT_EQ(code(ErrorKind::kInvalid, SessionEnd::kNone), control::kExitUserError);
  EXPECT_EQ(code(ErrorKind::kUnavailable, SessionEnd::kNone), control::kExitFailed);
  EXPECT_EQ(code(ErrorKind::kUnavailable, SessionEnd::kPeerLost), control::kExitPeerLost);
}

}  // namespace
}  // namespace ringmaster::trainer
