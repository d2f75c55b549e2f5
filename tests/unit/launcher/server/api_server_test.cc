// Tests the HTTPS API for the operator: first a table with the answers to all requests and callers,
// then requests over a real TLS socket.

#include "worker/launcher/server/api_server.h"

#include <sys/resource.h>
#include <thread>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <gtest/gtest.h>

#include "tests/unit/control/test_certificate.h"

namespace ringmaster::launcher {
namespace {

namespace asio = boost::asio;

struct Server {
  Server() {
    options.operator_token = "secret";
    handlers.on_order = [this](const control::Order& order) -> Result<void> {
      if (order.stamp < last)
        return Error{ErrorKind::kConflict, "an order with a higher stamp was seen"};
      last = order.stamp;
      return {};
    };
    handlers.status = [this] {
      control::LauncherStatus status;
      status.last_order = last;
      return status;
    };
    handlers.metrics = [] { return "ringmaster_epoch 1\n"; };
  }
  ApiOptions options;
  ApiHandlers handlers;
  control::OrderStamp last{1, 5};
};

std::string OrderText(int64_t generation) {
  control::Order order;
  order.stamp = {1, generation};
  return control::EncodeOrder(order);
}

TEST(LauncherApi, AnswersByTable) {
  struct Case {
    const char* method;
    const char* target;
    std::string body;
    unsigned code;
  };
  const Case cases[] = {
      {"GET", "/v1/status", "", 200},
      {"PUT", "/v1/order", OrderText(5), 200},
      {"PUT", "/v1/order", OrderText(6), 200},
      {"PUT", "/v1/order", OrderText(4), 409},
      {"PUT", "/v1/order", "{", 400},
      {"PUT", "/v1/order", "[]", 400},
      {"GET", "/v1/order", "", 405},
      {"PUT", "/v1/status", "", 405},
      {"GET", "/", "", 404},
      {"GET", "/metrics", "", 200},
      {"PUT", "/metrics", "", 405},
  };
  Server server;
  for (const Case& c : cases) {
    const net::HttpAnswer answer =
        AnswerApiRequest(server.handlers, {.method = c.method, .target = c.target, .body = c.body});
    EXPECT_EQ(answer.code, c.code) << c.method << " " << c.target << " " << c.body;
  }
}

TEST(LauncherApi, TrustsTheTokenAlone) {
  const Server server;

  EXPECT_TRUE(Trusted(server.options, "Bearer secret"));
  for (const char* wrong : {"", "Bearer ", "Bearer secreT", "Basic secret", "Bearer guess"}) {
    EXPECT_FALSE(Trusted(server.options, wrong)) << wrong;
  }
}

TEST(LauncherApi, RefusesAllRequestsIfItHasNoToken) {
  Server server;
  server.options.operator_token.clear();

  EXPECT_FALSE(Trusted(server.options, "Bearer "));
  EXPECT_FALSE(Trusted(server.options, ""));
}

// Sends one HTTP request to the server over TLS, from a separate thread while this thread runs the
// server. Returns the answer.
std::string Exchange(const std::string& request) {
  const control::TestCertificate certificate =
      control::MakeTestCertificate("launcher.u.ringmaster.dev");
  auto server_tls = control::TlsContext::Server(certificate.key_pem, certificate.certificate_pem);
  auto client_tls =
      control::TlsContext::Client(certificate.certificate_pem, "launcher.u.ringmaster.dev");
  asio::io_context io;
  Server handlers;
  handlers.options.max_order_bytes = 4096;
  auto server =
      StartApiServer(io, "127.0.0.1", 0, **server_tls, handlers.options, handlers.handlers);
  EXPECT_TRUE(server.ok());
  const auto port = static_cast<unsigned short>((*server)->port());

  std::string reply;
  std::jthread client([&] {
    asio::io_context client_io;
    asio::ssl::stream<asio::ip::tcp::socket> stream(client_io, (*client_tls)->asio());
    boost::system::error_code error;
    stream.next_layer().connect({asio::ip::make_address("127.0.0.1"), port}, error);
    if (!error) stream.handshake(asio::ssl::stream_base::client, error);
    if (!error) asio::write(stream, asio::buffer(request), error);
    if (!error) asio::read(stream, asio::dynamic_buffer(reply), error);
    io.stop();
  });
  io.run();
  return reply;
}

TEST(LauncherApi, ServesOverTls) {
  const std::string reply = Exchange(
      "GET /v1/status HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\nConnection: "
      "close\r\n\r\n");

  EXPECT_EQ(reply.find("HTTP/1.1 200"), 0U) << reply;
  EXPECT_NE(reply.find("\"phase\":\"WaitingForOrder\""), std::string::npos) << reply;
}

TEST(LauncherApi, RefusesLargeBodiesWithoutReadingThem) {
  const std::string reply = Exchange(
      "PUT /v1/order HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\nContent-Length: "
      "100000\r\n\r\n");

  EXPECT_EQ(reply.find("HTTP/1.1 413"), 0U) << reply;
}

TEST(LauncherApi, RefusesAStrangerBeforeItReadsABody) {
  const std::string reply = Exchange(
      "PUT /v1/order HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer guess\r\nContent-Length: "
      "1000\r\n\r\n");

  EXPECT_EQ(reply.find("HTTP/1.1 401"), 0U) << reply;
}

// A client with the token can connect in spite of many silent connections, and stays connected.
TEST(LauncherApi, StrangersDoNotLockOutOtherClients) {
  constexpr int kStrangers = 2000;
  rlimit files{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  ASSERT_GT(files.rlim_cur, 2U * kStrangers + 100);
  const control::TestCertificate certificate =
      control::MakeTestCertificate("launcher.u.ringmaster.dev");
  auto server_tls = control::TlsContext::Server(certificate.key_pem, certificate.certificate_pem);
  auto client_tls =
      control::TlsContext::Client(certificate.certificate_pem, "launcher.u.ringmaster.dev");
  asio::io_context io;
  Server handlers;
  auto server =
      StartApiServer(io, "127.0.0.1", 0, **server_tls, handlers.options, handlers.handlers);
  ASSERT_TRUE(server.ok());
  const asio::ip::tcp::endpoint endpoint(asio::ip::make_address("127.0.0.1"),
                                         static_cast<unsigned short>((*server)->port()));
  std::jthread serving([&] { io.run(); });

  asio::io_context client_io;
  std::vector<asio::ip::tcp::socket> strangers;
  const auto come = [&](int count) {
    for (int i = 0; i < count; ++i) strangers.emplace_back(client_io).connect(endpoint);
  };
  const auto answered = [&](asio::ssl::stream<asio::ip::tcp::socket>& stream) {
    const std::string request =
        "GET /v1/status HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\n\r\n";
    boost::system::error_code error;
    asio::write(stream, asio::buffer(request), error);
    std::string reply;
    asio::read_until(stream, asio::dynamic_buffer(reply), "WaitingForOrder", error);
    return !error && reply.starts_with("HTTP/1.1 200");
  };
  asio::ssl::stream<asio::ip::tcp::socket> early(client_io, (*client_tls)->asio());
  asio::ssl::stream<asio::ip::tcp::socket> late(client_io, (*client_tls)->asio());
  early.next_layer().connect(endpoint);
  early.handshake(asio::ssl::stream_base::client);
  EXPECT_TRUE(answered(early));
  come(kStrangers);
  boost::system::error_code error;
  late.next_layer().connect(endpoint);
  late.handshake(asio::ssl::stream_base::client, error);

  EXPECT_FALSE(error) << error.message();
  EXPECT_TRUE(answered(late));
  EXPECT_TRUE(answered(early));
  io.stop();
}

TEST(LauncherApi, ClosesOnWhatIsNoHttp) { EXPECT_EQ(Exchange("hello\r\n\r\n"), ""); }

}  // namespace
}  // namespace ringmaster::launcher
