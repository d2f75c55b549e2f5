// Tests the agent's connection to a launcher, over real TLS on loopback.

#include "worker/agent/links/launcher_link.h"

#include <algorithm>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/patience.h"
#include "tests/unit/control/test_certificate.h"

namespace ringmaster::agent {
namespace {

using control::Message;
using namespace std::chrono_literals;

constexpr char kLauncherName[] = "launcher.job.ringmaster.dev";

class LauncherLinkTest : public testing::Test {
 protected:
  struct Accepted {
    std::shared_ptr<control::LineConnection> connection;
    std::vector<Message> heard;
    bool closed = false;
  };

  LauncherLinkTest() {
    const control::TestCertificate certificate = control::MakeTestCertificate(kLauncherName);
    server_tls = *control::TlsContext::Server(certificate.key_pem, certificate.certificate_pem);
    client_tls = *control::TlsContext::Client(certificate.certificate_pem, kLauncherName);
    listener = *control::ListenTls(
        io, "127.0.0.1", 0, *server_tls, {},
        [this](std::shared_ptr<control::LineConnection> connection) {
          Accepted& accepted = *accepteds.emplace_back(std::make_unique<Accepted>());
          accepted.connection = std::move(connection);
          accepted.connection->Start(
              {.on_message =
                   [&accepted](Message message) { accepted.heard.push_back(std::move(message)); },
               .on_closed = [&accepted](const std::string&) { accepted.closed = true; },
               .on_drained = {}});
          if (answer) accepted.connection->Send(*answer);
        });
  }

  void StartLink(std::chrono::milliseconds silence_limit = 60s) {
    link = std::make_unique<LauncherLink>(
        io, *client_tls,
        LinkOptions{.address = "127.0.0.1",
                    .port = listener->port(),
                    .connect_timeout = 5000ms,
                    .first_retry = 5ms,
                    .redial = 20ms,
                    .superseded_retry = 20ms,
                    .silence_limit = silence_limit,
                    .unreachable_after = unreachable_after},
        LauncherLink::Handlers{
            .hello = [] { return control::AgentHello{}; },
            .on_welcome =
                [this](std::int64_t term) {
                  terms.push_back(term);
                  return term >= lowest_term;
                },
            .on_message = [this](const Message& message) { heard.push_back(message); },
            .on_refused = [this](const std::string& reason) { refused = reason; },
            .on_drained = [this] { ++drained; },
            .on_unreachable = [this] { ++unreachable; }});
    link->Start();
  }

  template <typename Done>
  bool Until(Done done) {
    const auto limit = std::chrono::steady_clock::now() + 20s * Patience();
    while (!done() && std::chrono::steady_clock::now() < limit) io.run_one_for(50ms), io.restart();
    return done();
  }
  template <typename Wanted>
  std::int64_t Received(std::size_t connection) const {
    if (connection >= accepteds.size()) return 0;
    const auto& messages = accepteds[connection]->heard;
    return std::count_if(messages.begin(), messages.end(), [](const Message& message) {
      return std::holds_alternative<Wanted>(message);
    });
  }

  boost::asio::io_context io{1};
  std::unique_ptr<control::TlsContext> server_tls;
  std::unique_ptr<control::TlsContext> client_tls;
  std::optional<Message> answer = control::Welcome{3, 10};
  std::int64_t lowest_term = 0;
  std::vector<std::int64_t> terms;
  std::vector<Message> heard;
  std::string refused;
  int drained = 0;
  std::chrono::milliseconds unreachable_after = 600s;
  int unreachable = 0;
  std::vector<std::unique_ptr<Accepted>> accepteds;
  std::unique_ptr<control::LineListener> listener;
  std::unique_ptr<LauncherLink> link;
};

TEST_F(LauncherLinkTest, SendsAHelloAndTheHeartbeatsThatTheWelcomeAsksFor) {
  StartLink();

  ASSERT_TRUE(Until([this] { return Received<control::Heartbeat>(0) >= 5; }));
  EXPECT_EQ(Received<control::AgentHello>(0), 1);
  EXPECT_EQ(terms, std::vector<std::int64_t>{3});
  EXPECT_GT(drained, 0);
}

TEST_F(LauncherLinkTest, ReportsOnceThatNoLauncherCameBack) {
  unreachable_after = 300ms * Patience();
  StartLink();
  ASSERT_TRUE(Until([this] { return terms.size() == 1; }));
  accepteds[0]->connection->Close("a short break");
  ASSERT_TRUE(Until([this] { return terms.size() == 2; }));
  answer.reset();
  accepteds[1]->connection->Close("for good");

  ASSERT_TRUE(Until([this] { return unreachable > 0; }));
  EXPECT_EQ(terms.size(), 2U);
  io.run_for(400ms * Patience());
  EXPECT_EQ(unreachable, 1);
}

TEST_F(LauncherLinkTest, AShortBreakIsNoEnd) {
  unreachable_after = 500ms * Patience();
  StartLink();
  ASSERT_TRUE(Until([this] { return terms.size() == 1; }));
  accepteds[0]->connection->Close("a short break");
  ASSERT_TRUE(Until([this] { return terms.size() == 2; }));

  io.run_for(800ms * Patience());

  EXPECT_EQ(unreachable, 0);
}

TEST_F(LauncherLinkTest, SilenceEndsAConnectionAndItIsDialledAgain) {
  StartLink(200ms);  // the launcher does not answer the link's heartbeats

  ASSERT_TRUE(Until([this] { return terms.size() >= 2; }));
  EXPECT_TRUE(Until([this] { return accepteds[0]->closed; }));
  EXPECT_EQ(Received<control::AgentHello>(1), 1);
}

TEST_F(LauncherLinkTest, ALauncherWithRareHeartbeatsIsNotSilentBetweenThem) {
  answer = control::Welcome{3, 600 * Patience()};
  StartLink(100ms);
  ASSERT_TRUE(Until([this] { return terms.size() == 1; }));

  io.run_for(1500ms);  // the limit is four heartbeats: at least 2400 ms

  EXPECT_FALSE(accepteds[0]->closed);
  EXPECT_EQ(terms.size(), 1U);
}

TEST_F(LauncherLinkTest, ALauncherThatIsPatientWithItsWorkersMayBeSilentForAsLong) {
  answer =
      control::Welcome{.term = 3, .heartbeat_millis = 10, .lost_after_millis = 2000 * Patience()};
  StartLink(100ms);
  ASSERT_TRUE(Until([this] { return terms.size() == 1; }));

  io.run_for(1000ms);
  EXPECT_FALSE(accepteds[0]->closed);

  EXPECT_TRUE(Until([this] { return accepteds[0]->closed; }));
}

TEST_F(LauncherLinkTest, ABrokenConnectionIsDialledAgainAndKnowsNoMessagesMeanwhile) {
  StartLink();
  ASSERT_TRUE(Until([this] { return link->welcomed(); }));

  accepteds[0]->connection->Close("cut");
  ASSERT_TRUE(Until([this] { return !link->welcomed(); }));
  link->Send(control::RankReady{0, "lost"});
  ASSERT_TRUE(Until([this] { return link->welcomed(); }));
  link->Send(control::RankReady{0, "n-1"});

  ASSERT_TRUE(Until([this] { return Received<control::RankReady>(1) == 1; }));
}

TEST_F(LauncherLinkTest, ALauncherThatWasSupersededIsHungUpOnAndDialledAgain) {
  lowest_term = 4;
  StartLink();
  ASSERT_TRUE(Until([this] { return accepteds.size() >= 2; }));
  EXPECT_FALSE(link->welcomed());

  answer = control::Welcome{4, 10};

  EXPECT_TRUE(Until([this] { return link->welcomed(); }));
}

TEST_F(LauncherLinkTest, ARefusalIsReportedWithItsReason) {
  answer = control::Refused{"this Pod was declared lost"};
  StartLink();

  EXPECT_TRUE(Until([this] { return refused == "this Pod was declared lost"; }));
}

TEST_F(LauncherLinkTest, ALauncherOfANewerReleaseIsJoinedAndOneThatIsTooOldIsNot) {
  answer = control::Welcome{3, 10, control::kProtocolVersion + 1};
  StartLink();
  ASSERT_TRUE(Until([this] { return link->welcomed(); }));

  answer = control::Welcome{3, 10, control::kFirstProtocol - 1};
  accepteds[0]->connection->Close("cut");

  const std::string said = "protocol " + std::to_string(control::kFirstProtocol - 1);
  EXPECT_TRUE(Until([&] { return refused.find(said) != std::string::npos; }));
}

TEST_F(LauncherLinkTest, FinishSendsWhatIsQueuedAndDialsNoMore) {
  StartLink();
  ASSERT_TRUE(Until([this] { return link->welcomed(); }));
  bool finished = false;

  link->Send(control::AgentLeaving{"bye"});
  link->Finish([&finished] { finished = true; });

  ASSERT_TRUE(Until([&finished] { return finished; }));
  EXPECT_EQ(Received<control::AgentLeaving>(0), 1);
  EXPECT_EQ(accepteds.size(), 1U);
}

}  // namespace
}  // namespace ringmaster::agent
