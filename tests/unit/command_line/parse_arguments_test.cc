#include "common/command_line/parse_arguments.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ringmaster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A program with a flag of each kind.
struct Program {
  Program() {
    app.add_option("--folder", folder);
    app.add_option("--level", level)->check(CLI::IsMember({"debug", "info"}));
    app.add_option("--count", count);
    app.add_option("--names", names)->delimiter(',');
    app.add_flag("--quick", quick);
    app.add_option("rest", rest);
    CLI::App* const measure = app.add_subcommand("measure");
    measure->add_option("--json", json);
  }

  // Returns the error message; empty if there is no error.
  std::string Parse(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "program");
    try {
      ParseArguments(app, static_cast<int>(arguments.size()), arguments.data());
    } catch (const CLI::ParseError& error) {
      return error.what();
    }
    return "";
  }

  CLI::App app;
  std::string folder = "default";
  std::string level = "info";
  std::string json = "-";
  int count = 7;
  std::vector<std::string> names;
  bool quick = false;
  std::vector<std::string> rest;
};

TEST(ParseArguments, AFlagThatEndsWithItsEqualsSignIsEmpty) {
  Program program;

  EXPECT_EQ(program.Parse({"--folder=", "--quick"}), "");

  EXPECT_EQ(program.folder, "");
  EXPECT_TRUE(program.quick);
}

TEST(ParseArguments, SoIsOneOfASubcommand) {
  Program program;

  EXPECT_EQ(program.Parse({"--folder=", "measure", "--json="}), "");

  EXPECT_EQ(program.folder, "");
  EXPECT_EQ(program.json, "");
}

TEST(ParseArguments, TakesAllOtherFormsAsTheyAre) {
  Program program;

  EXPECT_EQ(program.Parse({"--folder", "--quick", "--count=3", "--names=a,b", "--level=debug"}),
            "");

  EXPECT_EQ(program.folder, "--quick");
  EXPECT_EQ(program.count, 3);
  EXPECT_THAT(program.names, ElementsAre("a", "b"));
  EXPECT_EQ(program.level, "debug");
  EXPECT_FALSE(program.quick);
}

TEST(ParseArguments, WhatStandsBehindTwoDashesIsNoFlag) {
  Program program;

  EXPECT_EQ(program.Parse({"--", "--folder="}), "");

  EXPECT_EQ(program.folder, "default");
  EXPECT_THAT(program.rest, ElementsAre("--folder="));
}

TEST(ParseArguments, RefusesNoValueWhereItMeansNothing) {
  for (const char* flag : {"--count=", "--names=", "--level=", "--unknown="}) {
    Program program;
    EXPECT_THAT(program.Parse({flag, "5"}), HasSubstr(std::string(flag, 7))) << flag;
  }
}

TEST(ParseArguments, AFlagWithoutAValueStaysOne) {
  Program program;

  EXPECT_EQ(program.Parse({"--quick="}), "");

  EXPECT_TRUE(program.quick);
  EXPECT_THAT(program.rest, IsEmpty());
}

}  // namespace
}  // namespace ringmaster
