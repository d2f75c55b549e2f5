#include "operator/kube/token_source.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "tests/fakes/fake_clock.h"
#include "tests/unit/kube/temporary_file.h"

namespace ringmaster::kube {
namespace {

TEST(TokenSource, ReadsTheFileAgainAfterAMinute) {
  FakeClock clock;
  TemporaryFolder folder;
  TokenSource tokens(clock, "", folder.Write("token", "first\n"));

  const std::string first = tokens.Token();
  folder.Write("token", "second\n");
  clock.Advance(std::chrono::seconds(59));
  const std::string cached = tokens.Token();
  clock.Advance(std::chrono::seconds(2));
  const std::string second = tokens.Token();

  EXPECT_EQ(first, "first");
  EXPECT_EQ(cached, "first");
  EXPECT_EQ(second, "second");
}

TEST(TokenSource, ReadsTheFileAgainWhenTheTokenWasRefused) {
  FakeClock clock;
  TemporaryFolder folder;
  TokenSource tokens(clock, "", folder.Write("token", "first"));
  tokens.Token();
  folder.Write("token", "second");

  tokens.Drop("something else");
  const std::string kept = tokens.Token();
  tokens.Drop("first");
  const std::string fresh = tokens.Token();

  EXPECT_EQ(kept, "first");
  EXPECT_EQ(fresh, "second");
}

TEST(TokenSource, KeepsTheOldTokenWhileTheFileIsMissing) {
  FakeClock clock;
  TemporaryFolder folder;
  const std::string file = folder.Write("token", "first");
  TokenSource tokens(clock, "", file);
  tokens.Token();

  std::filesystem::remove(file);
  clock.Advance(std::chrono::seconds(61));

  EXPECT_EQ(tokens.Token(), "first");
}

TEST(TokenSource, NeverChangesAFixedToken) {
  FakeClock clock;
  TokenSource tokens(clock, "fixed", "");

  tokens.Drop("fixed");

  EXPECT_EQ(tokens.Token(), "fixed");
}

}  // namespace
}  // namespace ringmaster::kube
