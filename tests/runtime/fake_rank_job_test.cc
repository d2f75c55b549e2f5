// Tests an elastic job from start to end, with ranks that have no model (fake_rank.cc): success,
// failures, and faults from which the job recovers.

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/control/exit_codes.h"
#include "common/control/pod_contract.h"
#include "common/control/reasons.h"
#include "tests/paths.h"
#include "tests/runtime/job.h"

namespace ringmaster::runtime_test {
namespace {

using control::LauncherPhase;
using testing::Contains;
using testing::ContainsRegex;
using testing::HasSubstr;

control::LaunchSpec FakeTraining(std::vector<std::string> flags, int slots = 1) {
  control::LaunchSpec spec;
  spec.command = {FakeTrainProgram()};
  spec.command.insert(spec.command.end(), flags.begin(), flags.end());
  spec.slots_per_worker = slots;
  return spec;
}

class FakeRankJob : public testing::Test {
 protected:
  void SetUp() override {
    if (!Hosts::Possible()) GTEST_SKIP() << "making network namespaces needs root";
  }

  static control::Verdict Run(Job& job, int workers) {
    job.StartLauncher();
    std::vector<int> all;
    for (int worker = 0; worker < workers; ++worker) {
      job.StartAgent(worker);
      all.push_back(worker);
    }
    job.SendOrder(all);
    return job.AwaitVerdict();
  }
};

TEST_F(FakeRankJob, SucceedsOnThreeHostsWithTwoSlotsEach) {
  Job job(4, FakeTraining({"--steps=5"}, 2));

  const control::Verdict verdict = Run(job, 3);

  EXPECT_TRUE(verdict.succeeded) << verdict.message;
  EXPECT_EQ(verdict.world_size, 6);
  EXPECT_EQ(verdict.clean_exits, 6);
  ASSERT_TRUE(verdict.progress.has_value());
  EXPECT_EQ(verdict.progress->step, 5);
  EXPECT_EQ(job.launcher().Wait(Seconds(1))->exit_code, 0);
  const std::string log = job.launcher().Log();
  EXPECT_THAT(log, HasSubstr("mpirun"));
  EXPECT_THAT(log, HasSubstr("--hostfile"));
  for (int rank = 0; rank < 6; ++rank) {
    EXPECT_THAT(log, HasSubstr("rank " + std::to_string(rank) + " of 6 in epoch 1"));
    EXPECT_THAT(log, HasSubstr("<stdout>:step 5 of rank " + std::to_string(rank)));
  }
  for (int worker = 0; worker < 3; ++worker) {
    const auto outcome = job.agent(worker).Wait(Seconds(10));
    ASSERT_TRUE(outcome.has_value()) << "agent " << worker << " outlives the job";
    EXPECT_EQ(outcome->exit_code, 0);
  }
}

TEST_F(FakeRankJob, RanksRunInTheWorkingDirectoryOfTheContainer) {
  Job job(2, FakeTraining({"--steps=2"}));
  job.working_dir = "/var/lib";

  const control::Verdict verdict = Run(job, 1);

  EXPECT_TRUE(verdict.succeeded) << verdict.message;
  EXPECT_THAT(job.launcher().Log(), HasSubstr("rank 0 runs in /var/lib"));
}

TEST_F(FakeRankJob, WorkersThatShareTheirNodesNetworkTrainTogether) {
  Job job(3, FakeTraining({"--steps=2"}, 2));
  job.host_network = {{0, 1}, {1, 1}, {2, 1}};

  const control::Verdict verdict = Run(job, 3);

  EXPECT_TRUE(verdict.succeeded) << verdict.message;
  EXPECT_EQ(verdict.world_size, 6);
  EXPECT_EQ(verdict.clean_exits, 6);
}

TEST_F(FakeRankJob, ARankThatFailsAfterTrainingFailsTheJob) {
  Job job(3, FakeTraining({"--steps=2", "--fail-rank=1", "--fail-code=3", "--fail-late=1"}));

  const control::Verdict verdict = Run(job, 2);

  EXPECT_FALSE(verdict.succeeded);
  EXPECT_EQ(verdict.reason, control::kReasonRankFailed);
  EXPECT_EQ(verdict.message,
            "training ended after step 2; then rank 1 on digits-worker-1 (node-of-digits-worker-1) "
            "exited with code 3; last output: rank 1 fails as it was asked to");
}

TEST_F(FakeRankJob, NamesTheRankThatExitsWithACode) {
  Job job(4, FakeTraining({"--steps=2", "--fail-rank=1", "--fail-code=3", "--until=never"}));
  job.launcher_extra = {{control::kEnvRestartLimit, "1"}};

  const control::Verdict verdict = Run(job, 3);

  EXPECT_FALSE(verdict.succeeded);
  EXPECT_EQ(verdict.reason, control::kReasonRankFailed);
  ASSERT_TRUE(verdict.first_failure.has_value());
  EXPECT_EQ(verdict.first_failure->rank, 1);
  EXPECT_EQ(verdict.first_failure->exit_code, 3);
  EXPECT_EQ(verdict.first_failure->pod, "digits-worker-1");
  EXPECT_EQ(verdict.first_failure->node, "node-of-digits-worker-1");
  EXPECT_THAT(verdict.first_failure->last_lines, Contains("rank 1 fails as it was asked to"));
  EXPECT_EQ(job.launcher().Wait(Seconds(1))->exit_code, 3);
}

// Two workers with four GPUs each. One file lists the GPUs for CUDA, another the GPUs for NVML.
class GpuJob : public FakeRankJob {
 protected:
  void SetUp() override {
    FakeRankJob::SetUp();
    std::string name = "/var/tmp/rmt-gpus-XXXXXX";
    folder = mkdtemp(name.data());
    Write("cuda", "GPU-0\nGPU-1\nGPU-2\nGPU-3\n");
    Write("nvml-0", kWorking);
    Write("nvml-1", kWorking);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder / "new") << text;
    std::filesystem::rename(folder / "new", folder / name);
  }
  std::vector<std::string> Flags(std::vector<std::string> more = {}) const {
    more.insert(more.end(), {"--steps=2", "--until=" + (folder / "go").string(),
                             "--cuda=" + (folder / "cuda").string()});
    return more;
  }
  void Start(Job& job) const {
    job.launcher_extra = {{control::kEnvRestartLimit, "0"}};
    job.StartLauncher();
    for (const int worker : {0, 1}) {
      job.StartAgent(worker, "",
                     {{control::kEnvGpus, "4"},
                      {control::kEnvNvmlLibrary, FromBuild(FAKE_NVML_LIBRARY)},
                      {"FAKE_NVML", folder / ("nvml-" + std::to_string(worker))}});
    }
    job.SendOrder({0, 1}, /*min_replicas=*/1);
  }
  // Expects that worker 0 leaves because of a GPU, and that the job succeeds without it.
  void ExpectLeft(Job& job, const std::string& why) const {
    const auto left = job.agent(0).Wait(Seconds(60));
    ASSERT_TRUE(left.has_value()) << job.Log();
    EXPECT_EQ(left->exit_code, control::kExitDeviceUnhealthy);
    control::LauncherStatus status;
    ASSERT_TRUE(WaitUntil(Seconds(60), [&] {
      status = job.Status();
      return !status.failures.empty();
    })) << job.Log();
    EXPECT_EQ(status.failures.back().exit_code, control::kExitDeviceUnhealthy);
    EXPECT_EQ(status.failures.back().pod, "digits-worker-0");
    EXPECT_EQ(status.failures.back().last_lines.back(), why);
    Write("go", "");
    const control::Verdict verdict = job.AwaitVerdict();
    EXPECT_TRUE(verdict.succeeded) << verdict.message;
    EXPECT_EQ(verdict.world_size, 4);
  }

  static constexpr char kWorking[] = "gpu GPU-0\ngpu GPU-1\ngpu GPU-2\ngpu GPU-3\n";
  std::filesystem::path folder;
};

// Without pinning, CUDA would assign the neighbour's GPU to the restarted rank.
TEST_F(GpuJob, ARankThatLostItsGpuTakesNoOtherAndItsPodIsReplaced) {
  Job job(3, FakeTraining(Flags({"--fail-rank=0", "--fail-signal=9",
                                 "--fail-once=" + (folder / "once").string()}),
                          4));
  Start(job);

  ExpectLeft(job,
             "GPU-0 of slot 0: CUDA reported \"no CUDA-capable device is detected\" "
             "(cudaErrorNoDevice)");

  const std::string log = job.agent(0).Log();
  for (const char* own : {"slot 0 holds GPU-0", "slot 1 holds GPU-1", "slot 3 holds GPU-3"}) {
    EXPECT_THAT(log, HasSubstr(own));
  }
  EXPECT_THAT(log, testing::Not(HasSubstr("slot 0 holds GPU-1")));
}

TEST_F(GpuJob, ARankWhoseGpuFellOffTheBusIsEndedThoughItHangs) {
  Job job(3, FakeTraining(Flags(), 4));
  Start(job);
  ASSERT_TRUE(job.WaitForPhase(LauncherPhase::kRunning)) << job.Log();

  Write("nvml-0", std::string(kWorking) + "xid 31 GPU-1\nxid 79 GPU-2\n");

  ExpectLeft(job, "GPU-2 of slot 2: the driver reported Xid 79 (the GPU has fallen off the bus)");
}

TEST_F(GpuJob, AGpuThatDoesNotAnswerAtTheStartIsNamed) {
  Write("nvml-0", "gpu GPU-0\ngpu GPU-1\nlost GPU-2\ngpu GPU-3\n");
  Job job(3, FakeTraining(Flags(), 4));
  Start(job);

  const control::Verdict verdict = job.AwaitVerdict();

  EXPECT_EQ(verdict.reason, control::kReasonPreflightFailed);
  EXPECT_THAT(verdict.message,
              HasSubstr("was assigned 4 GPUs and 3 answer; GPU-2 does not (GPU is lost)"));
}

TEST_F(FakeRankJob, ARankThatIsKilledByASignalComesBackAndIsNoFailure) {
  const std::string once = "/var/tmp/rmt-once-" + std::to_string(getpid());
  Job job(3,
          FakeTraining({"--steps=2", "--fail-rank=0", "--fail-signal=9", "--fail-once=" + once}));

  const control::Verdict verdict = Run(job, 2);

  EXPECT_TRUE(unlink(once.c_str()) == 0) << "no rank was killed";
  EXPECT_TRUE(verdict.succeeded) << verdict.message;
  EXPECT_EQ(verdict.world_size, 2);
  EXPECT_EQ(verdict.clean_exits, 2);
}

TEST_F(FakeRankJob, RanksThatAreKilledBeforeAnyStepEndTheJobWithWhatTheyPrintedLast) {
  Job job(3, FakeTraining({"--steps=0", "--fail-rank=0", "--fail-signal=9"}));

  const control::Verdict verdict = Run(job, 2);

  EXPECT_EQ(verdict.reason, control::kReasonCrashLoop);
  EXPECT_THAT(verdict.message, HasSubstr("5 times in a row"));
  ASSERT_TRUE(verdict.first_failure.has_value());
  EXPECT_EQ(verdict.first_failure->signal, SIGKILL);
  EXPECT_THAT(verdict.first_failure->last_lines, Contains("rank 0 fails as it was asked to"));
  EXPECT_FALSE(verdict.first_failure->out_of_memory.has_value());
}

TEST_F(FakeRankJob, ARankThatRunsOutOfMemoryIsNamedWithItsLimit) {
  if (!Hosts::CanLimitMemory()) {
    GTEST_SKIP() << "limiting memory needs root and a control group of version 1";
  }
  Job job(2, FakeTraining({"--steps=0", "--fail-rank=0", "--fail-memory=1"}));
  job.launcher_extra = {{control::kEnvCrashLimit, "2"}};
  job.LimitMemory(0, 512 << 20);

  const control::Verdict verdict = Run(job, 1);

  EXPECT_EQ(verdict.reason, control::kReasonOOMKilled);
  EXPECT_THAT(verdict.message, HasSubstr("the memory limit is 512 MiB"));
  ASSERT_TRUE(verdict.first_failure.has_value());
  ASSERT_TRUE(verdict.first_failure->out_of_memory.has_value());
  EXPECT_EQ(verdict.first_failure->out_of_memory->limit_bytes, 512 << 20);
  EXPECT_GT(verdict.first_failure->out_of_memory->peak_bytes, 256 << 20);
}

TEST_F(FakeRankJob, ReportsBadDataOfARankThatNeverGotToAnEpoch) {
  Job job(3, FakeTraining({"--preload-exit=2"}));

  const control::Verdict verdict = Run(job, 2);

  EXPECT_EQ(verdict.reason, control::kReasonUserError);
  ASSERT_TRUE(verdict.first_failure.has_value());
  EXPECT_EQ(verdict.first_failure->exit_code, control::kExitUserError);
  EXPECT_THAT(verdict.first_failure->last_lines, Contains("the data is not valid"));
  EXPECT_THAT(job.launcher().Log(), ContainsRegex("<stderr>: ?the data is not valid"));
}

TEST_F(FakeRankJob, ReportsWhichCommandDoesNotExistAndWhere) {
  control::LaunchSpec spec;
  spec.command = {"/nowhere/ringmaster-train"};
  Job job(2, spec);

  const control::Verdict verdict = Run(job, 1);

  EXPECT_FALSE(verdict.succeeded);
  EXPECT_EQ(verdict.reason, control::kReasonPreflightFailed);
  EXPECT_THAT(verdict.message, HasSubstr("/nowhere/ringmaster-train"));
  EXPECT_THAT(verdict.message, HasSubstr("digits-worker-0"));
}

// open() blocks on a FIFO without a writer, as it does on a volume that does not respond.
TEST_F(FakeRankJob, ReportsThatAVolumeMayHangIfAFileOfTheProgramCannotBeRead) {
  const std::string pipe = "/var/tmp/rmt-pipe-" + std::to_string(getpid()) + ".py";
  control::LaunchSpec in_place;
  in_place.command = {pipe};
  in_place.in_place = true;
  // Only the check "mpi-program" reads the file. The launcher ignores what this check finds,
  // because mpirun starts the ranks.
  control::LaunchSpec script;
  script.command = {"sh", pipe};
  for (const control::LaunchSpec& spec : {in_place, script}) {
    ASSERT_EQ(mkfifo(pipe.c_str(), 0755), 0);
    Job job(2, spec);

    const control::Verdict verdict = Run(job, 1);

    EXPECT_EQ(unlink(pipe.c_str()), 0);
    EXPECT_EQ(verdict.reason, control::kReasonPreflightFailed) << verdict.message;
    EXPECT_THAT(verdict.message, HasSubstr("check whether a volume of this Pod hangs"));
    EXPECT_THAT(verdict.message, HasSubstr("digits-worker-0"));
    EXPECT_TRUE(job.agent(0).Wait(Seconds(10)).has_value()) << "the agent outlives the job";
  }
}

TEST_F(FakeRankJob, FailsWhenGpusWereAskedForAndThereAreNone) {
  Job job(2, FakeTraining({}));
  job.worker_extra = {{"RINGMASTER_GPUS", "8"}};

  const control::Verdict verdict = Run(job, 1);

  EXPECT_EQ(verdict.reason, control::kReasonPreflightFailed);
  EXPECT_THAT(verdict.message, HasSubstr("8 GPUs"));
}

}  // namespace
}  // namespace ringmaster::runtime_test
