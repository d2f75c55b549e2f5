#include "worker/trainer/comm/nccl/abort_limit.h"

#include <csignal>

#include <gtest/gtest.h>

namespace ringmaster::trainer {
namespace {

TEST(EndProcessThatHangs, IsAFailureOnlyBeforeTrainingHasEnded) {
  EXPECT_EXIT(EndProcessThatHangs("ncclCommAbort"), testing::KilledBySignal(SIGKILL),
              "ncclCommAbort did not return in time: .* is restarted");
  EXPECT_EXIT(
      {
        NoteTrainingEnded();
        EndProcessThatHangs("ncclCommAbort");
      },
      testing::ExitedWithCode(0), "ncclCommAbort did not return in time after training ended");
}

}  // namespace
}  // namespace ringmaster::trainer
