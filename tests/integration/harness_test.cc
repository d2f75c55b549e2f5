#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "tests/integration/harness/control_plane.h"
#include "tests/integration/harness/fault_proxy.h"

namespace ringmaster::testing {

// Tests the harness itself: if a fault were not injected, tests that rely on it would pass without
// testing anything.
class FaultProxyTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto plane = ControlPlane::Start();
    ASSERT_TRUE(plane.ok()) << plane.error().message;
    plane_ = plane->release();
  }
  static void TearDownTestSuite() { delete plane_; }

  void SetUp() override {
    auto proxy = FaultProxy::Start(plane_->AdminEndpoint(), plane_->pki() / "server.crt",
                                   plane_->pki() / "server.key");
    ASSERT_TRUE(proxy.ok()) << proxy.error().message;
    proxy_ = std::move(*proxy);
    Endpoint through = plane_->TokenEndpoint(ControlPlane::kAdminToken);
    through.port = proxy_->port();
    client_ = std::make_unique<ApiClient>(through);
    direct_ = std::make_unique<ApiClient>(plane_->AdminEndpoint());
  }

  static nlohmann::json Map(const std::string& name) {
    return {{"apiVersion", "v1"}, {"kind", "ConfigMap"}, {"metadata", {{"name", name}}}};
  }

  static constexpr char kMaps[] = "/api/v1/namespaces/default/configmaps";
  static ControlPlane* plane_;
  std::unique_ptr<FaultProxy> proxy_;
  std::unique_ptr<ApiClient> client_;
  std::unique_ptr<ApiClient> direct_;
};

ControlPlane* FaultProxyTest::plane_ = nullptr;

TEST_F(FaultProxyTest, PassesAndRecords) {
  const Response created = client_->Post(kMaps, Map("passed"));
  EXPECT_EQ(created.status, 201) << created.Text();
  EXPECT_EQ(client_->Get(std::string(kMaps) + "/passed").status, 200);
  const auto requests = proxy_->Requests();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[0].method, "POST");
  EXPECT_EQ(requests[0].write, 1u);
  EXPECT_EQ(requests[0].status, 201);
  EXPECT_EQ(requests[1].write, 0u);
}

TEST_F(FaultProxyTest, CutsBeforeTheRequestArrivesAndAfterItWasStored) {
  proxy_->SetPolicy([](const ProxiedRequest& r) { return r.IsWrite() ? CutBefore() : Pass(); });
  EXPECT_EQ(client_->Post(kMaps, Map("cut-before")).status, 0);
  EXPECT_EQ(direct_->Get(std::string(kMaps) + "/cut-before").status, 404);
  proxy_->SetPolicy([](const ProxiedRequest& r) { return r.IsWrite() ? CutAfter() : Pass(); });
  EXPECT_EQ(client_->Post(kMaps, Map("cut-after")).status, 0);
  EXPECT_EQ(direct_->Get(std::string(kMaps) + "/cut-after").status, 200);
}

TEST_F(FaultProxyTest, AnswersItself) {
  proxy_->SetPolicy([](const ProxiedRequest&) { return Answer(429, "TooManyRequests", 1); });
  const Response answer = client_->Post(kMaps, Map("throttled"));
  EXPECT_EQ(answer.status, 429);
  EXPECT_EQ(answer.body.value("reason", ""), "TooManyRequests");
}

TEST_F(FaultProxyTest, RepeatsExpiresAndCutsWatches) {
  const std::string watch =
      std::string(kMaps) + "?watch=true&fieldSelector=metadata.name%3Dwatched";
  std::atomic<int> added{0};
  std::atomic<int> expired{0};
  std::atomic<int> ended{0};
  proxy_->SetRepeatEvents(true);
  const auto run = [&] {
    return std::jthread([&](std::stop_token stop) {
      client_->Watch(watch, stop, [&](const nlohmann::json& event) {
        const std::string type = event.is_object() ? event.value("type", "") : "";
        if (type == "ADDED") ++added;
        if (type == "ERROR") ++expired;
        return true;
      });
      ++ended;
    });
  };
  {
    const auto first = run();
    ASSERT_EQ(direct_->Post(kMaps, Map("watched")).status, 201);
    EXPECT_TRUE(WaitUntil([&] { return added == 2; }));
    proxy_->ExpireWatches();
    EXPECT_TRUE(WaitUntil([&] { return ended == 1; }));
    EXPECT_EQ(expired, 1);
  }
  const auto second = run();
  EXPECT_TRUE(WaitUntil([&] { return added == 4; }));
  proxy_->CutWatches();
  EXPECT_TRUE(WaitUntil([&] { return ended == 2; }));
}

}  // namespace ringmaster::testing
