#include "operator/http/cpprest_http_client.h"

#include <atomic>
#include <future>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/http/loopback_server.h"

namespace ringmaster::http {
namespace {

using std::chrono::milliseconds;

class CpprestHttpClientTest : public testing::Test {
 protected:
  std::unique_ptr<HttpClient> Make(HttpClientOptions options) {
    auto client = factory_.Make(options);
    EXPECT_TRUE(client.ok()) << (client.ok() ? "" : client.error().message);
    return client.ok() ? *std::move(client) : nullptr;
  }

  CpprestHttpClientFactory factory_;
};

void AnswerOk(const SeenRequest&, Reply& reply) { reply.Write(PlainAnswer(200, "{}")); }

TEST_F(CpprestHttpClientTest, SendsMethodPathHeadersAndBodyAsGiven) {
  SeenRequest seen;
  LoopbackServer server([&](const SeenRequest& request, Reply& reply) {
    seen = request;
    reply.Write(PlainAnswer(201, R"({"kind":"Pod"})", "Warning: 299 - \"old\"\r\n"));
  });
  const auto client = Make({.base_url = server.url()});

  const auto answer = client->Send({.method = Method::kPatch,
                                    .path = "/api/v1/pods?labelSelector=a%2Fb%3Dc",
                                    .body = "{\"x\":1}",
                                    .content_type = "application/apply-patch+yaml",
                                    .headers = {{"Authorization", "Bearer t"}}});

  ASSERT_TRUE(answer.ok()) << answer.error().message;
  EXPECT_EQ(answer->status, 201);
  EXPECT_EQ(answer->body, R"({"kind":"Pod"})");
  EXPECT_EQ(answer->headers.at("warning"), "299 - \"old\"");
  EXPECT_TRUE(seen.head.starts_with("PATCH /api/v1/pods?labelSelector=a%2Fb%3Dc HTTP/1.1\r\n"))
      << seen.head;
  EXPECT_NE(seen.head.find("Content-Type:application/apply-patch+yaml\r\n"), std::string::npos)
      << seen.head;
  EXPECT_NE(seen.head.find("Authorization:Bearer t\r\n"), std::string::npos);
  EXPECT_NE(seen.head.find("User-Agent:ringmaster-operator/"), std::string::npos);
  EXPECT_EQ(seen.body, "{\"x\":1}");
}

// The library returns a connection to its pool shortly after the answer, so requests may use more
// than one connection.
TEST_F(CpprestHttpClientTest, ReusesConnections) {
  LoopbackServer server(AnswerOk);
  const auto client = Make({.base_url = server.url()});

  for (int i = 0; i < 200; ++i) ASSERT_TRUE(client->Send({.path = "/x"}).ok());

  EXPECT_LE(server.connections(), 10);
}

TEST_F(CpprestHttpClientTest, KeepsToItsLimitOfRequestsInFlight) {
  std::atomic<int> inside{0};
  std::atomic<int> most{0};
  LoopbackServer server([&](const SeenRequest&, Reply& reply) {
    const int now = ++inside;
    int before = most;
    while (now > before && !most.compare_exchange_weak(before, now)) {
    }
    --inside;
    reply.Write(PlainAnswer(200, "{}"));
  });
  const auto client = Make({.base_url = server.url(), .max_in_flight = 4});
  std::atomic<int> good{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 16; ++i) {
      threads.emplace_back([&] {
        for (int round = 0; round < 20; ++round) good += client->Send({.path = "/x"}).ok() ? 1 : 0;
      });
    }
  }

  EXPECT_EQ(good, 320);
  EXPECT_GE(most, 1);
  EXPECT_LE(most, 4);
}

TEST_F(CpprestHttpClientTest, DoesNotFollowRedirects) {
  LoopbackServer server([](const SeenRequest&, Reply& reply) {
    reply.Write(PlainAnswer(302, "", "Location: http://127.0.0.1:1/steal\r\n"));
  });
  const auto client = Make({.base_url = server.url()});

  const auto answer = client->Send({.path = "/x", .headers = {{"Authorization", "Bearer t"}}});

  ASSERT_TRUE(answer.ok()) << answer.error().message;
  EXPECT_EQ(answer->status, 302);
}

TEST_F(CpprestHttpClientTest, RefusesAnswersOverTheLimit) {
  LoopbackServer server([](const SeenRequest& request, Reply& reply) {
    const std::string body(2000, 'x');
    if (request.head.starts_with("GET /known")) {
      reply.Write(PlainAnswer(200, body));
    } else {
      reply.Write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n" + body +
                  "\r\n0\r\n\r\n");
    }
  });
  const auto small = Make({.base_url = server.url(), .max_response_bytes = 1999});
  const auto enough = Make({.base_url = server.url(), .max_response_bytes = 2000});

  for (const char* path : {"/known", "/chunked"}) {
    const auto refused = small->Send({.path = path});
    const auto taken = enough->Send({.path = path});

    ASSERT_FALSE(refused.ok()) << path;
    EXPECT_EQ(refused.error().kind, ErrorKind::kInvalid);
    EXPECT_EQ(refused.error().reason, kTooLong);
    ASSERT_TRUE(taken.ok()) << path << taken.error().message;
    EXPECT_EQ(taken->body.size(), 2000u);
  }
}

TEST_F(CpprestHttpClientTest, EndsAtTheDeadlineAlthoughBytesTrickleIn) {
  LoopbackServer server([](const SeenRequest&, Reply& reply) {
    reply.Write("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nx");
    reply.WaitUntilClientCloses();
  });
  const auto client = Make({.base_url = server.url()});

  const auto answer = client->Send({.path = "/x", .deadline = milliseconds(50)});

  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().kind, ErrorKind::kTimeout) << answer.error().message;
}

TEST_F(CpprestHttpClientTest, SaysTimeoutWhenTheOtherSideIsSilent) {
  LoopbackServer server([](const SeenRequest&, Reply& reply) { reply.WaitUntilClientCloses(); });
  const auto client = Make({.base_url = server.url(), .idle_timeout = milliseconds(100)});

  const auto answer = client->Send({.path = "/x"});

  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().kind, ErrorKind::kTimeout) << answer.error().message;
}

TEST_F(CpprestHttpClientTest, SaysUnavailableWhenNobodyListensOrTheAnswerBreaks) {
  std::string gone;
  {
    LoopbackServer closed(AnswerOk);
    gone = closed.url();
  }
  LoopbackServer cutting([](const SeenRequest&, Reply& reply) {
    reply.Write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
    reply.Close();
  });

  const auto refused = Make({.base_url = gone})->Send({.path = "/x"});
  const auto broken = Make({.base_url = cutting.url()})->Send({.path = "/x"});

  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kUnavailable);
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(broken.error().kind, ErrorKind::kUnavailable) << broken.error().message;
}

TEST_F(CpprestHttpClientTest, TrustsOnlyTheGivenCertificateUnderTheGivenName) {
  const auto identity = LoopbackServer::MakeIdentity("launcher.1234.ringmaster.dev");
  const auto other = LoopbackServer::MakeIdentity("launcher.1234.ringmaster.dev");
  LoopbackServer server(AnswerOk, &identity);
  const auto send = [&](const std::string& ca, const std::string& name) {
    return Make({.base_url = server.url(), .ca_pem = ca, .server_name = name})
        ->Send({.path = "/x"});
  };

  const auto good = send(identity.certificate_pem, "launcher.1234.ringmaster.dev");
  const auto wrong_name = send(identity.certificate_pem, "launcher.9.ringmaster.dev");
  const auto by_address = send(identity.certificate_pem, "");
  const auto wrong_key = send(other.certificate_pem, "launcher.1234.ringmaster.dev");

  EXPECT_TRUE(good.ok()) << good.error().message;
  for (const auto* refused : {&wrong_name, &by_address, &wrong_key}) {
    ASSERT_FALSE(refused->ok());
    EXPECT_EQ(refused->error().kind, ErrorKind::kUnavailable);
  }
}

TEST_F(CpprestHttpClientTest, VerifiesAddressesInCertificates) {
  const auto identity = LoopbackServer::MakeIdentity("", true);
  LoopbackServer server(AnswerOk, &identity);

  const auto answer =
      Make({.base_url = server.url(), .ca_pem = identity.certificate_pem})->Send({.path = "/x"});

  EXPECT_TRUE(answer.ok()) << answer.error().message;
}

TEST_F(CpprestHttpClientTest, StreamsPiecesAsTheyArrive) {
  std::promise<void> first_seen;
  LoopbackServer server([&](const SeenRequest&, Reply& reply) {
    reply.Write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\none\n\r\n");
    first_seen.get_future().wait();
    reply.Write("4\r\ntwo\n\r\n0\r\n\r\n");
  });
  const auto client = Make({.base_url = server.url()});
  std::string received;

  const auto ended = client->Stream({.path = "/watch"},
                                    [&](std::string_view bytes) {
                                      received += bytes;
                                      if (received == "one\n") first_seen.set_value();
                                      return true;
                                    },
                                    {});

  ASSERT_TRUE(ended.ok()) << ended.error().message;
  EXPECT_EQ(received, "one\ntwo\n");
}

TEST_F(CpprestHttpClientTest, StreamOfManyLargeLinesArrivesWhole) {
  const std::string line = std::string(100'000, 'x') + "\n";
  LoopbackServer server([&](const SeenRequest&, Reply& reply) {
    reply.Write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 20; ++i) reply.Write("186a1\r\n" + line + "\r\n");
    reply.Write("0\r\n\r\n");
  });
  const auto client = Make({.base_url = server.url()});
  std::vector<std::size_t> received(12);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < received.size(); ++i) {
      threads.emplace_back([&, i] {
        const auto count = [&](std::string_view bytes) {
          received[i] += bytes.size();
          return true;
        };
        EXPECT_TRUE(client->Stream({.path = "/watch"}, count, {}).ok());
      });
    }
  }

  for (const std::size_t bytes : received) EXPECT_EQ(bytes, 20 * line.size());
}

TEST_F(CpprestHttpClientTest, StreamEndsAtOnceWhenStopped) {
  std::promise<void> streaming;
  std::promise<void> closed;
  LoopbackServer server([&](const SeenRequest&, Reply& reply) {
    reply.Write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nx\n\r\n");
    reply.WaitUntilClientCloses();
    closed.set_value();
  });
  const auto client = Make({.base_url = server.url()});
  std::stop_source stop;

  auto ended = std::async(std::launch::async, [&] {
    return client->Stream(
        {.path = "/watch"},
        [&](std::string_view bytes) {
          if (bytes.empty()) streaming.set_value();
          return true;
        },
        stop.get_token());
  });
  streaming.get_future().wait();
  stop.request_stop();
  const auto result = ended.get();

  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().kind, ErrorKind::kCancelled) << result.error().message;
  EXPECT_EQ(closed.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
}

TEST_F(CpprestHttpClientTest, StreamClosesItsConnectionWhenTheReceiverHasEnough) {
  std::promise<void> closed;
  LoopbackServer server([&](const SeenRequest&, Reply& reply) {
    reply.Write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nx\n\r\n");
    reply.WaitUntilClientCloses();
    closed.set_value();
  });
  const auto client = Make({.base_url = server.url()});

  const auto ended =
      client->Stream({.path = "/watch"}, [](std::string_view bytes) { return bytes.empty(); }, {});

  EXPECT_TRUE(ended.ok());
  EXPECT_EQ(closed.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
}

TEST_F(CpprestHttpClientTest, StreamSaysThatItBeganBeforeTheFirstByteComes) {
  std::promise<void> begun;
  LoopbackServer server([&](const SeenRequest&, Reply& reply) {
    reply.Write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    begun.get_future().wait();
    reply.Write("2\r\nx\n\r\n0\r\n\r\n");
  });
  const auto client = Make({.base_url = server.url()});
  std::vector<std::string> pieces;

  const auto ended = client->Stream({.path = "/watch"},
                                    [&](std::string_view bytes) {
                                      pieces.emplace_back(bytes);
                                      if (bytes.empty()) begun.set_value();
                                      return true;
                                    },
                                    {});

  ASSERT_TRUE(ended.ok()) << ended.error().message;
  EXPECT_EQ(pieces, (std::vector<std::string>{"", "x\n"}));
}

TEST_F(CpprestHttpClientTest, StreamReturnsARefusalWithItsBody) {
  LoopbackServer server([](const SeenRequest&, Reply& reply) {
    reply.Write(PlainAnswer(410, R"({"kind":"Status","reason":"Expired"})"));
  });
  const auto client = Make({.base_url = server.url()});

  const auto ended = client->Stream({.path = "/watch"},
                                    [](std::string_view) {
                                      ADD_FAILURE() << "a refusal is not a stream";
                                      return true;
                                    },
                                    {});

  ASSERT_TRUE(ended.ok()) << ended.error().message;
  EXPECT_EQ(ended->status, 410);
  EXPECT_EQ(ended->body, R"({"kind":"Status","reason":"Expired"})");
}

TEST_F(CpprestHttpClientTest, CountsAnswersByStatus) {
  LoopbackServer server(
      [](const SeenRequest&, Reply& reply) { reply.Write(PlainAnswer(404, "{}")); });
  std::vector<std::pair<Method, int>> counted;
  std::chrono::nanoseconds took{0};
  const auto client = Make({.base_url = server.url(), .on_answer = [&](const Answered& answered) {
                              counted.emplace_back(answered.method, answered.status);
                              took = answered.took;
                            }});

  ASSERT_TRUE(client->Send({.method = Method::kDelete, .path = "/x"}).ok());

  EXPECT_EQ(counted, (std::vector<std::pair<Method, int>>{{Method::kDelete, 404}}));
  EXPECT_GT(took.count(), 0);
}

TEST_F(CpprestHttpClientTest, RefusesUnusableTlsMaterialBeforeConnecting) {
  const auto a = LoopbackServer::MakeIdentity("a");
  const auto b = LoopbackServer::MakeIdentity("b");
  const auto kind = [&](const HttpClientOptions& options) {
    const auto made = factory_.Make(options);
    return made.ok() ? ErrorKind::kInternal : made.error().kind;
  };

  EXPECT_EQ(kind({.base_url = "https://127.0.0.1:1"}), ErrorKind::kInvalid);
  EXPECT_EQ(kind({.base_url = "https://127.0.0.1:1", .ca_pem = "no pem"}), ErrorKind::kInvalid);
  EXPECT_EQ(kind({.base_url = "https://127.0.0.1:1",
                  .ca_pem = a.certificate_pem,
                  .certificate_pem = a.certificate_pem,
                  .key_pem = b.key_pem}),
            ErrorKind::kInvalid);
  EXPECT_EQ(kind({.base_url = "not a url"}), ErrorKind::kInvalid);
}

}  // namespace
}  // namespace ringmaster::http
