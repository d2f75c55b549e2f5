#pragma once

// Installs Ringmaster's programs into a Pod whose image lacks them: one file with several names,
// and the Python package, in a folder that the containers share.

#include <filesystem>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace ringmaster::tools {

struct Tools {
  std::filesystem::path program;
  std::vector<std::string> names;  // names under which the program is installed
  std::filesystem::path python;  // the folder with the package; nothing is copied if it is missing
};

// Copies the program into <folder>/bin under its first name, mode 0755, creates links to it for the
// other names, and copies the contents of `python` to control::kPythonFolder, where agents find it.
// Each file is first written under another name and then renamed, so the installation may be killed
// at any moment and run again, also while the programs run. The error message names the file that
// could not be written, and the cause.
Result<void> Install(const Tools& tools, const std::filesystem::path& folder);

}  // namespace ringmaster::tools
