#include "common/base/user_entry.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <pwd.h>
#include <unistd.h>

namespace ringmaster {
namespace {

Result<void> WriteText(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::trunc);
  file << text;
  file.close();
  if (file.fail()) {
    return Error{ErrorKind::kUnavailable, "while writing " + path + ": " + std::strerror(errno)};
  }
  return {};
}

}  // namespace

std::string UserName(uid_t uid) {
  for (const char* path : {"/etc/passwd", "/var/lib/extrausers/passwd"}) {
    const std::unique_ptr<FILE, decltype(&std::fclose)> file(std::fopen(path, "re"), &std::fclose);
    if (file == nullptr) continue;
    while (const passwd* const user = ::fgetpwent(file.get())) {
      if (user->pw_uid == uid) return user->pw_name;
    }
  }
  return "";
}

Result<bool> EnsureUserEntry(const std::string& directory, const std::string& home) {
  if (!UserName(::getuid()).empty()) return false;
  // The name service module ignores group ids below 500, except 100, so for such
  // a group the entry contains 100. This changes only the entry; the process keeps its groups.
  const unsigned uid = ::getuid();
  const unsigned gid = ::getgid() >= 500 ? ::getgid() : 100;
  const std::string name = "u" + std::to_string(uid);
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) {
    return Error{ErrorKind::kUnavailable,
                 "while creating the directory " + directory + ": " + error.message()};
  }
  const std::string ids = std::to_string(uid) + ":" + std::to_string(gid);
  // "*" means no password. "!" would lock the user, and sshd refuses the keys of a locked user.
  for (const auto& [file, line] :
       {std::pair{"/passwd", name + ":*:" + ids + ":Ringmaster:" + home + ":/bin/sh\n"},
        std::pair{"/group", name + ":*:" + std::to_string(gid) + ":\n"}}) {
    if (Result<void> written = WriteText(directory + file, line); !written.ok()) {
      return written.error();
    }
  }
  return true;
}

}  // namespace ringmaster
