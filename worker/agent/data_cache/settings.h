#pragma once

// What a worker's data cache is filled from and where it is; from the agent's environment
// (config.h).

#include <filesystem>
#include <string>

namespace ringmaster::agent {

struct DataCacheSettings {
  std::filesystem::path source;  // where the volume is mounted
  std::string sub_path;          // what of it; empty: all
  std::filesystem::path folder;  // to be filled
};

}  // namespace ringmaster::agent
