#include "worker/tools/install.h"

#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <system_error>
#include <utility>

#include "common/base/byte_text.h"
#include "common/control/pod_contract.h"
#include "common/control/secrets.h"

namespace ringmaster::tools {
namespace {

constexpr char kNew[] = ".new";  // the suffix that WriteFileAtomically() also uses

Error Unavailable(const std::string& doing, const std::error_code& error) {
  return Error{ErrorKind::kUnavailable, "while " + doing + ": " + error.message()};
}

Result<void> Link(const std::filesystem::path& link, const std::string& target) {
  std::filesystem::path aside = link;
  aside += kNew;
  std::error_code error;
  std::filesystem::remove(aside, error);
  if (!error) std::filesystem::create_symlink(target, aside, error);
  if (!error) std::filesystem::rename(aside, link, error);
  if (error) return Unavailable("creating the link " + link.string(), error);
  return {};
}

Result<std::string> ContentOf(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string content{std::istreambuf_iterator<char>(stream), {}};
  if (stream.is_open() && !stream.bad()) return content;
  return Error{ErrorKind::kUnavailable, file.string() + " cannot be read"};
}

// The contents of files, by their paths relative to the folder.
using Files = std::map<std::filesystem::path, std::string>;

// Returns all files below the folder; empty if the folder does not exist.
Result<Files> FilesIn(const std::filesystem::path& folder) {
  Files files;
  std::error_code none;
  if (!std::filesystem::exists(folder, none)) return files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    Result<std::string> content = ContentOf(entry.path());
    if (!content.ok()) return content.error();
    files[entry.path().lexically_relative(folder)] = *std::move(content);
  }
  return files;
}

Result<void> MakeFolder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return Unavailable("creating the folder " + folder.string(), error);
  return {};
}

Result<void> Write(const std::filesystem::path& file, const std::string& content, unsigned mode) {
  if (Result<void> made = MakeFolder(file.parent_path()); !made.ok()) return made;
  const Result<void> written = control::WriteFileAtomically(file, content, mode);
  std::error_code ignored;
  if (!written.ok()) std::filesystem::remove(file.string() + kNew, ignored);  // frees the space
  return written;
}

Result<void> InstallInto(const std::filesystem::path& folder, const std::string& program,
                         const std::vector<std::string>& names, const Files& python) {
  const std::filesystem::path bin = folder / "bin";
  if (Result<void> written = Write(bin / names.front(), program, 0755); !written.ok()) {
    return written;
  }
  for (auto name = names.begin() + 1; name != names.end(); ++name) {
    if (Result<void> made = Link(bin / *name, names.front()); !made.ok()) return made;
  }
  for (const auto& [path, content] : python) {
    const std::filesystem::path file = folder / control::kPythonFolder / path;
    if (Result<void> written = Write(file, content, 0644); !written.ok()) return written;
  }
  return {};
}

}  // namespace

Result<void> Install(const Tools& tools, const std::filesystem::path& folder) {
  const Result<std::string> program = ContentOf(tools.program);
  if (!program.ok()) return program.error();
  const Result<Files> python = FilesIn(tools.python);
  if (!python.ok()) return python.error();
  const Result<void> installed = InstallInto(folder, *program, tools.names, *python);
  if (installed.ok()) return {};
  auto size = static_cast<int64_t>(program->size());
  for (const auto& [path, content] : *python) size += static_cast<int64_t>(content.size());
  return installed.error().WithContext("installing into " + folder.string() +
                                       ", which must be writable and have room for " +
                                       BytesText(size, Rounding::kUp));
}

}  // namespace ringmaster::tools
