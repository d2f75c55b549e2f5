// Tests the encoding of messages: they are decoded unchanged, and invalid input does no harm.

#include "common/control/messages.h"

#include <cmath>
#include <limits>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/base64.h"
#include "tests/unit/control/one_of_each.h"

namespace ringmaster::control {
namespace {

using testing::HasSubstr;

TEST(Messages, CoverEveryType) { EXPECT_EQ(OneOfEach().size(), std::variant_size_v<Message>); }

TEST(Messages, RoundTrip) {
  for (const Message& message : OneOfEach()) {
    const std::string line = Encode(message);
    EXPECT_EQ(line.find('\n'), std::string::npos);

    const auto decoded = Decode(line);

    ASSERT_TRUE(decoded.ok()) << line << ": " << decoded.error().message;
    EXPECT_EQ(decoded->index(), message.index());
    EXPECT_EQ(Encode(*decoded), line);
  }
}

TEST(Messages, KeepFieldsApart) {
  const auto start = Decode(Encode(StartEpoch{kEpoch, 7, {kFirst, kMember}}));
  ASSERT_TRUE(start.ok());
  const auto& member = std::get<StartEpoch>(*start).members.at(1);
  EXPECT_EQ(member.pod_uid, "uid");
  EXPECT_EQ(member.pod, "digits-worker-1");
  EXPECT_EQ(member.node, "node2");
  EXPECT_EQ(member.address, "10.0.0.3");
  EXPECT_EQ(member.slot, 1);
  EXPECT_EQ(member.start, "nonce-3");
  EXPECT_EQ(member.rank, 1);
  const auto report = Decode(Encode(WorldReport{kEpoch, {kMember}, {"nonce-3", "nonce-4"}}));
  EXPECT_EQ(std::get<WorldReport>(*report).running,
            (std::vector<std::string>{"nonce-3", "nonce-4"}));
  const auto output = Decode(Encode(SlotOutput{2, 6, true, std::string("\0\xff\n", 3)}));
  EXPECT_EQ(std::get<SlotOutput>(*output).slot, 2);
  EXPECT_EQ(std::get<SlotOutput>(*output).rank, 6);
  EXPECT_EQ(std::get<SlotOutput>(*output).data, std::string("\0\xff\n", 3));
  const auto broken = Decode(Encode(RankBroken{kEpoch, 5, 3, "reset by peer"}));
  EXPECT_EQ(std::get<RankBroken>(*broken).rank, 5);
  EXPECT_EQ(std::get<RankBroken>(*broken).peer, 3);
  const auto positions = Decode(Encode(RankPositions{kEpoch, {kPosition}}));
  const RankPosition& position = std::get<RankPositions>(*positions).ranks.at(0);
  EXPECT_TRUE(position.entered && position.stopped);
  EXPECT_EQ(std::tuple(position.rank, position.slot, position.step, position.bucket, position.peer),
            std::tuple(5, 1, 41, 2, 3));
  EXPECT_EQ(position.phase, RankPhase::kReduce);
  EXPECT_EQ(std::tuple(position.still_millis, position.step_micros, position.own_micros,
                       position.applied_millis),
            std::tuple(2100, 52'000, 31'000, 2150));
  EXPECT_EQ(position.collectives, kPosition.collectives);
  const auto filled = Decode(Encode(DataCacheProgress{41, 140}));
  EXPECT_EQ(std::get<DataCacheProgress>(*filled).bytes_done, 41);
  EXPECT_EQ(std::get<DataCacheProgress>(*filled).bytes_total, 140);
  const auto values = Decode(Encode(StoreValues{kEpoch, 9, 3, {std::string("\0\xff", 2), ""}}));
  EXPECT_EQ(std::get<StoreValues>(*values).values,
            (std::vector<std::string>{std::string("\0\xff", 2), ""}));
}

TEST(Messages, CarryNaN) {
  Progress progress;
  progress.loss = std::numeric_limits<double>::quiet_NaN();
  const auto decoded = Decode(Encode(RankProgress{kEpoch, progress}));

  ASSERT_TRUE(decoded.ok()) << decoded.error().message;
  EXPECT_TRUE(std::isnan(std::get<RankProgress>(*decoded).progress.loss));
}

TEST(Messages, ReplaceInvalidUtf8) {
  const auto decoded = Decode(Encode(AgentLeaving{"bad \xff byte"}));

  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(std::get<AgentLeaving>(*decoded).reason, "bad \xef\xbf\xbd byte");
}

TEST(Messages, AreRefusedWithAReasonIfInvalid) {
  struct Case {
    const char* line;
    const char* error;
  };
  const Case cases[] = {
      {"", "not JSON"},
      {"{", "not JSON"},
      {"null", "not a JSON object"},
      {"[1]", "not a JSON object"},
      {"{}", "field 'type'"},
      {R"({"type":7})", "field 'type'"},
      {R"({"type":"Reboot"})", "unknown type 'Reboot'"},
      {R"({"type":"RankDone","epoch":{"term":1,"number":1}})", "field 'rank': is missing"},
      {R"({"type":"Refused","reason":7})", "field 'reason': expected text"},
      {R"({"type":"RankHello","slot":1.5,"pid":1})", "field 'slot': expected an integer"},
      {R"({"type":"RankHello","slot":4294967296,"pid":1})", "field 'slot': is too large"},
      {R"({"type":"RankHello","slot":-4294967296,"pid":1})", "field 'slot': is out of range"},
      {R"({"type":"RankHello","slot":1,"pid":18446744073709551615})", "field 'pid': is too large"},
      {R"({"type":"RankHello","slot":1,"pid":1e30})", "field 'pid': expected an integer"},
      {R"({"type":"RankOutput","isStderr":1,"data":""})",
       "field 'isStderr': expected true or false"},
      {R"({"type":"RankOutput","isStderr":true,"data":"A"})", "field 'data': is not valid base64"},
      {R"({"type":"Release","epoch":{"term":1}})", "field 'epoch.number': is missing"},
      {R"({"type":"Release","epoch":[]})", "field 'epoch': expected an object"},
      {R"({"type":"StartEpoch","epoch":{"term":1,"number":1},"cohort":1,"members":[]})",
       "field 'members': expected hosts and their order"},
      {R"({"type":"RankReady","slot":1})", "field 'start': is missing"},
      {R"({"type":"RankLeave","below":7})", "field 'below': expected an object"},
      {R"({"type":"WorldReport","epoch":{"term":1,"number":1},"members":{"hosts":[],"order":[]},"running":[1]})",
       "field 'running[0]': expected text"},
      {R"({"type":"SlotOutput","slot":0,"rank":0,"isStderr":false,"data":"?"})",
       "field 'data': is not valid base64"},
      {R"({"type":"AgentReady","address":"","sshPort":1,"faults":[],"versions":{"a":1}})",
       "field 'versions.a': expected text"},
  };
  for (const Case& c : cases) {
    const auto decoded = Decode(c.line);
    ASSERT_FALSE(decoded.ok()) << c.line;
    EXPECT_EQ(decoded.error().kind, ErrorKind::kInvalid) << c.line;
    EXPECT_THAT(decoded.error().message, HasSubstr(c.error)) << c.line;
  }
}

TEST(Messages, SurviveDeepNesting) {
  const std::string deep = R"({"type":"Refused","reason":"x","y":)" + std::string(100'000, '[') +
                           std::string(100'000, ']') + "}";
  EXPECT_TRUE(Decode(deep).ok());
  EXPECT_FALSE(Decode(std::string(500'000, '[')).ok());
}

TEST(Messages, AreDecodedSafelyWhenTruncatedOrCorrupted) {
  std::mt19937 random(1);
  for (const Message& message : OneOfEach()) {
    const std::string line = Encode(message);
    for (std::size_t size = 0; size < line.size(); ++size)
      EXPECT_FALSE(Decode(line.substr(0, size)).ok());
    for (int i = 0; i < 200; ++i) {
      std::string bad = line;
      bad[random() % bad.size()] = static_cast<char>(random());
      const auto decoded = Decode(bad);
      EXPECT_TRUE(!decoded.ok() || Decode(Encode(*decoded)).ok()) << bad;
    }
  }
}

TEST(Base64, AgreesWithTheStandard) {
  const std::pair<const char*, const char*> cases[] = {{"", ""},
                                                       {"f", "Zg=="},
                                                       {"fo", "Zm8="},
                                                       {"foo", "Zm9v"},
                                                       {"foob", "Zm9vYg=="},
                                                       {"fooba", "Zm9vYmE="},
                                                       {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : cases) {
    EXPECT_EQ(EncodeBase64(bytes), text);
    EXPECT_EQ(DecodeBase64(text), bytes);
  }
  for (const char* bad : {"Z", "Zg", "Zg=", "Zh==", "Z===", "====", "Zm9v=", "Zm 9", "Zg==Zg=="}) {
    EXPECT_FALSE(DecodeBase64(bad)) << bad;
  }
}

}  // namespace
}  // namespace ringmaster::control
