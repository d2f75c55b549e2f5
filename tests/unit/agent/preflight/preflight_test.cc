#include "worker/agent/preflight/preflight.h"

#include <future>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/control/agent_launcher_messages.h"
#include "worker/agent/host/sshd.h"

namespace ringmaster::agent {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

Config WithPath(const std::string& path) {
  Config config;
  config.spec.command = {"no-such-program-anywhere"};
  config.launcher_address = "127.0.0.1";
  config.container = {{"PATH", path}};
  return config;
}

std::vector<Finding> RunPreflight(const Config& config, const std::map<std::string, Check>& checks,
                                  std::chrono::milliseconds limit) {
  boost::asio::io_context io;
  std::vector<Finding> findings;
  Preflight preflight(io, config, checks, limit,
                      [&](std::vector<Finding> found) { findings = std::move(found); });
  io.run();
  return findings;
}

TEST(Preflight, CollectsWhatTheChecksFind) {
  const auto findings =
      RunPreflight(WithPath("/nowhere"),
                   {{"good", [](const Config&) { return std::optional<Finding>(); }},
                    {"bad",
                     [](const Config&) {
                       return std::optional<Finding>({"bad", "is bad; make it good"});
                     }}},
                   std::chrono::seconds(10));

  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].check, "bad");
}

TEST(Preflight, ACheckThatThrowsIsAFinding) {
  const auto findings = RunPreflight(
      WithPath("/nowhere"),
      {{"broken",
        [](const Config&) -> std::optional<Finding> { throw std::runtime_error("oops"); }}},
      std::chrono::seconds(10));

  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_THAT(findings[0].message, HasSubstr("oops"));
}

std::promise<void>* g_let_go = nullptr;  // global, because a Check is a plain function

std::optional<Finding> Stuck(const Config& /*config*/) {
  g_let_go->get_future().wait();
  return std::nullopt;
}

TEST(Preflight, ACheckThatHangsIsAFindingWhenTimeIsUp) {
  std::promise<void> let_go;
  g_let_go = &let_go;
  const Config config = WithPath("/nowhere");
  boost::asio::io_context io;
  std::vector<Finding> findings;
  Preflight preflight(io, config, {{"stuck", Stuck}}, std::chrono::milliseconds(1),
                      [&](std::vector<Finding> found) {
                        findings = std::move(found);
                        g_let_go->set_value();
                      });
  io.run();

  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].check, "volume") << "the launcher may ignore the check's own name";
  EXPECT_THAT(findings[0].message, HasSubstr("(stuck)"));
}

TEST(Preflight, AFailureIsReportedAlthoughAnotherCheckHangs) {
  std::promise<void> let_go;
  g_let_go = &let_go;
  const Config config = WithPath("/nowhere");
  const auto began = std::chrono::steady_clock::now();
  boost::asio::io_context io;
  std::vector<Finding> findings;
  Preflight preflight(io, config,
                      {{"bad",
                        [](const Config&) {
                          return std::optional<Finding>({"bad", "is bad"});
                        }},
                       {"stuck", Stuck}},
                      std::chrono::seconds(60), [&](std::vector<Finding> found) {
                        findings = std::move(found);
                        g_let_go->set_value();
                      });
  io.run();

  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(60));
  ASSERT_THAT(findings, SizeIs(2));
  EXPECT_EQ(findings[0].check, "bad");
  EXPECT_TRUE(findings[1].timed_out);
  EXPECT_THAT(findings[1].message, HasSubstr("(stuck)"));
  EXPECT_THAT(findings[1].message, Not(HasSubstr("volume"))) << "nobody knows yet";
}

// Only the launcher knows whether mpirun starts the ranks.
TEST(Preflight, AFindingThatMayNotMatterDoesNotShortenTheOthersTime) {
  std::promise<void> let_go;
  g_let_go = &let_go;
  const Config config = WithPath("/nowhere");
  boost::asio::io_context io;
  std::vector<Finding> findings;
  Preflight preflight(io, config, {{control::kCheckMpi, CheckMpiDaemon}, {"slow", Stuck}},
                      std::chrono::seconds(60),
                      [&](std::vector<Finding> found) { findings = std::move(found); });
  boost::asio::steady_timer longer_than_after_a_failure(io, std::chrono::milliseconds(1500));
  longer_than_after_a_failure.async_wait(
      [](const boost::system::error_code&) { g_let_go->set_value(); });
  io.run();

  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].check, control::kCheckMpi);
}

TEST(PreflightChecks, NameWhatTheImageLacks) {
  const Config config = WithPath("/nowhere");

  ASSERT_TRUE(CheckMpiDaemon(config).has_value());
  EXPECT_THAT(CheckMpiDaemon(config)->message, HasSubstr("install Open MPI"));
  ASSERT_TRUE(CheckProgram(config).has_value());
  EXPECT_THAT(CheckProgram(config)->message, HasSubstr("no-such-program-anywhere"));
}

// sshd rejects users without an entry in /etc/passwd.
TEST(PreflightChecks, SshdNeedsANameForTheUser) {
  Config config = WithPath("/nowhere");
  ASSERT_NE(FindSshd(config.Path()), "");

  ASSERT_TRUE(CheckSshd(config).has_value());
  EXPECT_EQ(CheckSshd(config)->check, control::kCheckSshd);
  EXPECT_THAT(CheckSshd(config)->message, HasSubstr("has no name in the image's /etc/passwd"));
  config.user = "trainer";
  EXPECT_FALSE(CheckSshd(config).has_value());

  config.user.clear();
  config.spec.launch_agent = control::LaunchAgent::kAgent;
  EXPECT_FALSE(CheckSshd(config).has_value());
}

TEST(PreflightChecks, AGpuJobWithoutGpusIsAFault) {
  Config config = WithPath("/nowhere");
  const GpuList no_nvml{.problem = "there is no libnvidia-ml.so.1"};
  EXPECT_FALSE(CheckGpus(config, no_nvml).has_value());

  config.gpus = 1024;

  ASSERT_TRUE(CheckGpus(config, no_nvml).has_value());
  EXPECT_THAT(CheckGpus(config, no_nvml)->message, HasSubstr("1024 GPUs"));
  EXPECT_THAT(CheckGpus(config, no_nvml)->message, HasSubstr("there is no libnvidia-ml.so.1"));
}

TEST(PreflightChecks, GpusThatDoNotAnswerAreNamed) {
  Config config = WithPath("/nowhere");
  config.gpus = 4;
  config.container["NVIDIA_VISIBLE_DEVICES"] = "GPU-0,GPU-1,GPU-2,GPU-3";
  GpuList gpus{.devices = {{"GPU-0"}, {"GPU-1"}, {"GPU-2"}, {"GPU-3"}}};
  EXPECT_FALSE(CheckGpus(config, gpus).has_value());

  // One GPU was lost after NVML had found it, one was lost before, and one was never found.
  gpus.devices = {{"GPU-0"}, {"GPU-1", "GPU is lost"}, {"", "GPU is lost"}};

  ASSERT_TRUE(CheckGpus(config, gpus).has_value());
  EXPECT_THAT(
      CheckGpus(config, gpus)->message,
      HasSubstr("was assigned 4 GPUs and 1 answer; GPU-1 does not (GPU is lost), GPU-2 does "
                "not (GPU is lost), GPU-3 does not (the driver does not list it)"));
}

TEST(PreflightChecks, ADriverThatHangsIsAFault) {
  Config config = WithPath("/nowhere");
  config.gpus = 1;

  const auto fault = CheckGpus(config, {.problem = "the driver did not list", .hangs = true});

  ASSERT_TRUE(fault.has_value());
  EXPECT_THAT(fault->message, HasSubstr("was assigned 1 GPU and the driver did not list"));
}

TEST(PreflightChecks, AnInterfaceThatIsNotThereIsNamedWithThoseThatAre) {
  Config config = WithPath("/nowhere");
  EXPECT_FALSE(CheckAddress(config).has_value());

  config.spec.interfaces.include = {"lo", "nic7"};

  ASSERT_TRUE(CheckAddress(config).has_value());
  EXPECT_THAT(CheckAddress(config)->message, HasSubstr("nic7"));
  EXPECT_THAT(CheckAddress(config)->message, HasSubstr("lo"));
}

TEST(PreflightChecks, HostNames) {
  for (const char* legal : {"a", "digits-worker-0", "node1.example.com", "1a"}) {
    EXPECT_TRUE(IsLegalHostName(legal)) << legal;
  }
  const std::string long_label(64, 'a');
  for (const std::string& illegal : {std::string(""), std::string("-a"), std::string("a_b"),
                                     std::string("a..b"), std::string("a."), long_label}) {
    EXPECT_FALSE(IsLegalHostName(illegal)) << illegal;
  }
}

}  // namespace
}  // namespace ringmaster::agent
