// Tests a real server on loopback against clients that send arbitrary bytes or stay connected.

#include "common/net/http_server.h"

#include <stdexcept>
#include <thread>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include "tests/fakes/byte_peer.h"

namespace ringmaster::net {
namespace {

namespace asio = boost::asio;
using ringmaster::testing::BytePeer;

constexpr char kGet[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
constexpr char kLastGet[] = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

// Reads one answer of a server that answers "ok" to all requests.
std::string ReadAnswer(BytePeer& peer) { return peer.ReadUpTo("\r\n\r\nok"); }

class HttpServerTest : public ::testing::Test {
 protected:
  ~HttpServerTest() override {
    io_.stop();
    if (thread_.joinable()) thread_.join();
  }

  // Starts a server. If `checked`, the handler answers only requests with
  // "Authorization: good".
  void Start(HttpServerOptions options, bool checked = false) {
    HttpHandlers handlers{.answer = [](const HttpRequest& request) -> HttpAnswer {
      if (request.target == "/broken") throw std::runtime_error("bug");
      return {200, "ok" + request.body};
    }};
    if (checked) {
      handlers.check = [](const HttpRequest& request, const Admit& admit) {
        if (request.authorization == "good") return admit({});
        admit(HttpAnswer{401, "who are you?\n"});
      };
    }
    auto server = StartHttpServer(io_, "127.0.0.1", 0, {}, options, std::move(handlers));
    ASSERT_TRUE(server.ok()) << server.error().message;
    server_ = *std::move(server);
    thread_ = std::thread([this] { io_.run(); });
  }
  int port() const { return server_->port(); }
  std::string Exchange(const std::string& request) const {
    BytePeer peer(port());
    peer.Send(request);
    return peer.ReadToEnd();
  }

 private:
  asio::io_context io_;
  std::unique_ptr<HttpServer> server_;
  std::thread thread_;
};

TEST_F(HttpServerTest, AnswersRequestsThatComeAtOnceInTheirOrder) {
  Start({.max_body_bytes = 8});

  const std::string answers = Exchange(
      "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\none"
      "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\ntwo\r\n0\r\n\r\n" +
      std::string(kLastGet));

  const std::size_t first = answers.find("\r\n\r\nokone");
  const std::size_t second = answers.find("\r\n\r\noktwo");
  ASSERT_NE(first, std::string::npos) << answers;
  ASSERT_NE(second, std::string::npos) << answers;
  EXPECT_LT(first, second);
  EXPECT_TRUE(answers.ends_with("\r\n\r\nok")) << answers;
}

TEST_F(HttpServerTest, RefusesWhatIsTooLargeOrNoHttpAndServesOn) {
  Start({.limit = std::chrono::seconds(2)});
  const std::string chunked = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  struct Case {
    std::string request;
    std::string answer;  // how the answer begins; empty: the connection is closed without an answer
  };
  const Case cases[] = {
      {chunked + "-2\r\n", ""},
      {chunked + "-1\r\nx\r\n0\r\n\r\n", ""},
      {chunked + "ffffffffffffffff\r\n", "HTTP/1.1 413"},
      {chunked + "fffffffffffffffffffffffff\r\n", ""},
      {chunked + "7fffffff\r\nx", "HTTP/1.1 413"},
      {chunked + "x\r\n", ""},
      {chunked + "\r\n\r\n", ""},
      {chunked + "1;" + std::string(60'000, 'e') + "\r\n", ""},
      {chunked + "0\r\n" + std::string(60'000, 't') + "\r\n", ""},
      {"POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\nx", "HTTP/1.1 413"},
      {"POST / HTTP/1.1\r\nContent-Length: 18446744073709551615\r\n\r\n", "HTTP/1.1 413"},
      {"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", ""},
      {"POST / HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n", ""},
      {"POST / HTTP/1.1\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\n", ""},
      {"POST / HTTP/1.1\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n", ""},
      {"GET / HTTP/1.1\r\nX: " + std::string(17'000, 'x') + "\r\n\r\n", "HTTP/1.1 431"},
      {"GET /" + std::string(17'000, 'x') + " HTTP/1.1\r\n\r\n", "HTTP/1.1 431"},
      {std::string(100'000, 'G'), ""},
      {"hello\r\n\r\n", ""},
      {std::string("\x16\x03\x01\x02\x00\x01\x00\x01", 8) + std::string(600, '\0'), ""},
      {"GET /broken HTTP/1.1\r\nConnection: close\r\n\r\n", "HTTP/1.1 500"},
  };
  for (const Case& c : cases) {
    const std::string answer = Exchange(c.request);
    // The answer may be lost if the client still sends while the connection is being closed.
    EXPECT_TRUE(answer.starts_with(c.answer) || answer.empty()) << c.request.substr(0, 90);
    EXPECT_FALSE(c.answer.empty() && answer.starts_with("HTTP/1.1 200")) << c.request.substr(0, 90);
    EXPECT_TRUE(Exchange(kLastGet).starts_with("HTTP/1.1 200")) << c.request.substr(0, 90);
  }
}

TEST_F(HttpServerTest, HeadersThatNeverEndAreCutOffAtTheLimit) {
  Start({});
  BytePeer peer(port());

  std::size_t sent = 0;
  bool open = peer.Send("GET / HTTP/1.1\r\n");
  while (open && sent < (64 << 20)) {
    open = peer.Send("X: " + std::string(1000, 'x') + "\r\n");
    sent += 1005;
  }

  EXPECT_FALSE(open) << "64 MiB of header were taken";
  EXPECT_TRUE(Exchange(kLastGet).starts_with("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, ARequestHasItsTimeHoweverSlowlyItComes) {
  Start({.limit = std::chrono::seconds(1)});
  const auto began = std::chrono::steady_clock::now();
  BytePeer peer(port());

  // The server closes the connection. Sends a byte every 50 ms until that fails.
  std::jthread drip([&peer](std::stop_token stop) {
    while (!stop.stop_requested() && peer.Send("G")) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  });
  const std::string answer = peer.ReadToEnd();
  drip.request_stop();

  EXPECT_EQ(answer, "");
  EXPECT_GE(std::chrono::steady_clock::now() - began, std::chrono::milliseconds(900));
}

TEST_F(HttpServerTest, TheOldestStrangerMakesRoomForTheNext) {
  Start({.max_connections = 2, .limit = std::chrono::seconds(600)});
  BytePeer first(port());
  BytePeer second(port());
  second.Send(kGet);
  EXPECT_NE(ReadAnswer(second), "");

  const std::string third = Exchange(kLastGet);

  EXPECT_TRUE(third.starts_with("HTTP/1.1 200")) << third;
  EXPECT_EQ(first.ReadToEnd(), "");
  second.Send(kLastGet);
  EXPECT_NE(ReadAnswer(second), "");
}

TEST_F(HttpServerTest, WhoWasAdmittedStaysHoweverManyStrangersCome) {
  Start({.max_connections = 4, .limit = std::chrono::seconds(600)}, true);
  const std::string good = "GET / HTTP/1.1\r\nAuthorization: good\r\n\r\n";
  BytePeer known(port());
  known.Send(good);
  ASSERT_NE(ReadAnswer(known), "");

  std::vector<std::unique_ptr<BytePeer>> strangers;
  for (int i = 0; i < 1000; ++i) strangers.push_back(std::make_unique<BytePeer>(port()));
  known.Send(good);

  EXPECT_NE(ReadAnswer(known), "");
  EXPECT_TRUE(Exchange(kLastGet).starts_with("HTTP/1.1 401"));
  BytePeer late(port());
  late.Send(good);
  EXPECT_NE(ReadAnswer(late), "");
}

TEST_F(HttpServerTest, AStrangersBodyIsNotRead) {
  Start({.max_body_bytes = 1 << 20}, true);

  const std::string answer = Exchange("PUT / HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n");

  EXPECT_TRUE(answer.starts_with("HTTP/1.1 401")) << answer;
}

TEST_F(HttpServerTest, RefusesAnAddressThatIsTaken) {
  Start({});
  asio::io_context io;

  const auto second = StartHttpServer(io, "127.0.0.1", port(), {}, {}, {});

  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().message.find(std::to_string(port())), std::string::npos);
}

}  // namespace
}  // namespace ringmaster::net
