#include "worker/tools/install.h"

#include <cstdint>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "common/base/byte_text.h"
#include "common/control/secrets.h"

namespace ringmaster::tools {
namespace {

constexpr char kNew[] = ".new";  // as WriteFileAtomically() ends the other name

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
  if (error) return Unavailable("making the link " + link.string(), error);
  return {};
}

Result<void> InstallInto(const std::filesystem::path& bin, const std::string& content,
                         const std::vector<std::string>& names) {
  std::error_code error;
  std::filesystem::create_directories(bin, error);
  if (error) return Unavailable("making the folder " + bin.string(), error);
  const std::string file = bin / names.front();
  if (Result<void> written = control::WriteFileAtomically(file, content, 0755); !written.ok()) {
    std::filesystem::remove(file + kNew, error);  // leaves the room to others
    return written;
  }
  for (auto name = names.begin() + 1; name != names.end(); ++name) {
    if (Result<void> made = Link(bin / *name, names.front()); !made.ok()) return made;
  }
  return {};
}

}  // namespace

Result<void> Install(const std::filesystem::path& program, const std::filesystem::path& folder,
                     const std::vector<std::string>& names) {
  std::ostringstream text;
  text << std::ifstream(program, std::ios::binary).rdbuf();
  const std::string content = std::move(text).str();
  if (content.empty()) {
    return Error{ErrorKind::kUnavailable, program.string() + " cannot be read"};
  }
  const Result<void> installed = InstallInto(folder / "bin", content, names);
  if (installed.ok()) return {};
  const std::string size = BytesText(static_cast<int64_t>(content.size()), Rounding::kUp);
  return installed.error().WithContext("installing into " + folder.string() +
                                       ", which has to be writable and to have room for " + size);
}

}  // namespace ringmaster::tools
