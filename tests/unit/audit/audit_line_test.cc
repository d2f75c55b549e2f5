#include "worker/audit/audit_line.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ringmaster::audit {
namespace {

TEST(AuditLine, ReadsAWorld) {
  const auto line = ParseLine(
      R"({"world":{"term":2,"number":3,"rank":1,"size":2,"global_batch":64,"members":["a/0/x","b/0/y"],)"
      R"("adopted":{"epoch":[1,9],"step":41},"checksum":"00000000000000ff","more":1}})");

  ASSERT_TRUE(line.ok()) << line.error().message;
  const auto& world = std::get<WorldLine>(*line);
  EXPECT_EQ(world.epoch, (Epoch{2, 3}));
  EXPECT_EQ(world.rank, 1);
  EXPECT_EQ(world.global_batch, 64);
  EXPECT_THAT(world.members, ::testing::ElementsAre("a/0/x", "b/0/y"));
  EXPECT_EQ(world.adopted_epoch, (Epoch{1, 9}));
  EXPECT_EQ(world.adopted_step, 41);
  EXPECT_EQ(world.checksum, 255U);
}

TEST(AuditLine, ReadsAStepBegunAndApplied) {
  const auto begun = ParseLine(R"({"begun":{"step":5,"epoch":[1,2],"rank":0,"samples":[0,32]}})");
  const auto applied = ParseLine(
      R"({"step":5,"epoch":[1,2],"rank":0,"samples":[0,32],"checksum":"ffffffffffffffff"})");

  ASSERT_TRUE(begun.ok() && applied.ok());
  EXPECT_FALSE(std::get<StepLine>(*begun).checksum.has_value());
  EXPECT_EQ(std::get<StepLine>(*applied).checksum, ~uint64_t{0});
  EXPECT_EQ(std::get<StepLine>(*applied).samples, (Samples{0, 32}));
}

TEST(AuditLine, RefusesInvalidLinesWithAReason) {
  const std::string world = R"({"world":{"term":1,"number":1,"rank":0,"size":1,"global_batch":8,)"
                            R"("members":["a"],"adopted":{"epoch":[0,0],"step":0},"checksum":)";
  struct Case {
    std::string text;
    const char* says;
  };
  const Case cases[] = {
      {"", "not JSON"},
      {"\xff\xfe", "not JSON"},
      {"[]", "not a JSON object"},
      {"{}", "missing"},
      {"7", "not a JSON object"},
      {R"({"world":7})", "expected an object"},
      {world + R"("12"}})", "checksum"},
      {world + R"("-00000000000000f"}})", "checksum"},
      {world + R"("000000000000000g"}})", "checksum"},
      {world + "12}}", "checksum"},
      {R"({"world":{"term":1,"number":1,"rank":0,"size":2,"members":["a"]}})",
       "do not match the world size"},
      {R"({"world":{"term":1,"number":1,"rank":0,"size":1,"members":[1]}})", "members"},
      {R"({"world":{"term":1,"number":1,"rank":1,"size":1,"members":["a"]}})", "rank"},
      {R"({"world":{"term":-1,"number":1}})", "term"},
      {R"({"world":{"term":18446744073709551615,"number":1}})", "term"},
      {R"({"world":{"term":1.5,"number":1}})", "term"},
      {R"({"begun":{"step":0,"epoch":[1,1],"rank":0,"samples":[0,1]}})", "step"},
      {R"({"begun":{"step":1,"epoch":[1],"rank":0,"samples":[0,1]}})", "epoch"},
      {R"({"begun":{"step":1,"epoch":[1,1],"rank":-1,"samples":[0,1]}})", "rank"},
      {R"({"begun":{"step":1,"epoch":[1,1],"rank":9999999,"samples":[0,1]}})", "rank"},
      {R"({"begun":{"step":1,"epoch":[1,1],"rank":0,"samples":[3,1]}})", "samples"},
      {R"({"begun":{"step":1,"epoch":[1,1],"rank":0,"samples":["0",1]}})", "samples"},
      {std::string(100'000, '['), "not JSON"},
      {std::string(kMaxLineBytes + 1, ' '), "too long"},
  };

  for (const Case& c : cases) {
    const auto line = ParseLine(c.text);

    ASSERT_FALSE(line.ok()) << c.text.substr(0, 200);
    EXPECT_THAT(line.error().message, ::testing::HasSubstr(c.says)) << c.text.substr(0, 200);
  }
}

}  // namespace
}  // namespace ringmaster::audit
