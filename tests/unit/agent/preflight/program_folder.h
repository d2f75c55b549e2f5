#pragma once

// A folder at the front of PATH, for programs that a test writes.

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "tests/unit/trainer/temporary_folder.h"

namespace ringmaster::agent {

class ProgramFolder : public testing::Test {
 protected:
  // Writes an executable file and returns its path.
  std::string Write(const std::string& name, const std::string& content) const {
    const std::string path = folder_.path() + "/" + name;
    std::ofstream(path, std::ios::binary) << content;
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }
  std::string Path() const { return folder_.path() + ":/usr/bin:/bin"; }

 private:
  const trainer::TemporaryFolder folder_;
};

}  // namespace ringmaster::agent
