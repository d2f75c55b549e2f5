#include "worker/bench/command.h"

#include <cstdio>
#include <fstream>

namespace ringmaster::bench {

int Refuse(const std::string& what, int code) {
  std::fprintf(stderr, "%s: %s\n", kProgram, what.c_str());
  return code;
}

Result<void> WriteJson(const std::string& path, const nlohmann::ordered_json& json) {
  if (path.empty()) return {};
  if (path == "-") {
    std::printf("%s\n", json.dump().c_str());
    return {};
  }
  std::ofstream file(path);
  file << json.dump() << "\n";
  file.close();
  if (file) return {};
  return Error{ErrorKind::kUnavailable, "while writing " + path + ": cannot write"};
}

}  // namespace ringmaster::bench
