// Tests the library as users use it: installs it into a folder, where CMake finds it, and links the
// example outside of the tree. The example then trains as a job in which a rank is killed.

#include <csignal>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/paths.h"
#include "tests/runtime/job.h"
#include "tests/runtime/logged_test.h"

namespace ringmaster::runtime_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::int64_t kSteps = 1500;  // takes a few seconds, so that a rank can be killed
constexpr Seconds kBuildLimit{600};
constexpr Seconds kLimit{120};
constexpr Seconds kTrainingLimit{400};

class Library : public LoggedTest {
 protected:
  void SetUp() override {
    LoggedTest::SetUp();
    if (logs_.empty()) return;
    std::filesystem::copy(FromBuild(RINGMASTER_EXAMPLE), logs_ + "/source");
    Must("install",
         {"cmake", "--install", BuildFolder(), "--prefix", Prefix(), "--component", "library"});
    Must("configure",
         {"cmake", "-S", logs_ + "/source", "-B", logs_ + "/build", "-G", "Ninja",
          "-DCMAKE_CXX_COMPILER=" RINGMASTER_COMPILER, "-DCMAKE_PREFIX_PATH=" + Prefix()});
    Must("build", {"cmake", "--build", logs_ + "/build"});
  }

  void Must(const std::string& name, const std::vector<std::string>& argv) const {
    Process process(argv, logs_ + "/" + name + ".log");
    const std::optional<Outcome> outcome = process.Wait(kBuildLimit);
    ASSERT_TRUE(outcome.has_value()) << name << ": " << process.Log();
    ASSERT_EQ(outcome->exit_code, 0) << name << ": " << process.Log();
  }

  std::string Prefix() const { return logs_ + "/prefix"; }

  std::string Program() const { return logs_ + "/build/autoencoder"; }

  control::LaunchSpec Example() const {
    control::LaunchSpec spec;
    spec.command = {Program(), std::to_string(kSteps)};
    spec.in_place = true;
    return spec;
  }

  static std::int64_t StepOf(Job& job) {
    const control::LauncherStatus status = job.Status();
    return status.progress ? status.progress->step : 0;
  }
};

TEST_F(Library, TheExampleBuildsOutsideOfTheTreeAndTrainsAloneAndThroughAKilledRank) {
  std::vector<std::string> headers;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(Prefix() + "/include")) {
    if (entry.is_regular_file()) headers.push_back(entry.path());
  }
  EXPECT_THAT(headers, ElementsAre(Prefix() + "/include/ringmaster/elastic.h"));

  const Ran alone =
      RunCommand({"env", "ASAN_OPTIONS=detect_leaks=0", "OMP_NUM_THREADS=1", Program(), "200"});
  EXPECT_EQ(alone.exit_code, 0) << alone.output;
  EXPECT_THAT(alone.output, HasSubstr("step 200: loss"));

  Job job(4, Example());
  job.worker_extra = {{"RINGMASTER_AUDIT_LOG", logs_ + "/audit"}};
  job.StartLauncher();
  for (const int worker : {0, 1, 2}) job.StartAgent(worker);
  job.SendOrder({0, 1, 2}, 2);
  ASSERT_TRUE(WaitUntil(kLimit, [&] { return StepOf(job) > 0; })) << job.Log();
  const control::Epoch before = job.Status().epoch;

  const std::vector<pid_t> ranks = Hosts::Find(job.agent(1), "autoencoder");
  ASSERT_EQ(ranks.size(), 1U);
  ASSERT_EQ(kill(ranks.front(), SIGKILL), 0);

  const control::Verdict verdict = job.AwaitVerdict(kTrainingLimit);
  EXPECT_TRUE(verdict.succeeded) << verdict.message;
  EXPECT_GT(verdict.epoch, before) << "the world never changed";
  ASSERT_TRUE(verdict.progress.has_value());
  EXPECT_EQ(verdict.progress->step, kSteps);
  EXPECT_LT(verdict.progress->loss, 0.1) << "it learned nothing";
  const Ran audit = Audit(kSteps);
  EXPECT_EQ(audit.exit_code, 0) << audit.output;
}

}  // namespace
}  // namespace ringmaster::runtime_test
