#pragma once

// How our programs come into a Pod of an image that has none of them: one file under several names,
// in a folder that its containers share.

#include <filesystem>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace ringmaster::tools {

// Copies the file `program` into <folder>/bin under its name in `names.front()`, mode 0755, and
// makes the other names links to it. Each is written under another name first and then renamed, so
// it may be ended at any moment and run again, also where the programs run. Fails with a sentence
// that says which file could not be written and why.
Result<void> Install(const std::filesystem::path& program, const std::filesystem::path& folder,
                     const std::vector<std::string>& names);

}  // namespace ringmaster::tools
