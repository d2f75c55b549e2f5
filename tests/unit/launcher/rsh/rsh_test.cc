// Tests the requests of mpirun to its remote shell and their results, with a fake launcher.

#include "worker/launcher/rsh/rsh.h"

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/control/line_connection.h"
#include "common/control/messages.h"
#include "tests/unit/trainer/temporary_folder.h"

namespace ringmaster::launcher {
namespace {

using testing::HasSubstr;

TEST(RshArguments, AreAHostAndTheWordsOfALineForItsShell) {
  const auto request =
      ReadRshArguments({"--socket=/r/rsh.sock", "10.0.0.2", "PATH=/a:$PATH ; export PATH ; orted",
                        "-mca", "ess", "\"env\""});

  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(request->socket, "/r/rsh.sock");
  EXPECT_EQ(request->host, "10.0.0.2");
  EXPECT_EQ(request->command, "PATH=/a:$PATH ; export PATH ; orted -mca ess \"env\"");
}

TEST(RshArguments, ThatAreWrongAreReported) {
  struct Case {
    std::vector<std::string> arguments;
    const char* said;
  };
  for (const Case& c :
       {Case{{}, "--socket is missing"}, Case{{"10.0.0.2", "true"}, "--socket is missing"},
        Case{{"-l", "root", "h", "true"}, "unknown option \"-l\""},
        Case{{"--socket=/r", "-F", "h", "true"}, "unknown option \"-F\""},
        Case{{"--socket=/r"}, "the host is missing"},
        Case{{"--socket=/r", "h"}, "the command is missing"},
        Case{{"--socket=/r", "h", std::string(control::kMaxCommandBytes, 'x'), "y"},
             "the command has 131073 bytes, but a shell accepts at most 131071"}}) {
    const auto request = ReadRshArguments(c.arguments);
    ASSERT_FALSE(request.ok()) << c.said;
    EXPECT_THAT(request.error().message, HasSubstr(c.said));
  }
}

class Rsh : public testing::Test {
 protected:
  struct Outcome {
    int exit_code = -1;
    std::string out;
    std::string err;
  };

  // Runs the remote shell. The launcher sends these answers and closes the connection.
  Outcome Run(const std::vector<control::Message>& answers) {
    boost::asio::io_context io;
    std::shared_ptr<control::LineConnection> shell;
    auto listener = control::ListenUnix(
        io, socket_, {}, [&](std::shared_ptr<control::LineConnection> accepted) {
          shell = std::move(accepted);
          shell->Start({.on_message =
                            [&](const control::Message& message) {
                              asked_ = std::get<control::RshHello>(message);
                              for (const control::Message& answer : answers) shell->Send(answer);
                              shell->Finish("all is said");
                            },
                        .on_closed = [&](const std::string&) { io.stop(); },
                        .on_drained = {}});
        });
    EXPECT_TRUE(listener.ok());
    std::thread launcher([&io] { io.run(); });
    const Outcome outcome = RunAlone();
    launcher.join();
    return outcome;
  }
  Outcome RunAlone() const {
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    Outcome outcome;
    outcome.exit_code = RunRemotely({socket_, "10.0.0.2", "orted"});
    outcome.out = testing::internal::GetCapturedStdout();
    outcome.err = testing::internal::GetCapturedStderr();
    return outcome;
  }

  const trainer::TemporaryFolder folder_;
  const std::string socket_ = folder_.path() + "/rsh.sock";
  control::RshHello asked_;
};

TEST_F(Rsh, PrintsWhatTheCommandDoesAndEndsAsItDoes) {
  const Outcome code =
      Run({control::CommandOutput{1, false, "out"}, control::CommandOutput{1, true, "err"},
           control::CommandExited{1, 3, 0, ""}});
  const Outcome killed = Run({control::CommandExited{1, -1, 9, ""}});

  EXPECT_EQ(asked_.host, "10.0.0.2");
  EXPECT_EQ(asked_.command, "orted");
  EXPECT_EQ(code.exit_code, 3);
  EXPECT_EQ(code.out, "out");
  EXPECT_EQ(code.err, "err");
  EXPECT_EQ(killed.exit_code, 128 + 9);
}

TEST_F(Rsh, ReportsWhyAHostIsNotReachedAsSshDoes) {
  const Outcome alone = RunAlone();
  const Outcome refused = Run({control::Refused{"no worker has that name"}});
  const Outcome fault = Run({control::CommandExited{1, -1, 0, "there is no sh"}});
  const Outcome lost = Run({control::CommandOutput{1, false, "half"}});

  for (const Outcome& outcome : {alone, refused, fault, lost}) {
    EXPECT_EQ(outcome.exit_code, 255);
    EXPECT_THAT(outcome.err, testing::StartsWith("ringmaster-rsh: 10.0.0.2: "));
  }
  EXPECT_THAT(alone.err, HasSubstr("the launcher does not answer"));
  EXPECT_THAT(refused.err, HasSubstr("no worker has that name"));
  EXPECT_THAT(fault.err, HasSubstr("there is no sh"));
  EXPECT_THAT(lost.err, HasSubstr("lost the launcher"));
  EXPECT_EQ(lost.out, "half");
}

}  // namespace
}  // namespace ringmaster::launcher
