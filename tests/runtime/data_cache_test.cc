// Tests workers that copy their data into a cache before their ranks load, with the real agent,
// launcher and trainer. Folders replace the volumes.

#include <csignal>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/control/exit_codes.h"
#include "common/control/pod_contract.h"
#include "common/control/reasons.h"
#include "tests/fakes/file_lease.h"
#include "tests/runtime/job.h"
#include "tests/unit/trainer/idx_files.h"

namespace ringmaster::runtime_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr int kTrainSamples = 64;
constexpr int kTestSamples = 20;
constexpr int kExitTerminated = 128 + SIGTERM;

std::string Images(int count) {
  std::string pixels;
  for (int i = 0; i < count * 28 * 28; ++i) pixels += static_cast<char>(i * 7);
  return trainer::IdxImageBytes(static_cast<uint32_t>(count), 28, 28, pixels);
}

std::string Labels(int count) {
  std::string labels;
  for (int i = 0; i < count; ++i) labels += static_cast<char>(i % 10);
  return trainer::IdxLabelBytes(static_cast<uint32_t>(count), labels);
}

class DataCache : public testing::Test {
 protected:
  void SetUp() override {
    if (!Hosts::Possible()) GTEST_SKIP() << "making network namespaces needs root";
  }

  // Returns the spec of a run of one epoch. The number of its steps depends on the source's data.
  static control::LaunchSpec OneEpoch() {
    control::LaunchSpec spec;
    spec.command = {TrainProgram(), "--threads=1", "--workload=mnist", "--global-batch=32",
                    "--epochs=1"};
    return spec;
  }

  static void MakeSource(const Job& job) {
    const std::string folder = job.Path("volume/mnist/");
    std::filesystem::create_directories(folder);
    WriteFile(folder + "train-images-idx3-ubyte", Images(kTrainSamples));
    WriteFile(folder + "train-labels-idx1-ubyte", Labels(kTrainSamples));
    WriteFile(folder + "t10k-images-idx3-ubyte", Images(kTestSamples));
    WriteFile(folder + "t10k-labels-idx1-ubyte", Labels(kTestSamples));
    WriteFile(folder + "readme", "the last file of the source");
    WriteFile(job.Path("volume/other"), "not wanted");
  }
  static std::string LastFile(const Job& job) { return job.Path("volume/mnist/readme"); }

  static void StartAgent(Job* job, int worker, const std::string& pod_uid = "") {
    const std::string cache = Cache(*job, worker);
    std::filesystem::create_directories(cache);
    job->StartAgent(worker, pod_uid,
                    {{control::kEnvDataSource, job->Path("volume")},
                     {control::kEnvDataSubPath, "mnist"},
                     {control::kEnvDataDir, cache}});
  }
  static std::string Cache(const Job& job, int worker) {
    return job.Path("cache-" + std::to_string(worker));
  }
  // Starts the job's only worker, which fills its cache until a lease on the last file is released.
  static void StartFilling(Job* job) {
    job->StartLauncher();
    StartAgent(job, 0);
    job->SendOrder({0});
    EXPECT_TRUE(Says(job, "is filling its data cache: "));
  }
  // Kills worker 0's agent. Returns after all processes of the agent's container have ended.
  static void Kill(Job* job) {
    Hosts::Signal(job->agent(0), SIGKILL);
    ASSERT_TRUE(job->agent(0).Wait(Seconds(10)).has_value());
  }
  static bool Says(Job* job, const std::string& text) {
    return WaitUntil(Seconds(20),
                     [&] { return job->Status().message.find(text) != std::string::npos; });
  }
};

TEST_F(DataCache, RanksWaitForTheDataAndTrainFromIt) {
  Job job(3, OneEpoch());
  MakeSource(job);
  FileLease lease(LastFile(job));
  ASSERT_TRUE(lease.held());
  job.StartLauncher();
  StartAgent(&job, 0);
  StartAgent(&job, 1);
  job.SendOrder({0, 1});

  EXPECT_TRUE(Says(&job, "(node-of-digits-worker-0) is filling its data cache: "));
  for (const int worker : {0, 1}) {
    EXPECT_THAT(job.agent(worker).Log(),
                AllOf(Not(HasSubstr("Started a rank")), Not(HasSubstr("Reported the worker"))));
  }
  lease.End();
  const control::Verdict verdict = job.AwaitVerdict();

  EXPECT_TRUE(verdict.succeeded) << verdict.message;
  EXPECT_EQ(verdict.world_size, 2);
  ASSERT_TRUE(verdict.progress.has_value());
  EXPECT_EQ(verdict.progress->total_steps, kTrainSamples / 32);
  for (const int worker : {0, 1}) {
    const std::string log = job.agent(worker).Log();
    EXPECT_LT(log.find("Filled the data cache"), log.find("Started a rank")) << log;
    EXPECT_TRUE(std::filesystem::exists(Cache(job, worker) + "/train-images-idx3-ubyte"));
    EXPECT_FALSE(std::filesystem::exists(Cache(job, worker) + "/other"));
  }
}

TEST_F(DataCache, AnAgentThatIsKilledInTheMiddleFillsItAgain) {
  Job job(2, OneEpoch());
  MakeSource(job);
  FileLease lease(LastFile(job));
  ASSERT_TRUE(lease.held());
  StartFilling(&job);

  Kill(&job);
  lease.End();
  StartAgent(&job, 0);
  const control::Verdict verdict = job.AwaitVerdict();

  EXPECT_TRUE(verdict.succeeded) << verdict.message;
  EXPECT_EQ(verdict.progress->total_steps, kTrainSamples / 32);
}

TEST_F(DataCache, AFilledCacheOutlivesItsAgent) {
  Job job(2, OneEpoch());
  MakeSource(job);
  job.StartLauncher();
  StartAgent(&job, 0);
  ASSERT_TRUE(WaitUntil(Seconds(20), [&] {
    return job.agent(0).Log().find("Filled the data cache") != std::string::npos;
  }));

  Kill(&job);
  std::filesystem::remove(LastFile(job));
  StartAgent(&job, 0);
  job.SendOrder({0});
  const control::Verdict verdict = job.AwaitVerdict();

  EXPECT_TRUE(verdict.succeeded) << verdict.message;
  EXPECT_THAT(job.agent(0).Log(), HasSubstr("Found the data cache filled"));
}

TEST_F(DataCache, SigtermInTheMiddleEndsTheAgentAtOnce) {
  Job job(2, OneEpoch());
  MakeSource(job);
  FileLease lease(LastFile(job));
  ASSERT_TRUE(lease.held());
  StartFilling(&job);

  Hosts::Signal(job.agent(0), SIGTERM);
  const auto ended = job.agent(0).Wait(Seconds(5));

  ASSERT_TRUE(ended.has_value()) << "the agent waits for its copy";
  EXPECT_EQ(ended->exit_code, kExitTerminated);
}

TEST_F(DataCache, DataThatDoesNotFitEndsTheJobWithASentence) {
  Job job(2, OneEpoch());
  MakeSource(job);
  const std::string huge = job.Path("volume/mnist/huge");
  WriteFile(huge, "");
  std::filesystem::resize_file(huge, std::uintmax_t{8} << 40);
  job.StartLauncher();
  StartAgent(&job, 0);
  job.SendOrder({0});

  const control::Verdict verdict = job.AwaitVerdict();

  EXPECT_FALSE(verdict.succeeded);
  EXPECT_EQ(verdict.reason, control::kReasonPreflightFailed);
  EXPECT_THAT(verdict.message,
              AllOf(HasSubstr("digits-worker-0 (node-of-digits-worker-0) failed the check "
                              "'data-cache': the data is 8.1 TiB in 6 files but the memory volume "
                              "holds "),
                    HasSubstr("spec.dataCache.sizeLimit")));
  EXPECT_FALSE(std::filesystem::exists(Cache(job, 0) + "/readme"));
}

}  // namespace
}  // namespace ringmaster::runtime_test
