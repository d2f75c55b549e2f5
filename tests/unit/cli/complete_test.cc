#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/paths.h"
#include "tests/unit/cli/fake_kubectl.h"

namespace ringmaster::cli {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

std::string Completed(FakeKubectl& kubectl, std::vector<std::string> words) {
  words.insert(words.begin(), "__complete");
  const auto ran = kubectl.Run(words);
  EXPECT_EQ(ran.code, 0) << ran.err;
  return ran.out;
}

TEST(Completion, OfCommandsFlagsAndNames) {
  FakeKubectl kubectl;
  kubectl.On("'--namespace=team-a --as=b get trainingjobs.ringmaster.dev -o name'",
             "echo trainingjob.ringmaster.dev/digits; echo trainingjob.ringmaster.dev/llama; "
             "printf 'x/evil\\033[2J\\n'");
  kubectl.On("'get namespaces -o name'", "echo namespace/team-a");

  EXPECT_EQ(Completed(kubectl, {""}), "status\nlogs\nexplain\nprofiles\ndoctor\n:4\n");
  EXPECT_EQ(Completed(kubectl, {"st"}), "status\n:4\n");
  EXPECT_EQ(Completed(kubectl, {"status", "-n", "team-a", "--as=b", ""}), "digits\nllama\n:4\n");
  EXPECT_EQ(Completed(kubectl, {"-n", "team-a", "--as=b", "logs", "di"}), "digits\n:4\n");
  EXPECT_EQ(Completed(kubectl, {"status", "digits", ""}), ":4\n");
  EXPECT_EQ(Completed(kubectl, {"status", "-n", "team-a", "--as=b", "-o", "json", ""}),
            "digits\nllama\n:4\n");
  EXPECT_EQ(Completed(kubectl, {"logs", "-n", "team-a", "--as=b", "--tail", "100", "l"}),
            "llama\n:4\n");
  EXPECT_EQ(Completed(kubectl, {"logs", "--follow", "-n", "team-a", "--as=b", ""}),
            "digits\nllama\n:4\n");
  EXPECT_EQ(Completed(kubectl, {"logs", "digits", "--tail", ""}), ":4\n");
  EXPECT_EQ(Completed(kubectl, {"profiles", "-n", ""}), "team-a\n:4\n");
  EXPECT_EQ(Completed(kubectl, {"status", "digits", "-o", ""}), "json\n:4\n");
  EXPECT_THAT(Completed(kubectl, {"logs", "digits", "--"}),
              AllOf(HasSubstr("--follow\n"), HasSubstr("--namespace\n"), EndsWith(":4\n"),
                    Not(HasSubstr("--output\n"))));
}

TEST(Completion, OfAClusterThatCannotBeReachedIsEmpty) {
  FakeKubectl kubectl;
  kubectl.Refuses("*", "Unable to connect to the server: no route");

  EXPECT_EQ(Completed(kubectl, {"status", ""}), ":4\n");
}

TEST(Completion, ByTheNameThatKubectlCalls) {
  FakeKubectl kubectl;
  const std::filesystem::path program(FromBuild(RINGMASTER_KUBECTL_TRAININGJOB));

  const auto ran = kubectl.Run({"do"}, {}, program.parent_path() / "kubectl_complete-trainingjob");

  EXPECT_EQ(ran.out, "doctor\n:4\n");
}

}  // namespace
}  // namespace ringmaster::cli
