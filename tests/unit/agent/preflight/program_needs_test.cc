// Tests the checks of a program's needs. The checks query the program's loader and Python.

#include "worker/agent/preflight/program_needs.h"

#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/agent/preflight/program_folder.h"
#include "worker/agent/preflight/program_file.h"

namespace ringmaster::agent {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

class ProgramNeeds : public ProgramFolder {
 protected:
  Config With(std::vector<std::string> command, int gpus = 0) const {
    Config config;
    config.spec.command = std::move(command);
    config.spec.in_place = false;
    config.gpus = gpus;
    config.container = {{"PATH", Path()}, {"LD_LIBRARY_PATH", "/lib"}};
    return config;
  }
  // Returns the finding for a program "python3 train.py" whose Python check prints `answer`.
  std::optional<Finding> TorchFinding(const std::string& script, const std::string& answer) {
    const std::vector<Question> questions =
        QuestionsAboutProgram(With({Write("python3", ""), Write("train.py", script)}, 8));
    EXPECT_THAT(questions, SizeIs(1));
    return questions.at(0).judge(answer);
  }
};

TEST_F(ProgramNeeds, TheLoaderOfAProgramIsAskedWithTheWorkersEnvironment) {
  const std::vector<Question> questions = QuestionsAboutProgram(With({"sh", "-c", "true"}));

  ASSERT_THAT(questions, SizeIs(1));
  EXPECT_THAT(questions[0].argv, Contains("/usr/bin/sh"));
  EXPECT_EQ(questions[0].argv.front(), ProgramFile("/bin/sh").Loader());
  EXPECT_THAT(questions[0].environment, Contains("LD_LIBRARY_PATH=/lib"));
}

TEST_F(ProgramNeeds, OfAScriptItsInterpretersLoaderIsAsked) {
  const auto questions = QuestionsAboutProgram(With({Write("script", "#!/usr/bin/env sh\n")}));

  ASSERT_THAT(questions, SizeIs(1));
  EXPECT_THAT(questions[0].argv, Contains("/usr/bin/sh"));
}

TEST_F(ProgramNeeds, ALoaderIsAskedOnlyAboutDynamicPrograms) {
  EXPECT_THAT(QuestionsAboutProgram(With({"no-such-program"})), IsEmpty());
  EXPECT_THAT(QuestionsAboutProgram(With({Write("empty", "")})), IsEmpty());
  std::ifstream whole("/bin/sh", std::ios::binary);
  std::string bytes(300, '\0');
  whole.read(bytes.data(), 300);
  for (const std::size_t length : {5U, 63U, 64U, 100U, 200U, 300U}) {
    EXPECT_THAT(QuestionsAboutProgram(With({Write("cut", bytes.substr(0, length))})), IsEmpty());
  }
}

// Runtime tests check the real loader's messages with a real program.
TEST_F(ProgramNeeds, MissingLibrariesAreNamedOnce) {
  const auto questions = QuestionsAboutProgram(With({"sh"}));
  ASSERT_THAT(questions, SizeIs(1));
  const auto said = [&](const std::string& listing) {
    const std::optional<Finding> finding = questions[0].judge(listing);
    return finding ? finding->check + ": " + finding->message : "";
  };

  EXPECT_EQ(said("\tlinux-vdso.so.1 (0x7f)\n\tlibc.so.6 => /lib/libc.so.6 (0x7f)\n"), "");
  EXPECT_EQ(said(""), "");
  EXPECT_THAT(said("\tlibcudart.so.10.0 => not found\n\tlibcudart.so.10.0 => not found\n"),
              AllOf(HasSubstr("libraries: \"/usr/bin/sh\""),
                    HasSubstr("not found here: libcudart.so.10.0; install")));
  EXPECT_THAT(said("Error loading shared library libfoo.so.1: No such file (needed by /x)\n"),
              HasSubstr(": libfoo.so.1; "));
  EXPECT_THAT(said("/x: /lib/x/libc.so.6: version `GLIBC_2.38' not found (required by /x)\n"),
              HasSubstr(": libc.so.6 of version GLIBC_2.38; "));
  std::string many;
  for (int i = 0; i < 9; ++i) many += "lib" + std::to_string(i) + ".so => not found\n";
  EXPECT_THAT(said(many), AllOf(HasSubstr("lib4.so and 4 more; "), Not(HasSubstr("lib5.so"))));
}

TEST_F(ProgramNeeds, APyTorchWithoutCudaIsNamedWhereThereAreGpus) {
  const auto finding = TorchFinding("import torch\n", "hello\ntorch 2.15.0+cpu None None\n");
  ASSERT_TRUE(finding.has_value());
  EXPECT_EQ(finding->check, "torch");
  EXPECT_TRUE(finding->fatal);
  EXPECT_THAT(finding->message, AllOf(HasSubstr("2.15.0+cpu"), HasSubstr("8 GPUs")));

  EXPECT_FALSE(TorchFinding("import torch\n", "torch 2.15.0 13.2 None\n").has_value());
  EXPECT_FALSE(TorchFinding("import torch\n", "torch 2.15.0 None 7.0\n").has_value());
  EXPECT_FALSE(TorchFinding("import torch\n", "").has_value());
}

// A script may use a CPU build of PyTorch only to load data, and compute with another library.
TEST_F(ProgramNeeds, APyTorchThatIsNotSeenToComputeOnlyWarns) {
  EXPECT_FALSE(TorchFinding("import torch\nimport jax\n", "torch 2 None None")->fatal);
  EXPECT_FALSE(TorchFinding("import numpy\n", "torch 2 None None")->fatal);
}

TEST_F(ProgramNeeds, PythonIsNotAskedWithoutGpusInModeRestart) {
  EXPECT_THAT(QuestionsAboutProgram(With({Write("python3", ""), "train.py"})), IsEmpty());
}

TEST_F(ProgramNeeds, InPlaceThePyTorchThatIsFoundIsNamedWithWhatItMeans) {
  Config config = With({Write("python3", ""), "train.py"});
  config.spec.in_place = true;
  const auto said = [&config](const std::string& answer) {
    const std::vector<Question> questions = QuestionsAboutProgram(config);
    EXPECT_THAT(questions, SizeIs(1));
    return questions.at(0).judge(answer).value_or(Finding{"", "", false, false});
  };

  const Finding old = said("torch 2.1.2+cu121 12.1 None\n");
  EXPECT_TRUE(old.fatal);
  EXPECT_THAT(old.message, AllOf(HasSubstr("2.1.2+cu121"), HasSubstr("mode to Restart")));
  EXPECT_TRUE(said("torch 1.13.1 None None\n").fatal);

  const Finding none = said("torch none\n");
  EXPECT_FALSE(none.fatal) << "the script may look for it itself";
  EXPECT_TRUE(none.fault);
  EXPECT_THAT(none.message, HasSubstr("python3) has no PyTorch"));

  for (const char* fine : {"2.2.0", "2.10.0", "2.15.0+cpu", "3.0.0"}) {
    const Finding found = said(std::string("torch ") + fine + " None None\n");
    EXPECT_FALSE(found.fault) << found.message;
    EXPECT_THAT(found.message, AllOf(HasSubstr(fine), HasSubstr("supports")));
  }
  EXPECT_EQ(said("").message, "") << "of a Python that did not answer";
  config.gpus = 1;
  EXPECT_THAT(said("torch 2.6.0 12.4 None\n").message, HasSubstr("NCCL support is experimental"));
  EXPECT_THAT(said("torch 2.6.0 None None\n").message, HasSubstr("built without CUDA"));
}

}  // namespace
}  // namespace ringmaster::agent
