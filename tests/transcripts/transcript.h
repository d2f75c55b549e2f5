#pragma once

// Reads and writes transcripts: one JSON object per line, of which the first describes the file.
// README.md defines the format.

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace ringmaster::transcripts {

using Json = nlohmann::json;
using Transcript = std::vector<Json>;
using Transcripts = std::map<std::string, Transcript>;  // by file name without ".jsonl"

// The folders of all versions, and the folder of the current version.
std::vector<std::string> Folders();
std::string CurrentFolder();

Transcripts Read(const std::string& folder);
void Write(const std::string& folder, const Transcripts& transcripts);

// The structure of a line: its sender, its fields and their types, without the values. List items
// with the same structure appear once.
Json ShapeOf(const Json& line);

}  // namespace ringmaster::transcripts
