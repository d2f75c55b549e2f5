// Tests the operator's ports: arbitrary data from unknown clients does no harm, and only authorized
// clients can read /metrics.

#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/fakes/byte_peer.h"
#include "tests/integration/cluster_test.h"
#include "tests/integration/harness/plain_http.h"

namespace ringmaster::testing {
namespace {

class PortsTest : public ClusterTest {};

TEST_F(PortsTest, NothingThatAStrangerSendsEndsTheOperator) {
  StartOperator();
  const std::string chunked = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::string get = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
  const std::string requests[] = {
      chunked + "-2\r\n",
      chunked + "-1\r\nx\r\n",
      chunked + "ffffffffffffffff\r\n",
      chunked + "7fffffffffffffff\r\nx",
      chunked + "zz\r\n",
      chunked + "1;" + std::string(100'000, 'e'),
      chunked + "0\r\n" + std::string(100'000, 't'),
      "POST /healthz HTTP/1.1\r\nContent-Length: 18446744073709551615\r\n\r\nx",
      "POST /healthz HTTP/1.1\r\nContent-Length: -5\r\n\r\nx",
      "POST /healthz HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n" + std::string(1'000'000, 'b'),
      "GET /" + std::string(1'000'000, 'p') + " HTTP/1.1\r\n\r\n",
      "GET /healthz HTTP/1.1\r\nX: " + std::string(1'000'000, 'h') + "\r\n\r\n",
      std::string(1'000'000, '\0'),
      "\r\n\r\n\r\n",
  };
  for (const int port : {op().admin_port(), op().metrics_port()}) {
    for (const std::string& request : requests) {
      BytePeer peer(port);
      peer.Send(request);
      EXPECT_EQ(peer.ReadToEnd().find("HTTP/1.1 200"), std::string::npos) << request.substr(0, 90);
      ASSERT_EQ(op().Probe("/healthz"), 200) << request.substr(0, 90);
    }
  }

  std::string many;
  for (int i = 0; i < 100; ++i) many += get;
  BytePeer pipelined(op().admin_port());
  pipelined.Send(many + "GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n");
  const std::string answers = pipelined.ReadToEnd();
  std::size_t answered = 0;
  for (std::size_t at = 0; (at = answers.find("HTTP/1.1 200", at)) != std::string::npos; ++at) {
    ++answered;
  }
  EXPECT_EQ(answered, 101u);
  EXPECT_TRUE(op().process().Running());
}

TEST_F(PortsTest, ProbesAndScrapesGetThroughAThousandIdleStrangers) {
  StartOperatorThatAsksForTokens();
  const std::string reader = TokenOf("reader", true);
  WaitFor("the reader's right",
          [&] { return TlsGet(op().metrics_port(), "/metrics", reader).status == 200; });
  std::vector<std::unique_ptr<BytePeer>> strangers;
  for (const int port : {op().admin_port(), op().metrics_port()}) {
    for (int i = 0; i < 1000; ++i) {
      strangers.push_back(std::make_unique<BytePeer>(port));
      strangers.back()->Send("GET /healthz HTTP/1.1\r\nX: ");
    }
  }

  EXPECT_EQ(op().Probe("/healthz"), 200);
  EXPECT_EQ(op().Probe("/readyz"), 200);
  EXPECT_EQ(TlsGet(op().metrics_port(), "/metrics", reader).status, 200);
  // Connections without a complete request are closed, after 5 s unless the machine is busy.
  const auto began = std::chrono::steady_clock::now();
  EXPECT_EQ(strangers.back()->ReadToEnd(), "");
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(60));
}

TEST_F(PortsTest, MetricsAreForWhoMayReadThem) {
  StartOperatorThatAsksForTokens();
  const std::string reader = TokenOf("reader", true);
  const std::string other = TokenOf("other", false);
  const auto status = [&](const std::string& token) {
    return TlsGet(op().metrics_port(), "/metrics", token).status;
  };

  WaitFor("the reader's right", [&] { return status(reader) == 200; });
  EXPECT_NE(TlsGet(op().metrics_port(), "/metrics", reader).text.find("\nworkqueue_depth"),
            std::string::npos);
  EXPECT_EQ(status(""), 401);
  EXPECT_EQ(status("guess"), 401);
  EXPECT_EQ(status(reader.substr(0, reader.size() - 4)), 401);
  EXPECT_EQ(status(other), 403);
  EXPECT_EQ(TlsGet(op().metrics_port(), "/healthz", reader).status, 404);
  EXPECT_EQ(PlainGet(op().metrics_port(), "/metrics").status, 0) << "no TLS, no answer";
  EXPECT_EQ(PlainGet(op().admin_port(), "/metrics").status, 404);
  int reviews = 0;
  for (const ProxiedRequest& request : proxy().Requests()) {
    EXPECT_EQ(request.target.find(reader), std::string::npos);
    reviews += request.Path().ends_with("/tokenreviews") ? 1 : 0;
  }
  for (int i = 0; i < 20; ++i) EXPECT_EQ(status(reader), 200);
  int later = 0;
  for (const ProxiedRequest& request : proxy().Requests()) {
    later += request.Path().ends_with("/tokenreviews") ? 1 : 0;
  }
  EXPECT_LE(later, reviews + 1) << "a verdict is kept for a while";
  EXPECT_FALSE(op().LogHas(reader));
}

TEST_F(PortsTest, AMountedCertificateIsShownAndReadAgain) {
  const TemporaryDirectory folder;
  const auto copy = [&](const std::string& name) {
    for (const char* part : {"crt", "key"}) {
      std::filesystem::copy_file(plane().pki() / (name + "." + part),
                                 folder.path() / (std::string("tls.") + part),
                                 std::filesystem::copy_options::overwrite_existing);
    }
  };
  copy("server");
  std::vector<std::string> flags = kPatientLease;
  flags.push_back("--metrics-certificates=" + folder.path().string());
  StartOperator(flags);
  const std::string first = TlsCertificateOf(op().metrics_port());
  EXPECT_NE(first, "");

  // A new key without its certificate changes nothing. Once both exist, the operator uses both.
  std::filesystem::copy_file(plane().pki() / "admin.key", folder.path() / "tls.key",
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(TlsCertificateOf(op().metrics_port()), first);
  copy("admin");
  WaitFor("the next certificate", [&] {
    const std::string shown = TlsCertificateOf(op().metrics_port());
    return !shown.empty() && shown != first;
  });
  EXPECT_EQ(TlsGet(op().metrics_port(), "/metrics").status, 200);
}

}  // namespace
}  // namespace ringmaster::testing
