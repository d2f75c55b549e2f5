// Tests the line protocol over real sockets: TLS on loopback, and unix sockets.

#include "common/control/line_connection.h"

#include <cerrno>
#include <filesystem>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/write.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/control/blocking_line_client.h"
#include "tests/fakes/other_version.h"
#include "tests/unit/control/test_certificate.h"

namespace ringmaster::control {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;
using Connection = std::shared_ptr<LineConnection>;

constexpr char kName[] = "launcher.job.ringmaster.dev";

// One end of a connection. Records its messages and events.
struct End {
  Connection connection;
  std::vector<Message> messages;
  std::string closed;
  int drained = 0;

  void Take(Connection taken) {
    connection = std::move(taken);
    connection->Start({.on_message = [this](Message m) { messages.push_back(std::move(m)); },
                       .on_closed = [this](const std::string& reason) { closed = reason; },
                       .on_drained = [this] { ++drained; }});
  }
};

class LineConnections : public testing::Test {
 protected:
  LineConnections() {
    char pattern[] = "/tmp/ringmaster-line-XXXXXX";
    directory = ::mkdtemp(pattern);
    socket = directory + "/socket";
  }
  ~LineConnections() override { std::filesystem::remove_all(directory); }

  // Runs the event loop until `done` returns true, for at most ten seconds.
  template <typename Done>
  bool Until(Done done) {
    const auto limit = std::chrono::steady_clock::now() + 10s;
    while (!done() && std::chrono::steady_clock::now() < limit) io.run_one_for(50ms), io.restart();
    return done();
  }

  void ConnectUnix(const ListenOptions& options = {}) {
    auto listening = ListenUnix(io, socket, options,
                                [this](Connection accepted) { server.Take(std::move(accepted)); });
    ASSERT_TRUE(listening.ok()) << listening.error().message;
    listener = std::move(*listening);
    DialUnix(io, socket, {}, [this](Result<Connection> dialled) {
      ASSERT_TRUE(dialled.ok());
      client.Take(*dialled);
    });
    ASSERT_TRUE(Until([this] { return server.connection && client.connection; }));
  }

  // Connects to a launcher that presents `shown`. The client trusts `trusted` and expects `name`.
  Result<Connection> DialLauncher(const TestCertificate& shown, const TestCertificate& trusted,
                                  const std::string& name) {
    server_tls = *TlsContext::Server(shown.key_pem, shown.certificate_pem);
    client_tls = *TlsContext::Client(trusted.certificate_pem, name);
    listener = *ListenTls(io, "127.0.0.1", 0, *server_tls, {},
                          [this](Connection accepted) { server.Take(std::move(accepted)); });
    std::optional<Result<Connection>> result;
    DialTls(io, "127.0.0.1", listener->port(), *client_tls,
            {.connect_timeout = 5s, .handshake_timeout = 5s, .limits = {}},
            [&](Result<Connection> dialled) { result = std::move(dialled); });
    EXPECT_TRUE(Until([&] { return result.has_value(); }));
    return std::move(*result);
  }

  std::string directory;
  std::string socket;
  std::unique_ptr<TlsContext> server_tls;
  std::unique_ptr<TlsContext> client_tls;
  boost::asio::io_context io;
  End server;
  End client;
  std::unique_ptr<LineListener> listener;
};

TEST_F(LineConnections, CarryMessagesBothWaysInOrder) {
  ConnectUnix();
  for (int i = 0; i < 100; ++i) client.connection->Send(RankDone{{1, 1}, i});
  server.connection->Send(Welcome{3, 100});

  ASSERT_TRUE(
      Until([this] { return server.messages.size() == 100 && client.messages.size() == 1; }));
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(std::get<RankDone>(server.messages[static_cast<std::size_t>(i)]).rank, i);
  }
  // The writer is notified once the kernel has all data, which may be after the reader has read it.
  EXPECT_TRUE(
      Until([this] { return client.drained > 0 && client.connection->queued_bytes() == 0; }));
}

TEST_F(LineConnections, CarryLinesAlmostAsLongAsTheLimit) {
  ConnectUnix();
  client.connection->Send(RankOutput{false, std::string(700 << 10, 'x')});

  ASSERT_TRUE(Until([this] { return server.messages.size() == 1; }));
  EXPECT_EQ(std::get<RankOutput>(server.messages[0]).data.size(), 700U << 10);
}

TEST_F(LineConnections, GiveTheKernelAMessageThatIsSentNow) {
  boost::asio::local::stream_protocol::acceptor acceptor(
      io, boost::asio::local::stream_protocol::endpoint(socket));
  DialUnix(io, socket, {}, [this](Result<Connection> dialled) { client.Take(*dialled); });
  ASSERT_TRUE(Until([this] { return client.connection != nullptr; }));
  const auto raw = acceptor.accept();

  client.connection->SendNow(RankDone{{1, 1}, 1});  // the event loop does not run from here

  const std::size_t line = Encode(RankDone{{1, 1}, 1}).size() + 1;
  EXPECT_EQ(raw.available(), line);
  EXPECT_EQ(client.connection->queued_bytes(), 0U);
  client.connection->Send(RankDone{{1, 1}, 1});
  client.connection->SendNow(RankDone{{1, 1}, 1});
  EXPECT_EQ(raw.available(), line) << "a queued message is first";
  EXPECT_TRUE(Until([&] { return raw.available() == 3 * line; }));
}

TEST_F(LineConnections, KeepTheOrderOfSharedAndOwnLines) {
  ConnectUnix();
  const SharedLine shared(Welcome{3, 250});
  const SharedLine large(Refused{std::string(100 << 10, 'x')});
  client.connection->Send(RankDone{{1, 1}, 1});
  client.connection->SendShared(shared);
  client.connection->SendShared(large);
  client.connection->Send(RankDone{{1, 1}, 2});

  ASSERT_TRUE(Until([this] { return server.messages.size() == 4; }));
  EXPECT_EQ(std::get<RankDone>(server.messages[0]).rank, 1);
  EXPECT_EQ(std::get<Welcome>(server.messages[1]).heartbeat_millis, 250);
  EXPECT_EQ(std::get<Refused>(server.messages[2]).reason.size(), 100U << 10);
  EXPECT_EQ(std::get<RankDone>(server.messages[3]).rank, 2);
}

// If there are too many handshakes, the connection that has been silent for longest is closed.
TEST_F(LineConnections, UnfinishedHandshakesDoNotLockOutOtherClients) {
  const TestCertificate certificate = MakeTestCertificate(kName);
  server_tls = *TlsContext::Server(certificate.key_pem, certificate.certificate_pem);
  client_tls = *TlsContext::Client(certificate.certificate_pem, kName);
  listener = *ListenTls(io, "127.0.0.1", 0, *server_tls,
                        {.handshake_timeout = 60s, .max_handshakes = 50, .limits = {}},
                        [this](Connection accepted) { server.Take(std::move(accepted)); });
  std::vector<boost::asio::ip::tcp::socket> strangers;
  for (int i = 0; i < 200; ++i) {
    strangers.emplace_back(io).connect({boost::asio::ip::make_address("127.0.0.1"),
                                        static_cast<unsigned short>(listener->port())});
  }
  DialTls(io, "127.0.0.1", listener->port(), *client_tls,
          {.connect_timeout = 5s, .handshake_timeout = 5s, .limits = {}},
          [this](Result<Connection> dialled) {
            ASSERT_TRUE(dialled.ok()) << dialled.error().message;
            client.Take(*dialled);
          });

  EXPECT_TRUE(Until([this] { return server.connection && client.connection; }));
}

TEST_F(LineConnections, CloseRatherThanSendALineThatIsTooLong) {
  ConnectUnix();
  client.connection->Send(RankOutput{false, std::string(kMaxLineBytes, 'x')});

  ASSERT_TRUE(Until([this] { return !client.closed.empty(); }));
  EXPECT_THAT(client.closed, HasSubstr("exceeds the maximum line length"));
}

TEST_F(LineConnections, CloseWhenThePeerDoesNotRead) {
  ConnectUnix();
  // A connection that was not started does not read.
  Connection deaf;
  DialUnix(io, socket, {}, [&](Result<Connection> dialled) { deaf = *dialled; });
  ASSERT_TRUE(Until([&] { return deaf != nullptr; }));
  Until([this] { return server.messages.empty(); });
  End busy;
  auto other =
      ListenUnix(io, socket + "2",
                 {.handshake_timeout = 5s, .max_handshakes = 1, .limits = {kMaxLineBytes, 1 << 20}},
                 [&](Connection accepted) { busy.Take(std::move(accepted)); });
  DialUnix(io, socket + "2", {}, [&](Result<Connection> dialled) { deaf = *dialled; });
  ASSERT_TRUE(Until([&] { return busy.connection != nullptr; }));

  for (int i = 0; i < 10 && busy.connection->open(); ++i) {
    busy.connection->Send(RankOutput{false, std::string(200 << 10, 'x')});
  }

  ASSERT_TRUE(Until([&] { return !busy.closed.empty(); }));
  EXPECT_THAT(busy.closed, HasSubstr("reads too slowly"));
}

TEST_F(LineConnections, CloseOnAnInvalidLine) {
  ConnectUnix();
  boost::asio::local::stream_protocol::socket raw(io);
  raw.connect(boost::asio::local::stream_protocol::endpoint(socket));
  server = {};
  ASSERT_TRUE(Until([this] { return server.connection != nullptr; }));
  boost::asio::write(raw, boost::asio::buffer(std::string(
                              "{\"type\":\"Heartbeat\"}\nhello\n{\"type\":\"Heartbeat\"}\n")));

  ASSERT_TRUE(Until([this] { return !server.closed.empty(); }));
  EXPECT_THAT(server.closed, HasSubstr("invalid line"));
  EXPECT_EQ(server.messages.size(), 1U);
}

TEST_F(LineConnections, SkipUnknownMessageTypes) {
  ConnectUnix();
  boost::asio::local::stream_protocol::socket raw(io);
  raw.connect(boost::asio::local::stream_protocol::endpoint(socket));
  server = {};
  ASSERT_TRUE(Until([this] { return server.connection != nullptr; }));
  boost::asio::write(raw, boost::asio::buffer(UnknownLine() + "\n{\"type\":\"Heartbeat\"}\n"));

  ASSERT_TRUE(Until([this] { return !server.messages.empty(); }));
  EXPECT_EQ(server.messages.size(), 1U);
  EXPECT_EQ(server.closed, "");
}

TEST_F(LineConnections, ABlockingClientSkipsUnknownMessageTypes) {
  boost::asio::local::stream_protocol::acceptor acceptor(
      io, boost::asio::local::stream_protocol::endpoint(socket));
  auto blocking = BlockingLineClient::Connect(socket);
  ASSERT_TRUE(blocking.ok());
  auto raw = acceptor.accept();
  boost::asio::write(raw, boost::asio::buffer(UnknownLine() + "\n{\"type\":\"Shutdown\"}\n"));

  const auto heard = (*blocking)->Receive(std::chrono::steady_clock::now() + 10s);

  ASSERT_TRUE(heard.ok()) << heard.error().message;
  EXPECT_TRUE(std::holds_alternative<Shutdown>(*heard));
}

TEST_F(LineConnections, CloseOnALineLongerThanTheLimit) {
  ConnectUnix({.handshake_timeout = 5s, .max_handshakes = 1, .limits = {1000, 1 << 20}});
  boost::asio::local::stream_protocol::socket raw(io);
  raw.connect(boost::asio::local::stream_protocol::endpoint(socket));
  server = {};
  ASSERT_TRUE(Until([this] { return server.connection != nullptr; }));
  boost::asio::write(raw, boost::asio::buffer(std::string(1000, '{')));

  ASSERT_TRUE(Until([this] { return !server.closed.empty(); }));
  EXPECT_THAT(server.closed, HasSubstr("longer than 1000 bytes"));
}

TEST_F(LineConnections, AcceptLongerLinesOnceTheLimitIsRaised) {
  ConnectUnix({.handshake_timeout = 5s, .max_handshakes = 1, .limits = {1000, 1 << 20}});
  server.connection->SetMaxLineBytes(kMaxLineBytes);
  client.connection->Send(RankOutput{false, std::string(5000, 'x')});
  server.connection->Send(RankOutput{false, std::string(5000, 'x')});

  EXPECT_TRUE(Until([this] { return server.messages.size() == 1 && client.messages.size() == 1; }));
}

TEST_F(LineConnections, SendQueuedMessagesBeforeTheyFinish) {
  ConnectUnix();
  server.connection->Send(Refused{"wrong token"});
  server.connection->Finish("refused");

  ASSERT_TRUE(Until([this] { return !client.closed.empty() && !server.closed.empty(); }));
  ASSERT_EQ(client.messages.size(), 1U);
  EXPECT_EQ(server.closed, "refused");
  EXPECT_THAT(client.closed, HasSubstr("closed the connection"));
}

TEST_F(LineConnections, FinishEvenIfThePeerDoesNotClose) {
  ConnectUnix();
  Connection deaf;
  server = {};
  DialUnix(io, socket, {}, [&](Result<Connection> dialled) { deaf = *dialled; });
  ASSERT_TRUE(Until([&] { return deaf && server.connection; }));
  server.connection->Finish("over");

  EXPECT_TRUE(Until([this] { return server.closed == "over"; }));
}

TEST_F(LineConnections, FinishOnceASlowPeerHasReadAll) {
  ConnectUnix();
  server = {};
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  socket.copy(address.sun_path, sizeof address.sun_path - 1);
  const int slow = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
  ASSERT_EQ(::connect(slow, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_TRUE(Until([this] { return server.connection != nullptr; }));
  constexpr int kMessages = 64;  // far more than the kernel buffers
  for (int i = 0; i < kMessages; ++i) {
    server.connection->Send(RankOutput{false, std::string(12'000, 'x')});
  }
  server.connection->Finish("over");

  int read = 0;
  std::vector<char> bytes(16 << 10);
  ssize_t got = -1;
  while (got != 0) {
    const auto pause = std::chrono::steady_clock::now() + 50ms;
    while (std::chrono::steady_clock::now() < pause) io.run_one_for(5ms), io.restart();
    got = ::read(slow, bytes.data(), bytes.size());
    ASSERT_TRUE(got >= 0 || errno == EAGAIN);
    for (ssize_t i = 0; i < got; ++i) read += bytes[static_cast<std::size_t>(i)] == '\n' ? 1 : 0;
  }
  ::close(slow);

  EXPECT_EQ(read, kMessages);
  EXPECT_TRUE(Until([this] { return server.closed == "over"; }));
}

TEST_F(LineConnections, ReportACloseOnceAndNoMessageAfterIt) {
  ConnectUnix();
  int closes = 0;
  End once;
  Connection dialled_connection;
  server = {};
  DialUnix(io, socket, {}, [&](Result<Connection> dialled) {
    dialled_connection = *dialled;
    dialled_connection->Start(
        {.on_message =
             [&](const Message&) {
               dialled_connection->Close("first");
               dialled_connection->Close("second");
             },
         .on_closed = [&](const std::string& reason) { closes += reason == "first" ? 1 : 10; },
         .on_drained = {}});
  });
  ASSERT_TRUE(Until([&] { return dialled_connection && server.connection; }));
  server.connection->Send(Heartbeat{});
  server.connection->Send(Heartbeat{});

  ASSERT_TRUE(Until([&] { return closes > 0 && !server.closed.empty(); }));
  EXPECT_EQ(closes, 1);
}

TEST_F(LineConnections, CarryMessagesOverTls) {
  const TestCertificate certificate = MakeTestCertificate(kName);
  auto dialled = DialLauncher(certificate, certificate, kName);
  ASSERT_TRUE(dialled.ok()) << dialled.error().message;
  client.Take(*dialled);
  client.connection->Send(Heartbeat{});
  ASSERT_TRUE(Until([this] { return server.messages.size() == 1; }));
  server.connection->Send(StoreValues{{1, 1}, 1, 0, {std::string(500 << 10, 'v')}});

  ASSERT_TRUE(Until([this] { return client.messages.size() == 1; }));
  EXPECT_EQ(TlsServerName("job"), kName);
}

TEST_F(LineConnections, TrustOnlyTheJobsOwnCertificateUnderItsName) {
  const TestCertificate ours = MakeTestCertificate(kName);
  const TestCertificate planted = MakeTestCertificate(kName);

  EXPECT_FALSE(DialLauncher(planted, ours, kName).ok());
  EXPECT_FALSE(DialLauncher(ours, ours, "launcher.other.ringmaster.dev").ok());
  EXPECT_FALSE(TlsContext::Server(planted.key_pem, ours.certificate_pem).ok());
  EXPECT_FALSE(TlsContext::Server("nonsense", "nonsense").ok());
  EXPECT_FALSE(TlsContext::Client("nonsense", kName).ok());
}

TEST_F(LineConnections, ReportThatNobodyListens) {
  const TestCertificate certificate = MakeTestCertificate(kName);
  client_tls = *TlsContext::Client(certificate.certificate_pem, kName);
  int port = 0;
  {
    boost::asio::ip::tcp::acceptor taken(io, {boost::asio::ip::make_address("127.0.0.1"), 0});
    port = taken.local_endpoint().port();
  }
  std::vector<ErrorKind> kinds;
  const auto note = [&](const Result<Connection>& dialled) {
    kinds.push_back(dialled.error().kind);
  };
  DialTls(io, "127.0.0.1", port, *client_tls, {}, note);
  DialTls(io, "launcher.example", 1, *client_tls, {}, note);
  DialUnix(io, directory + "/nobody", {}, note);

  ASSERT_TRUE(Until([&] { return kinds.size() == 3; }));
  EXPECT_THAT(kinds, testing::UnorderedElementsAre(ErrorKind::kUnavailable, ErrorKind::kInvalid,
                                                   ErrorKind::kUnavailable));
}

TEST_F(LineConnections, TimeOutIfThePeerDoesNotCompleteTheHandshake) {
  const TestCertificate certificate = MakeTestCertificate(kName);
  client_tls = *TlsContext::Client(certificate.certificate_pem, kName);
  boost::asio::ip::tcp::acceptor mute(io, {boost::asio::ip::make_address("127.0.0.1"), 0});
  std::optional<Error> error;
  DialTls(io, "127.0.0.1", mute.local_endpoint().port(), *client_tls,
          {.connect_timeout = 1s, .handshake_timeout = 50ms, .limits = {}},
          [&](const Result<Connection>& dialled) { error = dialled.error(); });

  ASSERT_TRUE(Until([&] { return error.has_value(); }));
  EXPECT_EQ(error->kind, ErrorKind::kTimeout);
}

// The trainer uses the blocking client. Its calls block, so the event loop runs on another thread.
TEST_F(LineConnections, ExchangeMessagesWithABlockingClient) {
  std::vector<Message> got;
  Connection peer;
  auto listening = ListenUnix(io, socket, {}, [&](Connection accepted) {
    peer = std::move(accepted);
    peer->Start({.on_message =
                     [&](Message message) {
                       got.push_back(std::move(message));
                       peer->Send(Release{{1, 2}});
                       peer->Send(Shutdown{});
                     },
                 .on_closed = [&](const std::string&) { io.stop(); },
                 .on_drained = {}});
  });
  ASSERT_TRUE(listening.ok());
  std::jthread loop([this] { io.run(); });
  const auto soon = [] { return std::chrono::steady_clock::now() + 10s; };

  auto blocking = BlockingLineClient::Connect(socket);
  ASSERT_TRUE(blocking.ok());
  EXPECT_EQ((*blocking)->Receive(std::chrono::steady_clock::now()).error().kind,
            ErrorKind::kTimeout);
  ASSERT_TRUE((*blocking)->Send(RankHello{1, 2}, soon()).ok());
  const auto first = (*blocking)->Receive(soon());
  const auto second = (*blocking)->Receive(soon());
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_TRUE(std::holds_alternative<Release>(*first));
  EXPECT_TRUE(std::holds_alternative<Shutdown>(*second));

  std::jthread waiting(
      [&] { EXPECT_EQ((*blocking)->Receive(soon()).error().kind, ErrorKind::kUnavailable); });
  (*blocking)->Shutdown();
  waiting.join();
  EXPECT_FALSE((*blocking)->Send(RankHello{1, 2}, soon()).ok());
  loop.join();
  EXPECT_EQ(got.size(), 1U);
  EXPECT_FALSE(BlockingLineClient::Connect(directory + "/nobody").ok());
}

TEST_F(LineConnections, ABlockingSendTimesOut) {
  ListenUnix(io, socket, {}, [](const Connection&) {}).ok();
  auto listening = ListenUnix(io, socket, {}, [](const Connection&) {});
  auto blocking = BlockingLineClient::Connect(socket);
  ASSERT_TRUE(blocking.ok());
  Result<void> sent;
  for (int i = 0; i < 100 && sent.ok(); ++i) {
    sent = (*blocking)->Send(RankOutput{false, std::string(500 << 10, 'x')},
                             std::chrono::steady_clock::now() + 10ms);
  }

  EXPECT_EQ(sent.error().kind, ErrorKind::kTimeout);
}

}  // namespace
}  // namespace ringmaster::control
