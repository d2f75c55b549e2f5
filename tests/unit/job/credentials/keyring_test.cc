#include "operator/job/credentials/keyring.h"

#include <chrono>
#include <semaphore>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "common/base/base64.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_http_client.h"

namespace ringmaster::job {
namespace {

using nlohmann::json;
using std::chrono::seconds;

class KeyringTest : public ::testing::Test {
 protected:
  // Makes the next read of the Secret return these seeds. New jobs use the first one.
  void Holds(const std::vector<std::string>& ids) {
    json data{{"current", EncodeBase64(ids.front())}};
    for (const std::string& id : ids) data[id] = EncodeBase64(std::string(32, id.back()));
    http_.Answer(200, json{{"data", data}}.dump());
  }
  void Breaks() { http_.Answer(503, R"({"kind":"Status","message":"not now"})"); }

  std::counting_semaphore<> not_now_{0};  // requests for which the test set no answer
  FakeClock clock_;
  http::FakeHttpClient http_;
  kube::KubeClient client_{http_, nullptr};
  Keyring keyring_{client_, clock_, "ringmaster-system"};
};

TEST_F(KeyringTest, ReadsTheSecretOnceForAllJobs) {
  Holds({"a", "b"});
  for (const char* id : {"a", "b", "a"}) {
    const auto seed = keyring_.Find(id);
    ASSERT_TRUE(seed.ok()) << seed.error().message;
    EXPECT_EQ(seed->bytes, std::string(32, id[0]));
  }
  EXPECT_EQ(keyring_.Current()->id, "a");
  EXPECT_EQ(http_.Sent().size(), 1u);
}

TEST_F(KeyringTest, ASecretThatCannotBeReadDoesNotLackASeed) {
  for (int i = 0; i < 3; ++i) {
    Breaks();
    const auto seed = keyring_.Find("a");
    ASSERT_FALSE(seed.ok());
    EXPECT_EQ(seed.error().kind, ErrorKind::kUnavailable) << seed.error().message;
  }
  Holds({"a"});

  EXPECT_TRUE(keyring_.Find("a").ok()) << "at once";
}

TEST_F(KeyringTest, AMissingSeedIsLookedForAgainEveryTenSeconds) {
  Holds({"a"});
  for (int i = 0; i < 3; ++i) {
    const auto seed = keyring_.Find("b");
    ASSERT_FALSE(seed.ok());
    EXPECT_EQ(seed.error().kind, ErrorKind::kNotFound);
  }
  EXPECT_EQ(http_.Sent().size(), 1u);

  clock_.Advance(seconds(10));
  Holds({"a", "b"});
  EXPECT_TRUE(keyring_.Find("b").ok());
}

TEST_F(KeyringTest, ARefreshedKeyringHasARotatedSeedAtOnce) {
  Holds({"a"});
  EXPECT_EQ(keyring_.Current()->id, "a");
  http_.on_send = [this](const http::Request&) -> Result<http::Response> {
    not_now_.release();
    return Error{ErrorKind::kUnavailable, "not now"};
  };
  Holds({"b", "a"});
  keyring_.Start(std::chrono::milliseconds(1));
  ASSERT_TRUE(not_now_.try_acquire_for(seconds(60)));  // the new seed was read before this read

  EXPECT_EQ(keyring_.Current()->id, "b");
}

TEST_F(KeyringTest, ANewJobGetsTheNewSeedAfterAMinuteAndKeepsTheOldOneWhileItCannotBeRead) {
  Holds({"a"});
  EXPECT_EQ(keyring_.Current()->id, "a");
  clock_.Advance(seconds(60));
  Breaks();
  EXPECT_EQ(keyring_.Current()->id, "a");
  clock_.Advance(seconds(60));
  Holds({"b", "a"});

  EXPECT_EQ(keyring_.Current()->id, "b");
  EXPECT_TRUE(keyring_.Find("a").ok()) << "running jobs keep theirs";
}

}  // namespace
}  // namespace ringmaster::job
