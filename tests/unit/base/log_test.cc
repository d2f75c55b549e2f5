#include "common/base/log.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "common/base/utf8.h"

namespace ringmaster {
namespace {

std::string Logged(LogFormat format, std::string_view value) {
  InitLog("test", "info", format);
  ::testing::internal::CaptureStderr();
  LogInfo("Ended a job", {{"message", value}});
  const std::string line = ::testing::internal::GetCapturedStderr();
  const std::size_t begin = line.rfind("message");
  return begin == std::string::npos ? line : line.substr(begin);
}

// Texts of tenants must not move the cursor of a terminal, nor make lines that are not JSON.
TEST(Log, ValuesHaveNoControlCharacters) {
  struct Row {
    const char* value;
    const char* text;
  };
  for (const auto& [value, text] : {
           Row{"plain", "plain"},
           Row{"a b", "\"a b\""},
           Row{"a\nb\tc\"", "\"a\\nb\\tc\\\"\""},
           Row{"\x1B[2K", "\"\xEF\xBF\xBD[2K\""},
           Row{"\xC2\x9B"
               "2K",
               "\"\xEF\xBF\xBD"
               "2K\""},
           Row{"\x7F", "\"\xEF\xBF\xBD\""},
           Row{"\xFF\xC3", "\"\xEF\xBF\xBD\xEF\xBF\xBD\""},
           Row{"caf\xC3\xA9", "\"caf\xC3\xA9\""},
       }) {
    EXPECT_EQ(Logged(LogFormat::kText, value), "message=" + std::string(text) + "\n") << value;
  }
  EXPECT_EQ(Logged(LogFormat::kJson, "\xFF\x1B"), "message\":\"\xEF\xBF\xBD\xEF\xBF\xBD\"}\n");
}

// A thread that hung until now may log while the process ends.
TEST(Log, MayBeWrittenAfterStaticObjectsAreDestroyed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // in a new process, in which nothing has logged
  const auto end = [] {
    std::atexit([] { LogInfo("Ended late"); });  // runs after the destructors of newer objects
    InitLog("test", "info", LogFormat::kText);
    LogInfo("Ended");
    std::exit(0);
  };

  EXPECT_EXIT(end(), testing::ExitedWithCode(0), "Ended late");
}

TEST(Utf8, CharactersAreReadOneByOne) {
  EXPECT_EQ(FirstCharacter("a").code, 'a');
  EXPECT_EQ(FirstCharacter("\xE2\x82\xACx").code, 0x20AC);
  EXPECT_EQ(FirstCharacter("\xE2\x82\xACx").bytes, 3U);
  for (const char* invalid : {"\x80", "\xC0\xAF", "\xED\xA0\x80", "\xF5\x80\x80\x80", "\xE2\x82"}) {
    EXPECT_EQ(FirstCharacter(invalid).code, -1) << invalid;
    EXPECT_EQ(FirstCharacter(invalid).bytes, 1U) << invalid;
  }
}

}  // namespace
}  // namespace ringmaster
