// Tests how the version of mpirun is determined, with fake mpirun programs.

#include "worker/launcher/mpi/mpirun_runner.h"

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/patience.h"
#include "tests/unit/trainer/temporary_folder.h"

namespace ringmaster::launcher {
namespace {

using testing::HasSubstr;

class MpirunRunnerTest : public testing::Test {
 protected:
  // Returns the result for an mpirun that is this shell script; empty: mpirun does not exist.
  Result<MpiVersion> Asked(const std::string& script, std::chrono::milliseconds limit) {
    const std::string file = folder_.path() + "/mpirun";
    if (!script.empty()) {
      std::ofstream(file) << "#!/bin/sh\n" << script << '\n';
      std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    }
    Config config;
    config.environment = {{"PATH", folder_.path()}};
    boost::asio::io_context io;
    ChildReaper reaper(io);
    MpirunRunner runner(reaper, config, "", "", [](int64_t, const MpirunExit&) {});
    std::optional<Result<MpiVersion>> answer;
    runner.Probe(limit, [&](Result<MpiVersion> version) {
      EXPECT_FALSE(answer.has_value()) << "it is called once";
      answer = std::move(version);
      io.stop();
    });
    if (!answer) io.run_for(std::chrono::seconds(20) * Patience());
    EXPECT_FALSE(runner.running());
    return answer ? *answer : Error{ErrorKind::kInternal, "it did not answer"};
  }

 private:
  const trainer::TemporaryFolder folder_;
};

TEST_F(MpirunRunnerTest, ReportsItsVersion) {
  const auto version = Asked("echo 'mpirun (Open MPI) 4.1.4'", std::chrono::seconds(600));

  ASSERT_TRUE(version.ok()) << version.error().message;
  EXPECT_EQ(version->version, "4.1.4");
}

TEST_F(MpirunRunnerTest, DistinguishesAMissingMpirunFromAnotherOne) {
  EXPECT_EQ(Asked("", std::chrono::seconds(600)).error().kind, ErrorKind::kNotFound);
  const auto another = Asked("echo 'HYDRA build details:'", std::chrono::seconds(600));
  EXPECT_EQ(another.error().kind, ErrorKind::kInvalid);
  EXPECT_THAT(another.error().message, HasSubstr("HYDRA build details"));
}

TEST_F(MpirunRunnerTest, OneThatDoesNotAnswerIsKilledAndReported) {
  const auto version = Asked("trap '' TERM; while :; do :; done", std::chrono::seconds(1));

  ASSERT_FALSE(version.ok());
  EXPECT_EQ(version.error().kind, ErrorKind::kUnavailable);
  EXPECT_THAT(version.error().message, HasSubstr("mpirun --version did not respond within 1 s"));
}

}  // namespace
}  // namespace ringmaster::launcher
