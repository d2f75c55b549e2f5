#include "operator/runtime/access_check.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/fakes/fake_http_client.h"

namespace ringmaster::runtime {
namespace {

class AccessCheckTest : public testing::Test {
 protected:
  http::FakeHttpClient http_;
  kube::KubeClient client_{http_, nullptr};
  AccessCheck check_{client_,
                     {{.verb = "create", .resource = kube::kPods},
                      {.verb = "patch", .resource = kube::kTrainingJobs, .subresource = "status"},
                      {.verb = "get", .resource = kube::kSecrets, .ns = "sys", .name = "keyring"}}};
};

TEST_F(AccessCheckTest, NamesEveryVerbAndResourceThatIsMissing) {
  http_.Answer(201, R"({"status":{"allowed":true}})");
  http_.Answer(201, R"({"status":{"allowed":false}})");
  http_.Answer(201, R"({"status":{}})");

  EXPECT_FALSE(check_.CheckOnce());

  EXPECT_FALSE(check_.Complete());
  const std::string problem = check_.Problem();
  EXPECT_NE(problem.find("patch trainingjobs.ringmaster.dev/status in all namespaces"),
            std::string::npos)
      << problem;
  EXPECT_NE(problem.find("get secrets keyring in namespace sys"), std::string::npos) << problem;
  EXPECT_EQ(problem.find("create pods"), std::string::npos) << problem;
  const auto asked = nlohmann::json::parse(http_.Sent()[1].body)["spec"]["resourceAttributes"];
  EXPECT_EQ(asked, (nlohmann::json{{"verb", "patch"},
                                   {"group", "ringmaster.dev"},
                                   {"resource", "trainingjobs"},
                                   {"subresource", "status"}}));
}

TEST_F(AccessCheckTest, IsCompleteWhenAllIsAllowed) {
  for (int i = 0; i < 3; ++i) http_.Answer(201, R"({"status":{"allowed":true}})");

  EXPECT_TRUE(check_.CheckOnce());

  EXPECT_TRUE(check_.Complete());
  EXPECT_EQ(check_.Problem(), "");
}

TEST_F(AccessCheckTest, SomeRightsCanBeDoneWithout) {
  AccessCheck check(client_, {{.verb = "list", .resource = kube::kNodes, .without = "it is slower"},
                              {.verb = "create", .resource = kube::kPods}});
  http_.Answer(201, R"({"status":{"allowed":false}})");
  http_.Answer(201, R"({"status":{"allowed":true}})");

  EXPECT_TRUE(check.CheckOnce());

  EXPECT_EQ(check.Problem(), "");
  EXPECT_NE(check.Note().find("list nodes (without: it is slower)"), std::string::npos)
      << check.Note();
}

TEST_F(AccessCheckTest, SaysWhenItCannotFindOut) {
  http_.Fail({ErrorKind::kUnavailable, "connection refused"});

  EXPECT_FALSE(check_.CheckOnce());

  EXPECT_NE(check_.Problem().find("connection refused"), std::string::npos);
}

}  // namespace
}  // namespace ringmaster::runtime
