// Tests which problems of a job's program are found before it runs.

#include <elf.h>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/agent/preflight/program_folder.h"
#include "worker/agent/preflight/preflight.h"

namespace ringmaster::agent {
namespace {

using testing::HasSubstr;

class ProgramCheck : public ProgramFolder {
 protected:
  Config With(std::vector<std::string> command, bool in_place, int own_ranks) const {
    Config config;
    config.spec.ranks_per_process = own_ranks;
    config.spec.command = std::move(command);
    config.spec.in_place = in_place;
    config.container = {{"PATH", Path()}};
    return config;
  }
  // Returns the message of the finding; "" if the program can run.
  std::string Said(std::vector<std::string> command, bool in_place = false, int own_ranks = 0) {
    const std::optional<Finding> found =
        CheckProgram(With(std::move(command), in_place, own_ranks));
    EXPECT_TRUE(!found || found->fatal);
    return found ? found->message : "";
  }
};

TEST_F(ProgramCheck, FindsNothingWrongWithWhatCanRun) {
  EXPECT_EQ(Said({"/bin/sh", "-c", "true"}), "");
  EXPECT_EQ(Said({Write("a", "#!/usr/bin/env sh\n")}), "");
  EXPECT_EQ(Said({Write("b", "#! /bin/sh -e\n")}), "");
  EXPECT_EQ(Said({Write("c", "")}), "");
  EXPECT_EQ(Said({Write("d", "#!")}), "");
  EXPECT_EQ(Said({Write("e",
                        "\x7f"
                        "ELF")}),
            "");
}

// An MPI program needs mpirun: without it, each process would be a separate world of one rank.
TEST_F(ProgramCheck, AnMpiProgramIsNamed) {
  const auto said = [this](std::vector<std::string> command, bool in_place = false,
                           int own_ranks = 0) {
    const std::optional<Finding> found =
        CheckMpiProgram(With(std::move(command), in_place, own_ranks));
    return found ? found->check + ": " + found->message : "";
  };
  using namespace std::string_literals;
  const std::string linked = Write("linked",
                                   "\x7f"
                                   "ELF\0libc.so.6\0libmpi.so.40\0x"s);
  const std::string mpich = Write("mpich",
                                  "\x7f"
                                  "ELF\0libmpich.so.12\0"s);
  const std::string other = Write("other",
                                  "\x7f"
                                  "ELF\0libm.so.6\0load libmpi.so\0"s);
  const std::string python = Write("a.py", "import os\nfrom mpi4py import MPI\n");
  const std::string may = Write("b.py", "try:\n  import mpi4py\nexcept ImportError:\n  pass\n");

  EXPECT_THAT(said({linked}),
              HasSubstr("mpi-program: \"" + linked + "\" needs MPI (libmpi.so.40)"));
  EXPECT_THAT(said({mpich, "--steps=3"}), HasSubstr("(libmpich.so.12)"));
  EXPECT_THAT(said({"sh", python}), HasSubstr("\"" + python + "\" needs MPI (mpi4py)"));
  EXPECT_THAT(said({linked}), HasSubstr("a name for user"));
  Config named = With({linked}, false, 0);
  named.user = "u";
  EXPECT_THAT(CheckMpiProgram(named)->message, testing::Not(HasSubstr("a name for user")));
  EXPECT_EQ(said({other}), "");
  EXPECT_EQ(said({"sh", may, "nothing.py"}), "");
  EXPECT_EQ(said({linked}, true), "") << "its ranks are the agents'";
  EXPECT_EQ(said({linked}, false, 2), "") << "it starts ranks itself";
}

TEST_F(ProgramCheck, ACommandInOneStringIsNamed) {
  EXPECT_THAT(Said({"python3 train.py"}), HasSubstr("write each word as a separate item"));
  EXPECT_THAT(Said({"nothing", "a b"}), HasSubstr("correct spec.command or the image"));
}

TEST_F(ProgramCheck, AnotherMachinesProgramIsNamed) {
  std::string header =
      "\x7f"
      "ELF\x02\x01\x01";
  header.resize(64);
  header[18] = '\x16';  // e_machine: s390
  EXPECT_THAT(Said({Write("solver", header)}), HasSubstr("is built for s390x"));
}

TEST_F(ProgramCheck, AScriptsInterpreterIsLookedFor) {
  EXPECT_THAT(Said({Write("a", "#!/opt/conda/bin/python\n")}),
              HasSubstr("needs /opt/conda/bin/python,"));
  EXPECT_THAT(Said({Write("b", "#!/usr/bin/env no-such-python\nprint()\n")}),
              HasSubstr("needs no-such-python,"));
  EXPECT_THAT(Said({Write("c", "#!/opt/bin/env sh\n")}), HasSubstr("needs /opt/bin/env,"));
}

// Without this check, the kernel reports "no such file" for a program that exists.
TEST_F(ProgramCheck, AProgramOfAnotherCLibraryIsNamed) {
  std::ifstream shell("/bin/sh", std::ios::binary);
  Elf64_Ehdr header{};
  shell.read(reinterpret_cast<char*>(&header), sizeof header);
  header.e_phoff = sizeof header;
  header.e_phnum = 1;
  const std::string loader("/lib/ld-of-elsewhere.so.1\0", 26);
  Elf64_Phdr segment{};
  segment.p_type = PT_INTERP;
  segment.p_offset = sizeof header + sizeof segment;
  segment.p_filesz = loader.size();
  const auto bytes = [](const auto& value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof value);
  };
  EXPECT_THAT(Said({Write("solver", bytes(header) + bytes(segment) + loader)}),
              HasSubstr("needs the loader /lib/ld-of-elsewhere.so.1, which the image lacks"));
}

TEST_F(ProgramCheck, WhatStartsRanksByItselfMeetsNoOther) {
  for (const char* program : {"torchrun", "accelerate", "deepspeed", "python3"}) {
    Write(program, "#!/bin/sh\n");
  }
  EXPECT_THAT(Said({"torchrun", "--nproc-per-node=8", "train.py"}),
              HasSubstr("torchrun starts ranks itself"));
  EXPECT_THAT(Said({"accelerate", "launch", "train.py"}), HasSubstr("accelerate starts"));
  EXPECT_THAT(Said({"python3", "-m", "torch.distributed.run", "train.py"}),
              HasSubstr("torch.distributed.run starts"));

  EXPECT_EQ(Said({"torchrun", "--nnodes=2", "--rdzv-endpoint=a:1", "train.py"}), "");
  EXPECT_EQ(Said({"python3", "-m", "train"}), "");
  EXPECT_EQ(Said({"python3", "-m"}), "");
  EXPECT_THAT(Said({"torchrun", "train.py"}, /*in_place=*/true),
              HasSubstr("in mode InPlace each process that Ringmaster starts is a rank"));
  EXPECT_EQ(Said({"python3", "train.py"}, /*in_place=*/true), "");
  EXPECT_EQ(Said({"torchrun", "train.py"}, /*in_place=*/false, /*own_ranks=*/8), "");

  EXPECT_THAT(Said({"sh", "-c", "cd /w && torchrun train.py"}),
              HasSubstr("torchrun starts ranks itself"));
  EXPECT_THAT(Said({"bash", "-lc", "accelerate launch train.py"}), HasSubstr("launchMode"));
  EXPECT_EQ(Said({"sh", "-c", "pip install accelerate torchrun2; python3 launch"}), "");
  EXPECT_EQ(Said({"sh", "-c", "torchrun --nnodes=$WORLD_SIZE --master-addr=$MASTER_ADDR t.py"}),
            "");
  EXPECT_EQ(Said({"sh", "-c"}), "");
}

}  // namespace
}  // namespace ringmaster::agent
