#include "tests/transcripts/transcript.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/paths.h"

namespace ringmaster::transcripts {
namespace {

namespace fs = std::filesystem;

constexpr char kSuffix[] = ".jsonl";
// Keys that show the type of a line.
constexpr const char* kWords[] = {"type", "does", "transcript", "put", "get", "phase"};

}  // namespace

std::vector<std::string> Folders() {
  std::vector<std::string> folders;
  for (const auto& entry : fs::directory_iterator(FromBuild(RINGMASTER_TRANSCRIPTS))) {
    if (entry.is_directory()) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

std::string CurrentFolder() { return FromBuild(RINGMASTER_TRANSCRIPTS "/current"); }

Transcripts Read(const std::string& folder) {
  Transcripts transcripts;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != kSuffix) continue;
    std::ifstream file(entry.path());
    Transcript& transcript = transcripts[entry.path().stem()];
    for (std::string line; std::getline(file, line);) transcript.push_back(Json::parse(line));
  }
  return transcripts;
}

void Write(const std::string& folder, const Transcripts& transcripts) {
  fs::remove_all(folder);
  fs::create_directories(folder);
  for (const auto& [name, transcript] : transcripts) {
    std::ofstream file(folder + "/" + name + kSuffix);
    for (const Json& line : transcript) file << line.dump() << '\n';
  }
}

Json ShapeOf(const Json& value) {
  if (value.is_object()) {
    Json shape = Json::object();
    for (const auto& [key, item] : value.items()) {
      const bool word = std::find(std::begin(kWords), std::end(kWords), key) != std::end(kWords);
      shape[key] = word && item.is_string() ? item : ShapeOf(item);
    }
    return shape;
  }
  if (value.is_array()) {
    Json shapes = Json::array();
    for (const Json& item : value) {
      const Json shape = ShapeOf(item);
      if (std::find(shapes.begin(), shapes.end(), shape) == shapes.end()) shapes.push_back(shape);
    }
    return shapes;
  }
  return value.is_number() ? "number" : value.type_name();
}

}  // namespace ringmaster::transcripts
