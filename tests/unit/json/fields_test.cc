// Tests descriptions of JSON fields: any input is decoded, or rejected with the path of the error.

#include "common/json/fields.h"

#include <cmath>
#include <map>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "common/json/forms.h"

namespace ringmaster {
namespace {

enum class Color { kRed, kBlue };
constexpr std::array kColors = {"red", "blue"};

struct Part {
  int slot = 0;
  std::string name;
  int64_t first = 0;
  int64_t second = 0;

  friend bool operator==(const Part&, const Part&) = default;
};

void Describe(auto& a, Is<Part> auto& v) {
  a.Field("slot", v.slot);
  a.Optional("name", v.name);
  a.Sparse("pair", v, Part(), AsPair<Part>{&Part::first, &Part::second});
}

struct Whole {
  bool on = false;
  int64_t count = 7;
  double loss = 0;
  std::string text;
  std::chrono::seconds wait{0};
  std::vector<Part> parts;
  std::map<std::string, int> sizes;
  std::optional<Part> last;
  int rank = -1;
  Color color = Color::kRed;
  Color known = Color::kRed;
  int version = 3;
  std::string inner;
};

void Describe(auto& a, Is<Whole> auto& v) {
  a.Optional("on", v.on);
  a.Field("count", v.count);
  a.Optional("loss", v.loss);
  a.Optional("text", v.text);
  a.Optional("wait", v.wait);
  a.Optional("parts", v.parts);
  a.Optional("sizes", v.sizes);
  a.Sparse("last", v.last);
  a.Sparse("rank", v.rank, -1);
  a.Optional("color", v.color, AsWord(kColors, Color::kBlue));
  a.Sparse("known", v.known, Color::kRed, AsWord(kColors));
  a.Version("version", v.version, 1);
  const auto inner = [&v](auto& b) {
    b.Sparse("text", v.inner);
    b.Check(v.inner != "bad", "text", "is bad");
  };
  a.Inside("inner", inner, /*even_if_empty=*/false);
}

Whole Full() {
  return {.on = true,
          .count = -1,
          .loss = 0.5,
          .text = "t",
          .wait = std::chrono::seconds(60),
          .parts = {{.slot = 1, .name = "n", .first = 2, .second = 3}, {.slot = 4, .name = ""}},
          .sizes = {{"a", 1}},
          .last = Part{.slot = 5, .name = "l"},
          .rank = 6,
          .color = Color::kBlue,
          .known = Color::kBlue,
          .version = 9,
          .inner = "i"};
}

std::string Wrong(const std::string& text) {
  const auto read = DecodeJson<Whole>(text);
  return read.ok() ? "" : read.error().message;
}

TEST(Fields, RoundTrip) {
  const std::string text = EncodeJson(Full());

  const auto read = DecodeJson<Whole>(text);

  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(EncodeJson(*read), text);
  EXPECT_EQ(read->wait, std::chrono::minutes(1));
  EXPECT_EQ(read->parts, Full().parts);
  EXPECT_EQ(read->sizes, Full().sizes);
  EXPECT_EQ(read->last, Full().last);
  EXPECT_EQ(std::tuple(read->color, read->known), std::tuple(Color::kBlue, Color::kBlue));
}

TEST(Fields, OnlySparseOnesAreLeftOut) {
  EXPECT_EQ(EncodeJson(Whole()),
            R"({"color":"red","count":7,"loss":0.0,"on":false,"parts":[],"sizes":{},"text":"",)"
            R"("version":3,"wait":0})");
}

TEST(Fields, MissingNullAndUnknownValuesKeepTheDefault) {
  const auto read = DecodeJson<Whole>(
      R"({"count":1,"text":null,"last":null,"inner":null,"color":"green","more":[{}]})");

  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(std::tuple(read->text, read->rank, read->inner), std::tuple("", -1, ""));
  EXPECT_FALSE(read->last);
  EXPECT_EQ(read->color, Color::kBlue);
  EXPECT_EQ(read->version, 1);
}

TEST(Fields, NaNIsWrittenAsNull) {
  const std::string text = EncodeJson(std::vector<double>{std::nan("")});

  EXPECT_EQ(text, "[null]");
  EXPECT_TRUE(std::isnan(FromJson<std::vector<double>>(*ParseJson(text))->front()));
}

TEST(Fields, ErrorsNameThePathOfTheField) {
  const std::pair<const char*, const char*> cases[] = {
      {"[]", "the text is not a JSON object"},
      {"{}", "field 'count': is missing"},
      {R"({"count":1.5})", "field 'count': expected an integer"},
      {R"({"count":null})", "field 'count': expected an integer"},
      {R"({"count":18446744073709551615})", "field 'count': is too large"},
      {R"({"count":1,"on":1})", "field 'on': expected true or false"},
      {R"({"count":1,"loss":"0"})", "field 'loss': expected a number"},
      {R"({"count":1,"text":7})", "field 'text': expected text"},
      {R"({"count":1,"wait":2147483648})", "field 'wait': is too large"},
      {R"({"count":1,"parts":{}})", "field 'parts': expected a list"},
      {R"({"count":1,"parts":[{"slot":1},7]})", "field 'parts[1]': expected an object"},
      {R"({"count":1,"parts":[{"slot":-2147483649}]})", "field 'parts[0].slot': is out of range"},
      {R"({"count":1,"parts":[{"slot":1,"pair":[1,-1]}]})",
       "field 'parts[0].pair': is not an integer from 0 to 9007199254740992"},
      {R"({"count":1,"parts":[{"slot":1,"pair":[1]}]})",
       "field 'parts[0].pair': is not a pair of numbers"},
      {R"({"count":1,"sizes":[]})", "field 'sizes': expected an object"},
      {R"({"count":1,"sizes":{"a":"1"}})", "field 'sizes.a': expected an integer"},
      {R"({"count":1,"last":{}})", "field 'last.slot': is missing"},
      {R"({"count":1,"color":1})", "field 'color': expected text"},
      {R"({"count":1,"known":"green"})", "field 'known': expected one of red, blue"},
      {R"({"count":1,"inner":7})", "field 'inner': expected an object"},
      {R"({"count":1,"inner":{"text":"bad"}})", "field 'inner.text': is bad"},
      {R"({"on":1,"count":1.5,"text":7})", "field 'on': expected true or false"}};
  for (const auto& [text, wrong] : cases) EXPECT_EQ(Wrong(text), wrong) << text;

  EXPECT_EQ(FromJson<Whole>(Json(7)).error().message, "expected an object");
  EXPECT_EQ(FromJson<Whole>(Json(7), "spec").error().message, "field 'spec': expected an object");
}

TEST(Fields, ALenientReaderSkipsInvalidValuesAndCutsTexts) {
  const Json json = *ParseJson(
      R"({"on":7,"count":"x","text":"abcdef","wait":3,"parts":[{"slot":1},"x",{"slot":[]}],)"
      R"("sizes":{"a":1,"b":"x"},"last":7,"rank":1.5,"known":"green","inner":{"text":"bad"}})");

  const auto whole = FromJsonLeniently<Whole>(json, 3);

  EXPECT_EQ(std::tuple(whole.on, whole.count, whole.text), std::tuple(false, 7, "abc"));
  EXPECT_EQ(whole.wait, std::chrono::seconds(3));
  EXPECT_EQ(whole.parts, (std::vector<Part>{{.slot = 1, .name = ""}, {.slot = 0, .name = ""}}));
  EXPECT_EQ(whole.sizes, (std::map<std::string, int>{{"a", 1}}));
  EXPECT_FALSE(whole.last);
  EXPECT_EQ(std::tuple(whole.rank, whole.known), std::tuple(-1, Color::kRed));
  EXPECT_EQ(FromJsonLeniently<Whole>(Json("x"), 3).count, 7);
}

TEST(Fields, ANumberOutsideItsRangeOrTypeIsRefused) {
  int8_t small = 0;

  EXPECT_EQ(AsNumber().Read(Json(127), small), "");
  EXPECT_EQ(small, 127);
  EXPECT_EQ(AsNumber().Read(Json(128), small), "is not an integer from 0 to 127");
  EXPECT_EQ((AsNumber{.least = 2}.Read(Json(1), small)), "is not an integer from 2 to 127");
  EXPECT_EQ(AsNumber().Read(Json(-1), small), "is not an integer from 0 to 127");
}

}  // namespace
}  // namespace ringmaster
