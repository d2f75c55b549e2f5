#pragma once

// Transcripts as files: one JSON object a line, the first says what it is. README.md has the
// format.

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace ringmaster::transcripts {

using Json = nlohmann::json;
using Transcript = std::vector<Json>;
using Transcripts = std::map<std::string, Transcript>;  // by file name without ".jsonl"

// The folders of all versions, and the one that is recorded again.
std::vector<std::string> Folders();
std::string CurrentFolder();

Transcripts Read(const std::string& folder);
void Write(const std::string& folder, const Transcripts& transcripts);

// What a line looks like: who says it, its fields and their types, without their values; what is
// the same again in a list once.
Json ShapeOf(const Json& line);

}  // namespace ringmaster::transcripts
